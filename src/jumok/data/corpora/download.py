"""Download, verify and copy the files of known corpora; unverified files are never kept."""

import logging
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Literal

from jumok.data.corpora.corpus import Corpus, CorpusFile
from jumok.data.corpora.paths import corpus_folders, downloads, find_file, find_files
from jumok.data.files.lines import COMPRESSED, measure_content
from jumok.errors import DataError, InputError, Message, StorageError

logger = logging.getLogger(__name__)

State = Literal["present", "absent", "damaged"]

_TIMEOUT = 60.0  # seconds without a byte
_BLOCK = 2**18


def download_corpus(corpus: Corpus, folder: Path | None = None, base: str = "") -> Iterator[Path]:
    """Download the missing files of a corpus into the user's cache; yields every file.

    An interrupted download is resumed. A damaged file that would be found before the valid one is
    renamed to NAME.damaged. `base` replaces the URL up to the file's name, for a mirror. Raises
    StorageError if a file cannot be downloaded, InputError if it is not the known file (it is
    deleted).
    """
    if corpus.generated:
        raise DataError(
            "corpus.nothing_to_download",
            "the corpus {corpus!r} is built in and has no files to download",
            corpus=corpus.name,
        )
    for file in corpus.files:
        place = folder or downloads(corpus.folder(file))
        here = find_files([place], file.name)
        present = next((path for path in here if is_known(path, file)), None)
        if present is None:
            url = f"{base.rstrip('/')}/{file.name}" if base else file.url
            if not url:
                if corpus.built:
                    raise DataError(
                        "corpus.made_file",
                        "{file} of the corpus {corpus!r} is made from other files; make it with "
                        "{fetch_command}",
                        file=file.name,
                        corpus=corpus.name,
                        fetch_command=corpus.fetch_command,
                    )
                raise DataError(
                    "corpus.derived_file",
                    "{file} of the corpus {corpus!r} is derived from other files, without a URL; "
                    "copy it with jumok data get {corpus} --from FOLDER",
                    file=file.name,
                    corpus=corpus.name,
                )
            present = place / f"{file.name}{_compression(url)}"
            fetch(url, present, file)
        _set_aside_others(present, file)
        yield present


def copy_corpus(corpus: Corpus, source: Path, folder: Path | None = None) -> Iterator[Path]:
    """Copy the files of a corpus from a local folder, or one of them from a local file.

    A single file is recognised by its content, not by its name. Raises InputError if a file is
    missing or not of the corpus.
    """
    if source.is_dir():
        for file in corpus.files:
            found = find_file([source, source / corpus.folder(file)], file.name)
            if found is None:
                raise DataError(
                    "corpus.file_missing",
                    "{source} has no {file} (nor .xz, .gz); name its folder",
                    source=source,
                    file=file.name,
                )
            if not is_known(found, file):
                raise _not_known(found, file)
            yield _copy(found, folder or downloads(corpus.folder(file)), file)
        return
    content = measure_content(source)
    for file in corpus.files:
        if file.sha256 == content.sha256:
            yield _copy(source, folder or downloads(corpus.folder(file)), file)
            return
    names = ", ".join(file.name for file in corpus.files)
    raise DataError(
        "corpus.unknown_content",
        "{source} must be one of the files of {corpus!r} ({names}), got content with sha256 "
        "{sha256}...; download it from {url}",
        source=source,
        corpus=corpus.name,
        names=names,
        sha256=content.sha256[:12],
        url=corpus.url,
    )


