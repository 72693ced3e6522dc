"""Make the pairs of `koen-small` and `enko-small` from their sources, none of them held out."""

import hashlib
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.data.config import DataConfig
from jumok.data.corpora.corpus import Corpus
from jumok.data.corpora.korean_english import (
    INTO_KOREAN_SOURCES,
    PAIR_SOURCES,
    PairSource,
)
from jumok.data.files.tables import read_table
from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES
from jumok.lab.assemble import HeldOut
from jumok.lab.assemble_korean import source_lines, source_path
from jumok.lab.everyday.grammar import Pair, generate
from jumok.lab.terms import in_sentence, is_name, read_terms

DEV_OF_THOUSAND = 50  # of the English sentences of the source everyday
DEV_DOCS = 300  # sentences of the documentation in the development pairs
COLUMNS = {"source": "ko", "target": "en"}
EVERYDAY = Path(__file__).parent / "everyday"
OWN_FILES = {  # by source
    "short": "pairs.tsv",
    "sentences": "sentences.tsv",
    "words": "glossary.tsv",
    "translated": "translated.tsv.xz",
}
N_COPIED, N_JOINED = 6_000, 6_000

_FINAL = " .!?…~"
_DOMAINS = "com", "org", "kr", "io"
_MOODS = "~", "!!", " ㅎㅎ", " ㅋㅋ", "^^", ".."
_POLITE = re.compile(r"(요|죠|니다|니까|시오|시다)[\W_]*$")
_SENTENCE = re.compile(r"[A-Za-z][A-Za-z0-9 ,.'()/-]{20,80}\.")


@dataclass
class PairCounts:
    """The pairs of a source: read, left out for a held-out sentence, and written with copies."""

    read: int = 0
    held_out: int = 0
    written: int = 0


def assemble_translation(folder: Path, corpus: Corpus) -> dict[str, PairCounts]:
    """Write the training and the development pairs of a corpus; the counts of each source.

    `corpus` is `koen-small` or `enko-small`. The same sources give the same bytes. Raises DataError
    for a source that is not there.
    """
    into_korean = corpus.name == "enko-small"
    everyday = next(source for source in PAIR_SOURCES if source.name == "everyday")
    dev = _dev_pairs(_pairs(everyday))
    known = HeldOut([*evaluation_sentences(), *(side for pair in dev for side in pair)])
    rng = random.Random(0)
    counts: dict[str, PairCounts] = {}
    rows: list[Pair] = []
    for source in INTO_KOREAN_SOURCES if into_korean else PAIR_SOURCES:
        count = counts[source.name] = PairCounts()
        kept = []
        for pair in _pairs(source):
            count.read += 1
            if any(known.repeated_in(side) for side in pair):
                count.held_out += 1
            else:
                kept.append(pair)
        if into_korean:
            written = list(_copies_into_korean(source, kept, rng))
        else:
            written = list(_copies(source, kept, rng))
        if source.templates:
            written += _sentences_of_names(kept)
        count.written = len(written)
        rows += written
    rng.shuffle(rows)
    folder.mkdir(parents=True, exist_ok=True)
    dev += _file_pairs("koen/tatoeba.dev.tsv")
    dev += list(_file_pairs("koen/docs.dev.tsv"))[:DEV_DOCS]
    for file, pairs in zip(corpus.files[:2], (rows, dev), strict=True):
        lines = ["ko\ten", *map("\t".join, pairs)]
        write_atomically(folder / file.name, ("\n".join(lines) + "\n").encode())
    return counts


def evaluation_sentences() -> Iterator[str]:
    """Both sides of every dev and test pair that no training pair may repeat."""
    for corpus in ("koen", "koen-flores"):
        splits = load_splits(DataConfig(corpus=corpus), SEQUENCES)
        for name, table in splits.tables.items():
            if name != "train":
                yield from table.column("source")
                yield from table.column("target")
    for pair in _file_pairs("koen-open/jhe.dev.tsv"):
        yield from pair


def _pairs(source: PairSource) -> Iterator[Pair]:
    """The pairs of a source, each once."""
    if source.name == "grammar":
        yield from generate(source.rows, seed=0)
    elif source.name == "copied":
        yield from _copied()
    elif source.name == "terms":
        files = (f"korean/wiki-{number}.txt" for number in range(1, 5))
        yield from read_terms(
            line.content.decode() for file in files for line in source_lines(source.name, file)
        )
    elif source.name in OWN_FILES:
        yield from _read_pairs(EVERYDAY / OWN_FILES[source.name])
    else:
        pairs = list(_file_pairs(source.file))
        if source.ranges:
            pairs = [pair for first, stop in source.ranges for pair in pairs[first:stop]]
        if source.rows:
            short = (pair for pair in pairs if len(pair[0]) <= source.longest)
            pairs = sorted(short, key=lambda pair: _hash(pair[1]))[: source.rows]
        yield from pairs


def _copies(source: PairSource, pairs: list[Pair], rng: random.Random) -> Iterator[Pair]:
    """The pairs of a source, repeated; copies of everyday sentences vary."""
    for pair in pairs:
        yield pair
        for _ in range(source.copies - 1):
            yield vary(pair, rng) if source.varies else pair
    for _ in range(source.joined):
        one, two = (vary_end(pair) for pair in rng.sample(pairs, 2))
        yield f"{one[0]} {two[0]}", f"{one[1]} {two[1]}"


