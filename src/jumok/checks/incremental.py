"""Token by token with a key-value cache, or with the C++ kernel, instead of all tokens at once.

Shapes: B samples, S source tokens, T target tokens, V vocabulary.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import CheckTarget, Outputs, padded, unpad
from jumok.decoding.incremental.decoder import CausalLMDecoder, IncrementalDecoder, Seq2SeqDecoder
from jumok.models import EncoderDecoder, LanguageModel
from jumok.native import KernelError, NativeDecoder, NativeModel, WeightPrecision


def cached(target: CheckTarget) -> Outputs:
    """Step by step with a key-value cache: sources padded right, prompts left."""
    model = target.pipeline.model
    match model:
        case EncoderDecoder() if target.pipeline.has_logits:
            return _decode_targets(
                target, lambda ids, mask, n: Seq2SeqDecoder(model, ids, mask, capacity=n)
            )
        case LanguageModel():
            return _decode_prompts(
                target, lambda padding, n: CausalLMDecoder(model, padding, capacity=n)
            )
        case _:
            raise NotApplicable(
                "check.does_not_generate",
                "a model of the class {type_model} does not generate text",
                type_model=type(model).__name__,
            )


def native(precision: WeightPrecision) -> Callable[[CheckTarget], Outputs]:
    """Step by step in the C++ kernel, with weights in this precision."""

    def variant(target: CheckTarget) -> Outputs:
        model = target.pipeline.model
        if not target.pipeline.has_logits:
            raise NotApplicable(
                "check.model_without_head", "a model without a head does not generate text"
            )
        if target.pipeline.device.type != "cpu":
            raise NotApplicable("check.kernel_needs_cpu", "the C++ kernel runs on the CPU only")
        try:
            kernel = NativeModel(model, precision)
        except KernelError as reason:
            raise NotApplicable(reason.message) from None
        if isinstance(model, EncoderDecoder):
            return _decode_targets(
                target, lambda ids, mask, n: NativeDecoder(kernel, ids, mask, capacity=n)
            )
        return _decode_prompts(
            target, lambda padding, n: NativeDecoder(kernel, padding=padding, capacity=n)
        )

    return variant


def growing_steps(n: int) -> Iterator[slice]:
    """Split n tokens into steps: single tokens first, then doubling, and a single last token.

    >>> [step.stop - step.start for step in growing_steps(12)]
    [1, 1, 2, 4, 3, 1]
    """
    start, size = 0, 1
    while start < n - 1:
        stop = min(start + size, n - 1)
        yield slice(start, stop)
        size = max(stop, 1)
        start = stop
    yield slice(start, n)


def _decode_targets(
    target: CheckTarget, make_decoder: Callable[[Tensor, Tensor, int], IncrementalDecoder]
) -> Outputs:
    """The outputs for every target token, given the sources."""
    device = target.pipeline.device
    ids, mask = padded([sample.ids for sample in target.samples], target.padding_id)
    targets = [sample.target for sample in target.samples if sample.target is not None]
    target_ids, target_mask = padded(targets, target.padding_id)
    decoder = make_decoder(ids.to(device), mask.to(device), target_ids.shape[1])
    return unpad(_decode(decoder, target_ids.to(device)), target_mask)


def _decode_prompts(
    target: CheckTarget, make_decoder: Callable[[Tensor, int], IncrementalDecoder]
) -> Outputs:
    """The outputs for every token of the prompts."""
    device = target.pipeline.device
    rows = [sample.ids for sample in target.samples]
    ids, mask = padded(rows, target.padding_id, left=True)
    decoder = make_decoder((~mask).sum(-1).to(device), ids.shape[1])
    return unpad(_decode(decoder, ids.to(device)), mask)


def _decode(decoder: IncrementalDecoder, ids: Tensor) -> Tensor:
    """(B, T) int64 -> logits (B, T, V)."""
    return torch.cat([decoder.step_all(ids[:, step]) for step in growing_steps(ids.shape[1])], 1)
