"""`jumok plot`: writes a file and prints its name; one-line error messages."""

import subprocess
import sys
from pathlib import Path

import pytest

from jumok.cli import main
from jumok.fonts import figure_bytes
from jumok.interpret.trace import Trace
from jumok.training.reporting.metrics import MetricsLog
from tests.viewer.figure_traces import trace_of


def jumok(*words: str) -> int:
    """The exit code of a command run in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_positions(tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"위치.{ending}"
    assert jumok("plot", "positions", "--out", str(out), "--length", "16", "--width", "8") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (f"{out}\n", "")
    assert out.stat().st_size > 10_000


def test_history_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = MetricsLog(tmp_path)
    history.write(
        {
            "kind": "dev",
            "step": 1,
            "epoch": 1.0,
            "loss": 0.5,
            "score": 0.8,
            "metric": "accuracy",
            "seconds": 1.0,
        }
    )
    assert jumok("plot", "history", str(tmp_path)) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'history.png'}\n"
    assert (tmp_path / "history.png").is_file()
    assert jumok("plot", "history", str(tmp_path), "--out", str(tmp_path / "a.pdf")) == 0
    assert (tmp_path / "a.pdf").is_file()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("positions", "--width", "7"), 2, "must be even, got 7; try 8"),
        (("positions", "--length", "2"), 2, "length must be at least 4"),
        (("positions", "--out", "a.docx"), 2, "must end with .png, .svg or .pdf"),
        (("history", "nowhere"), 2, "nowhere has no metrics.jsonl"),
        (("attention", "nowhere", "안녕"), 2, "nowhere"),
        (("attention", "nowhere"), 2, "no text was given for nowhere"),
        (
            ("attention", "nowhere", "안녕", "--head", "min"),
            2,
            "--head must be a number from 0, mean or max",
        ),
    ],
)
def test_invalid_options_are_reported(
    words: tuple[str, ...], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jumok("plot", *words) == code
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.out == ""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A trace in a file."""
    return trace_of().save(tmp_path / "kept.safetensors")


@pytest.mark.slow
def test_attention_of_a_kept_trace(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert jumok("plot", "attention", str(kept)) == 0
    assert capsys.readouterr().out == f"{kept.with_suffix('.png')}\n"
    out = kept.with_name("머리.svg")
    words = ("--kind", "attention", "--block", "encoder", "--layer", "0", "--head", "max")
    words += ("--unit", "word", "--measure", "values", "--specials", "dim", "--query", "2")
    code = jumok("plot", "attention", str(kept), *words, "--width", "3.3", "--out", str(out))
    assert code == 0
    wanted = Trace.open(kept).figure(
        block="encoder",
        layer=0,
        head="max",
        unit="word",
        measure="values",
        specials="dim",
        query=2,
        width=3.3,
    )
    assert out.read_bytes() == figure_bytes(wanted, "svg")


def test_a_saved_trace_takes_no_text(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert jumok("plot", "attention", str(kept), "다른 글") == 2
    assert "is a trace and takes no text" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [None, "explanation", "neuron"])
def test_attention_of_a_run(
    review_run: Path, tmp_path: Path, kind: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.png"
    words = () if kind is None else ("--kind", kind)
    assert jumok("plot", "attention", str(review_run), "이 영화", *words, "--out", str(out)) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.is_file()


def test_a_target_is_given_to_a_model_that_writes(
    reading_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.svg"
    words = ("삼 일", "--target", "3 1", "--out", str(out))
    assert jumok("plot", "attention", str(reading_run), *words) == 0
    assert out.is_file()


def test_importing_the_command_imports_nothing_heavy() -> None:
    code = "import sys, jumok.cli.plot; print({'torch', 'matplotlib'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
