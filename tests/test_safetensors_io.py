"""Untrusted safetensors files: an invalid header is rejected before a tensor is created."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from jumok.errors import InputError, StorageError
from jumok.safetensors_io import (
    deserialize,
    iter_chunks,
    read_header,
    read_tensors,
    serialize,
)
from tests.errors import raises


def file_of(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with this header (bytes as they are, anything else as JSON) before these data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def one(**changes: object) -> dict[str, object]:
    """A header of one tensor "a": two float32 numbers in 8 bytes, changed."""
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes}


def two(first: list[int], second: list[int]) -> dict[str, object]:
    """A header of two tensors of one float32 number each, at these offsets."""
    return {
        "a": {"dtype": "F32", "shape": [1], "data_offsets": first},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": second},
    }


EIGHT = bytes(8)
BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "header too small"),
    "seven bytes": (bytes(7), "header too small"),
    "no header": (bytes(8), "invalid JSON"),
    "longer than the file": (file_of({}, length=3), "invalid header length"),
    "2^63": (file_of({}, length=2**63), "a header of 9,223"),
    "8 MiB and one": (file_of(b" " * (8 * 2**20 + 1)), "8 MiB are allowed"),
    "not UTF-8": (file_of(b'{"\xff": 1}'), "invalid UTF-8"),
    "UTF-16": (file_of('{"a": 1}'.encode("utf-16")), "invalid UTF-8"),
    "cut JSON": (file_of(b'{"a": '), "invalid JSON"),
    "a list": (file_of([]), "invalid type"),
    "deep": (file_of(b'{"a":' + b"[" * 1_000_000), "recursion limit"),
    "5,000 digits": (file_of(b'{"a": ' + b"9" * 5000 + b"}"), "number out of range"),
    "twice": (file_of(b'{"a": 1, "a": 2}'), "invalid type"),
    "dtype twice": (file_of(b'{"a": {"dtype": "F32", "dtype": "F32"}}'), "duplicate field"),
    "metadata a list": (file_of({"__metadata__": []}), "invalid type"),
    "metadata a number": (file_of({"__metadata__": {"a": 1}}), "invalid type"),
    "no table": (file_of({"a": 3}), "invalid type"),
    "one key more": (file_of(one(device="cuda"), EIGHT), "nothing else"),
    "unknown dtype": (file_of(one(dtype="F31"), EIGHT), "unknown variant"),
    "dtype a list": (file_of(one(dtype=[]), EIGHT), "invalid type"),
    "negative": (file_of(one(shape=[-2]), EIGHT), "invalid value"),
    "fractional": (file_of(one(shape=[2.0]), EIGHT), "invalid type"),
    "true": (file_of(one(shape=[True, 2]), EIGHT), "invalid type"),
    "text": (file_of(one(shape="2"), EIGHT), "invalid type"),
    "huge": (file_of(one(shape=[2**63]), EIGHT), "overflow"),
    "overflow": (file_of(one(shape=[2**32, 2**32]), EIGHT), "overflow"),
    "too large": (file_of(one(shape=[3]), EIGHT), "invalid shape"),
    "other dtype": (file_of(one(dtype="F64"), EIGHT), "invalid shape"),
    "fractional offset": (file_of(one(data_offsets=[0, 8.0]), EIGHT), "invalid type"),
    "three offsets": (file_of(one(data_offsets=[0, 8, 8]), EIGHT), "invalid length"),
    "backwards": (file_of(one(data_offsets=[8, 0]), EIGHT), "invalid offset"),
    "rest": (file_of(one(), EIGHT + b"\0"), "not fully covered"),
    "cut": (file_of(one(), EIGHT[:-1]), "not fully covered"),
    "hole": (file_of(two([0, 4], [8, 12]), bytes(12)), "invalid offset"),
    "overlap": (file_of(two([0, 4], [2, 6]), bytes(6)), "invalid offset"),
    "same offset": (file_of(two([0, 4], [0, 4]), bytes(4)), "invalid offset"),
    "no name": (file_of({"": one()["a"]}, EIGHT), "invalid name"),
    "way out": (file_of({"../../x": one()["a"]}, EIGHT), "invalid name"),
    "backslash out": (file_of({"a\\..\\x": one()["a"]}, EIGHT), "invalid name"),
    "NUL": (file_of({"a\0": one()["a"]}, EIGHT), "invalid name"),
    "right to left": (file_of({"a\u202eb": one()["a"]}, EIGHT), "invalid name"),
    "lone surrogate": (file_of(b'{"\\ud800": {}}'), "invalid JSON"),
    "name twice": (
        file_of(b'{"a": %b, "a": %b}' % ((json.dumps(one()["a"]).encode(),) * 2), EIGHT),
        "comes twice",
    ),
    "a dtype of the library alone": (file_of(one(dtype="F4", shape=[16]), EIGHT), "unknown dtype"),
    "long name": (file_of({"a" * 513: one()["a"]}, EIGHT), "invalid name"),
    "pickle": (b"\x80\x02}q\x00." + bytes(20), "a header of"),
    "zip": (b"PK\x03\x04" + bytes(40), "a header of"),
}


@pytest.mark.parametrize("kind", BAD)
def test_an_invalid_header_is_rejected_quickly(tmp_path: Path, kind: str) -> None:
    data, reason = BAD[kind]
    begin = time.process_time()
    with pytest.raises(InputError, match=reason) as error:
        deserialize(data)
    assert time.process_time() - begin < 1
    assert len(str(error.value)) < 300
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    for read in (read_header, read_tensors):
        with pytest.raises(InputError, match=f"^{path}: not a usable safetensors file: "):
            read(path)


INTEGERS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_every_dtype_is_restored(dtype: torch.dtype) -> None:
    tensors = {"층.0.weight": torch.arange(12).view(3, 4).to(dtype), "empty": torch.zeros(0, 3)}
    loaded = deserialize(serialize(tensors, {"format": "pt"}))
    assert loaded.keys() == tensors.keys()
    assert torch.equal(loaded["층.0.weight"].float(), tensors["층.0.weight"].float())
    assert loaded["층.0.weight"].dtype == dtype
    assert loaded["empty"].shape == (0, 3)


def test_files_are_exchanged_with_the_library(tmp_path: Path) -> None:
    tensors = {"weight": torch.randn(5, 3), "bias": torch.randn(5)}
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize(tensors))
    reference = safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors, path)
    actual = read_tensors(path)
    for name, tensor in tensors.items():
        assert torch.equal(reference[name], tensor)
        assert torch.equal(actual[name], tensor)
    assert {name: entry.shape for name, entry in read_header(path).items()} == {
        "weight": (5, 3),
        "bias": (5,),
    }


def test_noncontiguous_tensors_are_serialized() -> None:
    whole = torch.arange(24.0).view(4, 6)
    for view in (whole.T, whole[:, ::2], whole[1], whole[2:4, 1:3]):
        assert torch.equal(deserialize(serialize({"view": view}))["view"], view)


def test_tied_tensors_must_be_given_once() -> None:
    tied = torch.zeros(3)
    with raises(InputError, "safetensors.shared_memory"):
        serialize({"embedding": tied, "output": tied})


@pytest.mark.parametrize("read", [read_header, read_tensors])
def test_an_unreadable_file_is_a_storage_error(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    with pytest.raises(StorageError, match="check the path"):
        read(tmp_path / "absent")
    with raises(StorageError, "storage.not_regular_file"):
        read(tmp_path)


# In chunks


def test_the_library_reads_the_joined_chunks() -> None:
    kinds = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32]
    tensors = {f"{kind} 텐서": torch.arange(6).view(2, 3).T.to(kind) for kind in kinds}
    tensors |= {"none": torch.zeros(0, 7), "number": torch.tensor(2.5, dtype=torch.float64)}
    whole = b"".join(iter_chunks(tensors))
    for loaded in (deserialize(whole), safetensors.torch.load(whole)):
        assert loaded.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert loaded[name].dtype == tensor.dtype
            assert torch.equal(loaded[name], tensor)


def test_chunks_share_memory_with_the_tensors() -> None:
    weight = torch.zeros(5)
    _, piece = iter_chunks({"weight": weight})
    weight.fill_(1.0)
    assert bytes(piece) == torch.ones(5).numpy().tobytes()


def test_chunks_of_shared_memory_or_unknown_dtype_are_rejected() -> None:
    tied = torch.zeros(6)
    for other in (tied, tied[5:], tied.view(2, 3)):
        with raises(InputError, "safetensors.shared_memory"):
            list(iter_chunks({"a": tied, "b": other}))
    list(iter_chunks({"a": tied[:3], "b": tied[3:]}))
    with raises(InputError, "safetensors.unknown_dtype"):
        list(iter_chunks({"a": torch.zeros(2, dtype=torch.complex64)}))
