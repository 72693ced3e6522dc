"""Messages that advise a command or an option: each is triggered, and its advice is followed.

A new message of this kind must be added here with a `Case`, or with the test that follows its
advice.
"""

import ast
import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import jumok
from jumok.cli import COMMANDS, OPTIONS
from jumok.data.corpora.paths import downloads
from jumok.errors import InputError
from jumok.shipped import resolve_model, shipped_folders
from jumok.tasks.recipe.recipe import load_recipe
from jumok.training.signals import StopRequest
from jumok.web.access import validate_token
from tests.cli.commands import Done, call
from tests.errors import raises
from tests.hf_folders import bert
from tests.shared_data import shared_data
from tests.tiny_runs import reviews, write_tsv

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "jumok"

Capture = pytest.CaptureFixture[str]

FEW = "training.steps=1 data.train_rows=300 data.dev_rows=9 data.test_rows=9 vocabulary.size=292"

_ADVICE = re.compile(rf"\bjumok ({'|'.join(COMMANDS)})\b|(?<![\w-])--[a-z][a-z-]+\b")


def _messages() -> Iterator[tuple[str, str]]:
    """The place and text of every string in the source that names a command or an option.

    Docstrings, help texts and names of options are left out. {} is a value in an f-string.
    """
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name == "lessons":  # code of the course, tested in tests/course
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        ignored: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                ignored.add(id(node.value))
            elif isinstance(node, ast.JoinedStr):
                ignored.update(map(id, node.values))
            elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("typer."):
                ignored.update(map(id, ast.walk(node)))
        for node in ast.walk(tree):
            text = "" if id(node) in ignored else _text(node)
            if (
                text in COMMANDS.values()
                or text in OPTIONS
                or re.fullmatch(r"--[a-z-]+|jumok \w+", text)
            ):
                continue
            if _ADVICE.search(text):
                yield f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}", text


