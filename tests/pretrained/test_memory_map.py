"""A mapped safetensors file: the same numbers without a copy, and a file nobody can change."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jumok.errors import InputError, StorageError
from jumok.pretrained.memory_map import mmap_safetensors, own, release_pages
from jumok.safetensors_io import read_tensors, serialize

EVERY = {
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
    """The same bits of the same dtype and shape."""
    return (a.dtype, a.shape) == (b.dtype, b.shape) and torch.equal(
        a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)
    )


def test_every_dtype_and_shape_comes_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize(EVERY))
    tensors = mmap_safetensors(path)
    assert tensors.keys() == EVERY.keys()
    for name, tensor in EVERY.items():
        assert same(tensors[name], tensor), name


def test_a_header_of_odd_length(tmp_path: Path) -> None:
    numbers = torch.arange(4, dtype=torch.float64)
    header = json.dumps({"a": {"dtype": "F64", "shape": [4], "data_offsets": [0, 32]}}).encode()
    header += b" " * (1 - len(header) % 2)
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + numbers.numpy().tobytes())
    assert torch.equal(mmap_safetensors(path)["a"], numbers)


def test_writing_to_a_tensor_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize({"a": torch.zeros(1000), "b": torch.ones(10)}))
    before = path.read_bytes()
    tensors = mmap_safetensors(path)
    tensors["a"] += 1
    assert tensors["a"].sum() == 1000
    assert path.read_bytes() == before
    assert mmap_safetensors(path)["a"].sum() == 0


def test_a_tensor_is_no_view_of_all_others(tmp_path: Path) -> None:
    """Whoever copies or saves one tensor copies that one, not the whole file."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize({"a": torch.zeros(1000), "b": torch.ones(10)}))
    assert mmap_safetensors(path)["b"].untyped_storage().nbytes() == 40


def test_the_file_may_be_replaced_and_removed(tmp_path: Path) -> None:
    path, other = tmp_path / "model.safetensors", tmp_path / "other"
    path.write_bytes(serialize({"a": torch.ones(5000)}))
    other.write_bytes(serialize({"a": torch.zeros(1)}))
    tensors = mmap_safetensors(path)
    other.replace(path)
    path.unlink()
    assert tensors["a"].sum() == 5000


def test_owned_tensors_outlive_a_file_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize({"a": torch.ones(5000)}))
    mapped = mmap_safetensors(path)
    tensors = own(mapped | {"b": mapped["a"]})
    os.truncate(path, 0)
    assert tensors["a"].sum() == 5000
    assert tensors["a"] is tensors["b"]


ANONYMOUS = """
import re, sys
from pathlib import Path
import torch
from jumok.pretrained.memory_map import map_file
def anonymous():
    return int(re.search(r"RssAnon:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
before = anonymous()
tensors = map_file(Path(sys.argv[1]))
total = sum(float(tensor.sum()) for tensor in tensors.values())
print(anonymous() - before, total)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory of a process")
def test_reading_every_number_takes_no_memory_of_our_own(tmp_path: Path) -> None:
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


def test_what_is_no_safetensors_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    whole = serialize({"a": torch.ones(50)})
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"model\.safetensors: not a usable"):
            mmap_safetensors(path)
    path.write_bytes((2**63).to_bytes(8, "little") + whole)
    with pytest.raises(InputError, match="a header of 9,223"):
        mmap_safetensors(path)
    with pytest.raises(StorageError, match="not an ordinary file"):
        mmap_safetensors(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="not an ordinary file"):
        mmap_safetensors(tmp_path / "pipe")


def test_mapped_and_read_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(serialize(EVERY))
    read, mapped = read_tensors(path), mmap_safetensors(path)
    assert all(same(read[name], mapped[name]) for name in EVERY)


def resident() -> int:
    """The bytes of files that this process holds in memory."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("RssFile")]
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux alone")
def test_a_weight_that_is_put_down_leaves_the_memory_and_comes_back(tmp_path: Path) -> None:
    """All but what stands on a page with something else; of what was changed nothing is lost."""
    path = tmp_path / "model.safetensors"
    kept = {name: torch.arange(2**22) + i for i, name in enumerate("abc")}  # 32 MiB each
    path.write_bytes(serialize(kept))
    with path.open("rb") as file:
        os.fsync(file.fileno())  # pages that are not on the disk yet stay
    before = resident()
    tensors = mmap_safetensors(path)
    tensors["b"][7] = -1
    assert all(int(tensor[-1]) for tensor in tensors.values())
    opened = resident()
    if opened < before + 2 * 2**25:  # other files may have left it meanwhile
        pytest.skip("the temporary folder is not on a disk")
    release_pages(tensors["a"])
    release_pages(tensors["b"])
    release_pages(torch.zeros(10))  # mapped by nobody
    assert resident() < opened - 3 * 2**24  # of 2**26; they may have come back in part
    assert torch.equal(tensors["a"], kept["a"])
    assert torch.equal(tensors["c"], kept["c"])
    assert tensors["b"][7] == -1
    kept["b"][7] = -1
    assert torch.equal(tensors["b"], kept["b"])
