"""The guarded door: weights come through with every bit, and no line of anybody's code runs."""

import io
import json
import os
import pickle
import runpy
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jumok.errors import InputError
from jumok.pretrained import pickle_worker as unpickle
from jumok.pretrained.checkpoint import open_checkpoint
from jumok.pretrained.pickle_reader import read_pickle
from jumok.pretrained.pickle_worker import RejectedError, deduplicate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pickles are read on Linux only")
WEIGHT = torch.arange(12.0).view(3, 4)


class Call:
    """Unpickled, it is the call of a function: what a malicious file holds."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


def test_weights_come_through(tmp_path: Path) -> None:
    """Tied ones tied, views and half types as they are, in a folder with an index of its own."""
    given = {
        "a": WEIGHT,
        "parameter": torch.nn.Parameter(WEIGHT.clone()),
        "turned": torch.randn(4, 3).T,
        "row": WEIGHT[1],
        "tied": WEIGHT,
        "bf16": torch.randn(5).bfloat16(),
        "ids": torch.arange(5),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.0),
    }
    torch.save(given, tmp_path / "pytorch_model-00001-of-00001.bin")
    index = {"weight_map": dict.fromkeys(given, "pytorch_model-00001-of-00001.bin")}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text("{}")
    tensors = open_checkpoint(tmp_path).tensors
    assert tensors.keys() == given.keys()
    for name, tensor in given.items():
        assert torch.equal(tensors[name], tensor), name
        assert tensors[name].dtype == tensor.dtype
    assert tensors["tied"] is tensors["a"]
    assert not any(tensor.requires_grad for tensor in tensors.values())


def test_code_is_named_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker, path = tmp_path / "it ran", tmp_path / "pytorch_model.bin"
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # of no effect on the door
    for function, argument, name in (
        (os.system, f"touch '{marker}'", "posix.system"),
        (eval, f"open({str(marker)!r}, 'w')", "eval"),
        (runpy.run_path, str(marker), "runpy.run_path"),
    ):
        torch.save({"a": WEIGHT, "b": Call(function, argument)}, path)
        with pytest.raises(InputError, match=rf"asks for code \({name}\).*never runs") as refusal:
            read_pickle(path)
        assert "\n" not in str(refusal.value)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Call(os.system, f"touch '{marker}'")))
    assert marker.exists()  # the file would have told


def test_what_needs_no_unpickling_is_refused_before(tmp_path: Path) -> None:
    marker, path = tmp_path / "it ran", tmp_path / "pytorch_model.bin"
    call = Call(os.system, f"touch '{marker}'")
    path.write_bytes(pickle.dumps(call))
    with pytest.raises(InputError, match="PyTorch wrote them before"):
        read_pickle(path)
    torch.save({"a": call}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(InputError, match="PyTorch wrote them before"):
        read_pickle(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps(call))
    with pytest.raises(InputError, match=r"pytorch_model\.bin: .*compressed"):
        read_pickle(path)
    assert not marker.exists()


def test_memory_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": Call(bytearray, 2**40)}, path)
    with pytest.raises(InputError, match="more memory than a file of its size"):
        read_pickle(path)


def test_numbers_that_are_not_in_the_file_are_not_read(tmp_path: Path) -> None:
    """A pickle that says its storage is larger than the entry that holds it."""
    path = tmp_path / "pytorch_model.bin"
    file = io.BytesIO()
    torch.save({"a": torch.ones(100_000)}, file)
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name)[:1000])
    with pytest.raises(InputError, match="torch cannot read it"):
        read_pickle(path)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ([WEIGHT], "no table"),
        (WEIGHT, "no table"),
        ({"a": WEIGHT, "epoch": 3}, "'epoch' is of the type int"),
        ({"model": {"a": WEIGHT}}, "'model' is of the type dict"),
        ({3: WEIGHT}, "3 is of the type Tensor"),
        ({"a": torch.ones(1).expand(2**40)}, "'a' of shape .* larger than its numbers"),
        ({"a": torch.ones(4, device="meta")}, "no plain tensor"),
        ({"a": torch.eye(3).to_sparse()}, "no plain tensor"),
        ({str(number): WEIGHT[: 1 + number % 3] for number in range(3)}, "larger than the file"),
    ],
)
def test_what_is_no_table_of_plain_tensors(state: object, reason: str) -> None:
    with pytest.raises(RejectedError, match=reason):
        deduplicate(state, 60)


def test_views_of_one_storage_are_copies_but_the_same_view_is_tied() -> None:
    kept, tied = deduplicate({"a": WEIGHT, "b": WEIGHT.T, "c": WEIGHT, "d": WEIGHT[2:]}, 1000)
    assert tied == {"c": "a"}
    assert len({tensor.data_ptr() for tensor in kept.values()}) == 3
    assert torch.equal(kept["b"], WEIGHT.T)
    assert torch.equal(kept["d"], WEIGHT[2:])


def test_the_other_process_has_no_network() -> None:
    program = f"""
import runpy, socket, sys
left = runpy.run_path({str(unpickle.__file__)!r})["leave_network"]()
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)
except OSError:
    print("none", left)
else:
    print("some", left)
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", program, port]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    if done.stdout == "some False\n":
        pytest.skip("this system does not let a process leave its network")
    assert done.stdout == "none True\n"


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    torch.save({"a": WEIGHT}, tmp_path / "pytorch_model.bin")
    tensors = read_pickle(tmp_path / "pytorch_model.bin")
    assert list(scratch.iterdir()) == []
    assert torch.equal(tensors["a"], WEIGHT)
