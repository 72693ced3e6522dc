"""The linear output layer: equal to scikit-learn on the vectors, and exact in the run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import Recipe, load_recipe
from jumok.tasks.runs.train import _start_margin
from tests.errors import raises
from tests.tiny_runs import reviews

linear_model = pytest.importorskip("sklearn.linear_model")
ROWS = reviews(40, 0)


def own_recipe(folder: Path, task: str, columns: str, header: str, rows: list[str]) -> Path:
    (folder / "train.tsv").write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    path = folder / "own.toml"
    content = f'task = "{task}"\n[data]\ntrain = "{folder}/train.tsv"\n{columns}\n'
    path.write_text(content, encoding="utf-8")
    return path


@pytest.fixture
def classification(tmp_path: Path) -> Path:
    rows = [f"{text}\t{label}" for text, label in ROWS]
    return own_recipe(tmp_path, "classification", "", "text\tlabel", rows)


def test_the_run_is_a_logistic_regression_of_the_vectors(
    classification: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its probabilities are those of scikit-learn on `encode`; no step is trained."""
    run = jumok.train(classification, out=tmp_path / "run", training__method="linear")
    assert (run.results["steps"], run.results["method"]) == (0, "linear")
    assert "cross-validation of 36 rows" in capsys.readouterr().err
    assert [row["step"] for row in run.history] == [0]
    pipeline = run.load()
    table = [line.split("\t") for line in (tmp_path / "train.tsv").read_text().splitlines()[1:]]
    dev = {text for text, _ in table} & set()
    texts = [text for text, _ in table if text not in dev]
    shipped = jumok.load(run.recipe.model.init)
    own, before = (each.encode(texts, normalize=False) for each in (pipeline, shipped))
    np.testing.assert_allclose(own, before, atol=1e-5)  # the encoder has not changed
    logits = torch.from_numpy(own) @ pipeline.model.output.weight.T + pipeline.model.output.bias
    expected = logits.softmax(-1).amax(-1).tolist()
    found = [each.probability for each in pipeline(texts)]
    assert found == pytest.approx(expected, abs=1e-5)


def test_fine_tuning_begins_from_the_linear_layer(
    classification: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"training__steps": 2, "training__evaluate_every": 1, "model__init": "ko-small"}
    linear = jumok.train(
        classification, out=tmp_path / "linear", training__method="linear", model__init="ko-small"
    )
    both = jumok.train(classification, out=tmp_path / "auto", **small)
    first, *later = both.history
    assert len(later) == 2
    assert first["dev_loss"] == linear.history[0]["dev_loss"]
    assert both.results["dev"]["start_score"] == first["score"]
    kept = [row["score"] for row in both.history if row["step"] == both.results["dev"]["step"]]
    assert kept == [both.results["dev"]["score"]]
    assert both.results["method"] == ("fine-tune" if both.results["dev"]["step"] else "linear")
    assert "at the start" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "rows", "margin"),
    [("auto", 500, 1.0), ("auto", 499, -1.0), ("fine-tune", 500, 0.0), ("linear", 9, 0.0)],
)
def test_few_rows_prefer_the_linear_layer(method: str, rows: int, margin: float) -> None:
    """The dev split of a small file decides only where its difference is larger than its error."""
    recipe = load_recipe("nsmc-own", [f"training.method={method}", "model.init=ko-small"])
    assert _start_margin(recipe, rows) == margin


