"""`jumok predict`: one prediction per line, in order, for any input."""

import math
import shlex
import subprocess
from pathlib import Path

import pytest

import jumok
from tests.cli.commands import JUMOK, call, environment, run

Capture = pytest.CaptureFixture[str]
TEXTS = ["이 영화 재미있어요", "", "결말이 정말 지루해요 ㅠㅠ", "이 영화 재미있어요"]


def test_labels_as_json(capsys: Capture, review_run: Path) -> None:
    done = call(capsys, "predict", review_run, *TEXTS, "--json")
    assert (done.code, done.err) == (0, "")
    assert [row["text"] for row in done.rows] == TEXTS
    for row in done.rows:
        assert list(row)[:4] == ["text", "label", "probability", "probabilities"]
        known = {"empty_text", "unknown_characters"}
        assert {each["code"] for each in row.get("warnings", [])} <= known
        assert set(row["probabilities"]) == {"negative", "positive"}
        assert math.isclose(sum(row["probabilities"].values()), 1.0, abs_tol=1e-5)
        assert row["probability"] == row["probabilities"][row["label"]]
        assert row["probability"] == max(row["probabilities"].values())
    assert done.rows[0] == done.rows[3]
    assert '"이 영화 재미있어요"' in done.out  # Hangul as it is, not as \u escapes


def test_labels_for_people(capsys: Capture, review_run: Path) -> None:
    done = call(capsys, "predict", review_run, *TEXTS)
    lines = done.out.splitlines()
    assert len(lines) == len(TEXTS)
    for line in lines:
        label, probability = line.split("\t")
        assert label in ("negative", "positive")
        assert 0.5 <= float(probability) <= 1.0


def test_effective_settings_are_printed(capsys: Capture, reading_run: Path) -> None:
    done = call(capsys, "predict", reading_run, "삼 일")
    assert done.err == "decoding max_length=24\n"
    arguments = ("--decoding", "beam=4", "--decoding", "max_length=6")
    done = call(capsys, "predict", reading_run, "삼 일", *arguments, "--json")
    ranking = "length_penalty=1.0 length_norm='power' early_stopping=False"
    assert done.err == f"decoding beam=4 {ranking} max_length=6\n"
    assert list(done.rows[0]) == ["text", "output", "score"]


def test_several_answers(capsys: Capture, reading_run: Path) -> None:
    """One line per rank, or a list in addition to the keys of the best one."""
    texts = ["삼 일 오", "구"]
    rows = call(capsys, "predict", reading_run, *texts, "--n-best", 3, "--json").rows
    assert [list(row) for row in rows] == [["text", "output", "score", "n_best"]] * 2
    for row in rows:
        ranks = [each["rank"] for each in row["n_best"]]
        assert len(ranks) == 3
        assert ranks == sorted(ranks, reverse=True)
        assert row["output"] == row["n_best"][0]["output"]
    done = call(capsys, "predict", reading_run, *texts, "--n-best", 3)
    assert "beam=3 n_best=3" in done.err
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert [output for _, output in lines] == [
        each["output"] for row in rows for each in row["n_best"]
    ]
    assert all(float(rank) <= 0 for rank, _ in lines)


def test_a_stream_is_the_whole_answer(capsys: Capture, reading_run: Path) -> None:
    texts = ["삼 일 오", "", "구"]
    whole = call(capsys, "predict", reading_run, *texts)
    assert call(capsys, "predict", reading_run, *texts, "--stream").out == whole.out


