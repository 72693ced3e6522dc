"""Draw a part of the rows of a table at random, with the same shares of all labels.

The draw depends on the texts and the seed, not on the order of the rows: the same rows in another
order, or in another format, have the same development split. Shapes: n rows.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.data.files.labels import split_labels
from jumok.data.table import Table
from jumok.unicode_forms import normalize

_INPUTS = ("text", "pair", "source")


def strata_and_keys(table: Table) -> tuple[NDArray[np.int64], Iterator[str]]:
    """The number of the stratum of each row (n,), and the input of each row as one text.

    The stratum is the label; of several labels or of tags it is the rarest one in the table, so
    that rare labels are in both parts. Rows without labels are one stratum.

    >>> table = Table.from_columns({"text": ["가", "나", "다"], "labels": ["1|2", "1", ""]})
    >>> strata, keys = strata_and_keys(table)  # 2, 1 and none
    >>> strata, list(keys)
    (array([2, 1, 0]), ['가', '나', '다'])
    """
    if "label" in table.column_names:
        strata: Iterable[str] = table.column("label")
    elif "labels" in table.column_names:
        strata = _rarest(table.column("labels"), split_labels)
    elif "tags" in table.column_names:
        strata = _rarest(table.column("tags"), lambda cell: sorted({*cell.split(" ")} - {"O"}))
    else:
        return np.broadcast_to(np.int64(0), len(table)), inputs_of(table)
    return ranks(strata, len(table)), inputs_of(table)


def ranks(names: Iterable[str], n: int) -> NDArray[np.int64]:
    """The position of each of `n` names among the distinct ones in order, (n,).

    >>> ranks(["나", "가", "나"], 3)
    array([1, 0, 1])
    """
    first: dict[str, int] = {}
    numbers = np.fromiter((first.setdefault(name, len(first)) for name in names), np.int64, n)
    order = {name: rank for rank, name in enumerate(sorted(first))}
    return np.array([order[name] for name in first], np.int64)[numbers]


def stratified_draw(
    strata: Sequence[str] | NDArray[np.int64], keys: Iterable[str], n_drawn: int, seed: int
) -> NDArray[np.bool_]:
    """Which rows are drawn, (n,): `n_drawn` of them, from each stratum in proportion.

    A stratum of several rows has at least one row in both parts where `n_drawn` allows it. Equal
    inputs of one stratum are in the same part unless the stratum has hardly any others.

    >>> chosen = stratified_draw(["a"] * 8 + ["b"] * 2, map(str, range(10)), 5, seed=0)
    >>> chosen[:8].sum(), chosen[8:].sum()
    (np.int64(4), np.int64(1))
    """
    names, hashes = np.asarray(strata), _hashes(keys, seed, len(strata))
    if len(names) and (names == names[0]).all():
        return _draw(hashes, int(_quotas(np.array([len(names)]), n_drawn)[0]))
    _, stratum, sizes = np.unique(names, return_inverse=True, return_counts=True)
    order = np.lexsort((hashes, stratum))  # one stratum after the other, equal inputs together
    drawn = np.zeros(len(strata), np.bool_)
    start = 0
    for size, quota in zip(sizes.tolist(), _quotas(sizes, n_drawn).tolist(), strict=True):
        rows = order[start : start + size]
        drawn[np.concatenate(_whole_groups(rows, hashes[rows], quota))] = True
        start += size
    return drawn


def _draw(hashes: NDArray[np.uint64], quota: int) -> NDArray[np.bool_]:
    """Which rows of one stratum are drawn, (n,). Only those of low hashes are sorted."""
    drawn = np.zeros(len(hashes), np.bool_)
    share = 2 * quota / len(hashes)  # of the hashes, which are uniform except for equal inputs
    while True:
        rows = np.flatnonzero(hashes <= np.uint64(min(int(share * 2**64), 2**64 - 1)))
        rows = rows[np.argsort(hashes[rows], kind="stable")]
        groups, singles = _whole_groups(rows, hashes[rows], quota)
        if len(groups) == quota or share >= 1:
            drawn[groups] = drawn[singles] = True
            return drawn
        share *= 2


def _whole_groups(
    rows: NDArray[np.int64], hashes: NDArray[np.uint64], quota: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first `quota` of the rows (m,): those of groups of equal hashes that fit, then others."""
    first = np.append(True, hashes[1:] != hashes[:-1])[: len(rows)]  # of a group of equal hashes
    starts = np.flatnonzero(first)
    stops = np.append(starts[1:], len(rows))[: len(starts)]
    chosen, rest = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    for start, stop in zip(starts, stops, strict=True):
        if not quota:
            break
        fits = stop - start <= quota
        (chosen if fits else rest)[start:stop] = True
        quota -= int(stop - start) if fits else 0
    return rows[chosen], rows[rest][:quota]


def _quotas(sizes: NDArray[np.int64], n_drawn: int) -> NDArray[np.int64]:
    """How many rows each stratum gives: proportional, rounded by the largest remainders.

    >>> _quotas(np.array([90, 8, 2]), 10), _quotas(np.array([1, 1, 1]), 1)
    (array([8, 1, 1]), array([1, 0, 0]))
    """
    exact = sizes * (n_drawn / sizes.sum())
    most = np.maximum(sizes - 1, 0)
    quotas: NDArray[np.int64] = np.clip(np.floor(exact).astype(np.int64), np.minimum(1, most), most)
    while missing := n_drawn - int(quotas.sum()):
        if missing < 0:
            least = 1 if int(quotas.max()) > 1 else 0
            open_strata, step = np.flatnonzero(quotas > least), -1
        elif len(open_strata := np.flatnonzero(quotas < most)):
            step = 1
        else:  # only strata of one row are left
            open_strata, step = np.flatnonzero(quotas < sizes), 1
        gaps = step * (exact - quotas)[open_strata]
        nearest = open_strata[np.argsort(-gaps, kind="stable")[: abs(missing)]]
        quotas[nearest] += step
    return quotas


def _rarest(cells: Iterable[str], labels_of: Callable[[str], list[str]]) -> Iterator[str]:
    """The label of each cell that is the rarest in all cells; "" of an empty cell."""
    counts = Counter(label for cell in cells for label in labels_of(cell))
    for cell in cells:
        yield min(labels_of(cell), key=lambda label: (counts[label], label), default="")


def inputs_of(table: Table) -> Iterator[str]:
    """The texts that a model reads of each row, as one text, composed (NFC) as tokenizers do."""
    names = [name for name in _INPUTS if name in table.column_names]
    columns = [map(str, table.cells(name)) for name in names]
    return (normalize("NFC", "\0".join(texts)) for texts in zip(*columns, strict=True))


def _hashes(keys: Iterable[str], seed: int, n: int) -> NDArray[np.uint64]:
    """64 bits of the SHA-256 of the seed and each key, the same on every machine: (n,)."""
    prefix = hashlib.sha256(f"{seed}\0".encode())

    def digest(key: str) -> int:
        found = prefix.copy()
        found.update(key.encode())
        return int.from_bytes(found.digest()[:8])

    return np.fromiter(map(digest, keys), np.uint64, count=n)
