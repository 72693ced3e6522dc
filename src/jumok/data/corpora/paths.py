"""Paths of corpus files: in the folder JUMOK_DATA, or in the user's cache."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from jumok.data.arrow_cache import cache_folder
from jumok.data.corpora.corpus import Corpus, CorpusFile
from jumok.data.files.lines import COMPRESSED, measure_content
from jumok.data.trusted_cache import exposure
from jumok.errors import DataError, or_list


def corpus_folders(folder: str) -> list[Path]:
    """The folders of a corpus in search order: in JUMOK_DATA, then in the user's cache."""
    named = os.environ.get("JUMOK_DATA")
    return [*([Path(named) / folder] if named else []), downloads(folder)]


def downloads(folder: str) -> Path:
    """The folder in the cache where `jumok data get` saves the files of `folder`."""
    return cache_folder("data") / folder


def find_file(folders: Sequence[Path], name: str) -> Path | None:
    """The first existing file, plain, .xz or .gz, folder by folder."""
    return next(find_files(folders, name), None)


def find_files(folders: Sequence[Path], name: str) -> Iterator[Path]:
    """All existing files in search order."""
    for folder in folders:
        for ending in ("", *COMPRESSED):
            path = folder / f"{name}{ending}"
            if path.is_file():
                yield path


def corpus_file(corpus: Corpus, file: CorpusFile) -> Path:
    """One file of a corpus. Raises InputError with the command to get it if it is missing.

    A file in the cache that others may have written must have the content of the corpus.
    """
    folder = corpus.folder(file)
    folders = corpus_folders(folder)
    path = find_file(folders, file.name)
    if path is None:
        raise DataError(
            "corpus.missing",
            "the corpus {corpus!r} is missing (no {file} in {map}); get it with {fetch_command}, "
            "or set JUMOK_DATA to a folder that contains {folder}/",
            corpus=corpus.name,
            file=file.name,
            map=or_list(folders),
            fetch_command=corpus.fetch_command,
            folder=folder,
        )
    reason = exposure(path) if path.parent == downloads(folder) else None
    if reason and measure_content(path).sha256 != file.sha256:
        raise DataError(
            "corpus.wrong_content",
            "{path} must have the content of the corpus {corpus!r}, and {reason}; remove it, and "
            "get it again with {fetch_command}",
            path=path,
            corpus=corpus.name,
            reason=reason,
            fetch_command=corpus.fetch_command,
        )
    return path
