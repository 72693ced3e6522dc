"""The files of `ynat`: news headlines, split by a hash of the headline."""

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator

from jumok.lab.rebuild.korean_english import Read, table
from jumok.lab.rebuild.sources import Source

SEED = "jumok-ynat-1"
HELD_OUT = 2_000  # rows of dev, and of test

HEADLINES = Source(
    "seawavve/daconNewsTopicClassification",
    "e6d6a6f87df09c08054fb29eab12748928a535ff",
    ("preprocessing/train_data.csv",),
    ".csv",
    1,
    "63ab6e45b2412b283a6d26a4e87dc7649e15f7d49dfbc450cf039210a32ea9e3",
)


def build_headlines(read: Read) -> Iterator[tuple[str, bytes]]:
    """The name and content of train, dev and test.

    Headlines that are equal apart from digits, spaces and punctuation are all in train.
    """
    (content,) = read(HEADLINES).values()
    lines = list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))[1:]
    rows = [(number, " ".join(title.split()), label) for number, title, label in lines]
    count = Counter(_letters(title) for _, title, _ in rows)
    alone = [row for row in rows if count[_letters(row[1])] == 1]
    alone.sort(key=lambda row: hashlib.sha1(f"{SEED}{row[1]}".encode()).hexdigest())  # noqa: S324
    chosen = {
        row[0]: "test" if i < HELD_OUT else "dev" for i, row in enumerate(alone[: 2 * HELD_OUT])
    }
    for part in ("train", "dev", "test"):
        kept = [row for row in rows if chosen.get(row[0], "train") == part]
        yield f"{part}.tsv", table(("id", "title", "label"), kept)


def _letters(title: str) -> str:
    return re.sub(r"[\W\d_]+", "", title)
