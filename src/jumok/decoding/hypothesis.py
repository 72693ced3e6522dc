"""Hypothesis: generated tokens, their log-probabilities, and whether they reached an end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_PERIOD = 256  # tokens; longer repetitions are not searched for
MIN_TOKENS = 12  # of a repetition loop: "ㅋㅋㅋㅋ" is not one
MIN_REPEATS = 3  # of a repetition loop


@dataclass(frozen=True)
class RepetitionLoop:
    """From the token `start` to the end the same `period` tokens come `repeats` times."""

    start: int
    period: int
    repeats: float

    def __str__(self) -> str:
        return f"from token {self.start} on, {self.period} tokens repeat {self.repeats:.1f} times"


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence, without [BOS] and [EOS], and the sum of its log-probabilities.

    `finished` is True if it ended with [EOS] or a stop string. The log-probability of [EOS] is
    part of the score, and the last of `log_probabilities`. All are natural logarithms of the
    model's own probabilities, before any processor. `rank` orders the hypotheses of a beam.

    >>> print(Hypothesis([5, *[6, 7] * 8], score=-1.0, finished=False).loop)
    from token 1 on, 2 tokens repeat 8.0 times
    """

    ids: list[int]
    score: float
    finished: bool
    log_probabilities: list[float] = field(default_factory=list)
    rank: float = 0.0
    # (T, S): cross-attention of each token, [EOS] included, rounded, if the decoder kept it
    attention: list[list[float]] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_tokens(
        cls, ids: Sequence[int], log_p: Sequence[float], end_id: int, finished: bool, rank: float
    ) -> "Hypothesis":
        """A hypothesis from all its tokens and their log-probabilities, the end token included.

        >>> Hypothesis.from_tokens([5, 3], [-0.25, -0.5], 3, finished=True, rank=-0.375).score
        -0.75
        """
        kept = ids[:-1] if ids and ids[-1] == end_id else ids
        return cls(list(kept), float(sum(log_p)), finished, list(log_p), rank)

    @property
    def loop(self) -> RepetitionLoop | None:
        """The repetition loop at the end; None if there is none."""
        return find_repetition(self.ids)


def find_repetition(ids: Sequence[int]) -> RepetitionLoop | None:
    """The loop of the shortest period at the end of `ids`; None if there is none.

    >>> print(find_repetition([1, 2, *[7, 8] * 10]))
    from token 2 on, 2 tokens repeat 10.0 times
    >>> find_repetition([1, 2, 3, 7, 7, 7])
    """
    for period in range(1, min(MAX_PERIOD, len(ids) // MIN_REPEATS) + 1):
        start = len(ids) - period
        while start > 0 and ids[start - 1] == ids[start - 1 + period]:
            start -= 1
        length = len(ids) - start
        if length >= max(MIN_REPEATS * period, MIN_TOKENS):
            return RepetitionLoop(start, period, length / period)
    return None
