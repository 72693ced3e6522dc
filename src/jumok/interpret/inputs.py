"""What a model is asked, and what it writes: the rows of both sides of a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jumok.errors import InputError
from jumok.interpret import decoding_trace as playback
from jumok.interpret.schema import Decoding, Side
from jumok.interpret.sequences import begin_row, continued_row, given_row, read_row, written_row
from jumok.interpret.tokens import Row
from jumok.models import EncoderDecoderClassifier
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS


@dataclass(frozen=True)
class Asked:
    """The rows of each side, one a sequence, and how the first target came about."""

    rows: Mapping[Side, tuple[Row, ...]]
    decoding: Decoding | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the model had no room for."""
        return tuple(
            f"Sequence {number} of the {side} is longer than the model holds: {row.left_out} "
            "pieces of it were not read."
            for side, rows in self.rows.items()
            for number, row in enumerate(rows)
            if row.left_out
        )


def ask(loaded: Pipeline, texts: Sequence[str], targets: Sequence[str] | None) -> Asked:
    """The rows of texts, and of the targets that are given or else written."""
    task = loaded.recipe.task
    if targets is not None and task not in GENERATIVE_TASKS:
        raise InputError(f"a model of the task {task} writes nothing; leave the target out")
    if task == "language_modeling":
        return _continued(loaded, texts, targets)
    sources = tuple(read_row(loaded, text) for text in texts)
    if task == "sequence_to_sequence":
        rows, decoding = _rewritten(loaded, texts, targets)
        return Asked({"source": sources, "target": rows}, decoding)
    if isinstance(loaded.model, EncoderDecoderClassifier):
        begin = tuple(begin_row(loaded.vocabulary) for _ in texts)
        return Asked({"source": sources, "target": begin})
    return Asked({"source": sources})


def _rewritten(
    loaded: Pipeline, texts: Sequence[str], targets: Sequence[str] | None
) -> tuple[tuple[Row, ...], Decoding | None]:
    """The rows of what is written for sources: [BOS] and all tokens but the end."""
    if targets is not None:
        rows = tuple(given_row(loaded, target) for target in targets)
        told = playback.given(loaded, texts[0], targets[0]) if loaded.has_logits else None
        return rows, told
    if not loaded.has_logits:
        return tuple(begin_row(loaded.target_vocabulary) for _ in texts), None
    answers = [playback.write(loaded, text) for text in texts]
    return tuple(written_row(loaded, ids) for ids, _ in answers), answers[0][1]


def _continued(loaded: Pipeline, texts: Sequence[str], targets: Sequence[str] | None) -> Asked:
    """The rows of a language model: each text, and how it goes on; the newest tokens it holds."""
    most = loaded.recipe.model.max_length
    decoding: Decoding | None = None
    if targets is not None or not loaded.has_logits:
        added = targets or [""] * len(texts)
        pairs = zip(texts, added, strict=True)
        rows = [continued_row(loaded, text, loaded.vocabulary.encode(new)) for text, new in pairs]
        if added[0] and loaded.has_logits:
            decoding = playback.given(loaded, texts[0], added[0])
    else:
        answers = [playback.write(loaded, text) for text in texts]
        rows = [
            continued_row(loaded, text, ids) for text, (ids, _) in zip(texts, answers, strict=True)
        ]
        decoding = answers[0][1]
    if decoding is not None:
        lost = max(len(rows[0]) - most, 0)
        decoding = replace(decoding, prompt=decoding.prompt - lost)
    return Asked({"target": tuple(row.newest(most) for row in rows)}, decoding)
