"""What was written: the tokens, how likely the model found each, and whether it came to an end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jumok.decoding.repetition import RepetitionLoop, find_repetition


@dataclass(frozen=True)
class Hypothesis:
    """One sequence: its tokens without [BOS] and [EOS], and the sum of their log-probabilities.

    `finished` tells that [EOS] or a stop text was written; the log-probability of [EOS] is part of
    the score, and the last of `log_probabilities`. All are natural logarithms and the model's own,
    whatever was changed to choose the tokens. `rank` is what a beam's answers are ordered by.

    >>> print(Hypothesis([5, *[6, 7] * 8], score=-1.0, finished=False).loop)
    from token 1 on, 2 tokens repeat 8.0 times
    """

    ids: list[int]
    score: float
    finished: bool
    log_probabilities: list[float] = field(default_factory=list)
    rank: float = 0.0

    @property
    def loop(self) -> RepetitionLoop | None:
        """The same tokens over and over at the end, if that happened."""
        return find_repetition(self.ids)


def hypothesis(
    ids: Sequence[int], log_p: Sequence[float], end_id: int, finished: bool, rank: float
) -> Hypothesis:
    """What was written, from all its tokens and their log-probabilities, the end among them.

    >>> written([5, 3], [-0.25, -0.5], end_id=3, finished=True, rank=-0.375).score
    -0.75
    """
    kept = ids[:-1] if ids and ids[-1] == end_id else ids
    return Hypothesis(list(kept), float(sum(log_p)), finished, list(log_p), rank)
