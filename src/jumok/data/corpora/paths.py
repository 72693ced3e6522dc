"""Where the files of a corpus lie: in JUMOK_DATA's folder, or in the user's cache."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from jumok.data.arrow_cache import cache_folder
from jumok.data.corpora.corpus import Corpus, CorpusFile
from jumok.data.files.lines import COMPRESSED
from jumok.errors import InputError


def corpus_folders(folder: str) -> list[Path]:
    """Where the files of a corpus may lie: in JUMOK_DATA's folder, then in the user's cache."""
    named = os.environ.get("JUMOK_DATA")
    return [*([Path(named) / folder] if named else []), downloads(folder)]


def downloads(folder: str) -> Path:
    """Where `jumok data get` puts the files that a corpus keeps in `folder`."""
    return cache_folder("data") / folder


def find_file(folders: Sequence[Path], name: str) -> Path | None:
    """The first of these there is: the file as it is named, .xz or .gz, folder by folder."""
    return next(find_files(folders, name), None)


def find_files(folders: Sequence[Path], name: str) -> Iterator[Path]:
    """All of these there are, the first one first."""
    for folder in folders:
        for ending in ("", *COMPRESSED):
            path = folder / f"{name}{ending}"
            if path.is_file():
                yield path


def corpus_file(corpus: Corpus, file: CorpusFile) -> Path:
    """One file of a corpus. Raises InputError that says how to get it, when it is not here."""
    folder = corpus.folder(file)
    folders = corpus_folders(folder)
    path = find_file(folders, file.name)
    if path is None:
        raise InputError(
            f"the corpus {corpus.name!r} is not here (no {file.name} in "
            f"{' or '.join(map(str, folders))}); fetch it with {corpus.fetch_command}, "
            f"or set JUMOK_DATA to a folder that holds {folder}/"
        )
    return path
