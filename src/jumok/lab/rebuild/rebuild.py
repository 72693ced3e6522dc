"""Build the files of a corpus from pinned commits, and keep those with the known checksum."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.data.corpora.corpus import Corpus
from jumok.data.corpora.paths import downloads
from jumok.data.corpora.registry import CORPORA
from jumok.errors import DataError, StorageError
from jumok.lab.rebuild.headlines import build_headlines
from jumok.lab.rebuild.korean_english import Read, build_korean_english
from jumok.lab.rebuild.reviews import build_reviews
from jumok.lab.rebuild.sources import read_source

Build = Callable[[Read], Iterator[tuple[str, bytes]]]

BUILDS: Mapping[str, Build] = {  # by the folder of the files
    "koen": build_korean_english,
    "nsmc": build_reviews,
    "ynat": build_headlines,
}


def build_corpus(
    corpus: Corpus, clones: Path | None = None, *, folder: Path | None = None
) -> Iterator[Path]:
    """Build the files of a corpus into the user's cache; yields each of them.

    The sources are read from clones in the folder `clones`, or fetched with git. Raises InputError
    for a corpus that is not built, and for a result that is not the known file, which is not kept.
    """
    if not corpus.built:
        names = ", ".join(each.name for each in CORPORA.values() if each.built)
        raise DataError(
            "data.only_built",
            "only {names} are built, got {corpus!r}; get it with {fetch_command}",
            names=names,
            corpus=corpus.name,
            fetch_command=corpus.fetch_command,
        )
    name = corpus.folder(corpus.files[0])
    known = {
        file.name: file
        for each in CORPORA.values()
        for file in each.files
        if each.folder(file) == name
    }
    read = partial(read_source, folder=clones)
    for file_name, content in BUILDS[name](read):
        file = known[file_name]
        found = hashlib.sha256(content).hexdigest()
        if found != file.sha256:
            raise DataError(
                "data.built_differs",
                "{file_name} must have the sha256 {sha256}, got {found} from the same sources; "
                "report this as a bug",
                file_name=file_name,
                sha256=file.sha256[:12],
                found=found[:12],
            )
        path = (folder or downloads(name)) / file_name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                "data.not_written",
                "{path} cannot be written ({error}); check the disk",
                path=path,
                error=error,
            ) from error
        write_atomically(path, content)
        yield path
