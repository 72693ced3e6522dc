"""Commands end in order when standard streams are closed, full, sockets or read-only."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jumok.cli import COMMANDS
from tests import hf_folders
from tests.cli.commands import environment
from tests.cli.stream_cases import STREAMS

ENDS = (0, 2, 3)  # it worked; an input is missing; a stream cannot be written
QUICK = ("predict", "embed", "models", "lesson", "vocab")  # with all kinds of streams
FEW = ("all closed", "stdout full")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(580),
    pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full"),
]

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def commands(folder: Path, review_recipe: Path, review_run: Path) -> dict[str, list[str]]:
    """The smallest arguments of every command; an output is a new path."""
    hf_folders.llama(folder / "chat", chat=True)
    (folder / "chatml.jinja").write_text(CHATML, encoding="utf-8")
    hf_folders.bert(folder / "bert", "ForSequenceClassification", ["no", "yes"])
    (folder / "lines.txt").write_text("안녕\n재미있어요\n", encoding="utf-8")
    run, out = str(review_run), str(folder / "out-{}")
    return {
        "train": [str(review_recipe), "training.steps=1", "--out", out],
        "evaluate": [run],
        "compare": [run, run],
        "sweep": [str(review_recipe), "training.steps=1", "--seeds", "1", "--out", out],
        "table": [run],
        "predict": [run],
        "chat": [str(folder / "chat"), "--template", str(folder / "chatml.jinja")],
        "import": [str(folder / "bert"), out],
        "check": [run, "--quick"],
        "export": [run, out, "--to", "hf"],
        "average": [run, "--last", "2", "--out", out],
        "serve": [run, "--log", "no format"],
        "view": [run, "안녕", "--export", f"{out}.html"],
        "heads": [run, "안녕"],
        "circuit": [run, "안녕", "--train", "--steps", "1", "--transcoders", out],
        "plot": ["positions", "--out", f"{out}.png"],
        "embed": [run],
        "search": [run, str(folder / "lines.txt"), "안녕"],
        "translate": ["note", str(folder / "lines.txt")],
        "lesson": ["1"],
        "models": [],
        "vocab": ["encode", run],
        "data": ["list"],
    }


@pytest.fixture(scope="module")
def ends(commands: dict[str, list[str]]) -> dict[tuple[str, str], tuple[int, str]]:
    """The exit code and the stderr of every command with every kind of streams."""
    assert commands.keys() == COMMANDS.keys()
    kinds = [(name, streams) for name in commands for streams in STREAMS]
    kinds = [kind for kind in kinds if kind[0] in QUICK or kind[1] in FEW]
    cases = [
        (streams, [name, *(word.format(number) for word in commands[name])])
        for number, (name, streams) in enumerate(kinds)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.stream_cases"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(kinds, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_it_works_or_ends_with_one_sentence(
    ends: dict[tuple[str, str], tuple[int, str]], command: str
) -> None:
    done = {streams: end for (name, streams), end in ends.items() if name == command}
    assert len(done) >= len(FEW)
    for streams, (code, err) in done.items():
        assert code in ENDS, (streams, err)
        assert "Traceback" not in err, (streams, err)
        assert "bug in jumok" not in err, (streams, err)
        if code and streams in ("stdout closed", "stdout full", "sockets"):
            assert err.splitlines()[-1].startswith("jumok: "), (streams, err)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_that_cannot_be_written_is_reported(option: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "jumok", option],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment(),
        )
    assert done.returncode == 3
    assert done.stderr.startswith("jumok: stdout: No space left on device; ")


def test_a_lost_answer_is_reported(
    ends: dict[tuple[str, str], tuple[int, str]],
) -> None:
    for command in ("predict", "models", "lesson"):
        code, err = ends[command, "stdout closed"]
        assert code == 3, (command, err)
        assert "Bad file descriptor; check the redirections" in err
