"""check_zip: archives of `torch.save` pass, all others raise InputError."""

import io
import random
import struct
import zipfile
from collections.abc import Callable, Mapping

import pytest
import torch

from jumok.errors import InputError
from jumok.pretrained.zip_check import check_zip

ENTRY = b"PK\1\2"
PARTS = {"a/data.pkl": b"\x80\x02}q\x00.", "a/version": b"3\n", "a/data/0": bytes(100)}


def check(data: bytes) -> None:
    check_zip(io.BytesIO(data), len(data))


def saved(value: object = None) -> bytes:
    """The bytes that torch.save writes."""
    file = io.BytesIO()
    torch.save({"a": torch.arange(40.0)} if value is None else value, file)
    return file.getvalue()


def zipped(parts: Mapping[str, bytes] = PARTS, method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive with these entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def with_directory(entries: int, stated: int) -> bytes:
    """A zip archive with one entry, repeated in the directory, and a stated number of entries."""
    whole = zipped({"a/data.pkl": b"."})
    start = whole.index(ENTRY)
    end = whole.index(b"PK\5\6")
    names = whole[start:end] * entries
    record = struct.pack(
        "<4sQHHLLQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, stated, stated, len(names), start
    )
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + len(names), 1)
    last = struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, 1, 1, len(names), start, 0)
    return whole[:start] + names + record + locator + last


def patched(data: bytes, entry: int, offset: int, value: bytes) -> bytes:
    """The archive with some bytes of an entry of its directory replaced."""
    position = -1
    for _ in range(entry + 1):
        position = data.index(ENTRY, position + 1)
    return data[: position + offset] + value + data[position + offset + len(value) :]


def test_archives_of_torch_save_pass() -> None:
    check(saved())
    check(saved({str(number): torch.ones(3) for number in range(200)}))
    check(zipped())


def test_directory_with_one_entry_passes() -> None:
    check(with_directory(1, 1))


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "does not start as a zip"),
    "text": (lambda: b"version https://git-lfs.github.com/spec/v1", "does not start"),
    "a pickle": (lambda: b"\x80\x02}q\x00.", "before 1.6"),
    "a few bytes of a zip": (lambda: b"PK\3\4", "it has 4 bytes"),
    "deflated": (lambda: zipped(PARTS, zipfile.ZIP_DEFLATED), "compressed"),
    "a bomb": (lambda: zipped({"a/data/0": bytes(2**24)}, zipfile.ZIP_DEFLATED), "compressed"),
    "lzma": (lambda: zipped(PARTS, zipfile.ZIP_LZMA), "compressed"),
    "says it is stored": (lambda: patched(zipped(), 2, 24, b"\xff\xff\xff\x7f"), "compressed"),
    "encrypted": (lambda: patched(zipped(), 0, 8, b"\1\0"), "encrypted"),
    "patched": (lambda: patched(zipped(), 0, 8, b"\x20\0"), "encrypted or has unsupported flags"),
    "100,001 entries": (lambda: with_directory(100_001, 100_001), "100,001 entries"),
    "100,001 that say one": (
        lambda: with_directory(100_001, 1),
        "100,001 entries, and its end record states 1",
    ),
    "a list of gigabytes": (lambda: with_directory_length(2**31), "entries"),
    "TorchScript": (lambda: zipped(PARTS | {"a/constants.pkl": b""}), "TorchScript"),
    "TorchScript code": (lambda: zipped(PARTS | {"a/code/a.py": b"1"}), "TorchScript"),
    "no pickle": (lambda: zipped({"a/version": b"3"}), "no data.pkl"),
    "no entries": (lambda: zipped({}), "does not start as a zip"),
    "two folders": (lambda: zipped(PARTS | {"b/version": b"3"}), "one folder"),
    "path traversal": (lambda: zipped(PARTS | {"../version": b"3"}), "not one that torch.save"),
    "a root": (lambda: zipped(PARTS | {"/version": b"3"}), "not one that torch.save"),
    "nested": (lambda: zipped(PARTS | {"a/b/data.pkl": b"."}), "not one that torch.save"),
    "a file of its own": (lambda: zipped(PARTS | {"a/model.py": b"1"}), "not one that torch.save"),
    "a zip inside": (lambda: zipped(PARTS | {"a/data/x.zip": zipped()}), "not one that"),
    "NUL": (lambda: zipped().replace(b"a/version", b"a/vers\0on"), "not one that torch.save"),
    "another name inside": (lambda: zipped().replace(b"a/version", b"a/versiom", 1), "is wrong"),
    "before": (lambda: b"PK\3\4 and more" + zipped(), "not at the stated offset"),
    "after": (lambda: zipped() + b"\0", "does not end as a zip"),
    "a comment": (lambda: zipped()[:-2] + b"\1\0!", "does not end as a zip"),
    "two zips": (lambda: zipped() + zipped(), "not at the stated offset"),
    "over each other": (lambda: patched(zipped(), 2, 42, struct.pack("<L", 10)), "overlaps"),
    "past the end": (lambda: patched(zipped(), 2, 42, struct.pack("<L", 250)), "larger|File|magic"),
}


def with_directory_length(length: int) -> bytes:
    """An archive whose end record states this length of its directory."""
    data = zipped()
    return data[:-10] + struct.pack("<L", length) + data[-6:]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "reason"), BAD.values(), ids=BAD.keys())
def test_other_archives_raise_input_error(make: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        check(make())


def test_two_entries_of_one_name() -> None:
    file = io.BytesIO(zipped())
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a/data.pkl", b"another")
    with pytest.raises(InputError, match="different names"):
        check(file.getvalue())


def test_truncated_archives_raise_input_error() -> None:
    data = saved()
    for length in range(0, len(data), 13):
        with pytest.raises(InputError):
            check(data[:length])


def test_flipped_bits_raise_or_change_nothing() -> None:
    data = saved()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        whole = {name: archive.read(name) for name in archive.namelist()}
    draw = random.Random(0)
    n_rejected = 0
    for _ in range(500):
        flipped = bytearray(data)
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            check(bytes(flipped))
        except InputError:
            n_rejected += 1
        else:
            with zipfile.ZipFile(io.BytesIO(flipped)) as archive:
                assert {name: archive.read(name) for name in archive.namelist()} == whole
    assert n_rejected > 200  # the rest hit padding and dates
