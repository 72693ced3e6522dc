"""Incremental decoding with the C++ kernel, under the protocols of `jumok.decoding.incremental`.

A thin layer of tensors around `DecoderSession`. Shapes: B decoded rows, N sources, S source tokens,
T new tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.decoding.config import DecodingConfig
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import MinLength, Processor
from jumok.errors import InputError
from jumok.native import decoder_session
from jumok.native.decoder_session import (
    DecoderSession,
    SearchStep,
    SessionStep,
    Tokens,
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
        return _tensors(self.session.top_k(_array(ids), k))

    def search(
        self,
        inputs: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        step: SearchStep | None = None,
    ) -> list[list[Hypothesis]] | None:
        """The results of greedy or beam search; None for settings that the kernel leaves out.

        `step` is that of `DecoderSession.search`.
        """
        known = _in_kernel(config, processors, inputs.stopping.end_ids)
        if known is None or inputs.stopping.stop_strings is not None:
            return None
        return self.session.search(_array(inputs.prompt_ids), known, inputs.stopping, step=step)

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
    """The step of one decoder: the new tokens (B, T), and k > 0 for the k most likely only."""

    decoder: NativeDecoder
    ids: Tensor
    k: int = 0


def step_together(steps: Sequence[DecoderStep]) -> list[Tensor | tuple[Tensor, Tensor]]:
    """The steps of several decoders of one `NativeModel`, computed as one pass.

    Returns for each what `step`, or with k `top_k`, returns; the bytes are the same. T may differ.
    Raises InputError, before a decoder changes, if the arguments of one are wrong.

        a, b = step_together([DecoderStep(first, ids), DecoderStep(second, other_ids, k=4)])
    """
    found = decoder_session.step_together(
        [SessionStep(decoder.session, _array(ids), k) for decoder, ids, k in steps]
    )
    return list(map(_tensor_or_two, found))


def _in_kernel(
    config: DecodingConfig, processors: Sequence[Processor], end_ids: Sequence[int]
) -> DecodingConfig | None:
    """The settings with what these processors do, if the kernel does all of it; else None."""
    banned = {each.end_id: each.n for each in processors if isinstance(each, MinLength)}
    lengths = set(banned.values())
    if (
        len(banned) < len(processors)
        or len(lengths) > 1
        or set(banned) not in (set(), set(end_ids))
    ):
        return None
    # The limits of the texts are those of the stopping criteria.
    changed = replace(config, max_length=2**20, min_length=min(lengths, default=0))
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


def _tensors(found: tuple[Floats, Tokens]) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(found[0]), torch.from_numpy(found[1])


def _tensor_or_two(found: Floats | tuple[Floats, Tokens]) -> Tensor | tuple[Tensor, Tensor]:
    return _tensors(found) if isinstance(found, tuple) else torch.from_numpy(found)
