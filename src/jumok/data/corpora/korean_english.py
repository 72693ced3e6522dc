"""Parallel Korean and English sentences: documentation, everyday sentences, verses, news."""

from jumok.data.corpora.corpus import Corpus, CorpusFile, RowRange

_FILES = {  # SHA-256 and bytes
    "docs.train": (
        "da1b894858f00c0f3d2b2b1136926a2e7eedf351341c872a3f0ad22c1602fee5",
        12_745_619,
    ),
    "docs.dev": (
        "a8e5076dc3f038fb33fc96a5225ad2b07b990009e6ef14641eeeb8d7a360c123",
        341_237,
    ),
    "docs.test": (
        "03364dc1607b451a643e9f1c6c26c07cc7b073484334304c65c839589f419936",
        346_633,
    ),
    "tatoeba.train": (
        "3c58a112c061c75a1056290478865ce522ddabcae2004ba804cfaf91df9b7bfd",
        358_992,
    ),
    "tatoeba.dev": (
        "552d5fd0fa0fa3316ffaf4ff6da1243d0800747ad093d656eae238f67b451f08",
        28_304,
    ),
    "tatoeba.test": (
        "7e61f3e24661fbcb30bd712943a306678567ab3b90702e912d20d6ca18eb8a5f",
        27_948,
    ),
    "bible.train": (
        "bb58cf3d56cb4becb8985ccedf056b43ffea38f8ce0ac337de704c22f10f9d2f",
        7_509_379,
    ),
    "bible.dev": (
        "4f130361fc8c07b5d7821b702609dc4c35411adc71b363f195ea912f8f5576c0",
        442_767,
    ),
    "bible.test": (
        "53ee6aec157f0ebcbd41ba307091e8260db2bfddcfc50e0962154f83007d52fc",
        444_565,
    ),
    "news.dev": (
        "e67ba9c6db2ae94fbaad5071647d54d57a131f8b69c585fdba6b41b0b520c8fd",
        307_240,
    ),
    "news.test": (
        "e69a7b0ae4b697f401df14d0a3827857cc64043a10e6e11fb011f88e0277e512",
        629_646,
    ),
    "bible1961.train": (
        "3b224f46b4cad3f2f3b50389922b2686c76ad12c1ab55e30de74c5bab11bd537",
        3_305_330,
    ),
}
_SOURCES = "https://github.com/python/python-docs-ko and others, see docs/data.md"
_INTO_ENGLISH = {"source": "ko", "target": "en"}
_INTO_KOREAN = {"source": "en", "target": "ko"}
_LICENCE = (
    "docs PSF-2.0 + CC0 and MIT; tatoeba CC BY 2.0 FR; bible CC BY 4.0; "
    "news (dev and test) CC BY-SA 3.0"
)


def _file(part: str) -> CorpusFile:
    return CorpusFile(f"{part}.tsv", *_FILES[part], url="", folder="koen")


def _rows(*parts: str) -> tuple[RowRange, ...]:
    return tuple(RowRange((f"{part}.tsv",)) for part in parts)


def _parallel_corpus(name: str, direction: str, columns: dict[str, str]) -> Corpus:
    """One direction; each test set is scored separately, and so is a dev set on request."""
    return Corpus(
        name=name,
        description=(
            f"{direction}: documentation, everyday sentences, verses: 76,215 + 2,750 + 4,750"
        ),
        licence=_LICENCE,
        url=_SOURCES,
        columns=columns,
        built=True,
        target_language="ko" if columns is _INTO_KOREAN else "",  # empty: BLEU uses 13a tokens
        files=tuple(_file(part) for part in _FILES if part != "bible1961.train"),
        splits={
            "train": _rows("docs.train", "tatoeba.train", "bible.train"),
            "dev": _rows("docs.dev", "tatoeba.dev", "bible.dev"),
            "docs_test": _rows("docs.test"),
            "tatoeba_test": _rows("tatoeba.test"),
            "bible_test": _rows("bible.test"),
            "news_test": _rows("news.test"),
            "docs_dev": _rows("docs.dev"),
            "tatoeba_dev": _rows("tatoeba.dev"),
            "bible_dev": _rows("bible.dev"),
            "news_dev": _rows("news.dev"),
        },
    )


def _bible_1961(name: str, direction: str, columns: dict[str, str]) -> Corpus:
    return Corpus(
        name=name,
        description=f"{direction}: 11,823 Bible verses, translation of 1961; for training only",
        licence="public domain (author: 대한성서공회; not to be altered)",
        url="https://github.com/bluesaurel/Korean-Bible-1961-KRV",
        columns=columns,
        built=True,
        files=(_file("bible1961.train"),),
        splits={"train": _rows("bible1961.train")},
    )


KOEN = _parallel_corpus("koen", "Korean -> English", _INTO_ENGLISH)
ENKO = _parallel_corpus("enko", "English -> Korean", _INTO_KOREAN)
KOEN_1961 = _bible_1961("koen-1961", "Korean -> English", _INTO_ENGLISH)
ENKO_1961 = _bible_1961("enko-1961", "English -> Korean", _INTO_KOREAN)

_FLORES = {  # SHA-256 and bytes
    "flores-dev.ko": ("b309cfc95f11fcf5be423eb43c31cef9aef91c504ebd25d4ef6b11cb916c29c2", 151_915),
    "flores-dev.en": ("51a25f527fd81f428b6933d85a2f5e5544af92aa82042c7fbf0c4120327fba0a", 126_287),
    "flores-test.ko": ("540972696230a56e888f1fbd04b7000135c436351f5e467f99ce67fdccd8df0f", 158_811),
    "flores-test.en": ("612e9fbe87997617c0fa8fa8929654a4f49b728d96738112c2b86ef6a1d78d88", 133_108),
}


def _flores(name: str, direction: str, source: str, target: str) -> Corpus:
    """FLORES-200 (NLLB Team 2022): dev and devtest, without a training split."""
    return Corpus(
        name=name,
        description=f"{direction}: FLORES-200, 997 + 1,012 sentences; for evaluation only",
        licence="CC BY-SA 4.0",
        url="https://github.com/mozilla/firefox-translations-models",
        columns={"source": "source", "target": "target"},
        target_language="ko" if target == "ko" else "",
        files=tuple(
            CorpusFile(file, *_FLORES[file], url="", folder="flores")
            for part in ("dev", "test")
            for file in (f"flores-{part}.{source}", f"flores-{part}.{target}")
        ),
        splits={
            part: (RowRange((f"flores-{part}.{source}", f"flores-{part}.{target}")),)
            for part in ("dev", "test")
        },
    )


KOEN_FLORES = _flores("koen-flores", "Korean -> English", "ko", "en")
ENKO_FLORES = _flores("enko-flores", "English -> Korean", "en", "ko")
