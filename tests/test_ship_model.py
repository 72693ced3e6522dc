"""The script that puts a model into the package: half the bytes, the same model, a true card."""

import importlib.util
import json
import math
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors import safe_open

import jumok
from jumok.models.int8_weights import SUFFIX
from jumok.shipped import CARD, WEIGHTS, resolve_model
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train
from tests.tasks.tiny_jobs import score_rows
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


VECTORS = """
task = "similarity"
metric = "pearson"
[data]
train = "{folder}/pairs.tsv"
dev = "{folder}/held-out.tsv"
test = "{folder}/held-out.tsv"
pair = "pair"
score = "score"
[regression]
lowest = 1.0
highest = 5.0
[distillation]
teachers = ["{folder}/e5"]
[vocabulary]
size = 66
[model]
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 1
max_length = 24
[training]
steps = 4
batch_tokens = 256
precision = "float32"
"""


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ship_model", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ship")
    texts = "".join(f"{text}\n" for text, _ in reviews(60, 0))
    (folder / "train.txt").write_text(texts, encoding="utf-8")
    (folder / "tiny-ko.toml").write_text(RECIPE.format(folder=folder), encoding="utf-8")
    train(load_recipe(str(folder / "tiny-ko.toml")), folder / "run")
    path = _script().ship(folder / "run", folder / "shipped", [])
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
    assert _script().NOT_JUDGED in card
    assert "jumok predict tiny-ko " in card
    assert "encode(" not in card


@pytest.mark.parametrize("name", ["ko-small", "ko-small-vectors", "ko-static"])
def test_the_shipped_cards_are_as_the_script_writes_them(name: str) -> None:
    """Licence, texts, example and counts; the runs behind the figures are not in the project."""
    script = _script()
    card = (resolve_model(name) / CARD).read_text(encoding="utf-8")
    assert "\n".join(["|---|---|---|---|", *script.text_rows(), ""]) in card
    assert " ".join(script.LICENCE) in card
    example = script._lm_example if name == "ko-small" else script._vector_example
    assert "\n".join(example(name)) in card
    with safe_open(resolve_model(name) / WEIGHTS, "pt") as weights:
        names = [key for key in weights.keys() if not key.endswith(SUFFIX)]  # noqa: SIM118
        shapes = [weights.get_slice(key).get_shape() for key in names]
    count = script.korean_count(sum(math.prod(shape) for shape in shapes))
    assert f"가중치 {count} 개의" in card
    limits = (script.LM_LIMITS_KO, script.VECTOR_LIMITS_KO)
    assert [text in card for text in limits] == [name == "ko-small", name != "ko-small"]


@pytest.mark.parametrize("name", ["koen-small", "enko-small"])
def test_the_shipped_card_of_a_translator_names_every_source(name: str) -> None:
    script = _script()
    card = (resolve_model(name) / CARD).read_text(encoding="utf-8")
    assert "\n".join(script.pair_rows(name)) in card
    assert "\n".join(script.open_rows()) in card
    assert " ".join(script.LICENCE) in card
    assert "GPL" not in "".join([*script.pair_rows(name), *script.open_rows()])


def test_a_translator_has_its_tables_in_int8(reading_recipe: Path, tmp_path: Path) -> None:
    words = ["vocabulary.joint=false", "vocabulary.size=29", "vocabulary.target_size=28"]
    words += ["model.n_decoder_layers=1", "training.steps=30", "name=tiny-read"]
    train(load_recipe(str(reading_recipe), words), tmp_path / "run")
    path = _script().ship(tmp_path / "run", tmp_path / "shipped", [])
    assert (path / WEIGHTS).stat().st_size < 0.55 * (tmp_path / "run" / WEIGHTS).stat().st_size
    with safe_open(path / WEIGHTS, "pt") as weights:
        scales = [key for key in weights.keys() if key.endswith(SUFFIX)]  # noqa: SIM118
    assert scales == [f"{side}.embedding.tokens.weight{SUFFIX}" for side in ("decoder", "encoder")]
    texts = ["구 팔", "일 이 삼"]
    outputs = [jumok.load(each, device="cpu")(texts) for each in (tmp_path / "run", path)]
    for one, other in zip(*outputs, strict=True):
        assert one.score == pytest.approx(other.score, rel=0.05)
    card = (path / CARD).read_text(encoding="utf-8")
    assert "29 and 28 pieces" in card
    assert card.count("→") == 5
    begin = [f'model.init="{path}"', "vocabulary.joint=false", "training.steps=2"]
    again = train(load_recipe(str(reading_recipe), begin), tmp_path / "again")
    assert again.results["initialized_from"].endswith(f"weights from {path}")