def _sentences_of_names(terms: list[Pair]) -> list[Pair]:
    """A sentence for each term that is a name."""
    names = [pair for pair in terms if is_name(pair[1])]
    return [in_sentence(*pair, number) for number, pair in enumerate(names)]


def _copies_into_korean(
    source: PairSource, pairs: list[Pair], rng: random.Random
) -> Iterator[Pair]:
    """The pairs of a source for Korean targets: mostly polite, each with a final mark.

    A source with several levels of speech has polite sentences only, and of others those are
    repeated. English sentences are not their own translation.
    """
    if source.name == "copied":
        pairs = [pair for pair in pairs if not _SENTENCE.fullmatch(pair[1]) and "." in pair[1]]
    if not source.varies:
        for pair in pairs:
            yield from [pair] * source.copies
        return
    polite = []
    for pair in map(vary_end, pairs):
        if is_polite(pair[0]):
            polite.append(pair)
        elif not source.levels:
            yield pair
    for pair in polite:
        yield pair
        for _ in range(source.copies - 1):
            yield pair[0], vary_english(pair[1], rng)
    for _ in range(source.joined):
        one, two = rng.sample(polite, 2)
        yield f"{one[0]} {two[0]}", f"{one[1]} {two[1]}"


def is_polite(korean: str) -> bool:
    """Whether a sentence ends as one does to strangers (-요, -니다).

    >>> is_polite("집에 가요."), is_polite("집에 간다.")
    (True, False)
    """
    return _POLITE.search(korean) is not None


def vary_english(english: str, rng: random.Random) -> str:
    """A sentence as people type it: some without the final mark, some in lower case.

    >>> vary_english("I'm going home.", random.Random(1))
    "i'm going home."
    """
    chance = rng.random()
    if chance < 0.3:
        english = english.lower()
    if 0.15 < chance < 0.5:
        english = english.rstrip(_FINAL) or english
    return english


def vary(pair: Pair, rng: random.Random) -> Pair:
    """A pair as people type it: without the final mark, with one, without a space, with ~ or ㅎㅎ.

    >>> vary(("집에 가요.", "I'm going home."), random.Random(1))
    ('집에 가요', "I'm going home.")
    """
    korean, english = pair
    chance = rng.random()
    if chance < 0.35:
        return korean.rstrip(_FINAL) or korean, english
    if chance < 0.55:
        return vary_end(pair)
    if chance < 0.7:
        words = korean.split(" ")
        at = 0 if len(words) < 4 else rng.randrange(len(words))
        end = len(words) if len(words) < 4 else at + 2
        return " ".join([*words[:at], "".join(words[at:end]), *words[end:]]), english
    if chance < 0.76:
        return (korean.rstrip(_FINAL) or korean) + rng.choice(_MOODS), english
    return pair


def vary_end(pair: Pair) -> Pair:
    """A pair whose Korean ends with a mark: that of the English, or a full stop.

    >>> vary_end(("어디 가", "Where are you going?"))
    ('어디 가?', 'Where are you going?')
    """
    korean, english = pair
    if korean[-1] in _FINAL:
        return pair
    return korean + (english[-1] if english[-1] in ".!?" else "."), english


def _copied() -> Iterator[Pair]:
    """Text without Korean, which is its own translation: sentences, names, numbers, addresses."""
    rng = random.Random(1)
    sentences = {
        english
        for _, english in _file_pairs("koen-open/mt-docs.tsv")
        if _SENTENCE.fullmatch(english)
    }
    for text in sorted(sentences, key=_hash)[: N_COPIED // 2]:
        yield text, text
    words = sorted({word for text in sentences for word in text.split() if word.isalpha()})
    for _ in range(N_COPIED // 2):
        text = rng.choice((
            rng.choice(words),
            f"{rng.choice(words)} {rng.choice(words)}",
            f"https://{rng.choice(words).lower()}.{rng.choice(_DOMAINS)}/{rng.choice(words)}",
            f"{rng.choice(words).lower()}@{rng.choice(words).lower()}.com",
            str(rng.randrange(10 ** rng.randrange(1, 9))),
            f"{rng.randrange(100)}.{rng.randrange(100)}",
            f"{rng.randrange(1900, 2030)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
            f"{rng.choice(words)}.{rng.choice(('md', 'py', 'txt', 'html'))}",
            f"{rng.choice(words)}_{rng.choice(words).lower()}",
        ))  # fmt: skip
        yield text, text


def _dev_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """The held-out pairs: equal English sentences are on one side."""
    return [pair for pair in pairs if int(_hash(pair[1]), 16) % 1000 < DEV_OF_THOUSAND]


def _file_pairs(file: str) -> Iterator[Pair]:
    yield from _read_pairs(source_path(file.rpartition("/")[2], file))


def _read_pairs(path: Path) -> Iterator[Pair]:
    table = read_table(path, COLUMNS)
    yield from zip(table.column("source"), table.column("target"), strict=True)


def _hash(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
