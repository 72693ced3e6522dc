"""The encoders and decoders of a model in PyTorch whose kernel calls several jobs share.

Shapes: n tokens of all merged texts, D model width.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from jumok.decoding import (
    DecodingConfig,
    GenerationInputs,
    Hypothesis,
    IncrementalDecoder,
    Processor,
)
from jumok.decoding.callbacks import OnToken
from jumok.native import NativeEncoder, NativeModel
from jumok.native.decoder import DecoderStep, NativeDecoder, step_together
from jumok.serving.jobs import JobHub
from jumok.tasks.pipeline.backends import DecoderBackends


class MergedEncoder:
    """A `NativeEncoder` whose calls from several jobs are computed together."""

    order = 0

    def __init__(self, encoder: NativeEncoder, hub: JobHub) -> None:
        self._encoder, self._hub = encoder, hub
        self.has_windows = encoder.has_windows

    def __call__(self, x: Tensor, lengths: Tensor, positions: Tensor, columns: Tensor) -> Tensor:
        """Concatenated tokens (n, D) of texts -> hidden states (n, D) float32."""
        result: Tensor = self._hub.call(self, (x, lengths, positions, columns))
        return result

    def size(self, arguments: Any) -> int:
        """The number of tokens."""
        return len(arguments[0])

    def compute(self, calls: Sequence[Any]) -> Sequence[Tensor]:
        """One call of the kernel for the texts of all jobs."""
        x, lengths, positions, columns = (torch.cat(each) for each in zip(*calls, strict=True))
        hidden = self._encoder(x, lengths, positions, columns)
        return torch.split(hidden, [len(call[0]) for call in calls])


class _Step:
    """The next tokens of several generations: those of one model are one call of the kernel."""

    order = 1

    def size(self, arguments: Any) -> int:
        """The number of tokens."""
        return int(arguments.ids.numel())

    def compute(self, calls: Sequence[Any]) -> Sequence[Any]:
        """What `step` of each decoder returns."""
        results: list[Any] = [None] * len(calls)
        groups: dict[int, list[int]] = {}
        for number, (decoder, _) in enumerate(calls):
            groups.setdefault(id(decoder.model), []).append(number)
        for numbers in groups.values():
            found = step_together([calls[number] for number in numbers])
            for number, result in zip(numbers, found, strict=True):
                results[number] = result
        return results


STEP = _Step()


class SharedDecoder:
    """An incremental decoder whose job is suspended at each step.

    So several texts are generated side by side: a new one joins at the next step, a finished or
    cancelled one leaves.
    """

    def __init__(self, decoder: NativeDecoder, hub: JobHub) -> None:
        self._decoder, self._hub = decoder, hub
        self.vocabulary_size = decoder.vocabulary_size
        self.reorder, self.rewind = decoder.reorder, decoder.rewind

    @property
    def length(self) -> int:
        """Positions in the cache."""
        return self._decoder.length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, V) float32."""
        logits: Tensor = self._hub.call(STEP, DecoderStep(self._decoder, ids))
        return logits

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, T, V) float32; computed alone."""
        return self._decoder.step_all(ids)

    def search(
        self,
        inputs: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        on_token: OnToken | None,
    ) -> list[list[Hypothesis]] | None:
        """The results of a search in the kernel; None for settings that it leaves out."""
        return self._decoder.search(inputs, config, processors, on_token, self._hub.search_step)


class SharedBackends(DecoderBackends):
    """Backends whose native decoders suspend their jobs.

    A served model never changes, so it is not examined for each text.
    """

    def __init__(self, config: DecodingConfig, hub: JobHub) -> None:
        super().__init__(config)
        self._hub = hub
        self._served: dict[tuple[nn.Module, str], NativeModel] = {}

    def prepare(self, model: nn.Module) -> None:
        """Convert a model for the kernel now, not with its first text."""
        if self.is_native(model):
            self._native_model(model)

    def is_native(self, model: nn.Module) -> bool:
        """Whether the C++ kernel decodes with the model."""
        return self.choice(model).kernel == "native"

    def _native_model(self, model: nn.Module) -> NativeModel:
        key = (model, self.config.precision)
        if key not in self._served:
            self._served[key] = super()._native_model(model)
        return self._served[key]

    def start_seq2seq(
        self, model: nn.Module, source: Tensor, source_mask: Tensor | None, capacity: int
    ) -> IncrementalDecoder:
        """A decoder for sources (N, S)."""
        decoder = super().start_seq2seq(model, source, source_mask, capacity)
        assert isinstance(decoder, NativeDecoder)
        return SharedDecoder(decoder, self._hub)

    def start_lm(
        self, model: nn.Module, capacity: int, padding: Tensor | None = None
    ) -> IncrementalDecoder:
        """A decoder of a language model."""
        decoder = super().start_lm(model, capacity, padding)
        assert isinstance(decoder, NativeDecoder)
        return SharedDecoder(decoder, self._hub)
