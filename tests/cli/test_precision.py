"""`--precision`: predictions and vectors with an optimized encoder."""

import json
import shutil
from pathlib import Path

import pytest

import jumok
from benchmarks.trust.fuzz_corpus import write_run
from jumok.native.measured import is_compiled_encoder
from jumok.tasks.pipeline.encoder_choice import with_packed_encoder
from jumok.tasks.runs.int8_loss import RECORD
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]
TEXTS = ("이 영화 정말 재미있어요", "지루하고 돈이 아까웠다", "")


def shares(capsys: Capture, run: Path, *arguments: str) -> list[dict[str, float]]:
    """How sure the run is of each label, for each text."""
    done = call(capsys, "predict", run, *TEXTS, "--json", *arguments)
    assert done.code == 0  # without a compiler int8 prints to stderr that it is slower
    assert [row["text"] for row in done.rows] == list(TEXTS)
    return [row["probabilities"] for row in done.rows]


@pytest.mark.parametrize(
    ("precision", "least", "most"),
    [("float32", 0.0, 1e-5), ("bfloat16", 1e-7, 0.05), ("int8", 1e-7, 0.05)],
)
def test_answers_are_as_near_as_their_numbers(
    capsys: Capture, review_run: Path, precision: str, least: float, most: float
) -> None:
    plain = shares(capsys, review_run)
    fast = shares(capsys, review_run, "--precision", precision)
    apart = max(abs(a[k] - b[k]) for a, b in zip(plain, fast, strict=True) for k in a)
    assert least <= apart <= most


def test_the_change_in_scores_is_measured(capsys: Capture, review_run: Path) -> None:
    plain, fast = (
        call(capsys, "evaluate", review_run, "--json", *arguments)
        for arguments in ((), ("--precision", "int8"))
    )
    scores = [plain.rows[0], fast.rows[0]]
    assert [*scores[0], "precision"] == list(scores[1])
    assert scores[1]["precision"] == "int8"
    assert plain.err == ""
    assert fast.err.splitlines()[-1] == "encoder in int8"
    assert scores[1]["accuracy"] == pytest.approx(scores[0]["accuracy"], abs=0.1)
    assert scores[1]["calibration_error"] != scores[0]["calibration_error"]


@pytest.mark.skipif(not is_compiled_encoder("int8"), reason="the kernel is not compiled")
def test_int8_is_used_where_its_loss_was_measured(
    capsys: Capture, review_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(review_run, run)

    def timed(*arguments: str) -> str:
        done = call(capsys, "predict", run, TEXTS[0], "--json", "--timing", *arguments)
        return str(json.loads(done.err.splitlines()[-1])["timing"]["kernel"]["precision"])

    assert timed() == "float32"
    int8 = shares(capsys, run, "--precision", "int8")
    done = call(capsys, "evaluate", run, "--measure-int8", "--json")
    (found,) = done.rows
    assert [each["name"] for each in found["metrics"]] == ["accuracy"]
    record = json.loads((run / RECORD).read_text())
    record["metrics"][0]["int8"] = record["metrics"][0]["float32"] - 0.0049
    (run / RECORD).write_text(json.dumps(record))
    assert timed() == "int8"
    assert timed("--precision", "float32") == "float32"
    assert shares(capsys, run) == int8
    packed = with_packed_encoder(jumok.load(run, device="cpu"), None)  # what opens it with PyTorch
    assert packed.kernel.precision == "int8"
    record["metrics"][0]["int8"] -= 0.0002
    (run / RECORD).write_text(json.dumps(record))
    assert timed() == "float32"
    record["metrics"][0]["int8"] = 1.0
    (run / RECORD).write_text(json.dumps(record | {"weights_sha256": "0" * 64}))
    assert timed() == "float32"  # measured with other weights
    (run / RECORD).write_text("{}")
    done = call(capsys, "predict", run, TEXTS[0])
    assert (done.code, done.error) == (2, "config.missing_key")


def test_int8_of_a_model_that_generates_is_not_measured(capsys: Capture, reading_run: Path) -> None:
    done = call(capsys, "evaluate", reading_run, "--measure-int8")
    assert (done.code, done.error) == (2, "run.int8_not_measured")


def test_an_encoder_decoder_with_an_optimized_encoder(capsys: Capture, reading_run: Path) -> None:
    plain, fast = (
        call(capsys, "predict", reading_run, "일곱 시", "--json", *arguments).rows[0]
        for arguments in ((), ("--precision", "float32"))
    )
    assert fast["output"] == plain["output"]
    assert fast["score"] == pytest.approx(plain["score"], abs=1e-4)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS[:2]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("command", [("search", "corpus.txt", "글"), ("embed",)])
def test_vectors_need_an_encoder(capsys: Capture, tmp_path: Path, command: tuple[str, ...]) -> None:
    run = write_run(tmp_path / "run", "language_modeling")
    done = call(capsys, command[0], run, *command[1:], "--precision", "int8")
    assert done.code == 2
    assert done.err.startswith("jumok: vectors of texts need an encoder, got LanguageModel; ")


@pytest.mark.parametrize("command", ["predict", "evaluate", "embed", "search"])
def test_another_type(capsys: Capture, review_run: Path, command: str) -> None:
    texts = ("corpus.txt", "글") if command == "search" else ()
    done = call(capsys, command, review_run, *texts, "--precision", "int4")
    assert (done.code, done.error) == (2, "config.wrong_type")
    assert '"float32", "bfloat16" or "int8", got "int4"; did you mean int8?' in done.err


def test_a_model_without_an_encoder(capsys: Capture, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "language_modeling")
    done = call(capsys, "predict", run, "글", "--precision", "int8")
    assert done.code == 2
    assert done.err == (
        "jumok: --precision needs a model with an encoder, got a language model; use "
        "--decoding precision=int8\n"
    )
    done = call(capsys, "predict", run, "글", "--decoding", "precision=int8", "--json")
    assert done.code == 0
    assert "precision='int8'" in done.err
    assert done.rows[0]["text"] == "글"
