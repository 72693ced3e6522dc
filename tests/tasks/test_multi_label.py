"""Multi-label classification: sets of labels in data, binary cross-entropy, threshold, metrics."""

import dataclasses
import json
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch

import jumok
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import MULTI_LABEL
from jumok.data.table_files import evaluation_table
from jumok.errors import InputError
from jumok.evaluation import multi_label_metrics
from jumok.export.export_run import export
from jumok.interpret.interventions import sweep_heads
from jumok.nn.losses import binary_cross_entropy
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import MultiLabelConfig
from jumok.tasks.runs.compare import compare
from tests.cli.commands import call
from tests.errors import raises

LABELS = ("결말", "연기", "음악")
PHRASES = {"결말": "결말이 놀라워요", "연기": "배우들 연기가 좋아요", "음악": "음악이 아름다워요"}
RECIPE = """
name = "aspects"
task = "multi_label_classification"

[data]
train = "{folder}/train.tsv"
dev = "{folder}/dev.tsv"
test = "{folder}/test.tsv"

[vocabulary]
size = 42

[model]
d_model = 32
n_heads = 2
d_ff = 64
n_layers = 1
dropout = 0.0
max_length = 32

[training]
steps = 120
batch_tokens = 512
learning_rate = 0.01
schedule = "cosine"
warmup_steps = 5
evaluate_every = 40
precision = "float32"
"""


def rows(n: int, seed: int) -> list[tuple[str, str]]:
    """Texts about any of three aspects, also none of them."""
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        labels = [label for label in LABELS if rng.random() < 0.5]
        phrases = ["그냥 봤어요", *(PHRASES[label] for label in labels)]
        rng.shuffle(phrases)
        found.append((" ".join(phrases), "|".join(labels)))
    return found


def write_rows(folder: Path, recipe: str = RECIPE) -> Path:
    """A corpus and its recipe in `folder`; the path of the recipe."""
    for seed, (split, n) in enumerate([("train", 160), ("dev", 30), ("test", 40)]):
        lines = [f"{text}\t{labels}\n" for text, labels in rows(n, seed)]
        (folder / f"{split}.tsv").write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(recipe.format(folder=folder), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> jumok.Run:
    folder = tmp_path_factory.mktemp("aspects")
    return jumok.train(str(write_rows(folder)), out=folder / "run")


def test_a_small_training_learns_the_labels(run: jumok.Run) -> None:
    results = run.results
    assert results["task"] == "multi_label_classification"
    assert results["dev"]["metric"] == "micro_f1"
    assert results["micro_f1"] > 0.95
    assert results["exact_match"] > 0.9
    assert 0.9 < results["macro_f1"] <= 1.0
    found = run.load()("음악이 아름다워요 배우들 연기가 좋아요")
    assert isinstance(found, jumok.MultiLabelPrediction)
    assert found.labels == ("연기", "음악")
    assert sum(found.probabilities.values()) > 1.5  # independent decisions
    assert found.display.startswith("연기|음악\t0.9")


def test_the_threshold_decides(run: jumok.Run) -> None:
    """A text without any label has none; at the lowest probability it has every label."""
    loaded = run.load()
    none = loaded("그냥 봤어요")
    assert isinstance(none, jumok.MultiLabelPrediction)
    assert (none.labels, none.display) == ((), "\t")
    lowest = MultiLabelConfig(threshold=min(none.probabilities.values()))
    loaded.recipe = dataclasses.replace(loaded.recipe, multi_label=lowest)
    every = loaded("그냥 봤어요")
    assert isinstance(every, jumok.MultiLabelPrediction)
    assert every.labels == LABELS


def answer_of(run: jumok.Run | jumok.Pipeline, text: str) -> jumok.MultiLabelPrediction:
    """The labels of one text."""
    found = (run if isinstance(run, jumok.Pipeline) else run.load())(text)
    assert isinstance(found, jumok.MultiLabelPrediction)
    return found


def test_the_loss_is_that_of_torch(run: jumok.Run) -> None:
    logits, labels = torch.randn(5, 3), (torch.rand(5, 3) < 0.5).float()
    expected = torch.nn.BCEWithLogitsLoss(reduction="sum")(logits, labels)
    torch.testing.assert_close(binary_cross_entropy(logits, labels), expected)
    loaded = run.load()
    probabilities = answer_of(loaded, "그냥 봤어요").probabilities
    ids = torch.tensor([loaded.vocabulary.encode("그냥 봤어요")])
    ids = torch.cat([torch.tensor([[loaded.vocabulary.cls_id]]), ids], 1)
    expected = loaded.logits(ids)[0].double().sigmoid()
    assert list(probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-6)


def test_metrics_by_hand() -> None:
    """Against the definitions; sklearn gives the same numbers for these rows."""
    labels = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]], bool)
    predicted = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]], bool)
    found = multi_label_metrics(labels, predicted)
    assert found.n == 4
    assert found.micro_f1 == pytest.approx(2 * 3 / (4 + 4))
    assert found.macro_f1 == pytest.approx((1.0 + 2 / 4 + 0.0) / 3)
    assert found.exact_match == 0.5
    with pytest.raises(ValueError, match=r"one row for each text .* got \(4, 3\) and \(3, 3\)"):
        multi_label_metrics(labels, predicted[:3])


