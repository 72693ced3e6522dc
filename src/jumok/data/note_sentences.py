"""The built-in `note` corpus: short Korean sentences and their English translation, generated.

A grammar small enough for a model of 50,000 weights to learn in two minutes, with sentences of
unequal length and words in different orders. Many sentences have more than one right translation:
Korean has no articles, 너무 is "too" or "very", and an adverb has two places. `{Winter|The winter}`
are two wordings: train has the first in seven sentences of ten, dev and test have it alone. So a
trained model is uncertain where a translator is. The course uses the model trained on it.

| Korean                       | English                       |
|------------------------------|-------------------------------|
| 겨울은 추워요.               | Winter is cold.               |
| 감기 조심하세요.             | Watch out for colds.          |
| 나는 집으로 재빠르게 간다.   | I go home quickly.            |
| 시간은 화살처럼 날아간다.    | Time flies like an arrow.     |
| 이 영화 정말 재미있어요.     | This movie is really fun.     |
| 겨울이 정말 좋아요.          | I really like winter.         |
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from jumok.errors import DataError

SPLITS = ("train", "dev", "test")

FIRST = 0.7  # how often train has the first of two wordings

_WORDINGS = re.compile(r"\{(.*?)\|(.*?)\}")


def sentences() -> list[list[tuple[str, str]]]:
    """Every Korean sentence with its wordings, all distinct, one list for each pattern."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    grammar = tomllib.loads(text)
    return [list(_sentences(pattern, grammar["words"])) for pattern in grammar["patterns"]]


def _sentences(
    pattern: Mapping[str, Any], words: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """The sentences of a pattern with every combination of its words."""
    for chosen in product(*(words[table].items() for table in pattern["words"])):
        korean, english = zip(*chosen, strict=True)
        has_ly = any(word.endswith("ly") for word in english)
        form = pattern.get("adverb_ly" if has_ly else "english", pattern["english"])
        yield pattern["korean"].format(*korean), form.format(*english)


def generate(split: str, n: int, seed: int = 0) -> list[tuple[str, str]]:
    """`n` (Korean, English) pairs of a split; in train they repeat, elsewhere all are distinct.

    In train every pattern is equally frequent, and the wordings are drawn. One sentence in ten
    belongs to dev, one to test. Raises InputError for an unknown split.

    >>> generate("test", 1)
    [('가을은 조금 시원해요.', 'Autumn is a little cool.')]
    """
    if split not in SPLITS:
        raise DataError(
            "data.unknown_split",
            "split must be one of {splits}, got {split!r}",
            splits=", ".join(SPLITS),
            split=split,
        )
    rng = Random(f"jumok note {split} {seed}")
    patterns = [[pair for pair in pairs if _split(pair[0]) == split] for pairs in sentences()]
    if split == "train":
        drawn = [rng.choice(rng.choice(patterns)) for _ in range(n)]
        return [(korean, _worded(english, rng)) for korean, english in drawn]
    distinct = [(korean, _worded(english)) for pairs in patterns for korean, english in pairs]
    return rng.sample(distinct, k=min(n, len(distinct)))


def _worded(english: str, rng: Random | None = None) -> str:
    """The first wordings, or drawn ones."""
    return _WORDINGS.sub(lambda found: found[1 if not rng or rng.random() < FIRST else 2], english)


def _split(korean: str) -> str:
    part = int.from_bytes(sha256(korean.encode()).digest()[:8], "big") % 10
    return {0: "dev", 1: "test"}.get(part, "train")
