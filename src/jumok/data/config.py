"""The `[data]` table of a recipe: what it learns from, and how its files are read."""

import unicodedata
from dataclasses import dataclass
from typing import Literal

from jumok.data.corpora.registry import corpus_by_name
from jumok.data.files.bad_rows import OnBadRows
from jumok.data.files.formats import Format
from jumok.errors import InputError

Language = Literal["", "ko", "de", "en", "fr"]
Files = str | tuple[str, ...]  # one file, or parallel files of plain lines


@dataclass(frozen=True)
class DataConfig:
    """The `[data]` table of a recipe. Defaults that say nothing take the corpus's own words.

    >>> DataConfig(corpus="nsmc").header("text"), DataConfig(train="my.tsv").header("text")
    ('document', 'text')
    """

    corpus: str = ""  # a known corpus (jumok data list), or "" for the files named here
    train: Files = ""
    dev: Files = ""  # "" takes the last rows of train
    test: Files = ""
    format: Format | None = None  # None: told by the suffix
    extra: tuple[str, ...] = ()  # known corpora whose training rows are learned from as well
    text: str = ""  # the header over the text, and so on; "" for the name of the field itself
    pair: str = ""
    label: str = ""
    score: str = ""
    tags: str = ""
    source: str = ""
    target: str = ""
    target_language: Language = ""  # of what is written: BLEU is counted over its tokens as well
    pieces: bool = False  # the text is a list of pieces: JSON lines such as {"doc": [...]}
    labels: tuple[str, ...] = ()  # names; cells hold a name or its number here. (): as in train
    on_bad_rows: OnBadRows = "stop"
    train_rows: int = 0  # at most so many rows; 0: all, or as many as a generated corpus makes
    dev_rows: int = 0  # without a dev file 0 takes a tenth of train
    test_rows: int = 0
    seed: int = 0  # of a generated corpus

    def __post_init__(self) -> None:
        for name in (*self.extra, *([self.corpus] if self.corpus else [])):
            corpus_by_name(name)
        if self.corpus and (self.train or self.dev or self.test):
            raise InputError(
                f"data names the corpus {self.corpus!r} and files as well; keep one of them"
            )
        if self.corpus and self.format:
            raise InputError(
                f"data.format {self.format!r} came with the corpus {self.corpus!r}, whose files "
                "are read as they are; leave it out"
            )
        labels = tuple(unicodedata.normalize("NFC", label) for label in self.labels)
        if labels and len(set(labels)) < max(len(labels), 2):
            raise InputError(
                f"data.labels names {', '.join(map(repr, labels))}; wanted two names or more, "
                "each once"
            )
        object.__setattr__(self, "labels", labels)
        for name in ("train_rows", "dev_rows", "test_rows"):
            if getattr(self, name) < 0:
                raise InputError(f"data.{name} = {getattr(self, name)}; wanted 0 (all) or more")

    def header(self, column: str) -> str:
        """What the files call one of the columns: `text`, `label`, `source` and so on."""
        said: str = getattr(self, column)
        if said:
            return said
        if self.corpus:
            return corpus_by_name(self.corpus).columns.get(column, column)
        return "doc" if self.pieces and column == "text" else column

    @property
    def language(self) -> str:
        """The language of what is written, where it was said.

        >>> DataConfig(corpus="enko").language, DataConfig(target_language="de").language
        ('ko', 'de')
        """
        corpus = corpus_by_name(self.corpus).target_language if self.corpus else ""
        return self.target_language or corpus

    def rows(self, split: str) -> int:
        """At most how many rows a split may have; 0 for all."""
        return {"train": self.train_rows, "dev": self.dev_rows}.get(split, self.test_rows)
