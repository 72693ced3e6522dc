"""A model asked by ids, in Hugging Face's words: its logits and its hidden states.

Shapes: B texts, S tokens read, T tokens written, D model width, L labels, V vocabulary.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jumok.errors import InputError
from jumok.models import (
    Decoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    ReplacedTokenDetector,
    TextClassifier,
    TokenClassifier,
)
from jumok.nn.masks import AttentionMask, positions_from_mask
from jumok.tasks.inputs.special_tokens import decoder_start_id

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class _Asked:
    """What a model is asked, checked and on its device."""

    ids: Tensor  # (B, S)
    given: Tensor  # (B, T): what the decoder behind an encoder is given
    segments: Tensor | None  # (B, S)
    real: Tensor | None  # (B, S) bool; None where nothing is padding
    positions: Tensor | None  # (B, S)

    @property
    def mask(self) -> AttentionMask:
        """Padding is hidden."""
        return AttentionMask.from_padding(self.real)

    @property
    def past(self) -> AttentionMask:
        """Padding is hidden, and what comes later."""
        return AttentionMask.from_padding(self.real, causal=True)


@torch.inference_mode()
def logits(
    loaded: "Pipeline",
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
) -> Tensor:
    """float32 (B, L), (B, S, L), (B, S, V) or (B, T, V). Raises InputError as `Loaded.logits`."""
    model = loaded.model
    asked = _asked(loaded, input_ids, attention_mask, token_type_ids, decoder_input_ids)
    where = {"positions": asked.positions, "segments": asked.segments}
    if isinstance(model, EncoderDecoder) and loaded.has_logits:
        memory = model.encode(asked.ids, asked.mask, positions=asked.positions)
        found = model.output(model.decode(asked.given, memory, asked.mask))
    elif isinstance(model, EncoderDecoderClassifier):
        found = model(asked.ids, asked.given, asked.real, **where)
    elif isinstance(model, TextClassifier):
        found = model(asked.ids, asked.real, **where)
    elif isinstance(model, MaskedLanguageModel | TokenClassifier | ReplacedTokenDetector):
        found = model(asked.ids, asked.mask, **where)
    elif isinstance(model, LanguageModel):
        found = model(asked.ids, asked.past, positions=asked.positions)
    else:
        raise InputError(
            f"a {loaded.architecture} has no head and so no logits; ask .hidden_states(...)"
        )
    return found.float()  # type: ignore[no-any-return]


@torch.inference_mode()
def hidden_states(
    loaded: "Pipeline",
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
) -> Tensor:
    """float32 (B, S, D) of the last layer, or (B, T, D) of the decoder's behind an encoder."""
    model = loaded.model
    asked = _asked(loaded, input_ids, attention_mask, token_type_ids, decoder_input_ids)
    where = {"positions": asked.positions, "segments": asked.segments}
    if isinstance(model, EncoderDecoder | EncoderDecoderClassifier):
        memory = model.encoder(asked.ids, asked.mask, **where)
        found = model.decoder(asked.given, memory=memory, memory_mask=asked.mask)
    elif isinstance(model, Decoder | LanguageModel):
        decoder = model.decoder if isinstance(model, LanguageModel) else model
        found = decoder(asked.ids, asked.past, positions=asked.positions)
    else:
        if isinstance(
            model, TextClassifier | TokenClassifier | MaskedLanguageModel | ReplacedTokenDetector
        ):
            model = model.encoder
        found = model(asked.ids, asked.mask, **where)
    return found.float()  # type: ignore[no-any-return]


def _asked(
    loaded: "Pipeline",
    input_ids: Tensor,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None,
    decoder_input_ids: Tensor | None,
) -> _Asked:
    """Raises InputError for ids, segments or a mask that are none."""
    given = _given(loaded, input_ids, token_type_ids, decoder_input_ids)
    ids = input_ids.to(loaded.device)
    segments = None if token_type_ids is None else token_type_ids.to(loaded.device)
    return _Asked(ids, given, segments, *_real(ids, attention_mask))


def _given(
    loaded: "Pipeline",
    input_ids: Tensor,
    token_type_ids: Tensor | None,
    decoder_input_ids: Tensor | None,
) -> Tensor:
    """What the decoder is given, (B, T), once every id is known to be one."""
    config = loaded.recipe.model
    _check_range("input_ids", input_ids, config.vocabulary_size)
    if token_type_ids is not None:
        _check_range("token_type_ids", token_type_ids, max(config.n_segments, 1))
        _check_shape("token_type_ids", token_type_ids, input_ids)
    if decoder_input_ids is not None:
        _check_range("decoder_input_ids", decoder_input_ids, config.output_size)
        if len(decoder_input_ids) != len(input_ids):
            raise InputError(
                f"{len(decoder_input_ids)} rows of decoder_input_ids came for {len(input_ids)} of "
                "input_ids; give one a text"
            )
        return decoder_input_ids.to(loaded.device)
    if isinstance(loaded.model, EncoderDecoder):
        raise InputError("a sequence-to-sequence model needs decoder_input_ids; give them")
    if isinstance(loaded.model, EncoderDecoderClassifier):
        begin = decoder_start_id(loaded.vocabulary)
        return torch.full_like(input_ids[:, :1], begin, device=loaded.device)
    return input_ids[:, :0].to(loaded.device)  # there is no decoder


def _check_range(name: str, ids: Tensor, size: int) -> None:
    if ids.ndim != 2 or ids.is_floating_point():
        raise InputError(
            f"{name} {tuple(ids.shape)} {ids.dtype} came; give integers (texts, tokens)"
        )
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < size:
        raise InputError(
            f"{name} from {int(ids.min())} to {int(ids.max())} came, the model knows 0 to "
            f"{size - 1}; encode with the model's own vocabulary"
        )


def _check_shape(name: str, given: Tensor, input_ids: Tensor) -> None:
    if given.shape != input_ids.shape:
        raise InputError(
            f"{name} {tuple(given.shape)} is not of the shape of input_ids "
            f"{tuple(input_ids.shape)}; give a number for each id"
        )


def _real(input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Which tokens are real and where they stand; None, None when nothing is padding."""
    if attention_mask is None:
        return None, None
    _check_shape("attention_mask", attention_mask, input_ids)
    real = attention_mask.to(input_ids.device).bool()
    return (None, None) if bool(real.all()) else (real, positions_from_mask(real))