def test_the_card_of_distilled_vectors_names_the_teacher(tmp_path: Path, review_run: Path) -> None:
    shutil.copytree(review_run, tmp_path / "e5")
    held_out = [("소리가 커요", "화면이 작아요", 1.0), ("음악 별로예요", "노래 별로예요", 5.0)]
    for name, pairs in (("pairs.tsv", score_rows(24, 1)), ("held-out.tsv", held_out)):
        rows = [f"{one}\t{two}\t{score}" for one, two, score in pairs]
        (tmp_path / name).write_text(
            "\n".join(["text\tpair\tscore", *rows]) + "\n", encoding="utf-8"
        )
    (tmp_path / "tiny-vectors.toml").write_text(VECTORS.format(folder=tmp_path), encoding="utf-8")
    train(load_recipe(str(tmp_path / "tiny-vectors.toml")), tmp_path / "run")
    path = _script().ship(tmp_path / "run", tmp_path / "shipped", [])
    card = (path / CARD).read_text(encoding="utf-8")
    results = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    assert "distilled from multilingual-e5-small" in card
    assert "MIT" in card
    assert "증류했습니다" in card
    assert f"{results['pearson']:.4f}" in card
    assert "[MASK]" not in card
    texts = ["이 영화 재미있어요", "결말이 별로예요"]
    first, second = (
        jumok.load(each, device="cpu").encode(texts) for each in (tmp_path / "run", path)
    )
    assert (first * second).sum(1).min() > 0.999


def test_a_table_of_tokens_is_stored_in_int8(tmp_path: Path, review_run: Path) -> None:
    shutil.copytree(review_run, tmp_path / "ko-small-vectors")
    for name, seed in (("pairs.tsv", 1), ("held-out.tsv", 2)):
        rows = [f"{one}{seed}\t{two}{seed}\t{score}" for one, two, score in score_rows(24, seed)]
        (tmp_path / name).write_text(
            "\n".join(["text\tpair\tscore", *rows]) + "\n", encoding="utf-8"
        )
    text = VECTORS.format(folder=tmp_path).replace("/e5", "/ko-small-vectors")
    (tmp_path / "tiny-static.toml").write_text(text, encoding="utf-8")
    alone = ("model.n_layers=0", 'model.positions="none"', "distillation.scores=0.1")
    train(load_recipe(str(tmp_path / "tiny-static.toml"), alone), tmp_path / "run")
    path = _script().ship(tmp_path / "run", tmp_path / "shipped", [])
    weights = (path / WEIGHTS).stat().st_size, (tmp_path / "run" / WEIGHTS).stat().st_size
    assert weights[0] < 0.5 * weights[1]
    card = (path / CARD).read_text(encoding="utf-8")
    assert "and the scores of the training pairs" in card
    assert "without labels" not in card
    texts = ["이 영화 재미있어요", "결말이 별로예요"]
    first, second = (
        jumok.load(each, device="cpu").encode(texts) for each in (tmp_path / "run", path)
    )
    assert (first * second).sum(1).min() > 0.999
    assert not np.array_equal(first, second)


def test_a_task_begins_from_it(shipped: Path, review_recipe: Path, tmp_path: Path) -> None:
    words = [f'model.init="{shipped}"', "training.steps=2"]
    result = train(load_recipe(str(review_recipe), words), tmp_path / "run")
    assert result.results["initialized_from"].startswith("20 of 22")
    assert jumok.load(tmp_path / "run").recipe.model.embedding_dim == 8
