"""Written step by step: a decoder that remembers, or the C++ kernel, instead of all at once.

Shapes: B samples, S tokens read, T tokens written, V vocabulary.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import Answers, Subject, of_each, padded
from jumok.decoding.incremental.decoder import CausalLMDecoder, IncrementalDecoder, Seq2SeqDecoder
from jumok.models import EncoderDecoder, LanguageModel
from jumok.native import KernelError, NativeDecoder, NativeModel, WeightPrecision


def cached(subject: Subject) -> Answers:
    """Step by step, keys and values of earlier tokens kept: sources padded right, prompts left."""
    model = subject.loaded.model
    match model:
        case EncoderDecoder() if subject.loaded.has_logits:
            return _read_and_written(
                subject,
                lambda ids, real, room: Seq2SeqDecoder(model, ids, real, capacity=room),
            )
        case LanguageModel():
            return _gone_on(
                subject, lambda padding, room: CausalLMDecoder(model, padding, capacity=room)
            )
        case _:
            raise NotApplicable(
                f"nothing is written by this {type(model).__name__}, so nothing is kept"
            )


def native(precision: WeightPrecision) -> Callable[[Subject], Answers]:
    """The same steps with the C++ kernel, its weights in this precision."""

    def way(subject: Subject) -> Answers:
        model = subject.loaded.model
        if not subject.loaded.has_logits:
            raise NotApplicable("a model without a head writes nothing")
        if subject.loaded.device.type != "cpu":
            raise NotApplicable("the C++ kernel writes on the CPU, and the model is elsewhere")
        try:
            kernel = NativeModel(model, precision)
        except KernelError as reason:
            raise NotApplicable(str(reason)) from None
        if isinstance(model, EncoderDecoder):
            return _read_and_written(
                subject, lambda ids, real, room: NativeDecoder(kernel, ids, real, capacity=room)
            )
        return _gone_on(
            subject, lambda padding, room: NativeDecoder(kernel, padding=padding, capacity=room)
        )

    return way


def steps(n: int) -> Iterator[slice]:
    """n tokens cut into steps: one by one at first, then twice as many each time, one at the end.

    >>> [step.stop - step.start for step in steps(12)]
    [1, 1, 2, 4, 3, 1]
    """
    start, size = 0, 1
    while start < n - 1:
        stop = min(start + size, n - 1)
        yield slice(start, stop)
        size = max(stop, 1)
        start = stop
    yield slice(start, n)


def _read_and_written(
    subject: Subject, begin: Callable[[Tensor, Tensor, int], IncrementalDecoder]
) -> Answers:
    """The answers to every token written behind the sources."""
    device = subject.loaded.device
    ids, real = padded([sample.ids for sample in subject.samples], subject.filler)
    targets = [sample.target for sample in subject.samples if sample.target is not None]
    target, written = padded(targets, subject.filler)
    writer = begin(ids.to(device), real.to(device), target.shape[1])
    return of_each(_stepwise(writer, target.to(device)), written)


def _gone_on(subject: Subject, begin: Callable[[Tensor, int], IncrementalDecoder]) -> Answers:
    """The answers to every token of the prompts."""
    device = subject.loaded.device
    rows = [sample.ids for sample in subject.samples]
    ids, real = padded(rows, subject.filler, left=True)
    writer = begin((~real).sum(-1).to(device), ids.shape[1])
    return of_each(_stepwise(writer, ids.to(device)), real)


def _stepwise(writer: IncrementalDecoder, ids: Tensor) -> Tensor:
    """(B, T) int64 -> logits (B, T, V)."""
    return torch.cat([writer.step_all(ids[:, step]) for step in steps(ids.shape[1])], 1)