def test_a_frame_lists_and_a_file_give_the_same_weights(run: jumok.Run, tmp_path: Path) -> None:
    """TSV cells with |, lists of labels in a frame and in dicts: bit for bit the same run."""
    recipe = load_recipe(str(run.folder.parent / "recipe.toml"), ["training.steps=4"])
    by_split = {split: rows(n, s) for s, (split, n) in enumerate((("train", 160), ("dev", 30)))}
    frames = {
        split: pd.DataFrame(
            {"text": [t for t, _ in found], "label": [c.split("|") if c else [] for _, c in found]}
        )
        for split, found in by_split.items()
    }
    dicts = {
        split: [{"text": text, "label": cell} for text, cell in found]
        for split, found in by_split.items()
    }
    file = jumok.train(recipe, out=tmp_path / "file")
    weights = (file.load().model.state_dict(), {})[0]
    for name, data in (("frame", frames), ("dicts", dicts)):
        other = jumok.train(recipe, data=data["train"], dev=data["dev"], out=tmp_path / name)
        for key, weight in other.load().model.state_dict().items():
            assert torch.equal(weight, weights[key]), (name, key)


def test_cells_of_json_lines_and_indices(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    cells = [["연기", "음악"], "음악 | 결말", [], "", [0, 2], "1"]
    lines = [json.dumps({"text": f"글 {i}", "label": cell}) for i, cell in enumerate(cells)]
    path.write_text("\n".join(lines), encoding="utf-8")
    table = evaluation_table(path, DataConfig(), MULTI_LABEL, LABELS)
    found = list(table.column("labels"))
    assert found == ["연기|음악", "음악|결말", "", "", "결말|음악", "연기"]


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ('"감독"', "unknown label '감독', expected one of 결말, 연기, 음악"),
        ('["연기|음악"]', r"a label of a list is empty or has a \| \(got '연기\|음악'\)"),
        ('["연기", ""]', r"a label of a list is empty or has a \|"),
        ("null", "label is not a text"),
        ("[true]", "unknown label 'True'"),
    ],
)
def test_bad_cells_are_named(tmp_path: Path, cell: str, fault: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "글", "label": ' + cell + "}\n", encoding="utf-8")
    with pytest.raises(InputError, match=fault):
        evaluation_table(path, DataConfig(), MULTI_LABEL, LABELS)


def test_a_list_is_not_a_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": ["글", "둘"], "label": "연기"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="text is not a text"):
        evaluation_table(path, DataConfig(), MULTI_LABEL, LABELS)


def test_labels_are_those_of_the_training_rows(tmp_path: Path) -> None:
    write_rows(tmp_path)
    config = DataConfig(train=str(tmp_path / "train.tsv"))
    assert load_splits(config, MULTI_LABEL).labels == LABELS
    empty = tmp_path / "empty.tsv"
    empty.write_text("text\tlabel\n하나\t\n둘\t\n", encoding="utf-8")
    with raises(InputError, "data.one_label"):
        load_splits(DataConfig(train=str(empty)), MULTI_LABEL)


def test_labels_with_another_separator_are_refused(tmp_path: Path) -> None:
    """Each combination would be a label of its own; a comma in one label is allowed."""
    path = tmp_path / "train.tsv"
    rows = ["정치,경제", "정치", "경제, 사회", "사회"] * 5
    path.write_text("text\tlabel\n" + "".join(f"글\t{row}\n" for row in rows), encoding="utf-8")
    config = DataConfig(train=str(path))
    with raises(InputError, "data.labels_separated") as caught:
        load_splits(config, MULTI_LABEL)
    assert re.search(r"write '(정치\|경제|경제\|사회)' \(a list in JSON\)", str(caught.value))
    named = dataclasses.replace(config, labels=tuple(sorted(set(rows))))
    assert "정치,경제" in load_splits(named, MULTI_LABEL).labels
    path.write_text("text\tlabel\n글\t생활, 문화\n둘\t정치\n셋\t경제\n", encoding="utf-8")
    assert load_splits(config, MULTI_LABEL).labels == ("경제", "생활, 문화", "정치")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("multi_label.threshold=0", "config.out_of_range"),
        ("multi_label.threshold=1.5", "config.out_of_range"),
        ('data.labels=["a|b", "c"]', "task.separator_in_label"),
        ("training.label_smoothing=0.1", "recipe.fixed_value"),
        ("augmentation.rdrop_alpha=1", "recipe.fixed_value"),
        ("metric=accuracy", "recipe.metric_not_for_task"),
        ("model.kind=decoder", "recipe.model_kind_not_for_task"),
        ("data.pieces=true", "recipe.fixed_value"),
    ],
)
def test_invalid_settings(tmp_path: Path, override: str, message: str) -> None:
    recipe = write_rows(tmp_path)
    with raises(InputError, message) as error:
        load_recipe(str(recipe), [override])
    if message == "recipe.fixed_value":
        assert error.value.message.values["key"] == override.partition("=")[0]


