"""The steps of a writing: what was likely at each, what was chosen, and the tree of hypotheses.

Shapes: B rows being written, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.decoding import Hypothesis, StepResult
from jumok.interpret.schema import Beam, Candidate, Chosen, Step
from jumok.text.tokenizer import Tokenizer, piece_or_empty

TOP_K = 10  # tokens that a step shows

ROOT = 0  # the hypothesis that holds nothing yet
NONE = -1  # in place of one: a row that only fills the batch

Probabilities = list[tuple[int, float]]  # token, probability; the likeliest first


@dataclass(frozen=True)
class _Hypothesis:
    """A node of the tree: one token more than its parent."""

    parent: int
    token: int
    log_probability: float  # the model's own
    score: float
    ended: bool


@dataclass(frozen=True)
class _Row:
    """One row of a step: the hypothesis it goes on from, and what may follow."""

    hypothesis: int
    before: Probabilities
    after: Probabilities


@dataclass(frozen=True)
class _Seen:
    """One step: its rows, and the hypotheses (from `first` on) that came of them."""

    cached: int
    rows: list[_Row]
    first: int


class StepRecorder:
    """An `StepCallback` that keeps every step of the writing of one text.

    seen = StepRecorder()
    [[answer]] = generate(writer, opening, config, processors, callback=seen)
    seen.steps(answer, vocabulary)
    """

    def __init__(self) -> None:
        self._tree = [_Hypothesis(ROOT, NONE, 0.0, 0.0, ended=False)]
        self._at = [ROOT]  # the hypothesis in each row
        self._log_p = torch.zeros(0)
        self._seen: list[_Seen] = []

    def on_scores(self, cached: int, log_p: Tensor, scores: Tensor) -> None:
        """Keep what is likely in each row: (B, V), (B, V)."""
        if len(self._at) < len(log_p):  # several answers begin alike
            self._at = self._at * len(log_p)
        before = log_p.softmax(-1)  # alike in every digit where nothing was changed
        after = scores.softmax(-1).nan_to_num(0.0)  # NaN: everything is forbidden
        rows = [
            _Row(at, *_likeliest(*both)) for at, *both in zip(self._at, before, after, strict=True)
        ]
        self._log_p = log_p
        self._seen.append(_Seen(cached, rows, first=len(self._tree)))

    def on_step(self, continuations: StepResult) -> None:
        """Let the tree grow."""
        row, token = continuations.row, continuations.token
        parts = (row, token, self._log_p[row, token], continuations.score, continuations.ended)
        going = []
        for place, id_, gain, score, ended in zip(*(x.tolist() for x in parts), strict=True):
            number = NONE
            if score > float("-inf"):
                number = len(self._tree)
                self._tree.append(_Hypothesis(self._at[place], id_, gain, score, ended))
            if not ended:
                going.append(number)
        self._at = going

    def steps(self, answer: Hypothesis, vocabulary: Tokenizer) -> tuple[Step, ...]:
        """All steps, in the light of the answer that came of them."""
        path = self._path(self._leaf(answer))
        ends = [*(seen.first for seen in self._seen[1:]), len(self._tree)]
        return tuple(
            self._step(seen, range(seen.first, end), path, vocabulary)
            for seen, end in zip(self._seen, ends, strict=True)
        )

    def _step(self, seen: _Seen, new: range, path: Sequence[int], vocabulary: Tokenizer) -> Step:
        chosen = next((self._tree[number] for number in new if number in path), None)
        parent = seen.rows[0].hypothesis if chosen is None else chosen.parent
        row = next(row for row in seen.rows if row.hypothesis == parent)
        return Step(
            cache=seen.cached,
            before=_candidates(row.before, vocabulary),
            after=_candidates(row.after, vocabulary),
            chosen=None if chosen is None else _chosen(chosen, vocabulary),
            beams=tuple(self._beam(number, number in path, vocabulary) for number in new),
        )

    def _beam(self, number: int, best: bool, vocabulary: Tokenizer) -> Beam:
        one = self._tree[number]
        return Beam(
            id=number,
            parent=one.parent,
            token=one.token,
            piece=piece_or_empty(vocabulary, one.token),
            score=one.score,
            ended=one.ended,
            best=best,
        )

    def _path(self, number: int) -> list[int]:
        """The hypotheses from the first token to this one."""
        path = []
        while number != ROOT:
            path.append(number)
            number = self._tree[number].parent
        return path[::-1]

    def _leaf(self, answer: Hypothesis) -> int:
        """The hypothesis that is the answer: the first that holds its tokens, and as many."""
        n = len(answer.log_probabilities)
        if n == 0:
            return ROOT
        end = self._seen[n].first if n < len(self._seen) else len(self._tree)
        for number in range(self._seen[n - 1].first, end):
            tokens = [self._tree[each].token for each in self._path(number)]
            if tokens[: len(answer.ids)] == answer.ids:
                return number
        raise AssertionError("what was written is not among what was looked at")


def _likeliest(before: Tensor, after: Tensor) -> tuple[Probabilities, Probabilities]:
    """The likeliest tokens before and after, (V) each; the second names those of the first too."""
    first, then = (_pairs(p.topk(min(TOP_K, len(p)))) for p in (before, after))
    allowed = dict(pair for pair in then if pair[1] > 0)
    others = [(id_, float(after[id_])) for id_, _ in first if id_ not in allowed]
    return first, [*allowed.items(), *others]


def _pairs(top: "torch.return_types.topk") -> Probabilities:
    return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))


def _candidates(found: Probabilities, vocabulary: Tokenizer) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(id=id_, piece=piece_or_empty(vocabulary, id_), probability=p) for id_, p in found
    )


def _chosen(one: _Hypothesis, vocabulary: Tokenizer) -> Chosen:
    return Chosen(
        id=one.token,
        piece=piece_or_empty(vocabulary, one.token),
        log_probability=one.log_probability,
    )
