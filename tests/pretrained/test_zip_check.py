"""The zip of a pickle: one that `torch.save` wrote passes, every trick is refused unread."""

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
    """What torch.save writes."""
    file = io.BytesIO()
    torch.save({"a": torch.arange(40.0)} if value is None else value, file)
    return file.getvalue()


def zipped(parts: Mapping[str, bytes] = PARTS, method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip of these parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def listed(entries: int, told: int) -> bytes:
    """A zip of one real entry whose list names it `entries` times and says there are `told`."""
    whole = zipped({"a/data.pkl": b"."})
    start = whole.index(ENTRY)
    end = whole.index(b"PK\5\6")
    names = whole[start:end] * entries
    record = struct.pack("<4sQHHLLQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, told, told, len(names), start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + len(names), 1)
    last = struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, 1, 1, len(names), start, 0)
    return whole[:start] + names + record + locator + last


def changed(data: bytes, entry: int, offset: int, value: bytes) -> bytes:
    """The zip with some bytes of an entry of its list replaced."""
    place = -1
    for _ in range(entry + 1):
        place = data.index(ENTRY, place + 1)
    return data[: place + offset] + value + data[place + offset + len(value) :]


def test_what_torch_writes_passes() -> None:
    check(saved())
    check(saved({str(number): torch.ones(3) for number in range(200)}))
    check(zipped())


def test_one_entry_listed_once_is_not_what_is_refused_below() -> None:
    check(listed(1, 1))


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "does not begin as a zip"),
    "text": (lambda: b"version https://git-lfs.github.com/spec/v1", "does not begin"),
    "a pickle": (lambda: b"\x80\x02}q\x00.", "before 1.6"),
    "a few bytes of a zip": (lambda: b"PK\3\4", "it has 4 bytes"),
    "deflated": (lambda: zipped(PARTS, zipfile.ZIP_DEFLATED), "compressed"),
    "a bomb": (lambda: zipped({"a/data/0": bytes(2**24)}, zipfile.ZIP_DEFLATED), "compressed"),
    "squeezed": (lambda: zipped(PARTS, zipfile.ZIP_LZMA), "compressed"),
    "says it is stored": (lambda: changed(zipped(), 2, 24, b"\xff\xff\xff\x7f"), "compressed"),
    "encrypted": (lambda: changed(zipped(), 0, 8, b"\1\0"), "encrypted"),
    "patched": (lambda: changed(zipped(), 0, 8, b"\x20\0"), "encrypted or otherwise unusual"),
    "100,001 entries": (lambda: listed(100_001, 100_001), "100,001 entries"),
    "100,001 that say one": (lambda: listed(100_001, 1), "100,001 entries, 1 are announced"),
    "a list of gigabytes": (lambda: changed_length(2**31), "entries"),
    "TorchScript": (lambda: zipped(PARTS | {"a/constants.pkl": b""}), "TorchScript"),
    "TorchScript code": (lambda: zipped(PARTS | {"a/code/a.py": b"1"}), "TorchScript"),
    "no pickle": (lambda: zipped({"a/version": b"3"}), "no data.pkl"),
    "no entries": (lambda: zipped({}), "does not begin as a zip"),
    "two folders": (lambda: zipped(PARTS | {"b/version": b"3"}), "one folder"),
    "a way out": (lambda: zipped(PARTS | {"../version": b"3"}), "nothing that torch.save"),
    "a root": (lambda: zipped(PARTS | {"/version": b"3"}), "nothing that torch.save"),
    "nested": (lambda: zipped(PARTS | {"a/b/data.pkl": b"."}), "nothing that torch.save"),
    "a file of its own": (lambda: zipped(PARTS | {"a/model.py": b"1"}), "nothing that torch.save"),
    "a zip inside": (lambda: zipped(PARTS | {"a/data/x.zip": zipped()}), "nothing that"),
    "NUL": (lambda: zipped().replace(b"a/version", b"a/vers\0on"), "nothing that torch.save"),
    "another name inside": (lambda: zipped().replace(b"a/version", b"a/versiom", 1), "is wrong"),
    "before": (lambda: b"PK\3\4 and more" + zipped(), "not where it says"),
    "after": (lambda: zipped() + b"\0", "does not end as a zip"),
    "a comment": (lambda: zipped()[:-2] + b"\1\0!", "does not end as a zip"),
    "two zips": (lambda: zipped() + zipped(), "not where it says"),
    "over each other": (lambda: changed(zipped(), 2, 42, struct.pack("<L", 10)), "lies over"),
    "past the end": (lambda: changed(zipped(), 2, 42, struct.pack("<L", 250)), "larger|File|magic"),
}


def changed_length(length: int) -> bytes:
    """A zip whose end record says that its list has so many bytes."""
    data = zipped()
    return data[:-10] + struct.pack("<L", length) + data[-6:]


@pytest.mark.parametrize(("make", "reason"), BAD.values(), ids=BAD.keys())
def test_what_torch_does_not_write_is_refused(make: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        check(make())


def test_two_entries_of_one_name() -> None:
    file = io.BytesIO(zipped())
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a/data.pkl", b"another")
    with pytest.raises(InputError, match="different names"):
        check(file.getvalue())


def test_every_truncation_is_refused() -> None:
    data = saved()
    for length in range(0, len(data), 13):
        with pytest.raises(InputError):
            check(data[:length])


def test_a_flipped_bit_is_refused_or_changes_nothing() -> None:
    data = saved()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        whole = {name: archive.read(name) for name in archive.namelist()}
    draw = random.Random(0)
    refused = 0
    for _ in range(500):
        flipped = bytearray(data)
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            check(bytes(flipped))
        except InputError:
            refused += 1
        else:
            with zipfile.ZipFile(io.BytesIO(flipped)) as archive:
                assert {name: archive.read(name) for name in archive.namelist()} == whole
    assert refused > 200  # the rest hit padding and dates


def test_nothing_but_a_refusal_leaves_whatever_the_bytes() -> None:
    data = saved()
    draw = random.Random(1)
    reasons: list[str] = []
    for _ in range(1000):
        mutated = bytearray(data)
        for _ in range(draw.randrange(1, 6)):
            place = draw.randrange(len(mutated))
            mutated[place : place + draw.randrange(9)] = draw.randbytes(draw.randrange(9))
        try:
            check(bytes(mutated))
        except InputError as error:
            reasons.append(str(error))
    assert len(reasons) > 900
    assert not any("\n" in reason for reason in reasons)