@pytest.mark.slow
def test_the_weights_of_the_start_are_kept_where_no_step_is_better(
    classification: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate of 5 destroys the model: the run is the linear one."""
    common = {"model__init": "ko-small", "training__ema_decay": 0.0}
    linear = jumok.train(
        classification, out=tmp_path / "linear", training__method="linear", **common
    )
    both = jumok.train(
        classification,
        out=tmp_path / "auto",
        training__learning_rate=5.0,
        training__warmup_steps=0,
        training__steps=2,
        training__clip_norm=0.0,
        **common,
    )
    assert both.results["method"] == "linear"
    assert "the weights of the start are kept" in capsys.readouterr().err
    text = ROWS[0][0]
    assert both.predict(text) == linear.predict(text)


def test_no_fine_tuning_after_the_time(
    classification: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = jumok.train(classification, out=tmp_path / "run", training__minutes=1e-4)
    assert (run.results["steps"], run.results["ended"]) == (0, "minutes")
    assert "fine-tuning is left out" in capsys.readouterr().err


def test_unbalanced_labels_weigh_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{text}\t{label}" for text, label in ROWS]
    good = [row for row in rows if row.endswith(rows[0].split("\t")[1])]
    rare = [row for row in rows if row not in good][:5]
    path = own_recipe(tmp_path, "classification", "", "text\tlabel", [*good, *rare])
    run = jumok.train(path, out=tmp_path / "run", training__method="linear")
    assert (run.recipe.training.class_weights, run.recipe.metric) == ("balanced", "macro_f1")
    assert "the labels are unbalanced" in capsys.readouterr().err


def test_regression_and_several_labels(review_run: Path, tmp_path: Path) -> None:
    linear = {"training__method": "linear", "model__init": str(review_run)}
    scored = [f"{text}\t{4.0 if label == ROWS[0][1] else 1.0}" for text, label in ROWS]
    path = own_recipe(
        tmp_path, "regression", "[regression]\nlowest = 1\nhighest = 4", "text\tscore", scored
    )
    run = jumok.train(path, out=tmp_path / "scores", **linear)
    assert run.results["pearson"] > 0.8
    assert jumok.evaluate(run, tmp_path / "train.tsv")["mse"] < 0.5  # on the scale of the data
    several = [
        f"{text}\t{label}|글" if i % 2 else f"{text}\t글" for i, (text, label) in enumerate(ROWS)
    ]
    path = own_recipe(tmp_path, "multi_label_classification", "", "text\tlabel", several)
    run = jumok.train(path, out=tmp_path / "labels", **linear)
    assert "글" in run.predict(ROWS[0][0]).labels  # type: ignore[union-attr]


def test_pairs_have_a_linear_layer_of_both_vectors(tmp_path: Path) -> None:
    texts = [text for text, _ in ROWS]
    rows = [f"{text}\t{text}\tsame" for text in texts[:20]]
    rows += [f"{a}\t{b}\tother" for a, b in zip(texts[:20], texts[20:], strict=False) if a != b]
    path = own_recipe(tmp_path, "classification", 'text = "a"\npair = "b"', "a\tb\tlabel", rows)
    run = jumok.train(path, out=tmp_path / "run", training__method="linear")
    weights = run.load().model.similarity.weight  # type: ignore[union-attr]
    assert float(weights.abs().sum()) > 0  # type: ignore[arg-type, operator]
    assert jumok.evaluate(run, tmp_path / "train.tsv")["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        (["training.method=linear"], "recipe.method_needs_encoder"),
        (['model.candidates=["ko-small"]'], "recipe.candidates_without_linear"),
    ],
)
def test_recipes_without_a_pretrained_encoder_are_refused(overrides: list[str], code: str) -> None:
    with raises(InputError, code):
        load_recipe("nsmc", overrides)


def test_other_tasks_have_no_linear_layer() -> None:
    with raises(InputError, "recipe.method_not_for_task"):
        load_recipe("lm-ko", ["training.method=linear"])


def test_class_weights_are_for_labels() -> None:
    with raises(InputError, "recipe.class_weights_not_for_task"):
        load_recipe("similarity", ["training.class_weights=balanced"])


@pytest.mark.slow
def test_resuming_before_the_first_step_continues_from_the_linear_layer(
    classification: Path, tmp_path: Path
) -> None:
    """A checkpoint of step 0 is like any other."""
    options = {"model__init": "ko-small", "training__steps": 2, "training__evaluate_every": 1}
    whole = jumok.train(classification, out=tmp_path / "whole", **options)
    cut = jumok.train(classification, out=tmp_path / "cut", **options)
    (cut.folder / "results.json").unlink()
    for step in (1, 2):
        path = cut.folder / "checkpoints" / f"step-{step}"
        if path.exists():
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
    if not (cut.folder / "checkpoints" / "step-0").exists():
        pytest.skip("the checkpoint of step 0 was not the best and is deleted")
    resumed = jumok.resume(cut.folder)
    drop = {"training_seconds", "wall_seconds", "peak_memory_bytes", "dev"}
    kept = [{k: v for k, v in each.results.items() if k not in drop} for each in (whole, resumed)]
    assert json.dumps(kept[0], ensure_ascii=False) == json.dumps(kept[1], ensure_ascii=False)
    assert isinstance(resumed.recipe, Recipe)
