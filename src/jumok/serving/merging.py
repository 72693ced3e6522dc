"""Jobs that run side by side, with their searches and kernel calls merged into one.

A job is the unchanged code of `jumok predict` for one text, in a greenlet. Where it reaches a
search or the kernel it is suspended. When no job can go on, the calls of one kind are computed
together, all searches with the same settings make one step, and the jobs with results continue. So
batches form without a timer, a new text joins a search at its next step, and a finished one leaves.
The kernel computes each row independently of the others (`linear.h`), so an answer has the same
bytes alone and in a batch.

Shapes: n tokens of all merged texts, D model width.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import torch
from greenlet import GreenletExit, getcurrent, greenlet
from torch import Tensor, nn

from jumok.decoding import (
    DecodingConfig,
    GenerationInputs,
    Hypothesis,
    IncrementalDecoder,
    Processor,
)
from jumok.decoding.joint import JointSearch, can_join, joint_search
from jumok.errors import Message
from jumok.native import NativeModel
from jumok.native.decoder import DecoderStep, NativeDecoder, step_rows, step_together
from jumok.tasks.pipeline.backends import DecoderBackends

logger = logging.getLogger(__name__)

BATCH_TOKENS = 512  # of one call of an encoder, as in jumok.inference


class MergedCall(Protocol):
    """A kind of kernel call: how several of them are computed together."""

    @property
    def order(self) -> int:
        """Calls with the lowest order are computed first."""

    def size(self, arguments: Any) -> int:
        """The size of a call; a batch has at most `BATCH_TOKENS`, or a single call."""

    def compute(self, calls: Sequence[Any]) -> Sequence[Any]:
        """The result of each call."""


@dataclass(eq=False)
class _Waiting:
    job: greenlet
    call: MergedCall
    arguments: Any


@dataclass(eq=False)
class _Searching:
    job: greenlet
    key: Hashable  # of the searches that it joins
    decoder: NativeDecoder
    inputs: GenerationInputs
    start: Callable[[], JointSearch]  # the first of these searches


class JobHub:
    """Runs jobs until each has ended or waits for a result; `step` computes one batch."""

    def __init__(self) -> None:
        self._hub = getcurrent()
        self._searches: dict[Hashable, JointSearch] = {}
        self._searching: dict[int, _Searching] = {}  # by the numbers of their texts
        self._numbers = count()
        self._jobs: dict[Hashable, greenlet] = {}
        self._keys: dict[greenlet, Hashable] = {}
        self._waiting: list[_Waiting] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, key: Hashable, function: Callable[[], None]) -> None:
        """Run a job up to its first kernel call, or to its end."""
        job = greenlet(function)
        self._jobs[key], self._keys[job] = job, key
        self._resume(job)

    def cancel(self, key: Hashable) -> bool:
        """End a job; its code sees GreenletExit. False if it has ended already."""
        job = self._jobs.pop(key, None)
        if job is None:
            return False
        del self._keys[job]
        self._waiting = [each for each in self._waiting if each.job is not job]
        for number, each in list(self._searching.items()):
            if each.job is job:
                self._searches[each.key].remove(number)
                del self._searching[number]
        with torch.inference_mode():  # as in `_resume`
            job.throw(GreenletExit)
        return True

    def call(self, call: MergedCall, arguments: Any) -> Any:
        """Compute a kernel call together with those of other jobs; alone outside of a job."""
        current = getcurrent()
        if current is self._hub:
            return call.compute([arguments])[0]
        return self._hub.switch(_Waiting(current, call, arguments))

    def search(
        self,
        key: Hashable,
        decoder: NativeDecoder,
        inputs: GenerationInputs,
        start: Callable[[], JointSearch],
    ) -> list[list[Hypothesis]] | None:
        """Search with the others of this key; None if it failed, or outside of a job."""
        current = getcurrent()
        if current is self._hub:
            return None
        found: list[list[Hypothesis]] | None
        found = self._hub.switch(_Searching(current, key, decoder, inputs, start))
        return found

    def step(self) -> None:
        """Compute one batch of waiting calls, a step of each search, and continue their jobs."""
        self._step_calls()
        for key in list(self._searches):
            self._step_search(key)

    def _step_search(self, key: Hashable) -> None:
        """A step of the texts of a search; if that fails, each job begins again alone."""
        texts = {number for number, each in self._searching.items() if each.key == key}
        if not texts:
            del self._searches[key]
            return
        try:
            done = self._searches[key].step()
        except Exception as error:
            logger.warning(
                Message(
                    "server.joint_search_failed",
                    "the joint search of {n_texts} texts failed with {type_error}; each begins "
                    "again alone",
                    n_texts=len(texts),
                    type_error=type(error).__name__,
                )
            )
            del self._searches[key]
            for number in texts:
                each = self._searching.pop(number)
                each.decoder.rewind(each.decoder.length)
                each.decoder.reorder(torch.tensor([0]))
                self._resume(each.job)
            return
        for number, hypotheses in done.items():
            self._resume(self._searching.pop(number).job, [hypotheses])

    def _step_calls(self) -> None:
        if not self._waiting:
            return
        first = min(self._waiting, key=lambda each: each.call.order)
        batch: list[_Waiting] = []
        size = 0
        for each in self._waiting:
            if each.call is not first.call:
                continue
            size += each.call.size(each.arguments)
            if batch and size > BATCH_TOKENS:
                break
            batch.append(each)
        chosen = set(map(id, batch))
        self._waiting = [each for each in self._waiting if id(each) not in chosen]
        self._compute(batch)

    def _compute(self, batch: Sequence[_Waiting]) -> None:
        """Compute a batch; if that fails, each of its calls, so that one fails alone."""
        try:
            results = batch[0].call.compute([each.arguments for each in batch])
        except Exception as error:
            if len(batch) == 1:
                self._resume(batch[0].job, error=error)
                return
            for each in batch:
                self._compute([each])
            return
        for each, result in zip(batch, results, strict=True):
            self._resume(each.job, result)

    def _resume(self, job: greenlet, value: Any = None, error: Exception | None = None) -> None:
        with torch.inference_mode():  # a thread has one mode, and jobs are suspended inside of it
            if error is not None:
                waiting = job.throw(error)
            elif job:  # has started
                waiting = job.switch(value)
            else:
                waiting = job.switch()
        if isinstance(waiting, _Waiting):
            self._waiting.append(waiting)
        elif isinstance(waiting, _Searching):
            number = next(self._numbers)
            self._searching[number] = waiting
            if waiting.key not in self._searches:
                self._searches[waiting.key] = waiting.start()
            self._searches[waiting.key].add(number, waiting.decoder, waiting.inputs)
        if job.dead:
            self._jobs.pop(self._keys.pop(job, None), None)


class MergedEncoder:
    """A `NativeEncoder` whose calls from several jobs are computed together."""

    order = 0

    def __init__(self, encoder: Callable[..., Tensor], hub: JobHub) -> None:
        self._encoder, self._hub = encoder, hub

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
        """What `step` or `top_k` of each decoder returns."""
        results: list[Any] = [None] * len(calls)
        groups: dict[int, list[int]] = {}
        for number, (decoder, _, _) in enumerate(calls):
            groups.setdefault(id(decoder.model), []).append(number)
        for numbers in groups.values():
            found = step_together([calls[number] for number in numbers])
            for number, result in zip(numbers, found, strict=True):
                results[number] = result
        return results


STEP = _Step()


class SharedDecoder:
    """An incremental decoder whose job is suspended at each step, or for a whole search.

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
        self, inputs: GenerationInputs, config: DecodingConfig, processors: Sequence[Processor]
    ) -> list[list[Hypothesis]] | None:
        """The results of a search that all jobs with these settings share; None: search alone."""
        if not can_join(inputs, config, processors, self.vocabulary_size):
            return None
        key = (id(self._decoder.model), config, tuple(processors), inputs.stopping.end_ids)
        return self._hub.search(
            key, self._decoder, inputs, lambda: joint_search(config, processors, step_rows)
        )

    def top_k(self, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k best tokens of a step: log-probabilities (B, k) and ids (B, k)."""
        found: tuple[Tensor, Tensor] = self._hub.call(STEP, DecoderStep(self._decoder, ids, k))
        return found


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
