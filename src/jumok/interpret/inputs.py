"""The inputs of a traced forward pass: the token sequences of both sides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jumok.decoding import DecodingConfig
from jumok.errors import TraceError
from jumok.interpret.decoding_trace import trace_forced, trace_generation
from jumok.interpret.schema import Decoding, Side
from jumok.interpret.sequences import (
    continuation_sequence,
    generated_sequence,
    source_sequence,
    start_sequence,
    target_sequence,
)
from jumok.interpret.tokens import TokenSequence
from jumok.models import EncoderDecoderClassifier
from jumok.tasks.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class TraceInputs:
    """The token sequences of each side, and how each target was generated."""

    sequences: Mapping[Side, tuple[TokenSequence, ...]]
    decodings: tuple[Decoding, ...] = ()  # empty: they were not

    @property
    def decoding(self) -> Decoding | None:
        """That of the first target."""
        return self.decodings[0] if self.decodings else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about truncated sequences."""
        return tuple(
            f"Sequence {number} of the {side} is longer than the model's max_length: "
            f"{row.n_truncated} pieces of it were truncated."
            for side, rows in self.sequences.items()
            for number, row in enumerate(rows)
            if row.n_truncated
        )


def trace_inputs(
    pipeline: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> TraceInputs:
    """The sequences of the texts, and of the targets, given or generated."""
    task = pipeline.task
    if targets is not None and not task.generates:
        raise TraceError(
            "trace.target_without_generation",
            "a model of the task {task} generates no text; leave the target out",
            task=pipeline.recipe.task,
        )
    if not task.reads_source:
        return _continued_inputs(pipeline, texts, targets)
    sources = tuple(source_sequence(pipeline, text) for text in texts)
    if task.generates:
        rows, decodings = _target_sequences(pipeline, texts, targets)
        return TraceInputs({"source": sources, "target": rows}, decodings)
    if isinstance(pipeline.model, EncoderDecoderClassifier):
        starts = tuple(start_sequence(pipeline.vocabulary) for _ in texts)
        return TraceInputs({"source": sources, "target": starts})
    return TraceInputs({"source": sources})


def _target_sequences(
    pipeline: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> tuple[tuple[TokenSequence, ...], tuple[Decoding, ...]]:
    """The decoder inputs of each target: [BOS] and all its tokens but the end."""
    if targets is not None:
        rows = tuple(target_sequence(pipeline, target) for target in targets)
        pairs = zip(texts, targets, strict=True) if pipeline.has_logits else ()
        return rows, tuple(trace_forced(pipeline, text, target) for text, target in pairs)
    if not pipeline.has_logits:
        return tuple(start_sequence(pipeline.target_vocabulary) for _ in texts), ()
    generated = [trace_generation(pipeline, text) for text in texts]
    rows = tuple(generated_sequence(pipeline, ids) for ids, _ in generated)
    return rows, tuple(decoding for _, decoding in generated)


def _continued_inputs(
    pipeline: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> TraceInputs:
    """The sequences of a language model: each text and its continuation, the newest tokens."""
    max_length = pipeline.recipe.model.max_length
    decodings: list[Decoding] = []
    if targets is not None or not pipeline.has_logits:
        continuations = targets or [""] * len(texts)
        pairs = list(zip(texts, continuations, strict=True))
        rows = [
            continuation_sequence(pipeline, text, pipeline.vocabulary.encode(new))
            for text, new in pairs
        ]
        if all(continuations) and pipeline.has_logits:
            decodings = [trace_forced(pipeline, text, new) for text, new in pairs]
    else:
        generated = [trace_generation(_within_window(pipeline, text), text) for text in texts]
        rows = [
            continuation_sequence(pipeline, text, ids)
            for text, (ids, _) in zip(texts, generated, strict=True)
        ]
        decodings = [decoding for _, decoding in generated]
    in_window = tuple(
        replace(each, prompt=each.prompt - max(len(row) - max_length, 0))
        for each, row in zip(decodings, rows, strict=False)
    )
    return TraceInputs({"target": tuple(row.last(max_length) for row in rows)}, in_window)


def _within_window(pipeline: Pipeline, text: str) -> Pipeline:
    """The pipeline with new tokens that fit next to the text, unless max_length was set.

    A trace has one window; with the default of 256 tokens it would not contain the text.
    """
    config = pipeline.recipe.decoding
    room = pipeline.recipe.model.max_length - len(continuation_sequence(pipeline, text, []))
    if config.max_length != DecodingConfig.max_length or not 1 <= room < config.max_length:
        return pipeline
    limits = {"max_length": room, "min_length": min(config.min_length, room)}
    return pipeline.with_decoding([f"{name}={value}" for name, value in limits.items()])