def test_the_table_needs_the_task() -> None:
    with pytest.raises(InputError, match=r"\[multi_label\] must be left out for the task"):
        load_recipe("nsmc", ["multi_label.threshold=0.3"])


def test_the_command_line(run: jumok.Run, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = call(capsys, "predict", run.folder, "결말이 놀라워요", "--json").rows
    assert (row["text"], row["labels"]) == ("결말이 놀라워요", ["결말"])
    assert tuple(row["probabilities"]) == LABELS
    (scores,) = call(capsys, "evaluate", run.folder, "--json").rows
    assert scores["micro_f1"] == run.results["micro_f1"]
    assert {"task", "split", "n", "macro_f1", "exact_match"} <= set(scores)


def test_runs_are_compared(run: jumok.Run) -> None:
    table = evaluation_table(
        run.folder.parent / "test.tsv",
        load_recipe(str(run.folder.parent / "recipe.toml")).data,
        MULTI_LABEL,
        LABELS,
    )
    found = compare([run.load()], [run.load()], table)
    assert set(found.metrics) == {"micro_f1", "exact_match"}
    assert found.different == []


def test_a_trace_and_the_effect_of_heads(run: jumok.Run, tmp_path: Path) -> None:
    """The page opens; there is no softmax over labels to explain. Effects are of one label."""
    loaded = run.load()
    seen = jumok.trace(loaded, "음악이 아름다워요")
    assert seen.info.classification is None
    assert seen.info.sides["source"][0].text == "음악이 아름다워요"
    assert seen.html(tmp_path / "trace.html").stat().st_size > 100_000
    effects = sweep_heads(loaded, "음악이 아름다워요", answer="음악")
    assert effects.value == pytest.approx(
        answer_of(loaded, "음악이 아름다워요").probabilities["음악"], abs=1e-5
    )


@pytest.mark.slow
def test_transformers_reads_the_export(tmp_path: Path) -> None:
    """problem_type is in config.json, so that its pipeline applies a sigmoid; and back again."""
    import transformers

    bert = 'pooling = "first"\npooler = "tanh"\nembedding_norm = true\n'
    recipe = write_rows(tmp_path, RECIPE.replace("max_length = 32\n", "max_length = 32\n" + bert))
    run = jumok.train(str(recipe), out=tmp_path / "run", training__steps=20)
    export(run.folder, "hf", tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    theirs = transformers.pipeline("text-classification", str(tmp_path / "hf"), top_k=None)
    (found,) = theirs(["음악이 아름다워요"])
    expected = answer_of(run, "음악이 아름다워요").probabilities
    scores = {str(x["label"]): float(x["score"]) for x in found}
    assert scores == pytest.approx(expected, abs=1e-5)
    expected_labels = answer_of(run, "음악이 아름다워요").labels
    imported = jumok.load(tmp_path / "hf", device="cpu")
    assert imported.recipe.task == "multi_label_classification"
    assert answer_of(imported, "음악이 아름다워요").labels == expected_labels
