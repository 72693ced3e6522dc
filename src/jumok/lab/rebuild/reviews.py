"""The text of `nsmc-text`: the Naver movie reviews of the raw crawl that are not in `nsmc`."""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import numpy as np

from jumok.lab.rebuild.korean_english import Read
from jumok.lab.rebuild.sources import Source

SEED = 1234
PER_LABEL = 100_000  # reviews of each label in ratings.txt
N_TRAIN = 150_000
# What pandas read back as a missing value, so that such a review became an empty cell.
_MISSING = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN")
) | {"N/A", "NA", "NULL", "NaN", "nan"}

RAW_REVIEWS = Source(
    "e9t/nsmc",
    "cc0670e872d4ac27bfe36c87456783004b39ef6c",
    ("raw",),
    ".json",
    14_730,
    "af8d6e9761cd637fadd35697e67afea664faff3e01380f737645c4f118e3da41",
)


def build_reviews(read: Read) -> Iterator[tuple[str, bytes]]:
    """The name and content of the file of texts, one review a line.

    The labelled reviews are chosen as the corpus `nsmc` was: 9 and 10 of 10 are positive, 1 to 4
    negative, 100,000 of each, at random. Left out are they, duplicates, every text of the test
    set, and the lines of `left_out_positions`.
    """
    reviews: list[tuple[str, str, int]] = []
    for content in read(RAW_REVIEWS).values():
        for review in json.loads(content):
            text = re.sub(r"\s+", " ", review["review"])
            reviews.append((review["review_id"], text, int(review["rating"])))
    labelled = [review for review in reviews if review[2] > 8 or review[2] < 5]
    order = np.random.RandomState(SEED).permutation(len(labelled))  # as the corpus was made
    shuffled = [labelled[i] for i in order]
    positive = [review for review in shuffled if review[2] > 8][:PER_LABEL]
    negative = [review for review in shuffled if review[2] < 5][:PER_LABEL]
    chosen = positive + negative
    order = np.random.RandomState(SEED).permutation(len(chosen))
    test = {_cell(chosen[i][1]).strip() for i in order[N_TRAIN:]}
    used, seen = {number for number, _, _ in chosen}, set[str]()
    lines: list[str] = []
    for number, review_text, _ in reviews:
        text = review_text.strip()
        if number not in used and text and text not in test and text not in seen:
            seen.add(text)
            lines.append(f"{text}\n")
    for position in sorted(left_out_positions(), reverse=True):
        del lines[position : position + 1]
    yield "unlabelled.txt", "".join(lines).encode()


def left_out_positions() -> list[int]:
    """The positions, from 0, of 9,999 lines that were taken out at random when the corpus was made.

    No rule gives them, so `left_out_reviews.txt` lists the distance of each from the one before.
    """
    text = (Path(__file__).parent / "left_out_reviews.txt").read_text(encoding="ascii")
    return [total - 1 for total in accumulate(map(int, text.split()))]


def _cell(text: str) -> str:
    return "" if text in _MISSING else text
