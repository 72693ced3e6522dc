"""Runs with parts that are not of jumok: recorded, refused without them, the same with them."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import jumok
from jumok.errors import InputError, ModelFileError
from jumok.inference.optimization import unsupported_reason
from jumok.nn.config import LayerConfig
from jumok.nn.masks import NO_MASK
from jumok.nn.positions import POSITIONS
from jumok.pretrained.meta_init import on_meta_device
from jumok.registry import register
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train
from jumok.training.config import TrainingConfig
from jumok.training.optimizer import Optimizer
from jumok.training.optimizers import Groups, OptimizerKind
from tests.errors import raises

EXAMPLES = Path(__file__).parents[3] / "examples"
TEXT = "이 영화 재미있어요"


@register("jumok.schedules", "tests_square")
def square(step: int, warmup_steps: int, progress: float) -> float:
    return (1 - progress) ** 2


@register("jumok.norms", "tests_scale")
class ScaleNorm(nn.Module):
    """x divided by its root mean square, without weights (one of Nguyen and Salazar 2019)."""

    def __init__(self, width: int, *, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt()


@register("jumok.optimizers", "tests_sgd")
class SGDKind(OptimizerKind):
    def updates(self, name: str, weight: nn.Parameter) -> bool:
        return ".layers." in name

    def build(self, groups: Groups, config: TrainingConfig) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=0.9)


def example(name: str) -> None:
    """Import an example; its module is that of its file name."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


