"""The effect of single heads and hidden states on the answer: muted heads, activation patching.

Each function changes one part of the model at a time and measures the answer again. The answer and
its tokens stay those of the unchanged model, so that only their probability moves.

    sweep_heads   each head in turn with weights of 0: Michel et al. 2019, "Are Sixteen Heads Really
                  Better than One?", section 3.2.
    patch_heads   each head in turn with the output that it has for another text: the indirect
                  effect of Vig et al. 2020, "Investigating Gender Bias in Language Models Using
                  Causal Mediation Analysis". They replace the attention weights of a head; here
                  its output, weights times values, is replaced at all positions.
    patch_hidden  the hidden state of one token before one layer, from another text: Meng et al.
                  2022, "Locating and Editing Factual Associations in GPT", section 2.

Shapes: R changed runs in a batch, H heads, T tokens, S keys, K width of a head, D width of the
model, L labels, V vocabulary.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.errors import TraceError
from jumok.interpret.forward_pass import (
    Batch,
    collate_tokens,
    copy_for_hooks,
    forward_logits,
    pad_sides,
)
from jumok.interpret.inputs import TraceInputs, trace_inputs
from jumok.interpret.sequences import continuation_sequence, source_sequence
from jumok.models import CharacterClassifier
from jumok.models.points import (
    Edit,
    attention_modules,
    backbones_by_side,
    hooked,
    mute_heads,
    points,
)
from jumok.tasks.inputs.batches import PaddedBatch
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.tokenizer import piece_or_empty

Measure: TypeAlias = Literal["probability", "log_probability", "score"]
Intervention: TypeAlias = Literal["mute", "patch_heads", "patch_hidden"]
Floats = NDArray[np.float64]
Head: TypeAlias = tuple[str, int, int]  # block, layer, head
Place: TypeAlias = tuple[str, int]  # block or side, layer

MAX_BATCH_WEIGHTS = 2**23  # attention weights of one layer, over the runs of a batch


@dataclass(frozen=True, kw_only=True)
class Effects:
    """The measure of the answer after each single change of a model.

    `values` is (layers, heads) for each block, or (layers, tokens) for each side of hidden states;
    `value` is the measure without a change, `other_value` that of the other text.

    >>> effects = Effects(
    ...     intervention="mute", measure="probability", answer="good", value=0.75,
    ...     values={"encoder": np.array([[0.5, 0.75]])},
    ... )
    >>> effects.changes()["encoder"].tolist(), len(effects.rows())
    ([[-0.25, 0.0]], 2)
    """

    intervention: Intervention
    measure: Measure  # the probability of a label, the log-probability of tokens, a score
    answer: str
    value: float
    values: Mapping[str, Floats]
    other_value: float | None = None

    def changes(self) -> dict[str, Floats]:
        """The values minus that of the unchanged model."""
        return {name: table - self.value for name, table in self.values.items()}

    def rows(self) -> list[dict[str, str | int | float]]:
        """One row per head (block, layer, head) or hidden state (side, layer, token)."""
        hidden = self.intervention == "patch_hidden"
        place, column = ("side", "token") if hidden else ("block", "head")
        return [
            {
                place: name,
                "layer": layer,
                column: n,
                "value": float(value),
                "change": float(value) - self.value,
            }
            for name, table in self.values.items()
            for layer, line in enumerate(table)
            for n, value in enumerate(line)
        ]

    def to_table(self) -> dict[str, object]:
        """Everything as plain JSON types, without the numbers that can be derived."""
        return {
            "intervention": self.intervention,
            "measure": self.measure,
            "answer": self.answer,
            "value": self.value,
            "other_value": self.other_value,
            "values": {name: table.tolist() for name, table in self.values.items()},
        }


def sweep_heads(
    pipeline: Pipeline,
    text: str,
    answer: str | None = None,
    *,
    decode: Mapping[str, object] | None = None,
    mute: Sequence[Head] = (),
) -> Effects:
    """The answer with each head muted in turn: its attention weights are 0.

    The measure is the probability of the predicted label, the log-probability of the generated
    tokens (or of those predicted at each [MASK], or for each token in tagging), or the score of a
    regression. `answer` is another label, or another text instead of a generated one ("" for a
    language model: the most probable next token). `decode` overrides the settings of the
    generation; the heads of `mute` are muted throughout. The model is not modified.

        effects = sweep_heads(jumok.load("runs/nsmc"), "이 영화 정말 재미있어요")
        effects.changes()["encoder"]  # (layers, heads); negative: the head supports the answer

    >>> import jumok
    >>> effects = sweep_heads(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> effects.answer, effects.measure, effects.values["cross"].shape
    ('Winter is cold.', 'log_probability', (2, 2))

    Raises InputError as `jumok.trace` does, and for a model without an answer.
    """
    subject = _subject(pipeline, text, answer, decode, mute)
    values: dict[Place, list[float]] = {
        (block, layer): subject.values(f"{block}.{layer}.weights", module.n_heads)
        for block, layer, module in attention_modules(subject.pipeline.model)
    }
    return subject.effects("mute", values)


def patch_heads(
    pipeline: Pipeline,
    text: str,
    other: str,
    answer: str | None = None,
    *,
    decode: Mapping[str, object] | None = None,
    mute: Sequence[Head] = (),
) -> Effects:
    """The answer for `text` with the output of each head in turn taken from the run on `other`.

    Parameters and measure are those of `sweep_heads`. The answer is that for `text`, unless
    `answer` gives another. A head whose value moves towards `other_value` carries a difference of
    the two texts. Exchange the texts and give the former answer to measure how much of the answer
    one head restores.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> effects = patch_heads(model, "겨울은 추워요.", "여름은 더워요.")
    >>> effects.value > effects.other_value  # the log-probability of "Winter is cold."
    True

    Raises InputError as `sweep_heads` does, and unless both texts have equally many tokens.
    """
    subject = _subject(pipeline, text, answer, decode, mute)
    names: dict[Place, str] = {
        (block, layer): f"{block}.{layer}.mixed"
        for block, layer, _ in attention_modules(subject.pipeline.model)
    }
    return subject.patched("patch_heads", names, other)


def patch_hidden(
    pipeline: Pipeline,
    text: str,
    other: str,
    answer: str | None = None,
    *,
    decode: Mapping[str, object] | None = None,
    mute: Sequence[Head] = (),
) -> Effects:
    """The answer for `text` with one hidden state taken from the run on `other`.

    Row l of a side replaces the input of layer l at one token; parameters, measure and errors are
    those of `patch_heads`.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> effects = patch_hidden(model, "겨울은 추워요.", "여름은 더워요.")
    >>> effects.values["source"].shape  # (layers, tokens)
    (2, 7)
    """
    subject = _subject(pipeline, text, answer, decode, mute)
    names: dict[Place, str] = {
        (side, layer): f"{side}.hidden.{layer}"
        for side, backbone in backbones_by_side(subject.pipeline.model).items()
        for layer in range(len(backbone.stack.layers))
    }
    return subject.patched("patch_hidden", names, other)


class _Answer(NamedTuple):
    """What is measured: logits (R, ...) -> (R,)."""

    measure: Measure
    text: str
    of: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class _Subject:
    """A copy of a model with one text and the answer that is measured."""

    pipeline: Pipeline
    inputs: TraceInputs
    batch: Batch
    answer: _Answer

    def measure(self, batch: Batch) -> float:
        """The measure of a batch of one text."""
        return float(self._measure(batch)[0])

    def values(self, name: str, n: int, other: Tensor | None = None) -> list[float]:
        """The measure after each of n changes of a point, several in a batch.

        Change i replaces head or token i by that of `other` (1, n, ...); None: by 0.
        """
        point = points(self.pipeline.model)[name]
        found: list[float] = []
        longest = max(rows.input_ids.shape[1] for rows in self.batch.values())
        heads = max(each.module.n_heads for each in attention_modules(self.pipeline.model))
        at_once = max(1, MAX_BATCH_WEIGHTS // (heads * longest**2))
        for start in range(0, n, at_once):
            indices = torch.arange(start, min(start + at_once, n), device=self.pipeline.device)
            handle = point.hook(_replace_one_each(indices, other))
            try:
                found += self._measure(_repeat(self.batch, len(indices))).tolist()
            finally:
                handle.remove()
        return found

    def patched(
        self, intervention: Intervention, names: Mapping[Place, str], text: str
    ) -> "Effects":
        """The effects of the heads or tokens of each point, taken from the run on another text."""
        with hooked(self.pipeline.model, names.values()) as other:
            other_value = self.measure(self.other_batch(text))
        values = {
            place: self.values(name, other[name].shape[1], other[name])
            for place, name in names.items()
        }
        return self.effects(intervention, values, other_value)

    def other_batch(self, text: str) -> Batch:
        """The inputs for another text, with the target of this one."""
        pipeline, own = self.pipeline, self.inputs
        pipeline.check_texts([text])
        if not pipeline.task.reads_source:
            (row,) = own.sequences["target"]
            new = [] if own.decoding is None else row.ids[max(own.decoding.prompt, 0) :]
            longest = pipeline.recipe.model.max_length
            continued = continuation_sequence(pipeline, text, new).last(longest)
            inputs = replace(own, sequences={"target": (continued,)})
        else:
            source = (source_sequence(pipeline, text),)
            inputs = replace(own, sequences={**own.sequences, "source": source})
        batch = _collate(pipeline, inputs)
        for side, rows in batch.items():
            n, expected = rows.input_ids.shape[1], self.batch[side].input_ids.shape[1]
            if n != expected:
                raise TraceError(
                    "trace.different_token_counts",
                    "both texts must have equally many tokens, got {expected} and {n}; try texts "
                    "that differ in words of equally many pieces",
                    expected=expected,
                    n=n,
                )
        return batch

    def effects(
        self,
        intervention: Intervention,
        values: Mapping[Place, list[float]],  # of a block or side, and a layer
        other_value: float | None = None,
    ) -> Effects:
        """The effects of measured values. Raises InputError if one is not finite."""
        value = self.measure(self.batch)
        rows = defaultdict[str, list[list[float]]](list)
        for (name, _), row in values.items():
            rows[name].append(row)
        tables = {name: np.array(table, np.float64) for name, table in rows.items()}
        if not all(np.isfinite(table).all() for table in (np.array(value), *tables.values())):
            raise TraceError(
                "trace.answer_not_finite",
                "the measure of the answer must be finite after each change, got NaN or "
                "infinity; check the weights of the model",
            )
        return Effects(
            intervention=intervention,
            measure=self.answer.measure,
            answer=self.answer.text,
            value=value,
            values=tables,
            other_value=other_value,
        )

    def _measure(self, batch: Batch) -> Tensor:
        with torch.inference_mode():
            return self.answer.of(forward_logits(self.pipeline, batch).double())  # (R,)


def _subject(
    pipeline: Pipeline,
    text: str,
    answer: str | None,
    decode: Mapping[str, object] | None,
    mute: Sequence[Head],
) -> _Subject:
    """The model, its input and its answer. Raises InputError for a model without an answer."""
    generates = pipeline.task.generates
    target = answer if generates else None
    if target is not None and decode:
        raise TraceError(
            "trace.decode_and_answer", "decode must be left out with an answer, got both"
        )
    pipeline.check_texts([text] if target is None else [text, target])
    pipeline.check_supported()
    if isinstance(pipeline.model, CharacterClassifier):
        raise TraceError(
            "trace.tags_of_characters",
            "the model must tag pieces to measure its answer, got one with model.tagging = "
            '"characters"; jumok.trace records its attention',
        )
    own = copy_for_hooks(pipeline, decode or {})
    mute_heads(own.model, mute)
    inputs = trace_inputs(own, [text], None if target is None else [target])
    batch = _collate(own, inputs)
    with torch.inference_mode():
        logits = forward_logits(own, batch)
    return _Subject(own, inputs, batch, _answer(own, inputs, batch, logits, answer))


def _answer(
    pipeline: Pipeline, inputs: TraceInputs, batch: Batch, logits: Tensor, requested: str | None
) -> _Answer:
    """The answer for these logits of one text, or the requested one."""
    kind = pipeline.task.answer
    if kind == "label":
        return _label_answer(pipeline, logits, requested, lambda x: x.softmax(-1))
    if kind == "labels":
        return _label_answer(pipeline, logits, requested, torch.sigmoid)
    if kind == "text":
        decoding = inputs.decoding
        if decoding is None:  # a language model that only reads the text
            best = int(logits[0, -1].argmax())
            piece = piece_or_empty(pipeline.target_vocabulary, best)
            return _token_answer(piece, [logits.shape[1] - 1], [best])
        chosen = [
            (decoding.prompt - 1 + i, step.chosen.id)
            for i, step in enumerate(decoding.steps)
            if step.chosen is not None and 0 <= decoding.prompt - 1 + i < logits.shape[1]
        ]
        return _token_answer(decoding.output, *zip(*chosen, strict=True))
    if requested is not None:
        raise TraceError(
            "trace.answer_not_for_task",
            "a model of the task {task} measures its own answer; leave answer out",
            task=pipeline.recipe.task,
        )
    if kind == "score":
        scale = pipeline.recipe.regression
        score = float(logits[0, 0].double() * scale.span + scale.lowest)
        return _Answer("score", f"{score:.4f}", lambda x: x[:, 0] * scale.span + scale.lowest)
    ids = batch["source"].input_ids[0]
    predicted = logits[0].argmax(-1)  # (T,)
    if kind == "tags":
        real = [t for t, span in enumerate(inputs.sequences["source"][0].spans) if span is not None]
        names = [pipeline.labels[int(predicted[t])] for t in real]
    else:
        real = (ids == pipeline.vocabulary.mask_id).nonzero()[:, 0].tolist()
        names = [piece_or_empty(pipeline.vocabulary, int(predicted[t])) for t in real]
    if not real:
        raise TraceError(
            "trace.no_mask",
            "the text must have at least one [MASK] for an answer, got none; add one",
        )
    return _token_answer(" ".join(names), real, predicted[real].tolist())


def _label_answer(
    pipeline: Pipeline,
    logits: Tensor,
    requested: str | None,
    probabilities: Callable[[Tensor], Tensor],
) -> _Answer:
    labels = pipeline.labels
    if requested is not None and requested not in labels:
        raise TraceError(
            "trace.unknown_answer",
            "answer must be one of {labels}, got {requested!r}",
            labels=", ".join(labels),
            requested=requested,
        )
    label = int(logits[0].argmax()) if requested is None else labels.index(requested)
    return _Answer("probability", labels[label], lambda x: probabilities(x)[:, label])


def _token_answer(text: str, rows: Sequence[int], ids: Sequence[int]) -> _Answer:
    """The sum of the log-probabilities of tokens, each predicted at its row of logits (R, T, V)."""

    def total(logits: Tensor) -> Tensor:
        log_p = logits[:, list(rows)].log_softmax(-1)  # (R, n, V)
        return log_p[:, torch.arange(len(ids)), list(ids)].sum(-1)  # (R,)

    return _Answer("log_probability", text, total)


def _collate(pipeline: Pipeline, inputs: TraceInputs) -> Batch:
    sides = pad_sides(pipeline, inputs, None)
    return {side: collate_tokens(rows, pipeline.device) for side, rows in sides.items()}


def _repeat(batch: Batch, n: int) -> Batch:
    """A batch of one text without padding, n times."""
    return {side: PaddedBatch(rows.input_ids.expand(n, -1), None) for side, rows in batch.items()}


def _replace_one_each(indices: Tensor, other: Tensor | None) -> Edit:
    """An edit of (R, n, ...): run r has head or token indices[r] of `other` (1, n, ...), or 0."""

    def edit(x: Tensor) -> Tensor:
        changed = x.clone()
        changed[torch.arange(len(indices)), indices] = 0 if other is None else other[0, indices]
        return changed

    return edit
