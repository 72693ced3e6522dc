"""Memory-mapped safetensors files: the same values without a copy, and an unchanged file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jumok.errors import InputError, StorageError
from jumok.pretrained.memory_map import mmap_safetensors, release_pages
from jumok.safetensors_io import read_tensors, serialize
from tests.errors import raises

TENSORS = {
    "bool": torch.tensor([True, False, True]),
    **{
        str(dtype).removeprefix("torch."): torch.arange(6).view(2, 3).to(dtype)
        for dtype in (
            *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
            *(torch.int8, torch.int16, torch.int32, torch.int64),
            *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
            *(torch.float8_e4m3fn, torch.float8_e5m2),
        )
    },
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(0, 7),
}


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether dtype, shape and bits are equal."""
    return (a.dtype, a.shape) == (b.dtype, b.shape) and torch.equal(
        a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)
    )


def test_every_dtype_and_shape(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize(TENSORS))
    tensors = mmap_safetensors(path)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert same(tensors[name], tensor), name


def test_unaligned_header(tmp_path: Path) -> None:
    numbers = torch.arange(4, dtype=torch.float64)
    header = json.dumps({"a": {"dtype": "F64", "shape": [4], "data_offsets": [0, 32]}}).encode()
    header += b" " * (1 - len(header) % 2)
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + numbers.numpy().tobytes())
    assert torch.equal(mmap_safetensors(path)["a"], numbers)


def test_changing_a_tensor_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize({"a": torch.zeros(1000), "b": torch.ones(10)}))
    before = path.read_bytes()
    tensors = mmap_safetensors(path)
    tensors["a"] += 1
    assert tensors["a"].sum() == 1000
    assert path.read_bytes() == before
    assert mmap_safetensors(path)["a"].sum() == 0


def test_each_tensor_has_its_own_storage(tmp_path: Path) -> None:
    """Copying or saving one tensor does not copy the whole file."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize({"a": torch.zeros(1000), "b": torch.ones(10)}))
    assert mmap_safetensors(path)["b"].untyped_storage().nbytes() == 40


def test_file_may_be_replaced_and_removed(tmp_path: Path) -> None:
    path, other = tmp_path / "model.safetensors", tmp_path / "other"
    path.write_bytes(serialize({"a": torch.ones(5000)}))
    other.write_bytes(serialize({"a": torch.zeros(1)}))
    tensors = mmap_safetensors(path)
    other.replace(path)
    path.unlink()
    assert tensors["a"].sum() == 5000


ANONYMOUS = """
import re, sys
from pathlib import Path
import torch
from jumok.pretrained.memory_map import mmap_safetensors
def anonymous():
    return int(re.search(r"RssAnon:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
before = anonymous()
tensors = mmap_safetensors(Path(sys.argv[1]))
total = sum(float(tensor.sum()) for tensor in tensors.values())
print(anonymous() - before, total)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_reading_all_values_takes_no_anonymous_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize({str(number): torch.ones(2**20) for number in range(16)}))  # 64 MiB
    done = subprocess.run(
        [sys.executable, "-c", ANONYMOUS, path],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    kibibytes, total = done.stdout.split()
    assert float(total) == 2**24
    assert int(kibibytes) < 8 * 1024


def test_invalid_files_raise_errors_with_their_path(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    whole = serialize({"a": torch.ones(50)})
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"model\.safetensors: not a usable"):
            mmap_safetensors(path)
    path.write_bytes((2**63).to_bytes(8, "little") + whole)
    with pytest.raises(InputError, match="a header of 9,223"):
        mmap_safetensors(path)
    with raises(StorageError, "storage.not_regular_file"):
        mmap_safetensors(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with raises(StorageError, "storage.not_regular_file"):
        mmap_safetensors(tmp_path / "pipe")


def test_mapped_and_read_tensors_are_equal(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize(TENSORS))
    read, mapped = read_tensors(path), mmap_safetensors(path)
    assert all(same(read[name], mapped[name]) for name in TENSORS)


def resident() -> int:
    """The bytes of mapped files in the memory of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("RssFile")]
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="pages are released on Linux only")
def test_released_pages_are_read_again(tmp_path: Path) -> None:
    """All pages except those shared with other data; changed values are kept."""
    path = tmp_path / "model.safetensors"
    kept = {name: torch.arange(2**22) + i for i, name in enumerate("abc")}  # 32 MiB each
    path.write_bytes(serialize(kept))
    with path.open("rb") as file:
        os.fsync(file.fileno())  # pages not yet on the disk cannot be released
    before = resident()
    tensors = mmap_safetensors(path)
    tensors["b"][7] = -1
    assert all(int(tensor.sum()) for tensor in tensors.values())  # reads all pages
    opened = resident()
    if opened < before + 2 * 2**25:  # not backed by a disk, or other files were released
        pytest.skip("the temporary folder is not on a disk")
    release_pages(tensors["a"])
    release_pages(tensors["b"])
    release_pages(torch.zeros(10))  # not mapped
    assert resident() < opened - 3 * 2**24  # of 2**26; some may have been read again
    assert torch.equal(tensors["a"], kept["a"])
    assert torch.equal(tensors["c"], kept["c"])
    assert tensors["b"][7] == -1
    kept["b"][7] = -1
    assert torch.equal(tensors["b"], kept["b"])
