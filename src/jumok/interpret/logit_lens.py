"""The logit lens: what the model would predict if it ended after an earlier layer.

The final norm and the output projection, which the model applies to the residual stream after its
last layer, are applied after every layer (nostalgebraist 2020, "interpreting GPT: the logit lens",
lesswrong.com). Shapes: T tokens, D width of the model, L layers, V vocabulary.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.interpret.schema import Candidate, Side
from jumok.models import EncoderDecoder, LanguageModel, MaskedLanguageModel
from jumok.models.backbones import backbones
from jumok.text.tokenizer import Tokenizer, piece_or_empty

TOP_K = 3  # candidates of a token after a layer
MAX_CELLS = 2048  # tokens times layers: a larger table would dominate the header of the trace

Lens = tuple[tuple[tuple[Candidate, ...], ...], ...]


def lens_side(model: nn.Module) -> Side | None:
    """The side whose residual stream the model projects to its vocabulary; None if there is none.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> lens_side(LanguageModel(config)), lens_side(MaskedLanguageModel(config))
    ('target', 'source')
    """
    if isinstance(model, EncoderDecoder | LanguageModel):
        return "target"
    return "source" if isinstance(model, MaskedLanguageModel) else None


def lens_logits(model: nn.Module, stream: Tensor, *, normed: bool) -> Tensor:
    """The logits (T, V) of a residual stream (T, D) of the decoder, or of a masked model's encoder.

    normed: the stream has passed the final norm of the stack, as the output of the model has. A
    post-norm model has no final norm.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(lens_logits(LanguageModel(config), torch.zeros(3, 8), normed=False).shape)
    (3, 10)
    """
    backbone = list(backbones(model).values())[-1]
    hidden = stream if normed else backbone.stack.norm(stream)
    if isinstance(model, EncoderDecoder):
        hidden = hidden * model.output_scale
    if isinstance(model, MaskedLanguageModel):
        hidden = model.transform(hidden)
    assert isinstance(model, EncoderDecoder | LanguageModel | MaskedLanguageModel)
    return model.output(hidden)  # type: ignore[no-any-return]


@torch.inference_mode()
def logit_lens(
    model: nn.Module, recorded: Mapping[str, Tensor], tokenizer: Tokenizer, n_tokens: int
) -> Lens | None:
    """The most probable tokens for each of the first `n_tokens` of sequence 0 after each layer.

    recorded: the tensors `{side}.hidden.{layer}`, (B, T, D). Entry 0 belongs to the embeddings, the
    input of layer 0; entry L to the output of the model. None without a vocabulary to project to,
    or with more than `MAX_CELLS` entries.
    """
    side = lens_side(model)
    if side is None:
        return None
    n_layers = sum(name.startswith(f"{side}.hidden.") for name in recorded) - 1
    if n_tokens * (n_layers + 1) > MAX_CELLS:
        return None
    rows = []
    for layer in range(n_layers + 1):
        stream = recorded[f"{side}.hidden.{layer}"][0, :n_tokens]  # (T, D)
        logits = lens_logits(model, stream, normed=layer == n_layers)  # (T, V)
        best = logits.float().softmax(-1).topk(min(TOP_K, logits.shape[-1]))
        rows.append(
            tuple(
                tuple(
                    Candidate(id=i, piece=piece_or_empty(tokenizer, i), probability=round(p, 6))
                    for i, p in zip(ids, values, strict=True)
                )
                for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            )
        )
    return tuple(rows)