def fetch(url: str, target: Path, file: CorpusFile) -> None:
    """Download one file to `target`, resuming from `target.part` after an interruption.

    The content is verified before the file is renamed. Raises StorageError if it cannot be
    downloaded (the part is kept), InputError if it is not the known file.
    """
    if not url.startswith(("https://", "http://")):
        raise DataError(
            "corpus.not_a_url",
            "{url} must begin with https:// or http://",
            url=url,
        )
    compression = _compression(url)
    part = target.with_name(f"{target.name.removesuffix(compression)}.part{compression}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _download(url, part, file.compressed_size if compression else file.size)
    except (OSError, EOFError, HTTPException) as error:
        raise StorageError(
            "corpus.not_downloaded",
            "{url} could not be downloaded ({error}); run the same command again to resume, or "
            "give a local copy with --from",
            url=url,
            error=error,
        ) from error
    if not is_known(part, file):
        wrong = _not_known(part, file)
        part.unlink()
        raise wrong
    os.replace(part, target)


def corpus_status(corpus: Corpus) -> dict[str, tuple[State, Path | None]]:
    """The state and the path of each file of a corpus."""
    states: dict[str, tuple[State, Path | None]] = {}
    for file in corpus.files:
        path = find_file(corpus_folders(corpus.folder(file)), file.name)
        if path is None:
            states[file.name] = ("absent", None)
        else:
            states[file.name] = ("present" if is_known(path, file) else "damaged", path)
    return states


def is_known(path: Path, file: CorpusFile) -> bool:
    """Whether the decompressed content of a file has the known checksum."""
    return measure_content(path).sha256 == file.sha256


def _download(url: str, part: Path, size: int) -> None:
    """Append to `part` up to `size` bytes; start again if the server cannot resume."""
    have = part.stat().st_size if part.exists() else 0
    if have == size:
        return
    if have > size:
        part.unlink()
        have = 0
    request = urllib.request.Request(url)  # noqa: S310 - the caller allows http(s) alone
    if have:
        request.add_header("Range", f"bytes={have}-")
    with _response(request, part) as response:
        resumes = response.status == HTTPStatus.PARTIAL_CONTENT
        with part.open("ab" if resumes else "wb") as out:
            while block := response.read(_BLOCK):
                out.write(block)
                if out.tell() > size:
                    break  # not the known file; the checksum will differ
    if part.stat().st_size < size:
        raise EOFError(f"{part.stat().st_size:,} of {size:,} bytes came")


def _compression(url: str) -> str:
    """The suffix of a compressed download, .gz or .xz; "" for plain files."""
    return next((ending for ending in COMPRESSED if url.endswith(ending)), "")


def _response(request: urllib.request.Request, part: Path) -> HTTPResponse:
    """The server's response; a part that is longer than the server's file is deleted."""
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
        error.close()
        raise
    return response


def _set_aside_others(present: Path, file: CorpusFile) -> None:
    """Rename invalid files that would be found before the valid one."""
    for path in find_files([present.parent], file.name):
        if path == present:
            return
        damaged = path.with_name(f"{path.name}.damaged")
        try:
            os.replace(path, damaged)
        except OSError as error:
            raise StorageError(
                "corpus.wrong_file_hides_another",
                "{path} is not the known {file} and hides {present}; move it away ({error})",
                path=path,
                file=file.name,
                present=present.name,
                error=error,
            ) from error
        logger.warning(
            Message(
                "corpus.file_replaced",
                "{path} is not the known {file}; it is now {damaged}",
                path=path,
                file=file.name,
                damaged=damaged.name,
            )
        )


def _copy(source: Path, folder: Path, file: CorpusFile) -> Path:
    ending = source.suffix.lower()
    target = folder / f"{file.name}{ending if ending in COMPRESSED else ''}"
    part = target.with_name(f".copying-{target.name}")  # keeps the suffix, for unpacking
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, part)
        if not is_known(part, file):
            part.unlink()
            raise StorageError(
                "corpus.changed_during_copy",
                "{source} changed during the copy; try again",
                source=source,
            )
        os.replace(part, target)
    except OSError as error:
        raise StorageError(
            "corpus.not_written",
            "{target} cannot be written ({error}); check the disk",
            target=target,
            error=error,
        ) from error
    _set_aside_others(target, file)
    return target


def _not_known(path: Path, file: CorpusFile) -> InputError:
    found = measure_content(path)
    return DataError(
        "corpus.wrong_file",
        "{path} is not the known {file}: {size:,} bytes with sha256 {sha256}..., expected "
        "{size_2:,} with {sha256_2}...; download it again",
        path=path,
        file=file.name,
        size=found.size,
        sha256=found.sha256[:12],
        size_2=file.size,
        sha256_2=file.sha256[:12],
    )
