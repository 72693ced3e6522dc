"""`jumok heads`: a row per head, as a table and as JSON."""

import json
import re
from pathlib import Path

import pytest

import jumok
from jumok.data.load import load_splits
from jumok.interpret.head_patterns import PATTERNS
from jumok.interpret.interventions import patch_heads, sweep_heads
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.setup import get_tokenizers
from tests.cli.commands import call
from tests.shared_data import shared_data

Capture = pytest.CaptureFixture[str]


def test_a_row_per_head(capsys: Capture, review_run: Path, tmp_path: Path) -> None:
    texts = ("이 영화 이 영화 재미있어요", "연기가 지루해요")
    done = call(capsys, "heads", review_run, *texts, "--json")
    assert (done.code, done.err) == (0, "")
    assert [(row["block"], row["layer"], row["head"]) for row in done.rows] == [
        ("encoder", 0, 0),
        ("encoder", 0, 1),
    ]
    for row in done.rows:
        assert list(row) == ["block", "layer", "head", *PATTERNS]
        assert all(0 <= row[name] <= 1 for name in PATTERNS)
    table = call(capsys, "heads", review_run, *texts, "--sort", "separator").out.splitlines()
    assert table[0].split() == ["head", *PATTERNS]
    scores = [float(line.split()[1 + PATTERNS.index("separator")]) for line in table[1:]]
    assert scores == sorted(scores, reverse=True)
    path = jumok.trace(jumok.load(review_run), texts[0]).save(tmp_path / "a.safetensors")
    from_file = call(capsys, "heads", path, "--json").rows
    assert from_file == call(capsys, "heads", review_run, texts[0], "--json").rows


def test_all_blocks_of_an_encoder_decoder(capsys: Capture, reading_run: Path) -> None:
    rows = call(capsys, "heads", reading_run, "삼 일 삼 일", "--json").rows
    assert [row["block"] for row in rows] == ["encoder"] * 2 + ["decoder"] * 2 + ["cross"] * 2
    assert all(row["induction"] == 0 for row in rows if row["block"] == "cross")


def test_errors_and_the_notice(capsys: Capture, review_run: Path, tmp_path: Path) -> None:
    done = call(capsys, "heads", review_run, "연기가", "--sort", "seperator")
    assert (done.code, "did you mean separator?" in done.err) == (2, True)
    done = call(capsys, "heads", review_run, "음")
    assert "no token of the texts repeats" in done.err
    done = call(capsys, "heads", review_run, " ")
    assert (done.code, "must have at least one text, got none" in done.err) == (2, True)
    path = jumok.trace(jumok.load(review_run), "연기가").save(tmp_path / "a.safetensors")
    done = call(capsys, "heads", path, "연기가")
    assert (done.code, "is a trace and takes no text" in done.err) == (2, True)


def test_a_sweep_with_its_files(capsys: Capture, review_run: Path, tmp_path: Path) -> None:
    text = "연기가 지루해요"
    effects = sweep_heads(jumok.load(review_run), text)
    done = call(capsys, "heads", review_run, text, "--sweep", "--json")
    assert done.code == 0
    assert sorted(done.rows, key=lambda row: (row["layer"], row["head"])) == effects.rows()
    changes = [abs(row["change"]) for row in done.rows]
    assert changes == sorted(changes, reverse=True)
    files = {end: tmp_path / f"sweep.{end}" for end in ("tsv", "json", "png", "svg", "pdf")}
    for path in files.values():
        done = call(capsys, "heads", review_run, text, "--sweep", "--out", path)
        assert (done.code, done.err) == (0, f"jumok: wrote {path}\n")
    first, header, *lines = done.out.splitlines()
    assert first == f"probability of {effects.answer!r}: {effects.value:.6f}"
    assert header.split() == ["head", "value", "change"]
    assert len(lines) == 2
    table = files["tsv"].read_text().splitlines()
    assert table[0] == "block\tlayer\thead\tvalue\tchange"
    assert [float(line.split("\t")[3]) for line in table[1:]] == [
        row["value"] for row in effects.rows()
    ]
    assert json.loads(files["json"].read_text()) == effects.to_table()
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert files["pdf"].read_bytes().startswith(b"%PDF")


def test_heads_of_another_text(capsys: Capture, review_run: Path) -> None:
    text, other = "연기가 지루해요", "지루해요 연기가"
    label = jumok.load(review_run).labels[1]
    effects = patch_heads(jumok.load(review_run), text, other, label)
    done = call(capsys, "heads", review_run, text, "--patch", other, "--answer", label)
    expected = f"{effects.value:.6f}; of OTHER {effects.other_value:.6f}"
    assert done.out.splitlines()[0] == f"probability of {label!r}: {expected}"


DOCS = Path(__file__).parents[2] / "docs"


def patched_pairs(page: str) -> list[tuple[str, str, str]]:
    """Model, text and other text of each `jumok heads ... --patch` in a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r'jumok heads (\S+) "([^"]+)" --patch "([^"]+)"', text)
    assert found, page
    return found


def test_the_pairs_of_the_documentation_have_equally_many_tokens() -> None:
    """Those of runs/nsmc also in the vocabulary of `ko-small`, with which own reviews begin."""
    pairs = [*patched_pairs("view.md"), *patched_pairs("site/pages/guides/look.md")]
    for model, *texts in pairs:
        vocabulary = jumok.load("note" if model == "note" else "ko-small").vocabulary
        text, other = (vocabulary.encode(each) for each in texts)
        assert len(text) == len(other), texts
        assert text != other


@pytest.mark.slow
def test_the_pairs_in_the_vocabulary_of_nsmc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_DATA", str(shared_data("nsmc").parent))
    recipe = load_recipe("nsmc")
    train = load_splits(recipe.data, recipe.columns).train
    vocabulary = get_tokenizers(recipe, train).source
    for model, text, other in patched_pairs("view.md"):
        assert model == "runs/nsmc"
        assert len(vocabulary.encode(text)) == len(vocabulary.encode(other))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("연기가", "--out", "a.tsv"), "--answer and --out need --sweep or --patch OTHER"),
        (("연기가", "--sweep", "--patch", "음"), "use one of --sort, --sweep and --patch"),
        (("연기가", "음악", "--sweep"), "need exactly one text, got 2"),
        (("연기가", "--sweep", "--out", "a.csv"), "the file must end in .tsv, .json, .png, .svg"),
    ],
)
def test_refused_sweeps(
    capsys: Capture, review_run: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call(capsys, "heads", review_run, *arguments)
    assert (done.code, message in done.err) == (2, True), done.err


def test_a_sweep_needs_a_model(capsys: Capture, review_run: Path, tmp_path: Path) -> None:
    path = jumok.trace(jumok.load(review_run), "연기가").save(tmp_path / "a.safetensors")
    done = call(capsys, "heads", path, "--sweep")
    assert (done.code, "the effect of heads needs a model, got the trace" in done.err) == (2, True)
