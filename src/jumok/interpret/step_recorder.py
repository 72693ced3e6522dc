"""Record every decoding step: candidates, chosen tokens, and the tree of hypotheses.

Shapes: B rows, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.decoding import Hypothesis, StepResult
from jumok.interpret.schema import Beam, Candidate, Chosen, Step
from jumok.text.tokenizer import Tokenizer, piece_or_empty

TOP_K = 10  # candidates of a step

ROOT = 0  # the id of the empty hypothesis
NONE = -1  # in place of an id: a row that only fills the batch

Probabilities = list[tuple[int, float]]  # token, probability; the highest first


@dataclass(frozen=True)
class _Hypothesis:
    """A node of the tree: one token more than its parent."""

    parent: int
    token: int
    log_probability: float  # of the model, without processors
    score: float
    ended: bool


@dataclass(frozen=True)
class _Row:
    """One row of a step: the hypothesis it extends, and the candidates."""

    hypothesis: int
    before: Probabilities
    after: Probabilities


@dataclass(frozen=True)
class _StepRecord:
    """One step: its rows, and its new hypotheses, whose ids start at `first`."""

    cached: int
    rows: list[_Row]
    first: int


class StepRecorder:
    """A `StepCallback` that records every step of the generation of one text.

    recorder = StepRecorder()
    [[hypothesis]] = generate(decoder, inputs, config, processors, callback=recorder)
    recorder.steps(hypothesis, tokenizer)
    """

    def __init__(self) -> None:
        self._tree = [_Hypothesis(ROOT, NONE, 0.0, 0.0, ended=False)]
        self._rows = [ROOT]  # the hypothesis of each row
        self._log_p = torch.zeros(0)
        self._steps: list[_StepRecord] = []

    def on_scores(self, cached: int, log_p: Tensor, scores: Tensor) -> None:
        """Record the candidates of each row: (B, V), (B, V)."""
        if len(self._rows) < len(log_p):  # several hypotheses start from one row
            self._rows = self._rows * len(log_p)
        before = log_p.softmax(-1)  # equal to `after` in every digit without processors
        after = scores.softmax(-1).nan_to_num(0.0)  # NaN: every token is banned
        rows = [
            _Row(number, *_candidates(*both))
            for number, *both in zip(self._rows, before, after, strict=True)
        ]
        self._log_p = log_p
        self._steps.append(_StepRecord(cached, rows, first=len(self._tree)))

    def on_step(self, result: StepResult) -> None:
        """Add the new hypotheses to the tree."""
        row, token = result.row, result.token
        parts = (row, token, self._log_p[row, token], result.score, result.ended)
        unfinished = []
        for index, id_, log_p, score, ended in zip(*(x.tolist() for x in parts), strict=True):
            number = NONE
            if score > float("-inf"):
                number = len(self._tree)
                self._tree.append(_Hypothesis(self._rows[index], id_, log_p, score, ended))
            if not ended:
                unfinished.append(number)
        self._rows = unfinished

    def steps(self, hypothesis: Hypothesis, tokenizer: Tokenizer) -> tuple[Step, ...]:
        """All steps; `chosen` and `best` refer to the hypothesis that was returned."""
        path = self._path(self._leaf(hypothesis))
        ends = [*(record.first for record in self._steps[1:]), len(self._tree)]
        return tuple(
            self._step(record, range(record.first, end), path, tokenizer)
            for record, end in zip(self._steps, ends, strict=True)
        )

    def _step(
        self, record: _StepRecord, new: range, path: Sequence[int], tokenizer: Tokenizer
    ) -> Step:
        chosen = next((self._tree[number] for number in new if number in path), None)
        parent = record.rows[0].hypothesis if chosen is None else chosen.parent
        row = next(row for row in record.rows if row.hypothesis == parent)
        return Step(
            cache=record.cached,
            before=_to_schema(row.before, tokenizer),
            after=_to_schema(row.after, tokenizer),
            chosen=None if chosen is None else _chosen(chosen, tokenizer),
            beams=tuple(self._beam(number, number in path, tokenizer) for number in new),
        )

    def _beam(self, number: int, best: bool, tokenizer: Tokenizer) -> Beam:
        one = self._tree[number]
        return Beam(
            id=number,
            parent=one.parent,
            token=one.token,
            piece=piece_or_empty(tokenizer, one.token),
            score=one.score,
            ended=one.ended,
            best=best,
        )

    def _path(self, number: int) -> list[int]:
        """The ids of the hypotheses from the first token to this one."""
        path = []
        while number != ROOT:
            path.append(number)
            number = self._tree[number].parent
        return path[::-1]

    def _leaf(self, hypothesis: Hypothesis) -> int:
        """The id of a hypothesis: of the first in the tree with its tokens."""
        n = len(hypothesis.log_probabilities)
        if n == 0:
            return ROOT
        end = self._steps[n].first if n < len(self._steps) else len(self._tree)
        for number in range(self._steps[n - 1].first, end):
            tokens = [self._tree[each].token for each in self._path(number)]
            if tokens[: len(hypothesis.ids)] == hypothesis.ids:
                return number
        raise AssertionError("the hypothesis is not in the tree")


def _candidates(before: Tensor, after: Tensor) -> tuple[Probabilities, Probabilities]:
    """The most probable tokens before and after the processors; the second has those of both."""
    first, then = (_pairs(p.topk(min(TOP_K, len(p)))) for p in (before, after))
    allowed = dict(pair for pair in then if pair[1] > 0)
    others = [(id_, float(after[id_])) for id_, _ in first if id_ not in allowed]
    return first, [*allowed.items(), *others]


def _pairs(top: "torch.return_types.topk") -> Probabilities:
    return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))


def _to_schema(candidates: Probabilities, tokenizer: Tokenizer) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(id=id_, piece=piece_or_empty(tokenizer, id_), probability=p)
        for id_, p in candidates
    )


def _chosen(one: _Hypothesis, tokenizer: Tokenizer) -> Chosen:
    return Chosen(
        id=one.token,
        piece=piece_or_empty(tokenizer, one.token),
        log_probability=one.log_probability,
    )
