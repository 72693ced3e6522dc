"""The script that puts a model into the package: half the bytes, the same model, a true card."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import jumok
from jumok.shipped import CARD, WEIGHTS, resolve_model
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train
from tests.tiny_runs import reviews

SCRIPT = Path(__file__).parents[1] / "scripts" / "ship_model.py"

RECIPE = """
task = "masked_language_modeling"
[data]
train = "{folder}/train.txt"
[vocabulary]
size = 66
[model]
d_model = 16
d_embedding = 8
n_heads = 2
d_ff = 32
n_layers = 1
n_segments = 2
max_length = 24
[training]
steps = 4
batch_tokens = 256
precision = "float32"
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("ship_model", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    folder = tmp_path_factory.mktemp("ship")
    texts = "".join(f"{text}\n" for text, _ in reviews(60, 0))
    (folder / "train.txt").write_text(texts, encoding="utf-8")
    (folder / "tiny-ko.toml").write_text(RECIPE.format(folder=folder), encoding="utf-8")
    train(load_recipe(str(folder / "tiny-ko.toml")), folder / "run")
    path = script.ship(folder / "run", folder / "shipped", [])
    assert isinstance(path, Path)
    return path


def test_half_the_bytes_and_nearly_the_same_vectors(shipped: Path) -> None:
    run = shipped.parents[1] / "run"
    assert resolve_model("tiny-ko", shipped.parent) == shipped
    assert (shipped / WEIGHTS).stat().st_size < 0.7 * (run / WEIGHTS).stat().st_size
    texts = ["이 영화 재미있어요", "결말이 별로예요"]
    first, second = (jumok.load(path, device="cpu").encode(texts) for path in (run, shipped))
    assert (first * second).sum(1).min() > 0.999  # cosine; bfloat16 keeps 8 bits
    assert not np.array_equal(first, second)


def test_the_card_states_what_the_run_did(shipped: Path) -> None:
    card = (shipped / CARD).read_text(encoding="utf-8")
    results = json.loads((shipped.parents[1] / "run" / "results.json").read_text())
    assert f"{results['perplexity']:.2f}" in card
    assert "CC BY-SA 3.0" in card
    assert "아직 재지 않았습니다" in card
    assert card.count("→") == 7


def test_a_task_begins_from_it(shipped: Path, review_recipe: Path, tmp_path: Path) -> None:
    words = [f'model.init="{shipped}"', "training.steps=2"]
    result = train(load_recipe(str(review_recipe), words), tmp_path / "run")
    assert result.results["begun_from"].startswith("20 of 22")
    assert jumok.load(tmp_path / "run").recipe.model.embedding_dim == 8