def test_repetition_is_reported(capsys: Capture, reading_run: Path) -> None:
    """In JSON or on stderr, where a long text is named by its first 40 characters."""
    loop = "from token 1 on, 1 tokens repeat 22.0 times"
    texts, arguments = ["삼 일", "삼 일 " * 20], ("--decoding", "pattern='3{23}'")
    lines = [f"jumok: the output for {text[:40]!r} repeats: {loop}" for text in texts]
    done = call(capsys, "predict", reading_run, *texts, *arguments, "--json")
    assert [list(row) for row in done.rows] == [["text", "output", "score", "loop", "warnings"]] * 2
    assert [(row["output"], row["loop"]) for row in done.rows] == [("3" * 23, loop)] * 2
    assert len(done.err.splitlines()) == 1  # the JSON has the warnings
    for more in ((), ("--stream",)):
        done = call(capsys, "predict", reading_run, *texts, *arguments, *more)
        assert done.out.splitlines() == ["3" * 23] * 2
        assert done.err.splitlines()[1:] == lines
    done = call(capsys, "predict", reading_run, *texts, "--decoding", "pattern='3{9}'", "--json")
    assert "loop" not in done.err
    assert all("loop" not in row for row in done.rows)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--stream", "--json"], "--stream and --json exclude each other"),
        (["--stream", "--n-best", "2"], "--stream needs n_best = 1, got 2"),
        (["--stream", "--decoding", "beam=2"], "--stream needs beam = 1, got 2"),
        (["--decoding", "lenght_penalty=1"], "did you mean decoding.length_penalty?"),
        (["--decoding", "n_best=7"], "decoding.n_best must be at most decoding.beam 1, got 7"),
    ],
)
def test_invalid_settings(
    capsys: Capture, reading_run: Path, arguments: list[str], sentence: str
) -> None:
    done = call(capsys, "predict", reading_run, "삼", *arguments)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_generation_options_need_a_generating_model(capsys: Capture, review_run: Path) -> None:
    for arguments in (["--stream"], ["--n-best", "2"], ["--decoding", "beam=2"]):
        done = call(capsys, "predict", review_run, "별로예요", *arguments)
        assert done.code == 2
        assert "generates text, got" in done.err
        assert ("decoding settings" if arguments[0] == "--decoding" else arguments[0]) in done.err


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("--decodng", "did you mean --decoding?"),
        ("--n-bset=3", "did you mean --n-best?"),
        ("--wörter", ""),  # no letters of an option: a text
        ("-_-", ""),
        ("-- 그래요", ""),
    ],
)
def test_a_mistyped_option_is_not_a_text(
    capsys: Capture, review_run: Path, word: str, sentence: str
) -> None:
    done = call(capsys, "predict", review_run, word, "재미있어요")
    if sentence:
        assert (done.code, done.out) == (2, "")
        assert f"unknown option {word} ({sentence})" in done.err
    else:
        assert (done.code, len(done.out.splitlines())) == (0, 2)


@pytest.mark.slow
def test_no_stdin_at_all(review_run: Path) -> None:
    """As under a daemon, or `<&-` in a shell."""
    command = shlex.join([*JUMOK, "predict", str(review_run)])
    shell = ["sh", "-c", f"{command} <&-"]
    done = subprocess.run(shell, capture_output=True, check=False, env=environment())
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"stdin is closed; give texts as arguments or on stdin" in done.stderr


@pytest.mark.slow
def test_lines_of_stdin(review_run: Path) -> None:
    """Empty lines, CRLF, a TAB, NFD, no end of the last line: an answer for each, in order."""
    lines = [
        "이 영화 재미있어요\n",
        "\n",
        "별로예요\r\n",
        "가\t나\n",
        "재미\u1112\u1161\n",
        "  끝 ",
    ]
    done = run("predict", review_run, "--json", stdin="".join(lines).encode())
    assert (done.code, done.err) == (0, "")
    assert [row["text"] for row in done.rows] == [
        "이 영화 재미있어요",
        "",
        "별로예요",
        "가\t나",
        "재미\u1112\u1161",
        "  끝 ",
    ]
    answers = jumok.load(review_run)([row["text"] for row in done.rows])
    for row, answer in zip(done.rows, answers, strict=True):
        assert row["label"] == answer.label
        assert row["probability"] == pytest.approx(answer.probability, abs=1e-5)


@pytest.mark.slow
def test_empty_stdin(review_run: Path) -> None:
    done = run("predict", review_run, stdin=b"")
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("third", "sentence"),
    [
        (
            b"\xb0\xa1",
            r"jumok: stdin:3: byte 1 is not UTF-8, it may be cp949 (got b'\xb0\xa1'); convert the "
            "file with iconv -f cp949 -t utf-8\n",
        ),
        (
            "가\0나".encode(),
            r"jumok: stdin:3: a NUL character (got '가\x00나'); correct the line",
        ),
    ],
)
def test_an_invalid_line_is_named(review_run: Path, third: bytes, sentence: str) -> None:
    done = run("predict", review_run, "--json", stdin="하나\n둘\n".encode() + third + b"\n")
    assert done.code == 2
    assert sentence in done.err
    assert [row["text"] for row in done.rows] == ["하나", "둘"]  # answered before


def test_unread_input_is_reported_on_stderr(capsys: Capture) -> None:
    texts = ("뷁은 뷁 추워요.", "", "겨울은 추워요.")
    done = call(capsys, "predict", "note", *texts)
    assert done.out.splitlines()[1:] == ["", "Winter is cold."]
    notices = [line for line in done.err.splitlines() if line.startswith("jumok: ")]
    assert len(notices) == 2
    assert "not in the vocabulary" in notices[0]
    assert "empty" in notices[1]
    assert "jumok: " not in call(capsys, "predict", "note", *texts, "--json").err


def test_many_warnings_are_counted(capsys: Capture) -> None:
    done = call(capsys, "predict", "ko-small", *["안녕"] * 8)
    notices = [line for line in done.err.splitlines() if line.startswith("jumok: ")]
    assert len(notices) == 6
    assert "3 more" in notices[-1]
