"""Alignments: the cross-attention weights of each target token on the source tokens.

Shapes: N texts, S source tokens, T target tokens, H heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from jumok.models.encoder_decoder import EncoderDecoder
from jumok.nn.hooks import record, shared_copy
from jumok.nn.masks import positions_from_mask


@dataclass(frozen=True)
class Alignment:
    """weights (T, S) float32: row t is the attention of target token t; each row sums to 1."""

    weights: Tensor

    @property
    def links(self) -> list[tuple[int, int]]:
        """(source token, target token) of the highest weight of each target token.

        >>> Alignment(torch.tensor([[0.1, 0.9], [0.8, 0.2]])).links
        [(1, 0), (0, 1)]
        """
        return [(s, t) for t, s in enumerate(self.weights.argmax(-1).tolist())]


@torch.inference_mode()
def align(
    model: EncoderDecoder,
    source: Tensor,
    source_mask: Tensor | None,
    targets: Sequence[Sequence[int]],
    *,
    bos_id: int,
    layer: int | None = None,
) -> list[Alignment]:
    """The alignment of each target with its source, by one teacher-forced pass.

    source (N, S) int64; source_mask (N, S) bool, None without padding; targets without [BOS], with
    [EOS] only if it is to be aligned too. The weights of a token are those of the position that
    predicts it: the mean of the heads of one `layer` (0 the first, -1 the last), or of all layers.
    Each alignment has columns for the real source tokens only.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, source = EncoderDecoder(config).eval(), torch.tensor([[4, 5, 6]])
    >>> [one] = align(model, source, None, [[7, 3]], bos_id=2)
    >>> tuple(one.weights.shape)
    (2, 3)
    """
    if not len(source):
        return []
    view = shared_copy(model)
    rows = [torch.tensor([bos_id, *ids[:-1]]) for ids in targets]
    decoder_inputs = pad_sequence(rows, batch_first=True).to(source.device)  # (N, T)
    memory = view.encode(
        source,
        source_mask,
        positions=None if source_mask is None else positions_from_mask(source_mask),
    )
    with record(view) as recorded:
        view.decode(decoder_inputs, memory, source_mask)
    layers = [weights for name, [weights] in recorded.items() if name.endswith(".cross_attention")]
    selected = layers if layer is None else [layers[layer]]
    mean = torch.stack(selected).mean((0, 2)).float()  # (N, T, S)
    masks = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
    return [
        Alignment(weights[: len(ids), real])
        for weights, ids, real in zip(mean, targets, masks, strict=True)
    ]
