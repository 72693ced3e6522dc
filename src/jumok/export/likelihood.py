"""How likely the plain model finds given texts: what other programs' numbers are compared with.

Shapes: T tokens of a target, V vocabulary.
"""

from collections.abc import Sequence

import torch

from jumok.models import EncoderDecoder, LanguageModel

Ids = Sequence[int]


@torch.inference_mode()
def of_target(model: EncoderDecoder, source: Ids, target: Ids, begin: int, end: int) -> list[float]:
    """log p of each token of a target and of its end, given the source.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> len(of_target(EncoderDecoder(config).eval(), [5, 6, 3], [7, 8], begin=2, end=3))
    3
    """
    logits = model(torch.tensor([source]), torch.tensor([[begin, *target]]))[0]  # (T, V)
    return _chosen(logits, [*target, end])


@torch.inference_mode()
def of_text(model: LanguageModel, text: Ids) -> list[float]:
    """log p of each token of a text but the first.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> len(of_text(LanguageModel(config).eval(), [2, 5, 6, 3]))
    3
    """
    return _chosen(model(torch.tensor([text[:-1]]))[0], text[1:])


def _chosen(logits: torch.Tensor, wanted: Ids) -> list[float]:
    log_p = logits.float().log_softmax(-1)  # (T, V)
    found: list[float] = log_p.gather(-1, torch.tensor([wanted]).T)[:, 0].tolist()
    return found
