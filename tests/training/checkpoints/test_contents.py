"""A forged checkpoint, with its sums made right again, is refused with the name of the field."""

import hashlib
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from jumok import safetensors_io
from jumok.errors import CheckpointError
from jumok.training.checkpoints.checkpoint import MANIFEST, Checkpoint, open_checkpoint
from jumok.training.config import TrainingConfig
from jumok.training.trainer import Trainer
from tests.training.toy_job import Circle, Points, points

Change = Callable[[dict[str, Any]], object]
Tensors = dict[str, Tensor]
CONFIG = TrainingConfig(
    steps=6, evaluate_every=2, ema_decay=0.9, learning_rate=0.01, precision="float32"
)
FACTS = {"recipe": "circle"}


def trainer(
    folder: Path, resume: Checkpoint | None, config: TrainingConfig = CONFIG
) -> Trainer[Points]:
    job = Circle(points(24, 0))  # 3 batches an epoch
    cpu = torch.device("cpu")
    return Trainer(job, config, folder, seed=0, device=cpu, metadata=FACTS, resume=resume)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of step 2 of a run."""
    folder = tmp_path_factory.mktemp("run")
    trainer(folder, None, replace(CONFIG, steps=2)).fit()
    return folder / "checkpoints" / "step-2"


def forge(trained: Path, folder: Path, change: Change) -> Path:
    """A run in `folder` whose checkpoint has a changed manifest, with its sum made right."""
    path = folder / "checkpoints" / "step-2"
    if not path.exists():
        shutil.copytree(trained, path)
        for name in ("metrics.jsonl",):
            shutil.copy(trained.parents[1] / name, folder / name)
    content = json.loads((trained / MANIFEST).read_text())
    change(content)
    sign(path, content)
    return path


def sign(path: Path, content: dict[str, Any]) -> None:
    del content["sha256"]
    for name in content["files"]:
        data = (path / name).read_bytes()
        content["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (path / MANIFEST).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def refused(path: Path, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        trainer(path.parents[1], open_checkpoint(path))


@pytest.mark.parametrize(
    ("progress", "message"),
    [
        ({"epoch": "0"}, 'progress.epoch must be an integer, got "0"'),
        ({"best_score": "high"}, "progress.best_score must be a number"),
        ({"mean_loss": [1.0]}, "progress.mean_loss must be a number, got a list of 1"),
        ({"step": None}, "progress.step must be an integer, got null"),
        ({"steps": 2}, "progress.steps is not known"),
        ({"epoch": ...}, "progress.epoch is missing"),
        ({"epoch": -1}, "progress.epoch must be from 0 to 2, got -1"),
        ({"seconds": -1.0}, "progress.seconds must be from 0 to 9,007,199,254,740,991, got -1"),
        ({"step": 3}, "progress.step must be 2, got 3"),
        ({"epoch": 3}, "progress.epoch must be from 0 to 2, got 3"),
        ({"batch": 10**9}, "progress.batch must be from 0 to 2, got"),
        ({"best_step": 5}, "progress.best_step must be from 0 to 2, got 5"),
        ({"skipped_in_a_row": 1}, "progress.skipped_in_a_row must be from 0 to 0, got 1"),
        ({"ended": "soon"}, "progress.ended must be"),
        ([], "progress must be a table"),
        (None, "progress must be a table"),
    ],
)
def test_forged_progress(trained: Path, tmp_path: Path, progress: Any, message: str) -> None:
    def change(content: dict[str, Any]) -> None:
        metadata = content["metadata"]
        if isinstance(progress, dict):
            merged = metadata["progress"] | progress
            metadata["progress"] = {k: v for k, v in merged.items() if v is not ...}
        elif progress is None:
            del metadata["progress"]
        else:
            metadata["progress"] = progress

    refused(forge(trained, tmp_path, change), message)


def test_a_batch_after_the_end_of_its_epoch(trained: Path, tmp_path: Path) -> None:
    """Epochs of the forged run have one batch."""
    path = forge(trained, tmp_path, lambda content: None)
    job, cpu = Circle(points(8, 0)), torch.device("cpu")
    with pytest.raises(CheckpointError, match=r"progress\.batch must be below the 1 of its epoch"):
        Trainer(
            job, CONFIG, tmp_path, seed=0, device=cpu, metadata=FACTS, resume=open_checkpoint(path)
        )


def _dropped(tensors: Tensors, part: str) -> None:
    del tensors[next(name for name in sorted(tensors) if name.startswith(part))]


def _replaced(tensors: Tensors, part: str, new: Callable[[Tensor], Tensor]) -> None:
    name = next(name for name in sorted(tensors) if name.startswith(part))
    tensors[name] = new(tensors[name])


def _nan(tensor: Tensor) -> Tensor:
    tensor.view(-1)[-1] = math.nan
    return tensor


@pytest.mark.parametrize(
    ("state", "change", "message"),
    [
        ("optimizer", lambda t: _dropped(t, "step:"), "step:0.bias of state optimizer is miss"),
        ("optimizer", lambda t: _dropped(t, "exp_avg:"), "exp_avg:0.bias of state optimizer is"),
        ("optimizer", dict.clear, "state optimizer must have the moments of 2 steps"),
        (
            "optimizer",
            lambda t: t.update({"exp_avg:other": torch.ones(1)}),
            "exp_avg:other of state optimizer is unexpected",
        ),
        ("optimizer", lambda t: t.update(stray=torch.ones(1)), "stray of state optimizer is unexp"),
        (
            "optimizer",
            lambda t: _replaced(t, "exp_avg:0.weight", Tensor.double),
            r"must be float32 \(16, 2\), got float64 \(16, 2\)",
        ),
        (
            "optimizer",
            lambda t: _replaced(t, "exp_avg_sq:0.weight", lambda x: x.T.contiguous()),
            r"must be float32 \(16, 2\), got float32 \(2, 16\)",
        ),
        (
            "optimizer",
            lambda t: _replaced(t, "step:", lambda x: x * 9),
            "must be from 1 to 2, got 18",
        ),
        ("optimizer", lambda t: _replaced(t, "step:", lambda x: x[None]), r"float32 \(\), got "),
        (
            "optimizer",
            lambda t: _replaced(t, "exp_avg_sq:", lambda x: -x - 1),
            "must be at least 0",
        ),
        (
            "optimizer",
            lambda t: _replaced(t, "exp_avg:", _nan),
            "finite weights, got nan in exp_avg:",
        ),
        ("model", lambda t: _replaced(t, "0.weight", _nan), "finite weights, got nan in 0.weight"),
        (
            "model",
            lambda t: _replaced(t, "0.weight", Tensor.int),
            "0.weight of state model must be float32",
        ),
        ("model", lambda t: _dropped(t, "0.weight"), "0.weight of state model is missing"),
        ("average", lambda t: _dropped(t, "0.weight"), "0.weight of state average is missing"),
        ("average", lambda t: _replaced(t, "0.weight", lambda x: x[0]), "must be float32"),
    ],
)
def test_forged_tensors(
    trained: Path, tmp_path: Path, state: str, change: Callable[[Tensors], None], message: str
) -> None:
    path = forge(trained, tmp_path, lambda content: None)
    file = path / f"state-{state}.safetensors"
    tensors = safetensors_io.read_tensors(file)
    change(tensors)
    file.write_bytes(safetensors_io.serialize(tensors))
    sign(path, json.loads((path / MANIFEST).read_text()))
    refused(path, message)


@pytest.mark.parametrize("state", ["average", "optimizer", "model"])
def test_a_missing_or_renamed_state(trained: Path, tmp_path: Path, state: str) -> None:
    path = forge(trained, tmp_path, lambda content: None)
    (path / f"state-{state}.safetensors").rename(path / "state-other.safetensors")
    content = json.loads((path / MANIFEST).read_text())
    del content["files"][f"state-{state}.safetensors"]
    content["files"]["state-other.safetensors"] = {}
    sign(path, content)
    refused(path, "its states must be average, model, optimizer, got ")
