"""jumok data list, get, verify and check, as text and as JSON."""

import json
import lzma
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from jumok.cli.data import app
from jumok.errors import InputError
from tests.cli.commands import call
from tests.shared_data import shared_data

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "cache-home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.delenv("JUMOK_DATA", raising=False)
    return home


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def rows(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_list_shows_licence_size_and_source() -> None:
    result = run("list")
    assert result.exit_code == 0
    assert "19.5 MB · CC0 1.0 · https://github.com/e9t/nsmc" in result.stdout
    assert "not downloaded: jumok data get nsmc\n" in result.stdout
    assert "not downloaded: jumok data build koen\n" in result.stdout
    assert "built in" in result.stdout


def test_list_as_json() -> None:
    found = {row["name"]: row for row in rows(run("list", "--json"))}
    assert list(found) == sorted(found)
    assert {name for name, row in found.items() if not row["redistributable"]} == {
        "multi30k-en-de",
        "multi30k-en-fr",
    }
    assert found["nsmc"] == {
        "name": "nsmc",
        "about": "Naver movie reviews, negative or positive: 150,000 + 50,000",
        "licence": "CC0 1.0",
        "redistributable": True,
        "bytes": 19_522_142,
        "home": "https://github.com/e9t/nsmc",
        "present": False,
        "folder": None,
    }
    assert (found["numbers"]["present"], found["numbers"]["bytes"]) == (True, 0)


@pytest.mark.slow
def test_get_from_a_folder_then_verify(cache_home: Path) -> None:
    source = shared_data("nsmc")
    folder = cache_home / "jumok" / "data" / "nsmc"
    result = run("get", "nsmc", "--from", str(source), "--json")
    assert [row["file"] for row in rows(result)] == [
        str(folder / "ratings_train.txt.xz"),
        str(folder / "ratings_test.txt.xz"),
    ]
    assert "19.5 MB, CC0 1.0" in result.stderr
    states = [row["state"] for row in rows(run("verify", "nsmc", "--json"))]
    assert states == ["present", "present"]
    assert f"present: {folder}" in run("list").stdout

    content = bytearray((folder / "ratings_test.txt.xz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "ratings_test.txt.xz").write_bytes(content)
    result = run("verify", "nsmc")
    assert "present  nsmc/ratings_train.txt" in result.stdout
    assert "damaged  nsmc/ratings_test.txt" in result.stdout
    assert isinstance(result.exception, InputError)
    assert "get it again with jumok data get nsmc" in str(result.exception)


def test_get_from_a_file(tmp_path: Path) -> None:
    packed = (shared_data("nsmc") / "ratings_test.txt.xz").read_bytes()
    (tmp_path / "reviews").write_bytes(lzma.decompress(packed))
    result = run("get", "nsmc", "--from", str(tmp_path / "reviews"))
    assert result.stdout.endswith("ratings_test.txt  verified\n")
    assert "incomplete" in run("list").stdout


def test_verify_absent_files() -> None:
    assert "absent   nsmc/ratings_train.txt" in run("verify").stdout


def test_unknown_names_and_built_in_ones() -> None:
    assert "did you mean nsmc?" in str(run("get", "nscm").exception)
    assert "built in" in str(run("get", "numbers").exception)


@pytest.mark.slow
def test_rows_that_are_in_train_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_DATA", str(shared_data()))
    *_, dev, test = rows(run("verify", "question_pair", "--overlap", "--json"))
    assert (dev["split"], dev["inputs"]) == ("dev", 0)
    assert test == {
        "corpus": "question_pair",
        "split": "test",
        "rows": 688,
        "inputs": 8,
        "whole_rows": 8,
    }
    printed = run("verify", "question_pair", "--overlap").stdout
    assert "test: 8 of 688 inputs also occur in train, 8 of them with the same label" in printed
    assert "needs the NAME of one corpus" in str(run("verify", "--overlap").exception)


def own_file(folder: Path, *rows: str) -> str:
    path = folder / "own.tsv"
    path.write_text("\n".join(("text\tlabel", *rows)) + "\n", encoding="utf-8")
    return str(path)


def test_check_reports_an_own_file(tmp_path: Path) -> None:
    rows_of_labels = [f"글 {n}\t{label}" for n in range(20) for label in ("True", "False")]
    path = own_file(tmp_path, *rows_of_labels, "글\tTRUE", "")
    result = run("check", path)
    assert result.exit_code == 0, result.output
    train, dev, missing, similar = result.stdout.splitlines()
    assert train.startswith("train: 37 rows, UTF-8, 18 repeated, 18 of them with another label")
    assert "1 blank line, 0 (0.0%) longer than 256 tokens. " in train
    assert dev.startswith("dev: 4 rows, ")
    assert missing == "dev has no row of the label TRUE"
    assert "'TRUE', 'True'" in similar


def test_check_lists_rows_that_a_training_refuses(tmp_path: Path) -> None:
    path = own_file(tmp_path, "가\t1", "나\t2", "다\t1", "\t2", "라")
    result = run("check", path, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["splits"]["train"]["bad"] == 2
    assert f"{path}:5: empty text" in result.stderr
    assert f"{path}:6: 1 cell, expected 2" in result.stderr
    assert run("check", path, "data.on_bad_rows=skip").exit_code == 0


def test_check_of_another_task_names_what_is_not_compared(tmp_path: Path) -> None:
    path = own_file(tmp_path, "가\t나", "다\t라")
    columns = ("data.source=text", "data.target=label")
    result = run("check", path, *columns, "--task", "sequence_to_sequence", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["lengths"] is None
    assert "no text was compared with max_length" in result.stderr


def test_check_names_the_task_that_reads_the_file(tmp_path: Path, capsys: Capture) -> None:
    scores, several = tmp_path / "scores.csv", tmp_path / "several.csv"
    scores.write_text("text,score\n좋아요,3.5\n", encoding="utf-8")
    done = call(capsys, "data", "check", scores)
    assert done.code == 2
    assert "for the column score set task=regression, or name" in done.err
    rows = [f"글 {i},{label}\n" for i, label in enumerate(["a|b", "b|c", "c", "a|c", "a|b"] * 8)]
    several.write_text("text,label\n" + "".join(rows), encoding="utf-8")
    joined = "the names are read with task=multi_label_classification"
    assert joined in call(capsys, "data", "check", several).out
    words = ("data", "check", several, "task=multi_label_classification")
    assert joined not in call(capsys, *words).out
