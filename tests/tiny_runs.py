"""Tiny corpora and their recipes, trained in seconds."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path

SUBJECTS = ("이 영화", "연기가", "음악이", "결말이", "배우들이", "화면이", "이야기가")
GOOD = ("재미있어요", "최고예요 ㅋㅋ", "감동이에요", "추천합니다", "좋았어요")
BAD = ("지루해요", "최악이에요", "아까워요 ㅠㅠ", "별로예요", "실망했어요")
DIGITS = dict(zip("영일이삼사오육칠팔구", "0123456789", strict=True))

REVIEWS = """
name = "reviews"
task = "classification"

[data]
train = "{folder}/train.tsv"
dev = "{folder}/dev.tsv"
test = "{folder}/test.tsv"

[vocabulary]
size = 66

[model]
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 1
dropout = 0.1
max_length = 16

[training]
steps = 40
batch_tokens = 256
learning_rate = 0.02
schedule = "cosine"
warmup_steps = 5
evaluate_every = 20
precision = "float32"
log_every = 5
"""

READING = """
name = "reading"
task = "sequence_to_sequence"

[data]
train = "{folder}/train.tsv"
dev = "{folder}/dev.tsv"
test = "{folder}/test.tsv"

[vocabulary]
size = 45

[model]
kind = "encoder_decoder"
d_model = 32
n_heads = 2
d_ff = 64
n_layers = 1
dropout = 0.0
max_length = 24

[training]
steps = 60
batch_tokens = 512
learning_rate = 0.01
schedule = "cosine"
warmup_steps = 5
evaluate_every = 30
precision = "float32"
log_every = 10
"""

LANGUAGE = """
name = "language"
task = "language_modeling"

[data]
train = "{folder}/train.txt"
dev = "{folder}/dev.txt"
test = "{folder}/test.txt"

[vocabulary]
size = 66

[model]
kind = "decoder"
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 1
dropout = 0.0
max_length = 16

[training]
steps = 20
batch_tokens = 256
learning_rate = 0.02
warmup_steps = 5
evaluate_every = 10
precision = "float32"
"""

Row = tuple[str, str]


def reviews(n: int, seed: int) -> list[Row]:
    """Reviews and their labels; half of them are positive."""
    rng = random.Random(seed)
    rows = []
    for number in range(n):
        overrides = (GOOD, BAD)[number % 2]
        adverb = rng.choice(("", "정말 ", "너무 "))
        text = f"{rng.choice(SUBJECTS)} {adverb}{rng.choice(overrides)}"
        rows.append((text, ("positive", "negative")[number % 2]))
    return rows


def readings(n: int, seed: int) -> list[Row]:
    """Spoken digits and their numerals: 삼 일 오 -> 3 1 5."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        spoken = rng.choices(list(DIGITS), k=rng.randint(1, 6))
        rows.append((" ".join(spoken), " ".join(DIGITS[word] for word in spoken)))
    return rows


def write_tsv(path: Path, header: Row, rows: Iterable[Row]) -> Path:
    """A TSV file of two columns."""
    lines = ["\t".join(row) for row in (header, *rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_reviews(folder: Path) -> Path:
    """Write the corpus of reviews to `folder`; return the path of its recipe."""
    return _write(folder, REVIEWS, ("text", "label"), reviews)


def write_readings(folder: Path) -> Path:
    """Write the corpus of readings to `folder`; return the path of its recipe."""
    return _write(folder, READING, ("source", "target"), readings)


def write_language(folder: Path) -> Path:
    """Write the texts of reviews, one a line, to `folder`; return the path of their recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, n) in enumerate([("train", 120), ("dev", 30), ("test", 40)]):
        lines = "".join(f"{text}\n" for text, _ in reviews(n, seed))
        (folder / f"{split}.txt").write_text(lines, encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(LANGUAGE.format(folder=folder), encoding="utf-8")
    return path


def _write(folder: Path, recipe: str, header: Row, rows: Callable[[int, int], list[Row]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, n) in enumerate([("train", 120), ("dev", 30), ("test", 40)]):
        write_tsv(folder / f"{split}.tsv", header, rows(n, seed))
    path = folder / "recipe.toml"
    path.write_text(recipe.format(folder=folder), encoding="utf-8")
    return path
