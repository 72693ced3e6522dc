"""Messages that advise a command or an option: its advice is followed, and works."""

import json
import os
import re
import shlex
import signal
from pathlib import Path

import pytest

import jumok
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

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def unfinished(review_run: Path, tmp_path: Path) -> Path:
    """A run that was interrupted before its first checkpoint."""
    folder = tmp_path / "미완성 run"
    folder.mkdir()
    for name in ("recipe.toml", "vocabulary.model"):
        (folder / name).write_bytes((review_run / name).read_bytes())
    return folder


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
@pytest.mark.parametrize("kind", ["encoder_decoder classifier", "translator", "scores", "lm"])
def test_an_export_that_is_not_supported_names_those_that_are(
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
    run = language_run if kind == "lm" else tmp_path / "run"
    if kind == "translator":  # of a shape that transformers does not have
        call(capsys, "train", reading_recipe, *few, "model.positions=rotary", "--out", run)
    elif kind == "scores":
        call(capsys, "train", review_recipe, *few, "model.pooling=max", "--out", run)
    elif kind != "lm":
        call(capsys, "train", review_recipe, *few, "model.kind=encoder_decoder", "--out", run)
    formats = ("hf", "ctranslate2", "onnx")
    done = {to: call(capsys, "export", run, tmp_path / to, "--to", to) for to in formats}
    for to in formats:
        if done[to].code == 0:
            continue
        assert done[to].code == 2, done[to].err
        advice = re.search(r"; (use --to (.+)|no other format supports it)$", done[to].err.strip())
        assert advice, done[to].err
        for other in advice[2].split(" or ") if advice[2] else ():
            if other not in done:
                done[other] = call(capsys, "export", run, tmp_path / other, "--to", other)
            assert done[other].code == 0, done[other].err
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
    bad.write_bytes(good.read_bytes() + "좋아요\tpositive\n".encode("cp949") * 12)
    few = ("training.steps=1", f"data.train={json.dumps(str(bad))}", "vocabulary.size=66")
    refused = call(capsys, "train", review_recipe, *few, "--out", tmp_path / "run")
    found = re.search(r"in line 62; .*or skip them with (\S+)", refused.err)
    assert found, refused.err
    assert refused.err.count("iconv -f cp949 -t utf-8") == 1  # not for each row
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
    out = call(capsys, "evaluate", review_run).out
    lines = out.partition("\n\n")[0].splitlines()  # a table of the labels follows
    width = max(len(line.split()[0]) for line in lines)
    assert all(line[width] == " " and line[width + 1] != " " for line in lines)
