"""What the zip of a `pytorch_model.bin` may look like, checked before anything in it is unpickled.

`torch.save` writes one shape only: a folder with `data.pkl`, a few one-line notes and the numbers
under `data/`, all stored as they are. Everything else a zip can do is a way to make a small file
grow or to be read differently by two readers, and is refused: compression, encryption, entries
that lie over each other, bytes before, between the parts or after, a second list of entries.
"""

import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import BinaryIO

from jumok.errors import InputError

MAX_ENTRIES = 100_000
_MAX_LIST = MAX_ENTRIES * 160  # bytes; an entry of torch.save takes about 70
_NAMES = re.compile(
    r"(?P<top>[^/\\]+)/(data\.pkl|version|byteorder|\.format_version|\.storage_alignment"
    r"|\.data/serialization_id|data/[0-9]{1,9})"
)
_ALLOWED_FLAGS = 0x0808  # sizes repeated after the data; names in UTF-8
_LOCAL_HEADER = 30  # bytes before the name of an entry

# The ends of a zip, by its specification (APPNOTE.TXT 4.3.14 to 4.3.16).
_END, _END_64, _LOCATOR_64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"
_END_FORMAT = struct.Struct("<4sHHHHLLH")
_END_64_FORMAT = struct.Struct("<4sQHHLLQQQQ")
_LOCATOR_64_FORMAT = struct.Struct("<4sLQL")


def check_zip(file: BinaryIO, size: int) -> None:
    """Refuse what is not a whole, undamaged archive as `torch.save` writes it.

    `file` is open at any place and has `size` bytes; every byte of its entries is read once, for
    the sums (CRC-32) that stand in it. Raises InputError.

    >>> import io
    >>> check_archive(io.BytesIO(b"text"), 4)
    Traceback (most recent call last):
    jumok.errors.InputError: not a usable PyTorch file: it does not begin as a zip; get \
model.safetensors instead
    """
    file.seek(0)
    start = file.read(4)
    if start[:1] == b"\x80":
        raise InputError(
            "a pickle that is no zip, as PyTorch wrote them before 1.6, is not read; "
            "get model.safetensors instead"
        )
    if start != b"PK\3\4":
        raise _refusal("it does not begin as a zip")
    end, told = _end_of_entries(file, size)
    try:
        with zipfile.ZipFile(file) as archive:
            if len(archive.infolist()) != told:
                raise _refusal(f"{len(archive.infolist()):,} entries, {told:,} are announced")
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
        raise _refusal(ascii(str(error)[:120])) from error
    if damaged is not None:
        raise _refusal(f"the sum of its entry {ascii(damaged)[:80]} is wrong")


def _end_of_entries(file: BinaryIO, size: int) -> tuple[int, int]:
    """Where the entries end and their list begins, and how many there are, once both are certain.

    The list lies directly before the end records and those are the last bytes of the file, so
    that no reader can find another one.
    """
    tail_length = _END_FORMAT.size + _LOCATOR_64_FORMAT.size + _END_64_FORMAT.size
    if size < _END_FORMAT.size:
        raise _refusal(f"it has {size} bytes")
    file.seek(max(0, size - tail_length))
    tail = file.read(tail_length)
    signature, *disks, entries, length, start, comment = _END_FORMAT.unpack(
        tail[-_END_FORMAT.size :]
    )
    if signature != _END or comment or any(disks[:2]):
        raise _refusal("it does not end as a zip, or is cut short")
    end = size - _END_FORMAT.size
    locator = tail[-_END_FORMAT.size - _LOCATOR_64_FORMAT.size : -_END_FORMAT.size]
    if locator.startswith(_LOCATOR_64):
        end = size - tail_length
        place = _LOCATOR_64_FORMAT.unpack(locator)[2]
        if place != end or not tail.startswith(_END_64):
            raise _refusal("its end records are not where they say")
        *_, entries, length, start = _END_64_FORMAT.unpack(tail[: _END_64_FORMAT.size])
    if entries > MAX_ENTRIES or length > _MAX_LIST:
        raise _refusal(f"{entries:,} entries, {MAX_ENTRIES:,} are allowed")
    if start + length != end:
        raise _refusal("its list of entries is not where it says")
    return start, entries


def _check_entries(entries: Sequence[zipfile.ZipInfo], end: int) -> None:
    """Stored as they are, under the names that `torch.save` gives, side by side before `end`."""
    if any("/code/" in entry.filename or "constants.pkl" in entry.filename for entry in entries):
        raise InputError("a TorchScript archive holds a program and is not read; get its weights")
    tops = Counter(_check_entry(entry) for entry in entries)
    if len(tops) != 1 or len({entry.filename for entry in entries}) != len(entries):
        raise _refusal("its entries are not one folder of different names")
    if f"{next(iter(tops))}/data.pkl" not in {entry.filename for entry in entries}:
        raise _refusal("there is no data.pkl in it")
    place = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < place:
            raise _refusal(f"the entry {ascii(entry.filename)[:80]} lies over another")
        place = entry.header_offset + _LOCAL_HEADER + len(entry.filename) + entry.compress_size
    if place > end:
        raise _refusal("its entries are larger than the file")


def _check_entry(entry: zipfile.ZipInfo) -> str:
    """The folder that one entry is in, once the entry is plain."""
    label = f"its entry {ascii(entry.filename)[:80]}"
    name = _NAMES.fullmatch(entry.filename)
    if name is None or name["top"] in (".", "..") or entry.orig_filename != entry.filename:
        raise _refusal(f"{label} is nothing that torch.save writes")
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise _refusal(f"{label} is compressed")
    if entry.flag_bits & ~_ALLOWED_FLAGS:
        raise _refusal(f"{label} is encrypted or otherwise unusual")
    return name["top"]


def _refusal(reason: str) -> InputError:
    return InputError(f"not a usable PyTorch file: {reason}; get model.safetensors instead")
