"""Split sentence pairs so that no dev or test sentence, nor one much like it, is in train."""

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

SEED = "jumok-koen-1"
MAX_SIMILARITY = 0.7  # Jaccard similarity of word sets
MIN_WORDS = 4

Row = tuple[str, ...]  # id, Korean, English, and more


def split_pairs(rows: Sequence[Row], dev: int, test: int) -> dict[str, list[Row]]:
    """The rows of train, dev and test.

    Pairs that share a side, apart from digits, case, spaces and punctuation, form one group; dev
    and test take groups of one pair, in the order of sha1(seed + id).
    """
    groups = _Groups()
    for row in rows:
        groups.join(f"k{_key(row[1])}", f"e{_key(row[2])}")
    size = Counter(groups.of(f"k{_key(row[1])}") for row in rows)
    alone = [row for row in rows if size[groups.of(f"k{_key(row[1])}")] == 1]
    alone.sort(key=lambda row: hashlib.sha1(f"{SEED}{row[0]}".encode()).hexdigest())  # noqa: S324
    chosen = {row[0]: "test" if i < test else "dev" for i, row in enumerate(alone[: test + dev])}
    parts: dict[str, list[Row]] = {"train": [], "dev": [], "test": []}
    for row in rows:
        parts[chosen.get(row[0], "train")].append(row)
    parts["train"] = far_from(parts["train"], [*parts["dev"], *parts["test"]])
    return parts


def far_from(train: Sequence[Row], held_out: Sequence[Row]) -> list[Row]:
    """The rows whose word sets are less than MAX_SIMILARITY alike to every held-out row's.

    Two sets this similar share one of their rarest words, so only such rows are compared.

    >>> english = "it rains a lot today"
    >>> far_from([("a", "비가 온다", english)], [("b", "눈", english)])
    []
    """
    dropped: set[int] = set()
    for side in (1, 2):
        words = [_words(row[side]) for row in train]
        probes = [_words(row[side]) for row in held_out]
        frequency = Counter(word for found in words + probes for word in found)

        index: dict[str, list[int]] = defaultdict(list)
        for i, found in enumerate(words):
            for word in _rarest(found, frequency):
                index[word].append(i)
        for probe in probes:
            if len(probe) < MIN_WORDS:
                continue
            for i in {i for word in _rarest(probe, frequency) for i in index.get(word, ())}:
                if len(probe & words[i]) >= MAX_SIMILARITY * len(probe | words[i]):
                    dropped.add(i)
    return [row for i, row in enumerate(train) if i not in dropped]


def _rarest(words: frozenset[str], frequency: Counter[str]) -> list[str]:
    n = len(words) - math.ceil(MAX_SIMILARITY * len(words)) + 1
    return sorted(words, key=lambda word: (frequency[word], word))[:n]


class _Groups:
    """Disjoint sets of keys."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def of(self, key: str) -> str:
        """The representative of the group of a key."""
        while self._parent.setdefault(key, key) != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key

    def join(self, first: str, second: str) -> None:
        """Put both groups together."""
        self._parent[self.of(first)] = self.of(second)


def _key(text: str) -> str:
    return re.sub(r"[\W_]+", "", re.sub(r"\d+", "0", text.lower()))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))
