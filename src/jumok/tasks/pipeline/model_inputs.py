"""The inputs of a model as transformers names them, validated and on the model's device.

Shapes: B texts, S input tokens, T decoder tokens, D model width, L labels, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models import EncoderDecoder, EncoderDecoderClassifier
from jumok.nn.masks import positions_from_mask
from jumok.tasks.recipe.tables import ModelConfig


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


def model_inputs(
    model: nn.Module,
    config: ModelConfig,
    device: torch.device,
    input_ids: Tensor,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None,
    decoder_input_ids: Tensor | None,
    start_id: int | None = None,
) -> ModelInputs:
    """Validate the inputs of a model; a decoder without input ids reads `start_id`.

    Raises InputError for values out of range and for wrong shapes.
    """
    check_range("input_ids", input_ids, config.vocabulary_size)
    segments = mask = positions = None
    if token_type_ids is not None:
        check_range("token_type_ids", token_type_ids, max(config.n_segments, 1))
        _check_shape("token_type_ids", token_type_ids, input_ids)
        segments = token_type_ids.to(device)
    if attention_mask is not None:
        _check_shape("attention_mask", attention_mask, input_ids)
        if not bool(attention_mask.bool().all()):
            mask = attention_mask.to(device).bool()
            positions = positions_from_mask(mask)
    if decoder_input_ids is None and start_id is not None:
        decoder_input_ids = torch.full_like(input_ids[:, :1], start_id)
    decoder_ids = _decoder_ids(model, config, input_ids, decoder_input_ids)
    ids = tuple(each.to(device) for each in (input_ids, *decoder_ids))
    return ModelInputs(ids, segments, mask, positions)


def _decoder_ids(
    model: nn.Module, config: ModelConfig, input_ids: Tensor, decoder_input_ids: Tensor | None
) -> tuple[Tensor, ...]:
    """The decoder's input (B, T) of an encoder-decoder, nothing for other models."""
    if decoder_input_ids is not None:
        check_range("decoder_input_ids", decoder_input_ids, config.output_size)
        if len(decoder_input_ids) != len(input_ids):
            raise InputError(
                "pipeline.decoder_input_ids_rows",
                "decoder_input_ids must have {n_input_ids} rows like input_ids, got "
                "{n_decoder_input_ids}; give one row per text",
                n_input_ids=len(input_ids),
                n_decoder_input_ids=len(decoder_input_ids),
            )
    if not isinstance(model, EncoderDecoder | EncoderDecoderClassifier):
        return ()
    if decoder_input_ids is None:
        raise InputError(
            "pipeline.no_decoder_input_ids",
            "decoder_input_ids must be given to a sequence-to-sequence model",
        )
    return (decoder_input_ids,)


def check_range(name: str, ids: Tensor, size: int) -> None:
    """Raise InputError for what is not ids (B, S) below `size`."""
    if ids.ndim != 2 or ids.is_floating_point():
        raise InputError(
            "pipeline.ids_shape",
            "{name} must be integers of shape (texts, tokens), got {dtype} {shape}",
            name=name,
            dtype=ids.dtype,
            shape=tuple(ids.shape),
        )
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < size:
        raise InputError(
            "pipeline.ids_range",
            "{name} must be between 0 and {size}, got {min} to {max}; encode with the model's "
            "own tokenizer",
            name=name,
            size=size - 1,
            min=int(ids.min()),
            max=int(ids.max()),
        )


def _check_shape(name: str, ids: Tensor, input_ids: Tensor) -> None:
    if ids.shape != input_ids.shape:
        raise InputError(
            "pipeline.not_the_shape_of_input_ids",
            "{name} must have the shape of input_ids {shape}, got {shape_2}; give one number per "
            "id",
            name=name,
            shape=tuple(input_ids.shape),
            shape_2=tuple(ids.shape),
        )
