"""Fetching, checking and copying in the files of known corpora; nothing unchecked is kept."""

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
from jumok.errors import InputError, StorageError

logger = logging.getLogger(__name__)

State = Literal["present", "absent", "damaged"]

_TIMEOUT = 60.0  # seconds without a byte
_BLOCK = 2**18


def download_corpus(corpus: Corpus, folder: Path | None = None, base: str = "") -> Iterator[Path]:
    """Fetches what is missing of a corpus into the user's cache; gives each file as it is there.

    A broken download is taken up where it stopped; a damaged file that would be found before the
    sound one is called NAME.damaged from then on. `base` replaces the address up to the file's
    name, for a mirror. Raises StorageError when a file cannot be fetched, InputError when what
    came is not the known file (it is deleted).
    """
    if corpus.generated:
        raise InputError(f"the corpus {corpus.name!r} is built in; there is nothing to fetch")
    for file in corpus.files:
        place = folder or downloads(corpus.folder(file))
        here = find_files([place], file.name)
        present = next((path for path in here if is_known(path, file)), None)
        if present is None:
            address = f"{base.rstrip('/')}/{file.name}" if base else file.url
            if not address:
                raise InputError(
                    f"{file.name} of the corpus {corpus.name!r} was made from others' files and "
                    f"has no address; take a copy with jumok data get {corpus.name} --from FOLDER"
                )
            present = place / f"{file.name}{_packing(address)}"
            fetch(address, present, file)
        _set_aside_others(present, file)
        yield present


def copy_corpus(corpus: Corpus, source: Path, folder: Path | None = None) -> Iterator[Path]:
    """Copies the files of a corpus from a local folder, or one of them from a local file.

    A file is recognised by its content, whatever it is called. Raises InputError when a file is
    missing, or is not one of the corpus.
    """
    if source.is_dir():
        for file in corpus.files:
            found = find_file([source, source / corpus.folder(file)], file.name)
            if found is None:
                raise InputError(f"{source} holds no {file.name} (nor .xz, .gz); name its folder")
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
    raise InputError(
        f"{source} (sha256 {content.sha256[:12]}..., unpacked) is none of the files of "
        f"{corpus.name!r}: {names}; get it from {corpus.url}"
    )


def fetch(address: str, target: Path, file: CorpusFile) -> None:
    """Downloads one file to `target`, going on from `target.part` if a download broke off there.

    The content is checked before the file gets its name. Raises StorageError when it cannot be
    fetched (what came so far is kept), InputError when it is not the known file.
    """
    if not address.startswith(("https://", "http://")):
        raise InputError(f"{address} is no web address; wanted https://...")
    packing = _packing(address)
    part = target.with_name(f"{target.name.removesuffix(packing)}.part{packing}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _download(address, part, file.compressed_size if packing else file.size)
    except (OSError, EOFError, HTTPException) as error:
        raise StorageError(
            f"{address} could not be fetched ({error}); the same command goes on from there, "
            "or give a local copy with --from"
        ) from error
    if not is_known(part, file):
        wrong = _not_known(part, file)
        part.unlink()
        raise wrong
    os.replace(part, target)


def corpus_status(corpus: Corpus) -> dict[str, tuple[State, Path | None]]:
    """Each file of a corpus: whether it is here and whole, and where."""
    states: dict[str, tuple[State, Path | None]] = {}
    for file in corpus.files:
        path = find_file(corpus_folders(corpus.folder(file)), file.name)
        if path is None:
            states[file.name] = ("absent", None)
        else:
            states[file.name] = ("present" if is_known(path, file) else "damaged", path)
    return states


def is_known(path: Path, file: CorpusFile) -> bool:
    """Whether the unpacked content of a file is, byte for byte, the known one."""
    return measure_content(path).sha256 == file.sha256


def _download(address: str, part: Path, size: int) -> None:
    """Appends to `part` until it holds `size` bytes; starts anew if the server cannot go on."""
    have = part.stat().st_size if part.exists() else 0
    if have == size:
        return
    if have > size:
        part.unlink()
        have = 0
    request = urllib.request.Request(address)  # noqa: S310 - the caller allows http(s) alone
    if have:
        request.add_header("Range", f"bytes={have}-")
    with _answer(request, part) as answer:
        going_on = answer.status == HTTPStatus.PARTIAL_CONTENT
        with part.open("ab" if going_on else "wb") as out:
            while block := answer.read(_BLOCK):
                out.write(block)
                if out.tell() > size:
                    break  # not the known file; the checksum will say so
    if part.stat().st_size < size:
        raise EOFError(f"{part.stat().st_size:,} of {size:,} bytes came")


def _packing(address: str) -> str:
    """The .gz or .xz that what is fetched is packed in; "" for plain files."""
    return next((ending for ending in COMPRESSED if address.endswith(ending)), "")


def _answer(request: urllib.request.Request, part: Path) -> HTTPResponse:
    """The server's answer; a part that reaches beyond what the server has is dropped."""
    try:
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
        error.close()
        raise
    return answer


def _set_aside_others(present: Path, file: CorpusFile) -> None:
    """Renames what would be found before the sound file, and is not the known one."""
    for path in find_files([present.parent], file.name):
        if path == present:
            return
        damaged = path.with_name(f"{path.name}.damaged")
        try:
            os.replace(path, damaged)
        except OSError as error:
            raise StorageError(
                f"{path} is not the known {file.name} and hides {present.name}; move it away "
                f"({error})"
            ) from error
        logger.warning("%s is not the known %s; it is now %s", path, file.name, damaged.name)


def _copy(source: Path, folder: Path, file: CorpusFile) -> Path:
    ending = source.suffix.lower()
    target = folder / f"{file.name}{ending if ending in COMPRESSED else ''}"
    part = target.with_name(f".copying-{target.name}")  # keeps the suffix, for unpacking
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, part)
        if not is_known(part, file):
            part.unlink()
            raise StorageError(f"{source} changed while it was copied; try again")
        os.replace(part, target)
    except OSError as error:
        raise StorageError(f"{target} cannot be written ({error}); check the disk") from error
    _set_aside_others(target, file)
    return target


def _not_known(path: Path, file: CorpusFile) -> InputError:
    seen = measure_content(path)
    return InputError(
        f"{path} is not the known {file.name}: {seen.size:,} bytes with sha256 "
        f"{seen.sha256[:12]}..., wanted {file.size:,} with {file.sha256[:12]}... (unpacked); "
        "fetch it again"
    )
