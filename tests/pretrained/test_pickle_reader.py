"""read_pickle: weights are read exactly, and no code of the file is executed."""

import io
import json
import os
import pickle
import runpy
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jumok.errors import InputError
from jumok.pretrained.checkpoint import open_checkpoint
from jumok.pretrained.pickle_reader import read_pickle
from jumok.pretrained.pickle_worker import RejectedError, deduplicate
from tests.errors import raises

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pickles are read on Linux only")
WEIGHT = torch.arange(12.0).view(3, 4)


class Call:
    """An object that calls a function when it is unpickled, as a malicious file does."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


@pytest.mark.slow
def test_weights_are_read_exactly(tmp_path: Path) -> None:
    """Tied weights, views and half precision, in a sharded checkpoint."""
    weights = {
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
    torch.save(weights, tmp_path / "pytorch_model-00001-of-00001.bin")
    index = {"weight_map": dict.fromkeys(weights, "pytorch_model-00001-of-00001.bin")}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text("{}")
    tensors = open_checkpoint(tmp_path).tensors
    assert tensors.keys() == weights.keys()
    for name, tensor in weights.items():
        assert torch.equal(tensors[name], tensor), name
        assert tensors[name].dtype == tensor.dtype
    assert tensors["tied"] is tensors["a"]
    assert not any(tensor.requires_grad for tensor in tensors.values())


@pytest.mark.slow
def test_code_is_reported_and_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker, path = tmp_path / "executed", tmp_path / "pytorch_model.bin"
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # must have no effect
    for function, argument, name in (
        (os.system, f"touch '{marker}'", "posix.system"),
        (eval, f"open({str(marker)!r}, 'w')", "eval"),
        (runpy.run_path, str(marker), "runpy.run_path"),
    ):
        torch.save({"a": WEIGHT, "b": Call(function, argument)}, path)
        with pytest.raises(
            InputError, match=rf"refers to code \({name}\).*never executes"
        ) as caught:
            read_pickle(path)
        assert "\n" not in str(caught.value)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Call(os.system, f"touch '{marker}'")))
    assert marker.exists()  # the payload works


def test_invalid_archives_are_not_unpickled(tmp_path: Path) -> None:
    marker, path = tmp_path / "executed", tmp_path / "pytorch_model.bin"
    call = Call(os.system, f"touch '{marker}'")
    path.write_bytes(pickle.dumps(call))
    with raises(InputError, "pretrained.old_pytorch_file"):
        read_pickle(path)
    torch.save({"a": call}, path, _use_new_zipfile_serialization=False)
    with raises(InputError, "pretrained.old_pytorch_file"):
        read_pickle(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps(call))
    with pytest.raises(InputError, match=r"pytorch_model\.bin: .*compressed"):
        read_pickle(path)
    assert not marker.exists()


@pytest.mark.slow
def test_memory_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": Call(bytearray, 2**40)}, path)
    with pytest.raises(InputError, match="more memory than a file of its size"):
        read_pickle(path)


@pytest.mark.slow
def test_truncated_storage_raises_input_error(tmp_path: Path) -> None:
    """A pickle that declares a storage larger than its zip entry."""
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
        ([WEIGHT], "must hold a dict"),
        (WEIGHT, "must hold a dict"),
        ({"a": WEIGHT, "epoch": 3}, "'epoch' must be a tensor, got int"),
        ({"model": {"a": WEIGHT}}, "'model' must be a tensor, got dict"),
        ({3: WEIGHT}, "3 must be a tensor, got Tensor"),
        ({"a": torch.ones(1).expand(2**40)}, "'a' of shape .* larger than its data"),
        ({"a": torch.ones(4, device="meta")}, "must be a dense tensor"),
        ({"a": torch.eye(3).to_sparse()}, "must be a dense tensor"),
        ({str(number): WEIGHT[: 1 + number % 3] for number in range(3)}, "larger than the file"),
    ],
)
def test_invalid_state_dicts_raise_rejected_error(state: object, reason: str) -> None:
    with pytest.raises(RejectedError, match=reason):
        deduplicate(state, 60)


def test_views_are_copied_and_equal_views_are_tied() -> None:
    kept, tied = deduplicate({"a": WEIGHT, "b": WEIGHT.T, "c": WEIGHT, "d": WEIGHT[2:]}, 1000)
    assert tied == {"c": "a"}
    assert len({tensor.data_ptr() for tensor in kept.values()}) == 3
    assert torch.equal(kept["b"], WEIGHT.T)
    assert torch.equal(kept["d"], WEIGHT[2:])


@pytest.mark.slow
def test_no_temporary_file_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    torch.save({"a": WEIGHT}, tmp_path / "pytorch_model.bin")
    tensors = read_pickle(tmp_path / "pytorch_model.bin")
    assert list(scratch.iterdir()) == []
    assert torch.equal(tensors["a"], WEIGHT)
