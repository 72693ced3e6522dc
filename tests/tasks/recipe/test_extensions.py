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

import jumok
from jumok.errors import InputError
from jumok.inference.optimization import unsupported_reason
from jumok.nn.masks import NO_MASK
from jumok.registry import register
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train

EXAMPLES = Path(__file__).parents[3] / "examples"
TEXT = "이 영화 재미있어요"


@register("jumok.schedules", "tests_square")
def square(step: int, warmup_steps: int, progress: float) -> float:
    return (1 - progress) ** 2


@pytest.fixture(scope="module")
def run(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A classifier with the attention of the example, which this process has imported."""
    spec = importlib.util.spec_from_file_location("own_attention", EXAMPLES / "own_attention.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_attention"] = module
    spec.loader.exec_module(module)
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


def test_the_run_is_refused_without_its_extension(run: Path) -> None:
    done = python(f"import jumok; jumok.load({str(run)!r})")
    assert done.stderr.splitlines()[-1] == (
        f"jumok.errors.RecipeError: {run} was trained with the extension 'sigmoid' of "
        "jumok.attention, which is not registered; import own_attention first"
    )
    code = f"import own_attention, jumok; print(jumok.load({str(run)!r}, 'cpu')({TEXT!r}).label)"
    done = python(code, EXAMPLES)
    assert (done.stderr, done.stdout) == ("", f"{jumok.load(run, 'cpu')(TEXT).label}\n")  # type: ignore[union-attr]


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
