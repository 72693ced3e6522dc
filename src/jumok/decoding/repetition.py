"""Repetition loops: a text that ends in the same tokens over and over."""

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 256  # tokens of one round that are looked for
LEAST = 12  # tokens a loop holds at least: "ㅋㅋㅋㅋ" is still a text
ROUNDS = 3  # and rounds


@dataclass(frozen=True)
class Loop:
    """From the token `start` to the end the same `period` tokens come `rounds` times."""

    start: int
    period: int
    rounds: float

    def __str__(self) -> str:
        return f"from token {self.start} on, {self.period} tokens repeat {self.rounds:.1f} times"


def find_loop(ids: Sequence[int]) -> Loop | None:
    """The loop that `ids` end in, the shortest round of all; None when they end in none.

    >>> print(find_loop([1, 2, *[7, 8] * 10]))
    from token 2 on, 2 tokens repeat 10.0 times
    >>> find_loop([1, 2, 3, 7, 7, 7])
    """
    for period in range(1, min(LONGEST, len(ids) // ROUNDS) + 1):
        start = len(ids) - period
        while start > 0 and ids[start - 1] == ids[start - 1 + period]:
            start -= 1
        length = len(ids) - start
        if length >= max(ROUNDS * period, LEAST):
            return Loop(start, period, length / period)
    return None
