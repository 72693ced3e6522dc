"""The inputs of a traced forward pass: the token sequences of both sides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
    """The token sequences of each side, and how the first target was generated."""

    sequences: Mapping[Side, tuple[TokenSequence, ...]]
    decoding: Decoding | None = None

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
        rows, decoding = _target_sequences(pipeline, texts, targets)
        return TraceInputs({"source": sources, "target": rows}, decoding)
    if isinstance(pipeline.model, EncoderDecoderClassifier):
        starts = tuple(start_sequence(pipeline.vocabulary) for _ in texts)
        return TraceInputs({"source": sources, "target": starts})
    return TraceInputs({"source": sources})


def _target_sequences(
    pipeline: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> tuple[tuple[TokenSequence, ...], Decoding | None]:
    """The decoder inputs of each target: [BOS] and all its tokens but the end."""
    if targets is not None:
        rows = tuple(target_sequence(pipeline, target) for target in targets)
        decoding = trace_forced(pipeline, texts[0], targets[0]) if pipeline.has_logits else None
        return rows, decoding
    if not pipeline.has_logits:
        return tuple(start_sequence(pipeline.target_vocabulary) for _ in texts), None
    generated = [trace_generation(pipeline, text) for text in texts]
    return tuple(generated_sequence(pipeline, ids) for ids, _ in generated), generated[0][1]


def _continued_inputs(
    pipeline: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> TraceInputs:
    """The sequences of a language model: each text and its continuation, the newest tokens."""
    max_length = pipeline.recipe.model.max_length
    decoding: Decoding | None = None
    if targets is not None or not pipeline.has_logits:
        continuations = targets or [""] * len(texts)
        pairs = zip(texts, continuations, strict=True)
        rows = [
            continuation_sequence(pipeline, text, pipeline.vocabulary.encode(new))
            for text, new in pairs
        ]
        if continuations[0] and pipeline.has_logits:
            decoding = trace_forced(pipeline, texts[0], continuations[0])
    else:
        generated = [trace_generation(pipeline, text) for text in texts]
        rows = [
            continuation_sequence(pipeline, text, ids)
            for text, (ids, _) in zip(texts, generated, strict=True)
        ]
        decoding = generated[0][1]
    if decoding is not None:
        dropped = max(len(rows[0]) - max_length, 0)
        decoding = replace(decoding, prompt=decoding.prompt - dropped)
    return TraceInputs({"target": tuple(row.last(max_length) for row in rows)}, decoding)