@pytest.fixture(scope="module")
def run(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A classifier with the attention of the example, which this process has imported."""
    example("own_attention")
    folder = tmp_path_factory.mktemp("extensions") / "run"
    train(load_recipe(str(review_recipe), ["model.attention=sigmoid", "training.steps=4"]), folder)
    yield folder
    del sys.modules["own_attention"]


def python(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a new process that finds modules in these folders."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path, "JUMOK_LANG": "en"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_run_records_its_extensions(run: Path, review_run: Path) -> None:
    (record,) = json.loads((run / "extensions.json").read_text(encoding="utf-8"))["extensions"]
    assert len(record.pop("sha256")) == 64
    assert record == {
        "group": "jumok.attention",
        "name": "sigmoid",
        "module": "own_attention",
        "distribution": "",
        "version": "",
    }
    assert not (review_run / "extensions.json").exists()


UNREGISTERED = """
import jumok
try:
    jumok.load({run!r}, "cpu")
except jumok.JumokError as error:
    print(type(error).__name__, error, sep=": ")
import own_attention
print(jumok.load({run!r}, "cpu")({text!r}).label)
"""


def test_the_run_is_refused_without_its_extension(run: Path) -> None:
    done = python(UNREGISTERED.format(run=str(run), text=TEXT), EXAMPLES)
    assert done.stderr == ""
    refused, label = done.stdout.splitlines()
    assert refused == (
        f"RecipeError: {run} was trained with the extension 'sigmoid' of "
        "jumok.attention, which is not registered; import own_attention first"
    )
    assert label == jumok.load(run, "cpu")(TEXT).label  # type: ignore[union-attr]


def test_an_extension_of_a_distribution_is_named(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "extensions.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    (record,) = tree["extensions"]
    record |= {"name": "linear", "distribution": "own-attentions", "version": "1.2"}
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(InputError, match=r"registered; install own-attentions==1\.2"):
        jumok.load(tmp_path / "run")
    record |= {"name": "pip", "group": "console_scripts"}  # nothing of another group is imported
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(InputError, match="'pip' of console_scripts, which is not registered"):
        jumok.load(tmp_path / "run")


def test_a_changed_file_is_a_warning(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jumok.load(run)
    assert capsys.readouterr().err == ""
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "extensions.json"
    path.write_text(path.read_text().replace('"sha256": "', '"sha256": "0'), encoding="utf-8")
    jumok.load(tmp_path / "run")
    assert "own_attention is not the file that" in capsys.readouterr().err


def test_the_attention_is_used_and_traced(run: Path) -> None:
    pipeline = jumok.load(run, device="cpu")
    (layer,) = pipeline.model.encoder.stack.layers  # type: ignore[union-attr]
    attention = layer.self_attention  # type: ignore[union-attr]
    assert type(attention).__name__ == "SigmoidAttention"
    x = torch.randn(1, 5, 16)
    q, k, v = attention.project_self(x)
    expected = ((q @ k.mT * attention.scale) - torch.tensor(5.0).log()).sigmoid() @ v
    found = attention.attend_queries(q, k, v, NO_MASK)
    torch.testing.assert_close(found, attention.output(expected.transpose(1, 2).flatten(2)))
    trace = jumok.trace(pipeline, TEXT)
    weights, scores = trace.weights("encoder", 0), trace.scores("encoder", 0)
    sigmoid = 1 / (1 + np.exp(np.log(scores.shape[-1]) - scores))
    np.testing.assert_allclose(weights, sigmoid, atol=2e-3)  # traces are rounded to float16
    assert "attention of an extension" in str(unsupported_reason(pipeline.model))


def test_a_schedule_of_the_program(review_recipe: Path, tmp_path: Path) -> None:
    words = ["training.schedule=tests_square", "training.steps=4", "training.warmup_steps=0"]
    train(load_recipe(str(review_recipe), [*words, "training.log_every=1"]), tmp_path / "run")
    (record,) = json.loads((tmp_path / "run" / "extensions.json").read_text())["extensions"]
    assert (record["group"], record["name"]) == ("jumok.schedules", "tests_square")
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rates = [json.loads(row)["learning_rate"] for row in rows if "learning_rate" in row]
    assert rates[0] == pytest.approx(0.02)
    assert rates[-1] < rates[0] / 4


def records(folder: Path) -> set[tuple[str, str]]:
    """Group and name of the extensions that a run records."""
    tree = json.loads((folder / "extensions.json").read_text(encoding="utf-8"))
    return {(each["group"], each["name"]) for each in tree["extensions"]}


def test_positions_norm_and_optimizer_of_the_program(review_recipe: Path, tmp_path: Path) -> None:
    """A run resumes with them to the same weights."""
    example("own_positions")
    words = ["model.positions=alibi", "model.norm=tests_scale", "training.optimizer=tests_sgd"]
    words += ["training.checkpoint_every=2", "training.learning_rate=0.01"]
    recipe = load_recipe(str(review_recipe), [*words, "training.steps=4"])
    train(recipe, tmp_path / "run")
    expected = {("jumok.positions", "alibi"), ("jumok.norms", "tests_scale")}
    assert records(tmp_path / "run") == expected | {("jumok.optimizers", "tests_sgd")}
    pipeline = jumok.load(tmp_path / "run", device="cpu")
    stack = pipeline.model.encoder.stack  # type: ignore[union-attr]
    assert type(stack.relative).__name__ == "AlibiBias"  # type: ignore[union-attr]
    assert {"positions of an extension", "norms of an extension"} <= {*stack.extensions()}  # type: ignore[operator, union-attr]
    assert "positions of an extension" in str(unsupported_reason(pipeline.model))
    info = jumok.trace(pipeline, TEXT).info.model
    assert (info.positions, info.norm) == ("unknown", "unknown")
    shutil.copytree(tmp_path / "run", tmp_path / "resumed")
    checkpoints = tmp_path / "resumed" / "checkpoints"
    newest = max(checkpoints.glob("step-*"), key=lambda path: path.name)
    shutil.rmtree(newest)
    jumok.resume(tmp_path / "resumed")
    weights = "model.safetensors"
    assert (tmp_path / "resumed" / weights).read_bytes() == (
        tmp_path / "run" / weights
    ).read_bytes()
    del sys.modules["own_positions"]


def test_alibi_equals_the_paper() -> None:
    """With 8 heads the slopes are 1/2, 1/4, ..., 1/256; cached rows are those of the whole."""
    example("own_positions")
    bias = POSITIONS.get("alibi")().bias(LayerConfig(d_model=16), bidirectional=False)
    assert bias is not None
    whole = bias(4, 4)
    assert whole[0, 0].tolist()[3] == [-1.5, -1.0, -0.5, 0.0]
    assert whole[0, 7, 3, 2] == -1 / 256
    assert torch.equal(bias(1, 4), whole[:, :, 3:])
    del sys.modules["own_positions"]


def test_an_optimizer_with_a_state_that_no_checkpoint_holds() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = Optimizer({"w.layers.0": weight}, TrainingConfig(steps=1, optimizer="tests_sgd"))
    optimizer.optimizer_of["w.layers.0"].state[weight]["count"] = 3
    with raises(InputError, "training.optimizer_state"):
        optimizer.state()


def test_an_unknown_optimizer_is_not_sharded() -> None:
    with raises(InputError, "training.not_with_sharding"):
        TrainingConfig(steps=1, optimizer="tests_sgd", sharding="full")
    with raises(InputError, "extension.unknown_name"):
        TrainingConfig(steps=1, optimizer="adam")


def test_buffers_need_values_in_a_model_that_is_loaded() -> None:
    class Buffered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("slopes", torch.ones(2), persistent=False)

    with raises(ModelFileError, "pretrained.buffer_without_values"):
        on_meta_device(Buffered)