def _text(node: ast.AST) -> str:
    """The text of a string, an f-string, or the arguments of `command_line`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value) if isinstance(node.value, ast.Call) else ""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "command_line":
        return " ".join(_text(argument) or "{}" for argument in node.args)
    return ""


@dataclass(frozen=True)
class Case:
    """A message, a command that causes it, and the command that it advises.

    In the commands {review}, {reading} and {lm} are runs, {rows} is a file of reviews, {tmp} a new
    folder. `code` is the exit code of the advised command.
    """

    message: str  # a part of it, as in the source
    wrong: str
    advised: str
    code: int = 0


CASES = (
    Case(
        "--overlap needs the NAME of one corpus",
        "data verify --overlap",
        "data verify numbers --overlap",
    ),
    Case(
        "--data and --split exclude each other; use one of them",
        "evaluate {review} --data {rows} --split test",
        "evaluate {review} --split test",
    ),
    Case(
        "; use --decoding precision={}",
        "predict {lm} 안녕 --precision int8",
        "predict {lm} 안녕 --decoding precision=int8",
    ),
    Case(
        "--head must be a number from 0, mean or max, got {}",
        "plot attention {review} 안녕 --head first --out {tmp}/a.png",
        "plot attention {review} 안녕 --head 0 --out {tmp}/a.png",
    ),
    Case(
        "--tokens and --alignment need JSON output; add --json",
        "predict {reading} 일 --tokens",
        "predict {reading} 일 --tokens --json",
    ),
    Case(
        "--stream and --json exclude each other; use one of them",
        "predict {reading} 일 --stream --json",
        "predict {reading} 일 --stream",
    ),
    Case(
        "--stream needs n_best = 1, got {}",
        "predict {reading} 일 --stream --n-best 2",
        "predict {reading} 일 --stream --n-best 1",
    ),
    Case(
        "chooses its output at the end; add --decoding beam=1",
        "predict {reading} 일 --stream --decoding beam=2",
        "predict {reading} 일 --stream --decoding beam=2 --decoding beam=1",
    ),
    Case(
        "--dry-run needs a recipe and no --resume",
        "train --resume {review} --dry-run",
        "train {recipe} --dry-run",
    ),
    Case(
        "--resume takes no recipe and no --out; give only the run",
        "train {recipe} --resume {review}",
        "train --resume {review}",
    ),
    Case(
        "no recipe was given; try jumok train numbers",
        "train",
        "train numbers {few} --out {tmp}/run",
    ),
    Case("try jumok train numbers, or --resume RUN", "train", "train --resume {review}"),
    Case(
        "--export needs a text; add TEXT after the run",
        "view {review} --export {tmp}/a.html",
        "view {review} 안녕 --export {tmp}/a.html",
    ),
    Case(
        "--target, --decode and --mute need a text; add TEXT",
        "view {review} --mute encoder.0.0 --export {tmp}/a.html",
        "view {review} 안녕 --mute encoder.0.0 --export {tmp}/a.html",
    ),
    Case(
        "--column {} needs a file; give a TSV, CSV or JSON-lines file",
        "vocab report {review} --column text",
        "vocab report {review} --column text {rows}",
    ),
    Case(
        "ids must be integers, got {}; use the output of `encode --ids`",
        "vocab decode {review} 안녕",
        "vocab encode {review} 안녕 --ids",
    ),
    Case(
        "--to {} writes {}, got {}; remove --quantize",
        "export {reading} {tmp}/out --to hf --quantize int8",
        "export {reading} {tmp}/out --to hf",
    ),
    Case(
        "--answer and --out need --sweep or --patch OTHER; add one of them",
        "heads {review} 안녕 --answer negative",
        "heads {review} 안녕 --sweep --answer negative",
    ),
    Case(
        "use one of --sort, --sweep and --patch, got several",
        "heads {review} 안녕 --sweep --sort induction",
        "heads {review} 안녕 --sweep",
    ),
    Case(
        "--sweep and --patch need exactly one text, got {}",
        "heads {review} 안녕 좋아요 --sweep",
        "heads {review} 안녕 --sweep",
    ),
    Case(
        "compare needs at least two runs, got one; use jumok evaluate",
        "compare {review}",
        "evaluate {review}",
    ),
    Case(
        "have no output for single rows to compare; use jumok evaluate",
        "compare {lm} {lm}",
        "evaluate {lm} --data {texts}",
    ),
    Case(
        "use --to {}",
        "export {reading} {tmp}/out --to onnx",
        "export {reading} {tmp}/out --to hf",
    ),
    Case(
        "decoding.precision must be float32 for a model that --precision has optimized",
        "predict {reading} 일 --precision bfloat16 --decoding precision=int8",
        "predict {reading} 일 --precision bfloat16",
    ),
    Case(
        "perplexity needs a single language model",
        "evaluate {lm} --with {lm} --data {texts}",
        "evaluate {lm} --data {texts}",
    ),
    Case(
        "must not hold a run; resume it with jumok train --resume {}, or choose",
        "train {recipe} --out {review}",
        "train --resume {review}",
    ),
    Case(
        "has no model yet; finish it with jumok train --resume {}",
        "predict {unfinished} 안녕",
        "train --resume {unfinished}",
    ),
    Case(
        "got a folder without recipe.toml; name a folder of jumok train",
        "predict {tmp} 안녕",
        "predict {review} 안녕",
    ),
    Case(
        "got no such folder; name a folder of jumok train",
        "predict {tmp}/nowhere 안녕",
        "predict {review} 안녕",
    ),
    Case(
        "other machines can reach {}; add --token with a secret",
        "view {review} --host 192.0.2.1 --no-browser",
        "view {review} 안녕 --token a-token-of-22-letters- --export {tmp}/a.html",
    ),
    Case(
        "cannot listen on {} port {} ({}); choose another --port or --host",
        "view {review} --host 192.0.2.1 --token a-token-of-22-letters- --no-browser",
        "view {review} 안녕 --host 127.0.0.1 --export {tmp}/a.html",
    ),
)

SERVING = "serving/test_life.py::test_other_addresses_need_a_token_on_every_route"
CHAT = "cli/test_chat.py::test_predict_chat"
INITIALIZE = "tasks/runs/test_initialize_from.py::test_all_weights_of_a_similar_run_are_loaded"

# Messages whose advice is followed by another test, in its file.
ELSEWHERE = {
    "pairs without; use jumok evaluate": "tasks/test_similarity.py::"
    "test_runs_without_scores_are_evaluated_instead_of_compared",
    "; see {} --help": "test_language.py::test_korean_errors",
    "jumok view note --lesson": "course/test_command.py::test_the_page_of_a_lesson",
    "train them with jumok train {}": "test_advice.py::test_a_model_that_ships",
    "train the weights with jumok train {}": "test_advice.py::test_a_model_that_ships",
    "--base is for LoRA adapters": "training/test_lora.py::test_the_base_of_a_checkpoint",
    "jumok train RECIPE model.init={}": INITIALIZE,
    "use --debug for a traceback": "cli/test_main.py::test_debug_prints_a_traceback",
    "jumok predict {}": "test_advice.py::test_a_text_that_is_a_file",
    "jumok import {} {}": "test_advice.py::test_a_name_of_the_hub",
    "jumok data get {}{}": "test_advice.py::test_a_damaged_corpus",
    "jumok data build {}": "test_advice.py::test_a_corpus_that_is_built",
    "or name a folder with a clone with --from": "lab/rebuild/test_sources.py::"
    "test_a_clone_is_read",
    "see jumok data verify {}": "test_advice.py::test_a_damaged_corpus",
    " --from FOLDER": "test_advice.py::test_a_corpus_without_a_url",
    "copy it with jumok data get {} --from FOLDER": "test_advice.py::test_a_corpus_without_a_url",
    "or give a local copy with --from": "test_advice.py::test_a_damaged_corpus",
    "jumok train --resume and the run's folder": "test_advice.py::test_a_stopped_training",
    "jumok train --resume {}": "test_advice.py::test_a_stopped_training",
    "as jumok import writes them": "test_advice.py::test_a_damaged_import",
    "`jumok vocab train` adds all seven": "test_advice.py::test_vocabularies",
    "written by SentencePiece or `jumok vocab train`": "test_advice.py::test_vocabularies",
    "and `jumok view a.safetensors`": "test_advice.py::test_a_saved_trace",
    "start jumok view with a run": "test_advice.py::test_a_saved_trace",
    "leave out either --precision or": "test_advice.py::test_an_optimized_model_and_the_kernel",
    "add --token-file with a secret": SERVING,
    "give another one with --template FILE": CHAT,
    "was trained with: --template FILE": CHAT,
}

# They name an option or a command, and advise nothing that could be run.
NO_ADVICE = (
    "--lang must be one of",
    "%pip install --quiet jumok-*.whl",
    "--tokens and --alignment",
    "jumok serve needs Linux or macOS",
    "--log must be text or json",
    "--token-file must be a readable file",
    "the token in --token-file",
    "The answers of jumok predict --json.",
    "jumok serve: {}: {}",
    "# Completion of jumok for",
    "#compdef jumok",
    "skipped by --quick",
    "that jumok view printed",
)


def test_the_advice_of_every_message_is_followed() -> None:
    messages = dict(_messages())
    known = [*(case.message for case in CASES), *ELSEWHERE, *NO_ADVICE]
    unknown = {place: text for place, text in messages.items() if not any(k in text for k in known)}
    assert not unknown, "add a Case for the advice of these messages"
    unused = [part for part in known if not any(part in text for text in messages.values())]
    assert not unused
    for test in ELSEWHERE.values():
        file, name = test.split("::")
        assert f"def {name}" in (Path(__file__).parent / file).read_text(encoding="utf-8"), test


@pytest.fixture(scope="module")
def places(
    review_run: Path,
    reading_run: Path,
    language_run: Path,
    review_recipe: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("advice")
    texts = folder / "texts.txt"
    texts.write_text("이 영화\n" * 20, encoding="utf-8")
    return {
        "review": review_run,
        "reading": reading_run,
        "recipe": review_recipe,
        "lm": language_run,
        "rows": write_tsv(folder / "rows.tsv", ("text", "label"), reviews(10, 1)),
        "texts": texts,
    }


@pytest.fixture
def unfinished(review_run: Path, tmp_path: Path) -> Path:
    """A run that was interrupted before its first checkpoint."""
    folder = tmp_path / "미완성 run"
    folder.mkdir()
    for name in ("recipe.toml", "vocabulary.model"):
        (folder / name).write_bytes((review_run / name).read_bytes())
    return folder


def _words(command: str, places: dict[str, Path]) -> list[str]:
    return [
        re.sub(r"\{(\w+)\}", lambda match: str(places[match[1]]), word)
        for word in shlex.split(command.replace("{few}", FEW))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.message)
def test_advice(
    case: Case, places: dict[str, Path], unfinished: Path, tmp_path: Path, capsys: Capture
) -> None:
    places = places | {"unfinished": unfinished, "tmp": tmp_path}
    wrong = call(capsys, *_words(case.wrong, places))
    assert wrong.code not in (0, 1), wrong.err
    pattern = ".*".join(map(re.escape, case.message.split("{}")))
    assert re.search(pattern, wrong.err, re.DOTALL), wrong.err
    followed = call(capsys, *_words(case.advised, places))
    assert followed.code == case.code, followed.err


def _advised(done: Done, words: str) -> list[str]:
    """The words of the command in a message that begins with `jumok WORDS`, to be run."""
    found = re.search(rf"jumok ({words}.*?)(?=[;,\n]| \(|$)", done.err)
    assert found, done.err
    return shlex.split(found[1])


def test_a_command_is_quoted(unfinished: Path, capsys: Capture) -> None:
    """The path has a space: what is printed can be typed."""
    done = call(capsys, "predict", unfinished, "안녕")
    assert _advised(done, "train --resume") == ["train", "--resume", str(unfinished)]


@pytest.mark.slow
@pytest.mark.parametrize("to", ["hf", "ctranslate2", "onnx"])
@pytest.mark.parametrize("kind", ["encoder_decoder classifier", "translator", "scores", "lm"])
def test_an_export_that_is_not_supported_names_those_that_are(
    to: str,
    kind: str,
    review_recipe: Path,
    reading_recipe: Path,
    language_run: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    """The README's classifier with a decoder, and translators: no message sends one in a circle."""
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    few = ("training.steps=2", "training.evaluate_every=2")
    run = tmp_path / "run"
    if kind == "lm":
        run = language_run
    elif kind == "translator":  # of a shape that transformers does not have
        call(capsys, "train", reading_recipe, *few, "model.positions=rotary", "--out", run)
    elif kind == "scores":
        call(capsys, "train", review_recipe, *few, "model.pooling=max", "--out", run)
    else:
        call(capsys, "train", review_recipe, *few, "model.kind=encoder_decoder", "--out", run)
    done = call(capsys, "export", run, tmp_path / "out", "--to", to)
    if done.code == 0:
        return
    assert done.code == 2, done.err
    advice = re.search(r"; (use --to (.+)|no other format supports it)$", done.err.strip())
    assert advice, done.err
    for other in (advice[2] or "").split(" or ") if advice[2] else ():
        followed = call(capsys, "export", run, tmp_path / other, "--to", other)
        assert followed.code == 0, followed.err
    if kind == "encoder_decoder classifier":
        assert advice[2] is None


