"""What was written: the tokens, how likely the model found each, and whether it came to an end."""

from dataclasses import dataclass, field

from jumok.decoding.repetition import Loop


@dataclass(frozen=True)
class Written:
    """One sequence: its tokens without [BOS] and [EOS], and the sum of their log-probabilities.

    `finished` tells that [EOS] or a stop text was written; the log-probability of [EOS] is part of
    the score, and the last of `log_probabilities`. All are natural logarithms and the model's own,
    whatever was changed to choose the tokens. `rank` is what n-best answers are ordered by.

    >>> Written([5, 6], score=-1.0, finished=True, log_probabilities=[-0.5, -0.25, -0.25]).loop
    """

    ids: list[int]
    score: float
    finished: bool
    log_probabilities: list[float] = field(default_factory=list)
    rank: float = 0.0
    loop: Loop | None = None  # the same tokens over and over at the end, if that happened
