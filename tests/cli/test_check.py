"""`jumok check`: one row per check, exit code 1 if one fails."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from jumok import safetensors_io as tensorfile
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]

ROWS = [
    "read = AutoTokenizer",
    "alone = batched",
    "left = right padding",
    "packed = padded",
    "cached = uncached",
    "hooked = unhooked",
    "vectors alone = batched",
    "compiled = eager",
    "saved = loaded",
    "native = torch",
    "bf16 vs fp32",
    "int8 vs fp32",
    "original = jumok",
    "optimized = eager",
]
KEYS = [
    *("equality", "compared", "result", "difference", "tolerance"),
    *("same", "decisions", "reason", "seconds"),
]


@pytest.fixture
def own_copy(review_run: Path, tmp_path: Path) -> Path:
    """A run that a test may modify."""
    return shutil.copytree(review_run, tmp_path / "run")


def test_json_lines(capsys: Capture, review_run: Path) -> None:
    done = call(capsys, "check", review_run, "--quick", "--json")
    assert done.code == 0
    assert [row["equality"] for row in done.rows] == ROWS
    assert all(list(row) == KEYS for row in done.rows)
    assert done.err == ("inputs: 4 dev texts and random ids of 1, 3, 4, 16 tokens\n")
    rows = {row["equality"]: row for row in done.rows}
    for row in rows.values():
        assert (row["result"] == "not applicable") == (row["difference"] is None)
        assert row["result"] == "not applicable" or row["difference"] <= row["tolerance"]
    assert rows["compiled = eager"]["reason"] == "skipped by --quick"
    assert rows["saved = loaded"]["tolerance"] == 0.0
    assert rows["bf16 vs fp32"]["decisions"] == 4


def test_a_table_for_people(capsys: Capture, reading_run: Path) -> None:
    done = call(capsys, "check", reading_run, "--quick", "--text", "삼 일 오", "--text", "구\t9")
    assert done.code == 0
    assert done.err.startswith("inputs: given texts (2) and random ids of ")
    head, *lines = done.out.splitlines()
    assert head.split() == ["difference", "tolerance", "result"]
    assert [line[:23].strip() for line in lines] == ROWS
    assert "pass" in next(line for line in lines if line.startswith("cached = uncached"))
    assert "decisions the same" in next(line for line in lines if line.startswith("int8"))


def test_a_model_that_is_broken(capsys: Capture, own_copy: Path) -> None:
    weights = own_copy / "model.safetensors"
    tensors = tensorfile.read_tensors(weights)
    tensors["output.bias"][0] = float("nan")
    weights.write_bytes(tensorfile.serialize(tensors))
    config = json.loads((own_copy / "config.json").read_text(encoding="utf-8"))
    config["weights_sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    (own_copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = call(capsys, "check", own_copy, "--quick", "--json")
    assert (done.code, done.out) == (2, "")
    assert "got nan in output.bias" in done.err


def test_without_data(capsys: Capture, own_copy: Path) -> None:
    recipe = own_copy / "recipe.toml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("dev.tsv", "gone.tsv"))
    done = call(capsys, "check", own_copy, "--quick", "--json")
    assert done.code == 0
    assert done.err.startswith("no dev texts (")
    assert "gone.tsv" in done.err
    assert [row["equality"] for row in done.rows] == ROWS


def test_a_folder_without_a_run(capsys: Capture, tmp_path: Path) -> None:
    done = call(capsys, "check", tmp_path, "--json")
    assert (done.code, done.out) == (2, "")
    assert "must be a run" in done.err