@pytest.mark.slow
def test_the_settings_that_transformers_needs(
    review_recipe: Path, tmp_path: Path, capsys: Capture
) -> None:
    """`train it with these`: as overrides they give a run that can be exported."""
    pytest.importorskip("transformers")
    few = ("training.steps=2", "training.evaluate_every=2")
    call(capsys, "train", review_recipe, *few, "--out", tmp_path / "first")
    refused = call(capsys, "export", tmp_path / "first", tmp_path / "out", "--to", "hf")
    found = re.search(r" does with (.+); train it with these", refused.err)
    assert found, refused.err
    changes = [change.replace(" ", "") for change in found[1].split(", ")]
    again = call(capsys, "train", review_recipe, *few, *changes, "--out", tmp_path / "second")
    assert again.code == 0, again.err
    exported = call(capsys, "export", tmp_path / "second", tmp_path / "out", "--to", "hf")
    assert exported.code == 0, exported.err


def test_rows_that_are_not_utf8(
    review_recipe: Path, review_run: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Only where bad rows can be skipped does a message say so."""
    good = write_tsv(tmp_path / "good.tsv", ("text", "label"), reviews(60, 0))
    bad = tmp_path / "cp949.tsv"
    bad.write_bytes(good.read_bytes() + "좋아요\tpositive\n".encode("cp949"))
    few = ("training.steps=1", f"data.train={json.dumps(str(bad))}", "vocabulary.size=66")
    refused = call(capsys, "train", review_recipe, *few, "--out", tmp_path / "run")
    found = re.search(r"or skip them with (\S+):", refused.err)
    assert found, refused.err
    assert "iconv -f cp949 -t utf-8" in refused.err
    done = call(capsys, "train", review_recipe, *few, found[1], "--out", tmp_path / "run")
    assert done.code == 0, done.err
    for words in (
        ("vocab", "train", bad, "--out", tmp_path / "a.model"),
        ("vocab", "train", bad, "--column", "text", "--out", tmp_path / "a.model"),
        ("evaluate", review_run, "--data", bad),
    ):
        refused = call(capsys, *words)
        assert refused.code == 2
        assert "skip" not in refused.err
        assert "iconv -f cp949 -t utf-8" in refused.err


def test_a_name_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Without a network the advised command reports why it cannot be followed."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        jumok.resume("klue/bert-base")
    words = _advised(Done(2, "", str(caught.value)), "import")
    assert words == ["import", "klue/bert-base", str(Path("runs/bert-base"))]
    pytest.importorskip("huggingface_hub")
    assert "klue/bert-base" in call(capsys, *words).err


def test_a_model_that_ships(tmp_path: Path) -> None:
    """Its vocabulary alone: the recipe of the same name trains the weights."""
    for folder in shipped_folders().values():
        (tmp_path / folder.name).mkdir()
        (tmp_path / folder.name / "vocabulary.model").touch()
        with pytest.raises(InputError) as caught:
            resolve_model(folder.name, tmp_path)
        words = _advised(Done(2, "", str(caught.value)), "train")
        assert load_recipe(words[1]).name == folder.name


def test_a_mistyped_run(review_run: Path, capsys: Capture) -> None:
    done = call(capsys, "predict", f"{review_run}s", "안녕")
    assert done.code == 2
    found = re.search(r"no such folder; did you mean (.+)\?", done.err)
    assert found, done.err
    assert call(capsys, "predict", found[1], "안녕").code == 0


def test_a_text_that_is_a_file(review_run: Path, tmp_path: Path, capsys: Capture) -> None:
    """It is predicted, and a note says how its lines would be."""
    file = tmp_path / "내 리뷰.txt"
    file.write_text("좋아요\n싫어요\n", encoding="utf-8")
    done = call(capsys, "predict", review_run, file)
    assert (done.code, done.out.count("\n")) == (0, 1)
    found = re.search(r"for its lines use: jumok (.+) < (.+)\n", done.err)
    assert found, done.err
    assert shlex.split(found[1]) == ["predict", str(review_run)]
    assert shlex.split(found[2]) == [str(file)]
    assert "for its lines" not in call(capsys, "predict", review_run, "좋아요").err


@pytest.mark.slow
def test_a_damaged_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """From the training to the command that gets the files again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    official = shared_data("nsmc")
    folder = downloads("nsmc")
    folder.mkdir(parents=True)
    for name in ("ratings_train.txt", "ratings_test.txt"):
        (folder / name).write_text("id\tdocument\tlabel\n1\t좋아요\t1\n2\t싫어요\t0\n", "utf-8")
    refused = call(capsys, "train", "nsmc", "--out", tmp_path / "run")
    verified = call(capsys, *_advised(refused, "data verify"))
    assert verified.code == 2
    words = _advised(verified, "data get")
    assert words == ["data", "get", "nsmc"]
    for path in folder.iterdir():
        path.unlink()
    assert call(capsys, *words, "--from", official).code == 0
    assert call(capsys, *_advised(refused, "data verify")).code == 0


def test_a_corpus_without_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JUMOK_DATA", raising=False)
    refused = call(capsys, "train", "characters", "data.corpus=novels", "--out", tmp_path / "run")
    words = _advised(refused, "data get")
    assert words[-2:] == ["--from", "FOLDER"]
    refused = call(capsys, "data", "get", "novels")
    assert _advised(refused, "data get") == words
    done = call(capsys, *words[:-1], shared_data("text"))
    assert done.code == 0, done.err


def test_a_corpus_that_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Its command names what to clone; tests/lab/rebuild builds from clones."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JUMOK_DATA", raising=False)
    refused = call(capsys, "train", "ynat", "--out", tmp_path / "run")
    words = _advised(refused, "data build")
    assert words == ["data", "build", "ynat"]
    refused = call(capsys, "data", "get", "ynat")
    assert _advised(refused, "data build") == words
    assert "clone it there" in call(capsys, *words, "--from", tmp_path).err


