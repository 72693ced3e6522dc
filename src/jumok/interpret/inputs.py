"""What a model is asked, and what it writes: the rows of both sides of a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jumok.errors import InputError
from jumok.interpret import decoding_trace as playback
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
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS


@dataclass(frozen=True)
class TraceInputs:
    """The rows of each side, one a sequence, and how the first target came about."""

    sequences: Mapping[Side, tuple[TokenSequence, ...]]
    decoding: Decoding | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the model had no room for."""
        return tuple(
            f"Sequence {number} of the {side} is longer than the model holds: {row.n_truncated} "
            "pieces of it were not read."
            for side, rows in self.sequences.items()
            for number, row in enumerate(rows)
            if row.n_truncated
        )


def trace_inputs(
    loaded: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> TraceInputs:
    """The rows of texts, and of the targets that are given or else written."""
    task = loaded.recipe.task
    if targets is not None and task not in GENERATIVE_TASKS:
        raise InputError(f"a model of the task {task} writes nothing; leave the target out")
    if task == "language_modeling":
        return _continued(loaded, texts, targets)
    sources = tuple(source_sequence(loaded, text) for text in texts)
    if task == "sequence_to_sequence":
        rows, decoding = _rewritten(loaded, texts, targets)
        return TraceInputs({"source": sources, "target": rows}, decoding)
    if isinstance(loaded.model, EncoderDecoderClassifier):
        begin = tuple(start_sequence(loaded.vocabulary) for _ in texts)
        return TraceInputs({"source": sources, "target": begin})
    return TraceInputs({"source": sources})


def _rewritten(
    loaded: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> tuple[tuple[TokenSequence, ...], Decoding | None]:
    """The rows of what is written for sources: [BOS] and all tokens but the end."""
    if targets is not None:
        rows = tuple(target_sequence(loaded, target) for target in targets)
        told = playback.trace_forced(loaded, texts[0], targets[0]) if loaded.has_logits else None
        return rows, told
    if not loaded.has_logits:
        return tuple(start_sequence(loaded.target_vocabulary) for _ in texts), None
    answers = [playback.trace_generation(loaded, text) for text in texts]
    return tuple(generated_sequence(loaded, ids) for ids, _ in answers), answers[0][1]


def _continued(
    loaded: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> TraceInputs:
    """The rows of a language model: each text, and how it goes on; the newest tokens it holds."""
    most = loaded.recipe.model.max_length
    decoding: Decoding | None = None
    if targets is not None or not loaded.has_logits:
        added = targets or [""] * len(texts)
        pairs = zip(texts, added, strict=True)
        rows = [
            continuation_sequence(loaded, text, loaded.vocabulary.encode(new))
            for text, new in pairs
        ]
        if added[0] and loaded.has_logits:
            decoding = playback.trace_forced(loaded, texts[0], added[0])
    else:
        answers = [playback.trace_generation(loaded, text) for text in texts]
        rows = [
            continuation_sequence(loaded, text, ids)
            for text, (ids, _) in zip(texts, answers, strict=True)
        ]
        decoding = answers[0][1]
    if decoding is not None:
        lost = max(len(rows[0]) - most, 0)
        decoding = replace(decoding, prompt=decoding.prompt - lost)
    return TraceInputs({"target": tuple(row.last(most) for row in rows)}, decoding)
