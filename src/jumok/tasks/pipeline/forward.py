"""Logits and hidden states of a pipeline's model, from input ids named as in transformers.

Shapes: B texts, S input tokens, T decoder tokens, D model width, L labels, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jumok.errors import InputError
from jumok.models import EncoderDecoder, EncoderDecoderClassifier
from jumok.nn.masks import positions_from_mask

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class ModelInputs:
    """The validated inputs of one forward pass, on the model's device."""

    ids: tuple[Tensor, ...]  # (B, S); of an encoder-decoder also the decoder's, (B, T)
    segments: Tensor | None  # (B, S)
    mask: Tensor | None  # (B, S) bool, True = real token; None without padding
    positions: Tensor | None  # (B, S), padding not counted; None without padding

    def apply(self, forward: Callable[..., Tensor]) -> Tensor:
        """The result of a model's `forward` or `hidden_states`, in float32."""
        return forward(
            *self.ids, self.mask, positions=self.positions, segments=self.segments
        ).float()


@torch.inference_mode()
def logits(
    pipeline: "Pipeline",
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
) -> Tensor:
    """float32 (B, L), (B, S, L), (B, S, V) or (B, T, V). Raises InputError as `Pipeline.logits`."""
    inputs = _inputs(pipeline, input_ids, attention_mask, token_type_ids, decoder_input_ids)
    if not pipeline.has_logits:
        raise InputError(
            f"a {pipeline.architecture} has no head and so no logits; use .hidden_states(...)"
        )
    return inputs.apply(pipeline.model)


@torch.inference_mode()
def hidden_states(
    pipeline: "Pipeline",
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
) -> Tensor:
    """float32 (B, S, D) of the last layer; of an encoder-decoder the decoder's, (B, T, D)."""
    inputs = _inputs(pipeline, input_ids, attention_mask, token_type_ids, decoder_input_ids)
    return inputs.apply(pipeline.model.hidden_states)  # type: ignore[arg-type]  # all models have it


def _inputs(
    pipeline: "Pipeline",
    input_ids: Tensor,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None,
    decoder_input_ids: Tensor | None,
) -> ModelInputs:
    """Raises InputError for ids, token types or a mask that are out of range or misshapen."""
    config, device = pipeline.recipe.model, pipeline.device
    _check_range("input_ids", input_ids, config.vocabulary_size)
    segments = mask = positions = None
    if token_type_ids is not None:
        _check_range("token_type_ids", token_type_ids, max(config.n_segments, 1))
        _check_shape("token_type_ids", token_type_ids, input_ids)
        segments = token_type_ids.to(device)
    if attention_mask is not None:
        _check_shape("attention_mask", attention_mask, input_ids)
        if not bool(attention_mask.bool().all()):
            mask = attention_mask.to(device).bool()
            positions = positions_from_mask(mask)
    decoder_ids = _decoder_ids(pipeline, input_ids, decoder_input_ids)
    ids = tuple(each.to(device) for each in (input_ids, *decoder_ids))
    return ModelInputs(ids, segments, mask, positions)


def _decoder_ids(
    pipeline: "Pipeline", input_ids: Tensor, decoder_input_ids: Tensor | None
) -> tuple[Tensor, ...]:
    """The decoder's input (B, T) of an encoder-decoder, nothing for other models."""
    if decoder_input_ids is not None:
        _check_range("decoder_input_ids", decoder_input_ids, pipeline.recipe.model.output_size)
        if len(decoder_input_ids) != len(input_ids):
            raise InputError(
                f"decoder_input_ids must have {len(input_ids)} rows like input_ids, "
                f"got {len(decoder_input_ids)}; give one row per text"
            )
    match pipeline.model:
        case EncoderDecoder() if decoder_input_ids is None:
            raise InputError("decoder_input_ids must be given to a sequence-to-sequence model")
        case EncoderDecoderClassifier() if decoder_input_ids is None:
            return (torch.full_like(input_ids[:, :1], pipeline.vocabulary.decoder_start_id),)
        case EncoderDecoder() | EncoderDecoderClassifier():
            assert decoder_input_ids is not None
            return (decoder_input_ids,)
    return ()


def _check_range(name: str, ids: Tensor, size: int) -> None:
    if ids.ndim != 2 or ids.is_floating_point():
        raise InputError(
            f"{name} must be integers of shape (texts, tokens), got {ids.dtype} {tuple(ids.shape)}"
        )
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < size:
        raise InputError(
            f"{name} must be between 0 and {size - 1}, got {int(ids.min())} to {int(ids.max())}; "
            "encode with the model's own tokenizer"
        )


def _check_shape(name: str, ids: Tensor, input_ids: Tensor) -> None:
    if ids.shape != input_ids.shape:
        raise InputError(
            f"{name} must have the shape of input_ids {tuple(input_ids.shape)}, "
            f"got {tuple(ids.shape)}; give one number per id"
        )
