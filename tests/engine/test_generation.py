"""Texts that the engine generates are those of jumok.load with PyTorch, and with the kernel."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.engine import find, load
from jumok.engine.generation import GenerationModel
from jumok.engine.run import UnsupportedError
from jumok.errors import InputError
from jumok.native.measured import is_compiled
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.pipeline.generation_pipeline import as_generation
from jumok.tasks.pipeline.outputs import GeneratedText, Output, to_json
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.tables import VocabularyRecipe
from jumok.tasks.registry import get_task
from jumok.tasks.runs.run import Run
from tests.cli.commands import environment
from tests.combinations import singly, slow
from tests.engine.test_engine import DAMAGE, ODD, _same_error
from tests.errors import raises
from tests.native.conftest import randomize_vectors
from tests.tasks.tiny_jobs import reading_vocabulary, recipe, review_vocabulary

pytestmark = pytest.mark.usefixtures("compiled")

CHANGES = [  # of all scores
    ["sample=true", "seed=4", "temperature=1.3", "n_best=2"],
    ["sample=true", "seed=5", "top_k=12", "top_p=0.9", "repetition_penalty=1.2"],
    ["beam=3", "no_repeat_ngram=2", "repetition_penalty=1.1", "stop=['e']"],
]
SEARCHES = [
    *CHANGES,
    [],
    ["beam=2", "length_penalty=0"],
    ["beam=4", "n_best=3", "length_penalty=0.6"],
    ["beam=8", "length_norm=gnmt", "early_stopping=never"],
    ["beam=4", "early_stopping=true", "min_length=5", "n_best=4"],
    ["max_length=7", "max_ratio=0.5", "max_extra=1"],
]
MODELS = ["note", "reading_run", "language_run"]
TIE = 1e-4  # between the scores of two texts
WORDS = (
    *("겨울은", "추워요.", "감기", "조심하세요.", "이", "영화", "정말", "재미있어요", "Winter"),
    *("오", "사이", "구삼", "일공", "ㅋㅋ", "한"),
)


def texts_of(n: int) -> list[str]:
    """Mixed texts: empty, decomposed, with unknown characters, with lines, and long."""
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(WORDS, k)) for k in rng.integers(1, 9, n)]
    return [*ODD, "겨울은 추워요.\n\n감기 조심하세요.", " ".join(WORDS * 5), *words]


def check_same(found: list[Output], expected: list[Output]) -> None:
    """Everything is equal, the numbers within 1e-5 of the log-probabilities, except at ties."""
    for mine, other in zip(found, expected, strict=True):
        assert isinstance(mine, GeneratedText)
        assert isinstance(other, GeneratedText)
        if mine.output != other.output:
            assert abs(mine.score - other.score) < TIE, (mine, other)
            continue
        assert (mine.text, mine.warnings, mine.loop) == (other.text, other.warnings, other.loop)
        assert (mine.seed, mine.finish_reason) == (other.seed, other.finish_reason)
        assert [token.id for token in mine.tokens] == [token.id for token in other.tokens]
        values = [[token.log_probability for token in each.tokens] for each in (mine, other)]
        assert values[0] == pytest.approx(values[1], abs=1e-5, rel=1e-5)
        for one, candidate in zip(mine.n_best or (), other.n_best or (), strict=True):
            assert one.output == candidate.output or abs(one.rank - candidate.rank) < TIE
            assert one.rank == pytest.approx(candidate.rank, abs=1e-4)


@cache
def opened(folder: str | Path) -> GenerationModel:
    model = load(folder)
    assert isinstance(model, GenerationModel)
    return model


@cache
def loaded(folder: str | Path) -> Pipeline:
    return jumok.load(folder, device="cpu")


@pytest.mark.parametrize(("name", "search"), singly(MODELS, SEARCHES))
def test_texts_are_those_of_pytorch(
    name: str, search: list[str], request: pytest.FixtureRequest
) -> None:
    folder = name if name == "note" else request.getfixturevalue(name)
    texts = texts_of(12)
    engine = opened(folder).with_decoding(search)
    reference = loaded(folder).with_decoding([*search, "kernel=torch"])
    found = engine.predict(texts)
    check_same(found, reference.predict(texts))
    summary = as_generation(reference).decoding_summary
    assert f"{engine.decoding_summary} kernel='torch'" == summary
    assert [to_json(engine(text)) for text in texts[:3]] == [to_json(each) for each in found[:3]]


@pytest.mark.parametrize(("name", "search"), singly(MODELS, [*SEARCHES, ["precision=int8"]]))
def test_bytes_are_those_of_the_kernel_with_torch(
    name: str, search: list[str], request: pytest.FixtureRequest
) -> None:
    folder = name if name == "note" else request.getfixturevalue(name)
    engine = opened(folder).with_decoding(search)
    reference = loaded(folder).with_decoding([*search, "kernel=native"])
    found, expected = engine.predict(texts_of(12)), reference.predict(texts_of(12))
    if name == "language_run" and search in CHANGES:  # its window slides in PyTorch, step by step
        check_same(found, expected)
        return
    for mine, other in zip(found, expected, strict=True):
        assert to_json(mine, tokens=True) == to_json(other, tokens=True)


@pytest.mark.parametrize("name", ["note", "language_run"])
def test_a_stream_is_the_text(name: str, request: pytest.FixtureRequest) -> None:
    folder = name if name == "note" else request.getfixturevalue(name)
    engine = opened(folder)
    reference = as_generation(loaded(folder))
    for text in texts_of(3):
        parts: list[str] = []
        others: list[str] = []
        output = engine.stream(text, parts.append)
        check_same([output], [reference.stream(text, others.append)])
        assert parts == others
        assert to_json(output) == to_json(engine(text))


def test_two_vocabularies_and_relative_positions(tmp_path: Path) -> None:
    source, target = review_vocabulary(), reading_vocabulary()
    model = {"kind": "encoder_decoder", "positions": "relative", "n_decoder_layers": 2}
    plan = replace(recipe("sequence_to_sequence", model), vocabulary=VocabularyRecipe(joint=False))
    tokenizers = TokenizerPair(source, target)
    run = Run.create(tmp_path / "run", plan, tokenizers)
    plan = plan.with_vocabulary(len(source), len(target))
    torch.manual_seed(1)
    built = randomize_vectors(get_task(plan.task).build_model(plan.model, ()))
    run.save_model(built, plan.task, plan.model, (), tokenizers.checksums)
    texts, beams = texts_of(20), ["beam=3", "n_best=2", "max_length=20"]
    found = opened(run.folder).with_decoding(beams).predict(texts)
    reference = jumok.load(run.folder, device="cpu")
    check_same(found, reference.with_decoding([*beams, "kernel=torch"]).predict(texts))


@pytest.mark.parametrize("damage", ["no vocabulary", "no weights", "cut weights", "no such run"])
def test_a_damaged_run_has_the_error_of_jumok_load(
    damage: str, tmp_path: Path, reading_run: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(reading_run, folder)
    code, change = DAMAGE[damage]
    change(folder)
    assert _same_error(lambda: load(folder), lambda: jumok.load(folder, device="cpu")) == code


@pytest.mark.parametrize(
    "setting",
    ["kernel=torch", "prefix=A", "pattern=a+", "choices=['a']", "forbidden=['a']"],
)
def test_other_settings_are_left_to_pytorch(setting: str) -> None:
    model = opened("note")
    with pytest.raises(UnsupportedError):
        model.with_decoding([setting])
    assert find("note", decoding=[setting]) is None
    with raises(InputError, "config.unknown_key"):
        model.with_decoding(["beem=3"])
    assert find("note", decoding=["beem=3"]) is None
    with raises(InputError, "engine.no_vectors"):
        model.encode(["겨울"])


@pytest.mark.skipif(not is_compiled("float32"), reason="torch is as fast on this processor")
@pytest.mark.parametrize(
    "options",
    [
        slow(["--timing"]),
        ["--json", "--tokens", "--n-best", "3"],
        slow(["--stream"]),
        ["--decoding", "beam=4", "--decoding", "precision=int8"],
    ],
    ids=str,
)
def test_predict_generates_without_torch(options: list[str]) -> None:
    program = (
        "import sys; from jumok.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "predict", "note", *options, "겨울은 추워요."],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("decoding ")
    assert done.stderr.splitlines()[-1] == "False", done.stderr
    line = done.stdout.strip()
    assert (json.loads(line)["output"] if "--json" in options else line) == "Winter is cold."


def test_settings_of_decoding_for_an_encoder_are_refused() -> None:
    with raises(InputError, "engine.decoding_of_encoder"):
        load("ko-small-vectors", decoding=["beam=2"])
