"""A model asked by ids, in Hugging Face's words: its logits and its hidden states.

Shapes: B texts, S tokens read, T tokens written, D model width, L labels, V vocabulary.
"""

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
from jumok.nn.masks import AttentionMask, positions_of
from jumok.tasks.frames import target_begin

if TYPE_CHECKING:
    from jumok.tasks.answering import Loaded


@torch.inference_mode()
def logits(
    loaded: "Loaded",
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
) -> Tensor:
    """float32 (B, L), (B, S, L), (B, S, V) or (B, T, V). Raises InputError as `Loaded.logits`."""
    model = loaded.model
    given = _given(loaded, input_ids, token_type_ids, decoder_input_ids)
    input_ids, segments = _here(loaded, input_ids, token_type_ids)
    real, positions = _real(input_ids, attention_mask)
    mask = AttentionMask.from_padding(real, causal=isinstance(model, LanguageModel))
    if isinstance(model, EncoderDecoder) and loaded.has_logits:
        memory = model.encode(input_ids, mask, positions=positions)
        found = model.output(model.decode(given, memory, mask))
    elif isinstance(model, EncoderDecoderClassifier):
        found = model(input_ids, given, real, positions=positions, segments=segments)
    elif isinstance(model, TextClassifier):
        found = model(input_ids, real, positions=positions, segments=segments)
    elif isinstance(model, MaskedLanguageModel | TokenClassifier | ReplacedTokenDetector):
        found = model(input_ids, mask, positions=positions, segments=segments)
    elif isinstance(model, LanguageModel):
        found = model(input_ids, mask, positions=positions)
    else:
        raise InputError(
            f"a {loaded.architecture} has no head and so no logits; ask .hidden_states(...)"
        )
    return found.float()  # type: ignore[no-any-return]


@torch.inference_mode()
def hidden_states(
    loaded: "Loaded",
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
) -> Tensor:
    """float32 (B, S, D) of the last layer, or (B, T, D) of the decoder's behind an encoder."""
    model = loaded.model
    given = _given(loaded, input_ids, token_type_ids, decoder_input_ids)
    input_ids, segments = _here(loaded, input_ids, token_type_ids)
    real, positions = _real(input_ids, attention_mask)
    mask = AttentionMask.from_padding(real, causal=isinstance(model, Decoder | LanguageModel))
    if isinstance(model, EncoderDecoder | EncoderDecoderClassifier):
        memory = model.encoder(input_ids, mask, positions=positions, segments=segments)
        found = model.decoder(given, memory=memory, memory_mask=mask)
    elif isinstance(model, Decoder | LanguageModel):
        decoder = model.decoder if isinstance(model, LanguageModel) else model
        found = decoder(input_ids, mask, positions=positions)
    else:
        if isinstance(
            model, TextClassifier | TokenClassifier | MaskedLanguageModel | ReplacedTokenDetector
        ):
            model = model.encoder
        found = model(input_ids, mask, positions=positions, segments=segments)
    return found.float()  # type: ignore[no-any-return]


def _here(
    loaded: "Loaded", input_ids: Tensor, token_type_ids: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """What the encoder is given, on the model's device."""
    segments = None if token_type_ids is None else token_type_ids.to(loaded.device)
    return input_ids.to(loaded.device), segments


def _given(
    loaded: "Loaded",
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
        begin = target_begin(loaded.vocabulary)
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
    return (None, None) if bool(real.all()) else (real, positions_of(real))
