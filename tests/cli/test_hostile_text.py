"""Commands on a real terminal, with control characters in everything that they print."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from jumok.cli import COMMANDS, main
from jumok.terminal import escape_control
from tests.cli.commands import JUMOK, call, environment, run
from tests.combinations import slow
from tests.hf_folders import bert
from tests.terminals import HOSTILE, check_harmless, on_terminal
from tests.tiny_runs import reviews, write_tsv

pytest.importorskip("transformers")

LINE = HOSTILE.replace("\r", "").replace("\u2028", "")  # on one line for every reader
TWO_WORDS = ("circuit", "compare", "lesson")  # other errors come first with one


def _on_terminal(*words: object) -> str:
    """What a command prints to a terminal."""

    def command() -> None:
        with pytest.raises(SystemExit):
            main([str(word) for word in words])

    return on_terminal(command)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of others whose labels are hostile, and whose name is."""
    folder = tmp_path_factory.mktemp("foreign") / HOSTILE
    bert(folder, "ForSequenceClassification", [HOSTILE, f"{HOSTILE}2"])
    return folder


@pytest.fixture(scope="module")
def fill_mask(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model all of whose pieces are hostile."""
    folder = tmp_path_factory.mktemp("foreign") / "fill-mask"
    bert(folder)
    path = folder / "vocab.txt"
    pieces = path.read_text(encoding="utf-8").splitlines()
    shown = [*pieces[:5], *(f"{piece}{LINE}" for piece in pieces[5:])]
    path.write_text("\n".join(shown) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def hostile_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reviews with hostile texts and labels, in a file with a hostile name."""
    rows = [(f"{text} {LINE}", f"{label} {LINE}") for text, label in reviews(60, 0)]
    return write_tsv(tmp_path_factory.mktemp("rows") / f"{LINE}.tsv", ("text", "label"), rows)


def test_labels_of_imported_models(classifier: Path) -> None:
    shown = _on_terminal("predict", classifier, "안녕")
    check_harmless(shown)
    assert shown.startswith(escape_control(HOSTILE))


def test_pieces_of_imported_models(fill_mask: Path) -> None:
    shown = _on_terminal("predict", fill_mask, "이 영화 [MASK]", "--json")
    check_harmless(shown)
    shown = _on_terminal("predict", fill_mask, "이 영화 [MASK]")
    check_harmless(shown)
    assert "PWNED" in shown


def test_json_is_escaped_on_a_terminal_and_in_a_pipe(
    classifier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("predict", classifier, f"안녕 {LINE}", "--json")
    piped = call(capsys, *words)
    check_harmless(piped.out)
    assert piped.rows[0]["text"] == f"안녕 {LINE}"
    assert piped.rows[0]["label"].startswith(HOSTILE)
    assert "안녕" in piped.out
    assert json.loads(_on_terminal(*words)) == piped.rows[0]


def test_a_pipe_gets_the_label_itself(classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "predict", classifier, "안녕").out.startswith(HOSTILE)


@pytest.mark.parametrize(
    "words",
    [
        *(slow((name, HOSTILE)) for name in COMMANDS if name not in TWO_WORDS),
        *((name, HOSTILE, HOSTILE) for name in ("circuit", "compare")),
        ("lesson", f"--{HOSTILE}"),
        (HOSTILE,),
        ("predict", HOSTILE, "안녕"),
        ("evaluate", "nowhere", f"--{HOSTILE}"),
        ("--debug", "predict", HOSTILE, "안녕"),
        ("train", "numbers", f"{HOSTILE}=1"),
        ("train", "numbers", f"task={HOSTILE}"),
        ("train", "--resume", HOSTILE),
        ("evaluate", HOSTILE, "--data", HOSTILE),
        ("import", HOSTILE, HOSTILE),
        ("export", HOSTILE, HOSTILE, "--to", HOSTILE),
        ("plot", "history", HOSTILE),
        ("vocab", "encode", HOSTILE),
        ("vocab", "train", HOSTILE, "--out", HOSTILE),
        ("data", "get", HOSTILE),
        ("data", "verify", HOSTILE),
    ],
    ids=lambda words: escape_control(" ".join(words)),
)
def test_typed_text_is_escaped_in_messages(words: tuple[str, ...]) -> None:
    """It may have been copied from a page; every command, and errors of every kind."""
    shown = _on_terminal(*words)
    check_harmless(shown)
    assert "PWNED" in shown or "Missing " in shown


def test_files_that_are_evaluated(classifier: Path, hostile_rows: Path) -> None:
    """An unknown label; and scores, of a file with a hostile name."""
    refused = _on_terminal("evaluate", classifier, "--data", hostile_rows)
    rows = [(text, HOSTILE.strip()) for text, _ in reviews(4, 0)]
    assert rows
    check_harmless(refused)
    assert "unknown label" in refused


@pytest.mark.slow
def test_figures_and_pages_that_are_written(classifier: Path, tmp_path: Path) -> None:
    for suffix in ("svg", "html", "csv"):
        path = tmp_path / f"{LINE}.{suffix}"
        shown = _on_terminal("view", classifier, f"안녕 {LINE}", "--export", path)
        check_harmless(shown)
        assert path.is_file()
        if suffix != "csv":  # whose reader is a program
            check_harmless(path.read_text(encoding="utf-8").replace("\r", ""))
    assert escape_control(LINE) in shown
    check_harmless(_on_terminal("plot", "positions", "--out", tmp_path / f"{LINE}.png"))


def test_vocabularies(hostile_rows: Path, tmp_path: Path) -> None:
    model = tmp_path / f"{LINE}.model"
    words: list[tuple[object, ...]] = [
        ("train", hostile_rows, "--column", "text", "--kind", "char", "--size", 80, "--out", model),
        ("encode", model, LINE),
        ("encode", model, LINE, "--json"),
        ("report", model, hostile_rows, "--column", "label"),
    ]
    for each in words:
        shown = _on_terminal("vocab", *each)
        check_harmless(shown)
        assert "PWNED" in shown.replace(" ", "")
    ids = json.loads(_on_terminal("vocab", "encode", model, LINE, "--json"))["ids"]
    decoded = _on_terminal("vocab", "decode", model, *ids)
    check_harmless(decoded)
    assert decoded == f"{escape_control(LINE)}\n"


@pytest.fixture(scope="module")
def training(
    review_recipe: Path, hostile_rows: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A run trained on hostile rows on a terminal, and what was printed."""
    folder = tmp_path_factory.mktemp("runs") / LINE
    changes = [
        f"data.{split}={json.dumps(str(hostile_rows))}" for split in ("train", "dev", "test")
    ]
    changes += ["vocabulary.size=96", "training.steps=4", "training.evaluate_every=2"]
    return folder, _on_terminal("train", review_recipe, *changes, "--out", folder)


def test_a_training(training: tuple[Path, str]) -> None:
    folder, shown = training
    assert (folder / "results.json").is_file(), shown
    check_harmless(shown)
    assert "\x1b[1m" in shown
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "PWNED" in report
    check_harmless(report)


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "{run}", "안녕"),
        ("evaluate", "{run}"),
        ("train", "--resume", "{run}"),
        ("plot", "history", "{run}"),
        ("plot", "attention", "{run}", LINE),
        ("check", "{run}", "--quick", "--text", LINE),
        ("average", "{run}"),
        pytest.param(("export", "{run}", "{run} out", "--to", "onnx"), marks=pytest.mark.slow),
        ("export", "{run}", "{run} out", "--to", "hf"),
        ("predict", "{run}", "안녕", "--with", "{run}"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_run_with_hostile_labels_and_names(
    training: tuple[Path, str], words: tuple[str, ...]
) -> None:
    shown = _on_terminal(*(word.replace("{run}", str(training[0])) for word in words))
    check_harmless(shown)
    assert shown
    card = training[0].parent / f"{training[0].name} out" / "README.md"
    if words[0] == "export" and card.exists():
        check_harmless(card.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_locale_that_lacks_hangul_or_emoji(review_run: Path, tmp_path: Path) -> None:
    """Korean Windows has cp949; a bare container has C. Pipes are UTF-8 in both."""
    model = review_run / "vocabulary.model"
    for locale in (
        {"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp949"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
    ):
        encoded = run("vocab", "encode", model, stdin="주목 👍\n".encode(), **locale)
        assert (encoded.code, encoded.err) == (0, "")
        assert encoded.out.startswith("▁")
        assert "주목" in run("--help", **locale).out
    predicted = run("predict", review_run, "--json", stdin="👍 좋아\n".encode(), **locale)
    assert (predicted.code, predicted.rows[0]["text"]) == (0, "👍 좋아")


@pytest.mark.slow
def test_nothing_below_python_writes_to_the_terminal(
    training: tuple[Path, str], hostile_rows: Path, tmp_path: Path
) -> None:
    """Libraries in C write to the file descriptors: a process of its own, on a terminal."""
    pty = pytest.importorskip("pty")

    def seen(*words: object) -> str:
        master, slave = pty.openpty()
        with subprocess.Popen(
            [*JUMOK, *map(str, words)], stdin=slave, stdout=slave, stderr=slave, env=environment()
        ) as process:
            os.close(slave)
            data = b""
            try:
                while part := os.read(master, 65536):
                    data += part
            except OSError:  # Linux, at the end
                pass
            assert process.wait(240) == 0
        os.close(master)
        return data.decode().replace("\r\n", "\n")

    words: list[tuple[object, ...]] = [
        ("predict", training[0], "안녕"),
        (
            *("vocab", "train", hostile_rows, "--column", "text"),
            *("--size", 80, "--kind", "char", "--out", tmp_path / f"{LINE}.model"),
        ),
    ]
    for each in words:
        shown = seen(*each)
        check_harmless(shown)
        assert "PWNED" in shown
