"""Incremental decoding with the C++ kernel, under the protocols of `jumok.decoding.incremental`.

A thin layer of tensors around `DecoderSession`. Shapes: B decoded rows, N sources, S source tokens,
T new tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Literal, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.decoding.config import DecodingConfig
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import (
    MinLength,
    MinP,
    NoRepeatNgram,
    Processor,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    TypicalP,
)
from jumok.errors import DecodingError, InputError
from jumok.native import decoder_session
from jumok.native.decoder_session import (
    DecoderSession,
    OnNewToken,
    SearchStep,
    SessionStep,
    unsupported_search,
)
from jumok.native.layout import Floats
from jumok.native.model import NativeModel
from jumok.text.ragged import Ragged


class NativeDecoder:
    """The state of one request to a native model: several rows that are decoded together.

    An encoder-decoder takes the sources to encode; a language model takes no source, and the left
    padding of each prompt if there is any. Uses `kernel_threads()` threads. Beams of one
    source share its cross-attention cache, and beams with a common prefix share its slots.

        decoder = NativeDecoder(NativeModel(model), source, source_mask, capacity=100)
        logits = decoder.step(torch.full((len(source), 1), bos_id))
    """

    def __init__(
        self,
        model: NativeModel,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        capacity: int,
    ) -> None:
        """source (N, S) int64; source_mask (N, S) bool, None without padding; padding (B) int64."""
        self.vocabulary_size = model.vocabulary_size
        self.model = model
        self.session = DecoderSession(
            model.weights,
            None if source is None else _rows(source, source_mask),
            padding=None if padding is None else _array(padding),
            capacity=capacity,
        )

    @property
    def length(self) -> int:
        """The number of cached positions, padding included."""
        return self.session.length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, V) float32 after the last token."""
        return torch.from_numpy(self.session.step(_array(ids)))

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, T, V) float32 after every token; 0 on padding."""
        return torch.from_numpy(self.session.step_all(_array(ids)))

    def top_k(self, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """A step that returns only the k most likely tokens, in descending order.

        (B, T) int64 -> log-probabilities (B, k) float32 and tokens (B, k) int64; ties are resolved
        by the smaller id.
        """
        log_p, tokens = self.session.top_k(_array(ids), k)
        return torch.from_numpy(log_p), torch.from_numpy(tokens)

    def search(
        self,
        inputs: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        on_token: OnNewToken | None = None,
        step: SearchStep | None = None,
    ) -> list[list[Hypothesis]] | None:
        """The results of a search or the samples; None for settings that the kernel leaves out.

        `on_token` and `step` are those of `DecoderSession.search`.
        """
        known = _in_kernel(config, processors, inputs.stopping.end_ids)
        if known is None or (config.sample and len(inputs.sample_keys) != len(inputs.prompt_ids)):
            return None
        return self.session.search(
            _array(inputs.prompt_ids),
            known,
            inputs.stopping,
            sample_keys=inputs.sample_keys,
            on_token=on_token,
            step=step,
        )

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows (B') int64, in this order."""
        self.session.reorder(_array(rows))

    def rewind(self, tokens: int) -> None:
        """Remove the newest `tokens` positions of every row."""
        self.session.rewind(tokens)

    def record_attention(
        self, block: Literal["self", "cross"], heads: Sequence[tuple[int, int]]
    ) -> None:
        """Record the weights of these heads (layer, head) of the decoder from the next step on."""
        self.session.record_attention(block, heads)

    def recorded_attention(self) -> Tensor:
        """The weights of the newest token of each row, before any reorder: (B, heads, S) float32.

        S is the largest number of keys: real source tokens for cross-attention, cached tokens
        without padding for self-attention. A row with fewer has zeros at the end.
        """
        return torch.from_numpy(self.session.recorded_attention())

    def mean_attention(self) -> Floats:
        """The mean of `recorded_attention` over the heads: (B, S)."""
        return self.session.mean_attention()


class DecoderStep(NamedTuple):
    """The step of one decoder: the new tokens (B, T)."""

    decoder: NativeDecoder
    ids: Tensor


def step_together(steps: Sequence[DecoderStep]) -> list[Tensor]:
    """The steps of several decoders of one `NativeModel`, computed as one pass.

    Returns for each what `step` returns; the bytes are the same. T may differ. Raises InputError,
    before a decoder changes, if the arguments of one are wrong.

        a, b = step_together([DecoderStep(first, ids), DecoderStep(second, other_ids)])
    """
    found = decoder_session.step_together(
        [SessionStep(decoder.session, _array(ids)) for decoder, ids in steps]
    )
    return list(map(torch.from_numpy, found))


# The logits processors of the kernel, in its order (kernel/search.h), and their settings.
_SETTINGS: dict[object, str] = {
    RepetitionPenalty: "repetition_penalty",
    NoRepeatNgram: "no_repeat_ngram",
    MinLength: "min_length",
    Temperature: "temperature",
    TopK: "top_k",
    TopP: "top_p",
    MinP: "min_p",
    TypicalP: "typical_p",
}


def _in_kernel(
    config: DecodingConfig, processors: Sequence[Processor], end_ids: Sequence[int]
) -> DecodingConfig | None:
    """The settings with what these processors do, if the kernel does all of it; else None."""
    kinds = [type(each) for each in processors if not isinstance(each, MinLength)]
    order = [list(_SETTINGS).index(type(each)) for each in processors if type(each) in _SETTINGS]
    banned = {each.end_id: each.n for each in processors if isinstance(each, MinLength)}
    if (
        len(order) < len(processors)
        or order != sorted(order)
        or len(set(kinds)) + len(banned) < len(processors)
        or len(set(banned.values())) > 1
        or set(banned) not in (set(), set(end_ids))
    ):
        return None
    changes = {name: getattr(DecodingConfig(), name) for name in _SETTINGS.values()}
    changes |= {_SETTINGS[type(each)]: astuple(each)[0] for each in processors}  # type: ignore[call-overload]  # dataclasses
    try:
        # The limits of the texts are those of the stopping criteria.
        changed = replace(config, max_length=2**20, **changes)
    except DecodingError:  # of a processor that no setting makes
        return None
    return None if unsupported_search(changed) is not None else changed


def _rows(source: Tensor, source_mask: Tensor | None) -> Ragged:
    """Sources (N, S) without the padding that the mask hides."""
    if source.ndim != 2 or (source_mask is not None and source_mask.shape != source.shape):
        mask = "no mask" if source_mask is None else f"a mask {tuple(source_mask.shape)}"
        raise InputError(
            "kernel.source_shape",
            "source and source_mask must both be (sources, tokens), got source {shape} and {mask}",
            shape=tuple(source.shape),
            mask=mask,
        )
    ids = _array(source)
    if source_mask is None:
        return Ragged.from_lists(ids.tolist())
    return Ragged.from_lists(
        [row[real].tolist() for row, real in zip(ids, _array(source_mask, torch.bool), strict=True)]
    )


def _array(tensor: Tensor, dtype: torch.dtype = torch.int64) -> NDArray:  # type: ignore[type-arg]
    """A tensor as an array, a view where it can be; InputError if it is on another device."""
    if tensor.device.type != "cpu":
        raise InputError(
            "kernel.not_on_cpu",
            "the C++ kernel runs on the CPU, got a tensor on {device}; move it to the CPU",
            device=tensor.device,
        )
    return tensor.detach().to(dtype).numpy()