def test_a_stopped_training(tmp_path: Path) -> None:
    """The command names the folder; tests/training/test_signals.py runs it."""
    run = tmp_path / "내 실험"
    error = StopRequest(requested=signal.SIGTERM).interruption(3, run)
    words = _advised(Done(143, "", str(error)), "train")
    assert words == ["train", "--resume", str(run)]


def test_a_token_of_ones_own(review_run: Path, capsys: Capture) -> None:
    """The output of `openssl rand -hex 16` is accepted."""
    words = ("view", review_run, "--no-browser", "--token")
    assert "try `openssl rand -hex 16`" in call(capsys, *words, "short").err
    assert validate_token(os.urandom(16).hex())


def test_a_damaged_import(tmp_path: Path, capsys: Capture) -> None:
    bert(tmp_path / "bert")
    assert call(capsys, "import", tmp_path / "bert", tmp_path / "run").code == 0
    (tmp_path / "run" / "origin" / "origin.json").write_text("{}", "utf-8")
    refused = call(capsys, "predict", tmp_path / "run", "이 [MASK]")
    assert "or import the checkpoint again" in refused.err
    assert call(capsys, "import", tmp_path / "bert", tmp_path / "again").code == 0
    assert call(capsys, "predict", tmp_path / "again", "이 [MASK]").code == 0


