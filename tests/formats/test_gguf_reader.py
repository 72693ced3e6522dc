"""GGUF files: tensors bit for bit as the gguf package reads them; damaged files are refused."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jumok.errors import InputError
from jumok.formats.gguf_reader import is_gguf, read_gguf
from jumok.native.gguf_types import TYPES, dequantize

gguf = pytest.importorskip("gguf")

NAMES = {kind: found.name for kind, found in TYPES.items()}


@pytest.mark.parametrize("kind", TYPES, ids=NAMES.__getitem__)
def test_every_block_is_dequantized_bit_for_bit(kind: int) -> None:
    found = TYPES[kind]
    rng = np.random.default_rng(kind)
    data = rng.integers(0, 256, (3000, found.bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):  # scales of every bit pattern
        expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(kind)).reshape(-1)
    actual = dequantize(data.reshape(-1), found)
    real = ~np.isnan(expected)
    assert np.array_equal(actual[real].view(np.uint32), expected[real].view(np.uint32))
    assert np.isnan(actual[~real]).all()
    sizes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
    assert sizes == (found.weights, found.bytes)


def written(path: Path) -> Path:
    """A small file of the package, with every kind of value and some types of tensors."""
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("a.u32", 7)
    writer.add_float32("a.f32", 0.5)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "한글")
    writer.add_array("a.strings", ["가", "나", ""])
    writer.add_array("a.numbers", [1, 2, 3])
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((4, 64)).astype(np.float32)
    writer.add_tensor("plain", weight)
    writer.add_tensor("half", weight.astype(np.float16))
    for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0):
        writer.add_tensor(kind.name, gguf.quants.quantize(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_is_read_as_the_package_reads_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.gguf")
    found, reference = read_gguf(path), gguf.GGUFReader(path)
    assert is_gguf(path)
    assert not is_gguf(tmp_path)
    assert found.metadata["a.string"] == "한글"
    assert found.metadata["a.strings"] == ("가", "나", "")
    assert found.metadata["a.numbers"] == (1, 2, 3)
    assert (found.metadata["a.u32"], found.metadata["a.bool"]) == (7, True)
    assert found.tensors.keys() == {tensor.name for tensor in reference.tensors}
    for tensor in reference.tensors:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        actual = found.read(tensor.name)
        assert np.array_equal(actual, expected.astype(np.float32).reshape(actual.shape))
        assert actual.shape == (4, 64)


def header(tensors: int = 0, pairs: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def tensor(name: bytes, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    return string(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"GGML" + bytes(20), "must begin with GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (header(version=1), "must be 2 or 3 and little-endian, got 1"),
        (b"GGUF\0\0", "must hold its whole header"),
        (header(tensors=2**63), "at most .* tensors"),
        (header(pairs=2**63), "at most 10,000 metadata pairs"),
        (header(pairs=9), "must hold its 9 metadata pairs"),
        (header(pairs=1) + string(b"a" * 70_000) + bytes(20), "at most 65,535 bytes in a key"),
        (header(pairs=1) + string(b"\xff") + bytes(20), "a key must be UTF-8"),
        (header(pairs=2) + 2 * (string(b"a") + bytes(5)), "got 'a' twice"),
        (header(pairs=1) + string(b"a") + struct.pack("<I", 99), "must be a number, .* type 99"),
        (
            header(pairs=1) + string(b"a") + struct.pack("<IIQ", 9, 4, 2**62),
            "at most 4,000,000 items",
        ),
        (header(pairs=1) + string(b"a") + struct.pack("<IIQ", 9, 9, 1), "type 9"),
        (header(pairs=1) + string(b"a") + struct.pack("<IQ", 8, 2**40), "at most 16,777,216 bytes"),
        (
            header(pairs=1) + string(b"general.alignment") + struct.pack("<II", 4, 3),
            "multiple of 8 up to 65536, got 3",
        ),
        (header(tensors=1) + tensor(b"a", ()) + bytes(9), "1 to 4 dimensions, got 0"),
        (header(tensors=1) + tensor(b"a", (2**40, 2**40)), "elements"),
        (header(tensors=1) + tensor(b"a", (0,)), "elements"),
        (header(tensors=1) + tensor(b"a", (8,), kind=20), "of a type among F32, .*got IQ4_NL"),
        (header(tensors=1) + tensor(b"a", (8,), kind=99), "of a type among F32, .*got number 99"),
        (header(tensors=1) + tensor(b"a", (8,), kind=8), "whole blocks of 32"),
        (header(tensors=1) + tensor(b"a", (8,)), "within the 0 bytes of data"),
        (header(tensors=2) + 2 * tensor(b"a", (1,)) + bytes(64), "got 'a' twice"),
        (
            header(tensors=2) + tensor(b"a", (1,)) + tensor(b"b", (1,)) + bytes(64),
            "apart from others",
        ),
        (header(tensors=1) + tensor(b"a", (1,), offset=4) + bytes(64), "aligned"),
    ],
)
def test_damaged_files(data: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(InputError, match=sentence):
        read_gguf(path)
