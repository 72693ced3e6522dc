"""Validate the zip archive of a `pytorch_model.bin` before anything in it is unpickled.

`torch.save` writes one structure only: a folder with `data.pkl`, a few one-line files and the
tensor data under `data/`, all uncompressed. Every other feature of zip lets a small file expand, or
lets two readers see different content, and raises InputError: compression, encryption, overlapping
entries, bytes before, between or after the parts, a second central directory.
"""

import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import BinaryIO

from jumok.errors import InputError, ModelFileError

MAX_ENTRIES = 100_000
_MAX_DIRECTORY_BYTES = MAX_ENTRIES * 160  # an entry of torch.save takes about 70
_NAMES = re.compile(
    r"(?P<top>[^/\\]+)/(data\.pkl|version|byteorder|\.format_version|\.storage_alignment"
    r"|\.data/serialization_id|data/[0-9]{1,9})"
)
_ALLOWED_FLAGS = 0x0808  # sizes after the data; names in UTF-8
_LOCAL_HEADER = 30  # bytes before the name of an entry

# The end records of a zip archive (APPNOTE.TXT 4.3.14 to 4.3.16).
_END, _END_64, _LOCATOR_64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"
_END_FORMAT = struct.Struct("<4sHHHHLLH")
_END_64_FORMAT = struct.Struct("<4sQHHLLQQQQ")
_LOCATOR_64_FORMAT = struct.Struct("<4sLQL")


def check_zip(file: BinaryIO, size: int) -> None:
    """Raise InputError unless the file is a complete archive as `torch.save` writes it.

    `file` is an open file of `size` bytes at any position; every byte of its entries is read once
    to verify the checksums (CRC-32).

    >>> import io
    >>> check_zip(io.BytesIO(b"text"), 4)
    Traceback (most recent call last):
    jumok.errors.ModelFileError: not a usable PyTorch file: it does not start as a zip archive; \
get model.safetensors instead
    """
    file.seek(0)
    start = file.read(4)
    if start[:1] == b"\x80":
        raise ModelFileError(
            "pretrained.old_pytorch_file",
            "a pickle must be in a zip archive, got the format of PyTorch before 1.6; get "
            "model.safetensors instead",
        )
    if start != b"PK\3\4":
        raise _zip_error("it does not start as a zip archive")
    end, n_entries = _end_of_entries(file, size)
    try:
        with zipfile.ZipFile(file) as archive:
            if len(archive.infolist()) != n_entries:
                raise _zip_error(
                    f"{len(archive.infolist()):,} entries, and its end record states {n_entries:,}"
                )
            _check_entries(archive.infolist(), end)
            damaged = archive.testzip()
    except InputError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        NotImplementedError,
        RuntimeError,
        EOFError,
        ValueError,
        OverflowError,
    ) as error:
        raise _zip_error(ascii(str(error)[:120])) from error
    if damaged is not None:
        raise _zip_error(f"the checksum of its entry {ascii(damaged)[:80]} is wrong")


def _end_of_entries(file: BinaryIO, size: int) -> tuple[int, int]:
    """The offset of the central directory and the number of its entries.

    The directory must be directly before the end records, and those at the end of the file, so that
    no reader can find another directory.
    """
    tail_length = _END_FORMAT.size + _LOCATOR_64_FORMAT.size + _END_64_FORMAT.size
    if size < _END_FORMAT.size:
        raise _zip_error(f"it has {size} bytes")
    file.seek(max(0, size - tail_length))
    tail = file.read(tail_length)
    signature, *disks, entries, length, start, comment = _END_FORMAT.unpack(
        tail[-_END_FORMAT.size :]
    )
    if signature != _END or comment or any(disks[:2]):
        raise _zip_error("it does not end as a zip archive, or is truncated")
    end = size - _END_FORMAT.size
    locator = tail[-_END_FORMAT.size - _LOCATOR_64_FORMAT.size : -_END_FORMAT.size]
    if locator.startswith(_LOCATOR_64):
        end = size - tail_length
        offset = _LOCATOR_64_FORMAT.unpack(locator)[2]
        if offset != end or not tail.startswith(_END_64):
            raise _zip_error("its end records are not at the stated offset")
        *_, entries, length, start = _END_64_FORMAT.unpack(tail[: _END_64_FORMAT.size])
    if entries > MAX_ENTRIES or length > _MAX_DIRECTORY_BYTES:
        raise _zip_error(f"{entries:,} entries, and at most {MAX_ENTRIES:,} are allowed")
    if start + length != end:
        raise _zip_error("its central directory is not at the stated offset")
    return start, entries


def _check_entries(entries: Sequence[zipfile.ZipInfo], end: int) -> None:
    """Check that entries are uncompressed, have names of `torch.save`, and do not overlap."""
    if any("/code/" in entry.filename or "constants.pkl" in entry.filename for entry in entries):
        raise ModelFileError(
            "pretrained.torchscript",
            "the archive must hold weights, got a TorchScript program; get its weights",
        )
    tops = Counter(_check_entry(entry) for entry in entries)
    if len(tops) != 1 or len({entry.filename for entry in entries}) != len(entries):
        raise _zip_error("its entries are not in one folder under different names")
    if f"{next(iter(tops))}/data.pkl" not in {entry.filename for entry in entries}:
        raise _zip_error("it has no data.pkl")
    offset = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < offset:
            raise _zip_error(f"the entry {ascii(entry.filename)[:80]} overlaps another")
        offset = entry.header_offset + _LOCAL_HEADER + len(entry.filename) + entry.compress_size
    if offset > end:
        raise _zip_error("its entries are larger than the file")


def _check_entry(entry: zipfile.ZipInfo) -> str:
    """The folder of an entry; raises InputError unless it is a plain uncompressed file."""
    label = f"its entry {ascii(entry.filename)[:80]}"
    name = _NAMES.fullmatch(entry.filename)
    if name is None or name["top"] in (".", "..") or entry.orig_filename != entry.filename:
        raise _zip_error(f"{label} is not one that torch.save writes")
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise _zip_error(f"{label} is compressed")
    if entry.flag_bits & ~_ALLOWED_FLAGS:
        raise _zip_error(f"{label} is encrypted or has unsupported flags")
    return name["top"]


def _zip_error(reason: str) -> InputError:
    return ModelFileError(
        "pretrained.unusable_pytorch_file",
        "not a usable PyTorch file: {reason}; get model.safetensors instead",
        reason=reason,
    )