def test_vocabularies(review_recipe: Path, tmp_path: Path, capsys: Capture) -> None:
    """What `vocab train` writes is accepted where a message asks for it."""
    broken = tmp_path / "broken.model"
    broken.write_bytes(b"no model")
    refused = call(capsys, "vocab", "encode", broken, "안녕")
    assert "`jumok vocab train`" in refused.err
    texts = write_tsv(tmp_path / "texts.tsv", ("text", "label"), reviews(60, 0))
    model = tmp_path / "new.model"
    trained = call(
        capsys, *("vocab", "train", texts, "--column", "text"), "--size", 64, "--out", model
    )
    assert trained.code == 0, trained.err
    assert call(capsys, "vocab", "encode", model, "안녕").code == 0
    words = (f"vocabulary.file={json.dumps(str(model))}", "training.steps=1")
    assert call(capsys, "train", review_recipe, *words, "--out", tmp_path / "run").code == 0


def test_a_saved_trace(review_run: Path, tmp_path: Path, capsys: Capture) -> None:
    jumok.trace(jumok.load(review_run), "안녕").save(tmp_path / "a.safetensors")
    done = call(capsys, "view", tmp_path / "a.safetensors", "--export", tmp_path / "a.html")
    assert done.code == 0, done.err
    done = call(capsys, "view", review_run, "안녕", "--export", tmp_path / "b.html")
    assert done.code == 0, done.err


