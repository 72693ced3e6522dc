"""`pip install jumok` without an extra: what answers, and the sentence of everything else.

Each command runs in a new environment that holds the wheel and links to the distributions that pip
would install with it, and no other: there is no torch to import.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from jumok.cli import COMMANDS
from jumok.errors import MissingDependencyError
from tests.environments import ROOT, built, complete, install_only

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled")]

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
Call = Callable[..., "subprocess.CompletedProcess[str]"]

PAIR = "비가 온다\t눈이 온다"
SEVERAL = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from jumok.cli import main
for words in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(words)
    except SystemExit as ended:
        code = ended.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
SENTENCE = r'jumok: {} needs {}, which is not installed; run pip install "jumok\[{}\]"\n'


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel without compiled kernels."""
    return built(tmp_path_factory.mktemp("wheel"), JUMOK_KERNEL="none")


@pytest.fixture(scope="module")
def call(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Runs a command of the base installation, with the kernel that the tests have compiled."""
    commands, home = (
        install_only(wheel, tmp_path_factory.mktemp("base")),
        tmp_path_factory.mktemp("home"),
    )

    def run(*words: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        command, *rest = words
        variables = {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]} | variables
        return complete(commands / command, *rest, cwd=home, home=home, **variables)

    return run


def ends(call: Call, commands: Sequence[Sequence[str]]) -> list[tuple[int, str, str]]:
    """The exit code, stdout and stderr of commands of jumok, in one process."""
    done = call("python", "-c", SEVERAL, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_only_the_required_distributions_are_there(call: Call) -> None:
    names = ("torch", "pyarrow", "matplotlib", "tokenizers", "starlette", "jinja2")
    code = f"from importlib.util import find_spec; print([n for n in {names} if find_spec(n)])"
    assert call("python", "-c", code).stdout == "[]\n"


def test_vectors_and_similarities(call: Call, tmp_path: Path) -> None:
    done = call("jumok", "predict", "ko-small-vectors", PAIR, "--json", "--timing")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["score"] == pytest.approx(0.37624, abs=1e-4)
    assert json.loads(done.stderr)["timing"]["kernel"]["kernel"] == "native"

    lines, vectors = tmp_path / "lines.txt", tmp_path / "vectors.npy"
    lines.write_text("영화가 좋다\n배우의 연기\n", encoding="utf-8")
    found = call("jumok", "search", "ko-small-vectors", lines, "연기", "--top", "1")
    assert found.stdout.endswith("배우의 연기\n"), found.stderr
    embedded = call(
        *("jumok", "embed", "ko-small-vectors", "--precision", "int8", "--out", vectors),
        stdin=lines.read_text(encoding="utf-8"),
    )
    assert embedded.returncode == 0, embedded.stderr
    assert np.load(vectors).shape == (2, 256)


def test_a_document(call: Call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>겨울은 <b>추워요</b>.</p>\n", encoding="utf-8")
    done = call("jumok", "translate", "note", page)
    assert done.stdout == "<p>Winter is <b>cold</b>.</p>\n", done.stderr


def test_a_trained_classifier(call: Call, review_run: Path) -> None:
    done = call("jumok", "predict", review_run, "재미있어요", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "재미있어요"


def test_jumok_load_returns_the_model_of_the_engine(call: Call) -> None:
    code = (
        "import sys, jumok\n"
        "model = jumok.load('ko-small-vectors', device='cpu')\n"
        "print(type(model).__name__, model.encode('비가 옵니다').shape)\n"
        "print(jumok.TransformerConfig().d_model)\n"
    )
    assert call("python", "-c", code).stdout == "EncoderModel (256,)\n512\n"


def test_commands_without_a_model(call: Call) -> None:
    assert call("jumok", "--version").stdout.startswith("jumok ")
    commands = [[command, "--help"] for command in sorted(COMMANDS)]
    commands += [
        ["--help"],
        ["--show-completion", "bash"],
        ["models"],
        ["lesson"],
        ["lesson", "3"],
        ["lesson", "3", "--notebook", "3.ipynb"],
        ["data", "list"],
    ]
    for words, (code, out, err) in zip(commands, ends(call, commands), strict=True):
        assert code == 0, (words, err)
        assert out + err, words
        assert err == "" or "--help" not in words, (words, err)


def test_a_command_names_the_extra_that_it_needs(call: Call) -> None:
    cases = [
        ("train numbers", "PyTorch", "train"),
        ("train numbers --dry-run", "PyTorch", "train"),
        ("evaluate note", "PyTorch", "train"),
        ("compare note note", "PyTorch", "train"),
        ("chat note", "PyTorch", "train"),
        ("import a b", "PyTorch", "train"),
        ("check note", "PyTorch", "train"),
        ("export note --to web out", "PyTorch", "train"),
        ("average note --last 2", "PyTorch", "train"),
        ("view note", "PyTorch", "train"),
        ("view note text --export out.html", "PyTorch", "train"),
        ("heads note text", "PyTorch", "train"),
        ("plot positions", "matplotlib", "train"),
        ("plot attention note text", "matplotlib", "train"),
        ("data check own.tsv", "(PyTorch|pyarrow)", "train"),
        ("serve ko-small-vectors", "uvicorn", "serve"),
    ]
    done = ends(call, [words.split() for words, _, _ in cases])
    for (words, library, extra), (code, out, err) in zip(cases, done, strict=True):
        command = f"jumok {words.split()[0]}"
        assert re.fullmatch(SENTENCE.format(command, library, extra), err), err
        assert (code, out) == (MissingDependencyError.exit_code, "")


def test_a_model_that_the_engine_does_not_open_is_named(call: Call, tmp_path: Path) -> None:
    folder = str(tmp_path / "run" / "checkpoints" / "step-4")
    commands = [["predict", folder], ["embed", folder], ["search", folder, "lines.txt", "text"]]
    for _, _, err in ends(call, commands):
        assert re.fullmatch(SENTENCE.format(folder, "PyTorch", "train"), err), err


def test_a_device_that_needs_torch_and_a_missing_run(call: Call) -> None:
    done = call("jumok", "predict", "ko-small-vectors", PAIR, "--device", "cuda")
    assert re.fullmatch(SENTENCE.format("device cuda", "PyTorch", "train"), done.stderr)
    done = call("jumok", "predict", "runs/none", PAIR)
    assert done.stderr.startswith("jumok: runs/none must be a run, got no such folder")


def test_the_sentence_in_korean(call: Call) -> None:
    done = call("jumok", "train", "numbers", JUMOK_LANG="ko")
    assert done.stderr == (
        "jumok: jumok train에는 PyTorch이(가) 필요한데 설치되어 있지 않습니다; "
        'pip install "jumok[train]"을 실행하십시오\n'
    )


def test_each_public_name_is_importable_or_names_the_extra(call: Call) -> None:
    code = """
import jumok, jumok.nn
from jumok.errors import MissingDependencyError
for module in (jumok, jumok.nn):
    for name in module.__all__:
        try:
            getattr(module, name)
            print(name)
        except MissingDependencyError as error:
            assert str(error).startswith(f"{module.__name__}.{name} needs PyTorch"), error
"""
    done = call("python", "-c", code)
    assert done.returncode == 0, done.stderr
    usable = set(done.stdout.split())
    assert {"JumokError", "Prediction", "TransformerConfig", "__version__", "load"} <= usable
    assert not usable & {"train", "trace", "Pipeline", "Encoder", "MultiHeadAttention"}


def served(commands: Path, *models: str) -> list[str]:
    """What `jumok serve` writes to stderr until all models are ready, or it ends."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    server = subprocess.Popen(
        [commands / "jumok", "serve", *models, "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=commands,
        env=kept,
    )
    lines: list[str] = []
    try:
        assert server.stderr is not None
        while sum(" ready model=" in line for line in lines) < len(models):
            if not (line := server.stderr.readline()):
                break
            lines.append(line)
    finally:
        server.terminate()
        server.communicate()
    return lines


def test_the_image_serves_without_torch(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^ARG TORCH=(.*)$", DOCKERFILE, re.MULTILINE) == [""]
    commands = install_only(wheel, tmp_path_factory.mktemp("image"), f"jumok[{extras}]")
    assert " ready model=" in served(commands, "ko-small-vectors")[-1]
    folder = tmp_path_factory.mktemp("run") / "checkpoints" / "step-4"
    folder.mkdir(parents=True)
    error = served(commands, str(folder))[-1]
    assert re.fullmatch(SENTENCE.format(folder, "PyTorch", "train"), error), error
    traces = served(commands, "ko-small-vectors", "--traces")[-1]
    assert re.fullmatch(SENTENCE.format("jumok serve --traces", "PyTorch", "train"), traces)


def test_the_image_with_torch_serves_all_models(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (extras, torch) = re.findall(r"--build-arg EXTRAS=(\S+) --build-arg TORCH=(\S+) ", DOCKERFILE)[
        0
    ]
    commands = install_only(wheel, tmp_path_factory.mktemp("image"), f"jumok[{extras}]", torch)
    lines = served(commands, "ko-small-vectors", "note")
    assert sum(" ready model=" in line for line in lines) == 2, "".join(lines)
