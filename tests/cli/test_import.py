"""`jumok import`: convert a Hugging Face folder, which then works like a run."""

import json
from pathlib import Path

import pytest
import torch

import jumok
from tests import hf_folders
from tests.cli.commands import call
from tests.tiny_runs import reviews, write_tsv

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

LABELS = ("negative", "positive")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier saved by transformers."""
    path = tmp_path_factory.mktemp("foreign") / "klue"
    hf_folders.bert(path, "ForSequenceClassification", LABELS)
    return path


def test_an_imported_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "klue"
    done = call(capsys, "import", folder, out)
    assert (done.code, done.out) == (0, "")
    (line,) = done.err.splitlines()
    size = sum(p.numel() for p in jumok.load(out).model.parameters())
    assert line == f"{out}: BertForSequenceClassification, {size:,} parameters"
    assert sorted(path.name for path in out.iterdir()) == [
        *("config.json", "model.safetensors", "origin", "recipe.toml", "vocabulary")
    ]
    assert sorted(path.name for path in (out / "vocabulary").iterdir()) == [
        *("model_config.json", "tokenizer_config.json", "vocab.txt")
    ]
    assert sorted(path.name for path in (out / "origin").iterdir()) == [
        *("config.json", "origin.json", "unused.safetensors")
    ]
    metadata = json.loads((out / "origin" / "origin.json").read_text())
    assert (metadata["from"], metadata["commit"], metadata["family"]) == ("klue", None, "bert")


def test_an_imported_model_predicts_and_is_scored(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, "import", folder, tmp_path / "out").code == 0
    answers = call(capsys, "predict", tmp_path / "out", "이 영화 재미있어요", "", "--json")
    (first, second), direct = answers.rows, jumok.load(folder)
    assert first["label"] == direct("이 영화 재미있어요").label
    assert first["probabilities"].keys() == set(LABELS)
    assert (second["text"], answers.code) == ("", 0)
    again = call(capsys, "predict", folder, "이 영화 재미있어요", "", "--json")
    assert [row["label"] for row in again.rows] == [first["label"], second["label"]]
    rows = write_tsv(tmp_path / "rows.tsv", ("text", "label"), reviews(10, 4))
    for run in (tmp_path / "out", folder):
        (scores,) = call(capsys, "evaluate", run, "--data", rows, "--json").rows
        assert (scores["task"], scores["n"]) == ("classification", 10)
    without = call(capsys, "evaluate", tmp_path / "out")
    assert without.code == 2
    assert "has no data" in without.err


def test_a_folder_without_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hf_folders.gpt2(tmp_path / "gpt2")
    hf_folders.without_tokenizer(tmp_path / "gpt2")
    done = call(capsys, "import", tmp_path / "gpt2", tmp_path / "out")
    assert done.code == 0
    assert (
        done.err.splitlines()[1]
        == "the checkpoint has no tokenizer files: the model accepts token ids only"
    )
    assert jumok.load(tmp_path / "out").logits(torch.tensor([[1, 2]])).shape[:2] == (1, 2)
    refused = call(capsys, "predict", tmp_path / "out", "재미있어요")
    assert refused.code == 2
    assert "jumok: text needs a tokenizer, and the folder has none" in refused.err


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        (("config.json", b"{"), 2, "config.json"),
        (
            ("config.json", b'{"model_type": "mamba"}'),
            2,
            "model_type must be a known name, ",
        ),
        (("model.safetensors", b"no tensors"), 2, "model.safetensors"),
        (
            ("model.safetensors", None),
            2,
            "no weights in it; add one of model.safetensors, pytorch_mo",
        ),
        (("config.json", None), 2, "no config.json in it; give the folder of a checkpoint"),
    ],
    ids=["json", "family", "tensors", "weights", "config"],
)
def test_invalid_checkpoints(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, bytes | None],
    code: int,
    sentence: str,
) -> None:
    hf_folders.bert(tmp_path / "in")
    name, content = change
    (tmp_path / "in" / name).unlink()
    if content is not None:
        (tmp_path / "in" / name).write_bytes(content)
    done = call(capsys, "import", tmp_path / "in", tmp_path / "out")
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert done.err.startswith("jumok: ")
    assert done.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_where_nothing_may_be_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, "import", folder, tmp_path / "out").code == 0
    again = call(capsys, "import", folder, tmp_path / "out")
    assert again.code == 2
    assert "is not empty; choose a new folder" in again.err
    file = tmp_path / "out" / "config.json"
    assert call(capsys, "import", folder, file).code == 2
    assert call(capsys, "import", folder, file / "within").code == 3


def test_an_unknown_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "import", tmp_path / "nowhere", tmp_path / "out")
    assert done.code == 2
    assert "no such folder, and not a valid model name on the Hub" in done.err
    assert call(capsys, "import", tmp_path / "nowhere").code == 2  # OUT is missing
    assert list(tmp_path.iterdir()) == []
