"""Repetition loops: a text that ends in the same tokens over and over."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_PERIOD = 256  # tokens of one round that are looked for
MIN_TOKENS = 12  # tokens a loop holds at least: "ㅋㅋㅋㅋ" is still a text
MIN_REPEATS = 3  # and rounds


@dataclass(frozen=True)
class RepetitionLoop:
    """From the token `start` to the end the same `period` tokens come `rounds` times."""

    start: int
    period: int
    repeats: float

    def __str__(self) -> str:
        return f"from token {self.start} on, {self.period} tokens repeat {self.repeats:.1f} times"


def find_repetition(ids: Sequence[int]) -> RepetitionLoop | None:
    """The loop that `ids` end in, the shortest round of all; None when they end in none.

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
