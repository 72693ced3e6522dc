"""The known corpora: one TOML file each, with the fields of `Corpus`.

`like` names another corpus, whose fields hold where the file has none. The files and the ranges of
rows are those of `CorpusFile` and `RowRange`.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jumok.config_io import suggest
from jumok.data.corpora.corpus import Corpus, CorpusFile, RowRange
from jumok.errors import DataError

FOLDER = Path(__file__).parent


class _Corpora(Mapping[str, Corpus]):
    """The corpora by name, each read when it is asked for."""

    def __getitem__(self, name: str) -> Corpus:
        if name not in _names():
            raise KeyError(name)
        return _read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_names())

    def __len__(self) -> int:
        return len(_names())


CORPORA = _Corpora()


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@cache
def _read(name: str) -> Corpus:
    fields = _fields(name)
    files, splits = fields.pop("files", {}), fields.pop("splits", {})
    fields |= {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return Corpus(
        name=name,
        **fields,
        files=tuple(CorpusFile(file, **rest) for file, rest in files.items()),
        splits={
            split: tuple(RowRange(**row | {"files": tuple(row["files"])}) for row in rows)
            for split, rows in splits.items()
        },
    )


def _fields(name: str) -> dict[str, Any]:
    """The tables of a file and of the corpus that it is like."""
    own = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return (_fields(own.pop("like")) if "like" in own else {}) | own


def corpus_by_name(name: str) -> Corpus:
    """The corpus with this name. Raises InputError with the most similar name.

    >>> corpus_by_name("nsmc").licence
    'CC0 1.0'
    >>> corpus_by_name("nscm")
    Traceback (most recent call last):
    jumok.errors.DataError: no corpus is named 'nscm'; did you mean nsmc?
    """
    if name not in CORPORA:
        raise DataError(
            "corpus.unknown_corpus",
            "no corpus is named {name!r}; {suggest}",
            name=name,
            suggest=suggest(name, list(CORPORA)),
        )
    return CORPORA[name]