@pytest.mark.slow
def test_an_optimized_model_and_the_kernel(
    reading_run: Path, compiled: Path, capsys: Capture
) -> None:
    native = ("--decoding", "kernel=native")
    refused = call(capsys, "predict", reading_run, "일", "--precision", "bfloat16", *native)
    assert "leave out either --precision or decoding.kernel" in refused.err
    assert call(capsys, "predict", reading_run, "일", "--precision", "bfloat16").code == 0
    assert call(capsys, "predict", reading_run, "일", *native).code == 0


def test_a_path_of_the_home_folder(
    review_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a shell writes it; key=~/file is not expanded by the shell."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    words = ('data.train="~/a.tsv"', 'data.test=["~/a.ko","~/a.en"]', 'vocabulary.file="~/a.model"')
    recipe = load_recipe(str(review_recipe), words)
    assert recipe.data.train == str(tmp_path / "a.tsv")
    assert recipe.data.test == (str(tmp_path / "a.ko"), str(tmp_path / "a.en"))
    assert recipe.vocabulary.file == str(tmp_path / "a.model")
    with raises(InputError, "run.not_a_run"):
        jumok.load("~/runs/nowhere")
    (tmp_path / "r.toml").write_bytes(review_recipe.read_bytes())
    assert load_recipe("~/r.toml").name == "reviews"


def test_a_list_of_files_without_its_quotes(review_recipe: Path, capsys: Capture) -> None:
    """A shell removes them; what is advised is a list."""
    refused = call(capsys, "train", review_recipe, "data.train=[a.ko,a.en]")
    found = re.search("write (.+) in single quotes in a shell", refused.err)
    assert found, refused.err
    recipe = load_recipe(str(review_recipe), shlex.split(found[1]))
    assert recipe.data.train == ("a", "b")


def test_scores_are_aligned(review_run: Path, capsys: Capture) -> None:
    lines = call(capsys, "evaluate", review_run).out.splitlines()
    width = max(len(line.split()[0]) for line in lines)
    assert all(line[width] == " " and line[width + 1] != " " for line in lines)
