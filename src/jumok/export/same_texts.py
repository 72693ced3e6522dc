"""Whether two programs write the same texts, and if not, whether that was a tie."""

from collections.abc import Callable, Sequence

from jumok.export.report import Searched

TIE = 1e-5  # of log p: choices no further apart are equally good

Ids = Sequence[int]
LogP = Callable[[int, Ids], Sequence[float]]
"""number of a text, what is written for it: log p of each token, of the end behind them too."""


def searched(
    beam: int, ours: Sequence[Ids], theirs: Sequence[Ids], log_p: LogP, limit: int
) -> Searched:
    """Text by text, the end left out; none has more than `limit` tokens, the end among them.

    Where greedy texts part, the two tokens are a tie when we find them equally likely; texts of a
    beam are one when we rank them the same, by the mean log p of their tokens.

    >>> fair = lambda text, ids: [-0.5] * (len(ids) + 1)
    >>> searched(1, [[5, 6], [7]], [[5, 6], [8, 9]], fair, limit=9)
    Searched(search='greedy', n=2, equal=1, ties=('text 1: from token 0 on, 0.000000 apart',), \
others=())
    """
    ties: list[str] = []
    others: list[str] = []
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if list(mine) == list(other):
            continue
        a, b = log_p(number, mine)[:limit], log_p(number, other)[:limit]
        parted = next(k for k in range(limit) if mine[k : k + 1] != other[k : k + 1])
        apart = abs(a[parted] - b[parted]) if beam == 1 else abs(_mean(a) - _mean(b))
        told = f"text {number}: from token {parted} on, {apart:.6f} apart"
        (ties if apart <= TIE else others).append(told)
    name = "greedy" if beam == 1 else f"beam {beam}"
    equal = len(ours) - len(ties) - len(others)
    return Searched(name, len(ours), equal, tuple(ties), tuple(others))


def _mean(log_p: Sequence[float]) -> float:
    return sum(log_p) / len(log_p)
