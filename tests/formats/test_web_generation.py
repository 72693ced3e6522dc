"""`--to web` of models that generate: the texts in Node are those of the engine."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import jumok
from jumok.decoding.config import RANGES, DecodingConfig
from jumok.engine import load as load_engine
from jumok.errors import InputError
from jumok.export import export
from jumok.export.samples import random_samples
from jumok.formats import web, web_generation
from jumok.formats.web import KERNEL, MODEL, PAGE, Web
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.registry import get_task
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from tests.combinations import slow
from tests.export.small_models import drawn
from tests.formats.test_web_tokenizer import odd_texts
from tests.formats.web_module import run_module
from tests.tasks.tiny_jobs import CPU, recipe

pytestmark = pytest.mark.usefixtures("compiled")

SEARCHES: list[dict[str, Any]] = [
    {"beam": 1, "n_best": 1},
    {"beam": 4, "n_best": 4},
    {"beam": 3, "n_best": 2, "length_penalty": 0.4, "length_norm": "gnmt"},
    {"beam": 2, "early_stopping": "never", "min_length": 6, "max_length": 12},
    {"beam": 1, "n_best": 3, "sample": True, "seed": 7, "temperature": 1.4, "top_k": 9},
    {"beam": 1, "sample": True, "seed": -3, "top_p": 0.95, "min_p": 0.01, "stop": ["o", "ㅋ"]},
    {"beam": 1, "repetition_penalty": 1.3, "no_repeat_ngram": 2, "typical_p": 1.0},
]
LINES = ("", " ", "겨울은\n\n추워요.\r\n봄", "뷁 겨울은", "가" * 90, "ㅋㅋㅋ\u200d👍")
SCORE = 1e-3  # of sums of up to 60 log-probabilities, in another order of summation


def overrides(decoding: dict[str, Any]) -> list[str]:
    return [f"{name}={str(value).lower()}" for name, value in decoding.items()]


def requests(folder: Path, texts: list[str]) -> list[dict[str, Any]]:
    paths = {"file": str(folder / MODEL), "kernel": str(folder / KERNEL), "texts": texts}
    return [paths | {"decoding": each} for each in SEARCHES]


def assert_equal(answer: Any, expected: list[Any]) -> None:
    """The texts, the candidates with their scores, and the warnings."""
    assert answer["check"]["passed"], answer["check"]
    for found, own in zip(answer["predictions"], expected, strict=True):
        assert isinstance(own, GeneratedText)
        assert found["text"] == own.output, own.text
        assert found["finished"] == (own.finish_reason == "stop"), own.text
        wanted = [(w.code, w.message) for w in own.warnings]
        assert [(w["code"], w["message"]) for w in found["warnings"]] == wanted
        candidates = own.n_best or [own]
        assert [each["text"] for each in found["candidates"]] == [x.output for x in candidates]
        scores = [each.score for each in candidates]
        assert [each["score"] for each in found["candidates"]] == pytest.approx(scores, abs=SCORE)


def test_note_in_a_page(tmp_path: Path) -> None:
    note = jumok.load("note", device="cpu")
    export(Path("note"), "web", tmp_path / "note")
    (table,) = evaluation_tables(note.recipe, "test", ()).values()
    texts = [*table.column("source"), *LINES]
    assert (tmp_path / "note" / PAGE).stat().st_size <= 1_000_000
    answers = run_module({"models": requests(tmp_path / "note", texts)}, tmp_path)["answers"]
    for search, answer in zip(SEARCHES, answers, strict=True):
        model = load_engine("note", decoding=overrides(search))
        assert_equal(answer, model.predict(texts))
    assert sum("뷁" in text for text in texts) == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"beam": "x"}, 'decoding.beam must be an integer, got "x"'),
    ({"beam": None}, "decoding.beam must be an integer, got null"),
    ({"seed": 1.5}, "decoding.seed must be an integer, got 1.5"),
    ({"temperature": None}, "decoding.temperature must be a finite number, got null"),
    ({"length_norm": "pover"}, 'decoding.length_norm must be "power" or "gnmt", got "pover"'),
    ({"sample": 1}, "decoding.sample must be true or false, got 1"),
    ({"stop": "a"}, 'decoding.stop must be a list of strings, got "a"'),
    ({"stop": ["a", 3]}, "decoding.stop must be a list of strings, got a list of 2"),
    ({"stop": ["a"], "beam": 2}, "decoding.stop must be empty with several hypotheses, got a list"),
    ({"beam": 2, "sample": True}, "decoding.sample must be false with beam 2, got true"),
    ({"n_best": 3, "beam": 2}, "decoding.n_best must be at most beam 2, got 3"),
    ({"typical_p": 0.5}, "decoding.typical_p must be 1 without sampling, got 0.5"),
    ({"min_length": 9999}, "decoding.min_length must be at most max_length "),
    ({"top_k": {}}, "decoding.top_k must be an integer, got an object"),
    *(
        ({name: "a"}, f"decoding.{name} is not known; known: beam, early_stopping, length_norm,")
        for name in ("bem", "prefix", "pattern", "coverage", "toString", "__proto__")
    ),
]


def outside_values() -> list[tuple[str, float]]:
    """A value below and one above the range of each number that the page has."""
    found: list[tuple[str, float]] = []
    for name in set(RANGES) & set(web_generation._SETTINGS):
        interval = RANGES[name]
        low, high = (float(end) for end in interval[1:-1].split(", "))
        found.append((name, low - (interval[0] == "[")))
        if high < float("inf"):
            found.append((name, high + (interval[-1] == "]")))
    integers = {field.name for field in fields(DecodingConfig) if field.type is int}
    return [(name, int(value) if name in integers else value) for name, value in found]


def python_sentence(name: str, value: float) -> str:
    """What DecodingConfig says of the value, with numbers as JavaScript writes them."""
    with pytest.raises(InputError) as caught:
        DecodingConfig(**{name: value})  # type: ignore[arg-type]  # of any type
    words = str(caught.value).partition("; ")[0].replace(" and finite", "")
    return re.sub(r"(got -?\d+)\.0$", r"\1", words)


def test_wrong_settings_and_texts_are_refused(tmp_path: Path) -> None:
    """In the words of Python; without a check the kernel reads settings beyond its memory."""
    export(Path("note"), "web", tmp_path / "note")
    outside = outside_values()
    assert {"beam", "max_length", "temperature", "top_p", "min_p"} <= {name for name, _ in outside}
    wrong: list[tuple[list[Any], str]] = [
        *((["가", {name: value}], python_sentence(name, value)) for name, value in outside),
        *((["가", decoding], sentence) for decoding, sentence in WRONG),
        ([None], "the text must be a string, got null"),
        ([3], "the text must be a string, got 3"),
        ([{}], "the text must be a string, got an object"),
        ([["가", "나"]], "the text must be a string, got a list of 2"),
    ]
    (job, *_) = requests(tmp_path / "note", ["가"])
    job["wrong"] = [arguments for arguments, _ in wrong]
    (answer,) = run_module({"models": [job]}, tmp_path)["answers"]
    for found in (answer["refused"], answer["refusedStreams"]):
        for said, (arguments, sentence) in zip(found, wrong, strict=True):
            assert said.startswith(f"Error: {sentence}"), arguments


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "as numbers: bytes, pre-norm, places and distances": (
        "sequence_to_sequence",
        {"kind": "encoder_decoder", "norm_first": True, "positions": "sinusoidal_rotary"},
    ),
    "relative, gated, RMS, untied": (
        "sequence_to_sequence",
        {
            "kind": "encoder_decoder",
            "positions": "relative",
            "gated": True,
            "norm": "rms",
            "n_layers": 2,
            "n_decoder_layers": 1,
            "tie_embeddings": False,
            "bias": False,
        },
    ),
    "a language model with windows and grouped heads": (
        "language_modeling",
        {
            "kind": "decoder",
            "positions": "rotary",
            "n_layers": 3,
            "norm": "rms",
            "n_kv_heads": 1,
            "norm_first": True,
            "sliding_window": 6,
            "layer_pattern": "LLG",
        },
    ),
    "a language model as GPT-2": (
        "language_modeling",
        {"kind": "decoder", "positions": "learned", "norm_first": True, "activation": "gelu_tanh"},
    ),
}


def generator(name: str) -> Pipeline:
    """A model with random weights; texts of several lines are documents."""
    lines = [chr(i) * 2 for i in range(ord("가"), ord("가") + 40)]
    config = VocabularyConfig(kind="bpe", size=320, byte_fallback=True, required_characters="")
    tokenizer = SentencePieceTokenizer.train(lines, config)
    task_name, model = MODELS[name]
    plan = recipe(task_name, {"max_length": 40} | model).with_vocabulary(len(tokenizer))
    task = get_task(task_name)
    network = drawn(task.build_model(plan.model, ()))
    return task.pipeline(network, tokenizer, plan, (), CPU)


@pytest.mark.parametrize(
    "names",
    [["a language model with windows and grouped heads"], slow(list(MODELS))],
    ids=["one", "all"],
)
def test_random_models_in_both_precisions(names: list[str], tmp_path: Path) -> None:
    """Byte pieces, windows that slide, repetitions: what a trained model rarely generates."""
    jobs, expected = [], []
    for name in names:
        model = generator(name)
        assert Web().unsupported_reason(model) is None, name
        tokenizer = model.vocabulary
        assert isinstance(tokenizer, SentencePieceTokenizer)
        texts = odd_texts(tokenizer, 12)
        for quantize in (None, "int8"):
            folder = tmp_path / f"{name}-{quantize}"
            folder.mkdir()
            Web().convert(model, folder)
            samples = random_samples(model, 4, "there are no data")
            assert Web().difference(model, folder, samples) <= Web.tolerance, name
            if quantize:
                Web().quantize(model, folder, folder, "int8")
            packed = web.packed_model(model, *web._parts(folder))
            for request in requests(folder, texts):
                jobs.append(request)
                expected.append(
                    packed.with_decoding(overrides(request["decoding"])).predict(texts)
                    if quantize is None
                    else None
                )
    answers = run_module({"models": jobs}, tmp_path)["answers"]
    for answer, own in zip(answers, expected, strict=True):
        if own is not None:
            assert_equal(answer, own)


def test_a_numbers_run_fits_into_a_page(tmp_path: Path) -> None:
    """A model of the size of the recipe `numbers`; its weights compress less than trained ones."""
    size = {"n_layers": 2, "n_decoder_layers": 1, "max_length": 224}
    size |= {"d_model": 96, "n_heads": 4, "d_ff": 256}
    lines = [chr(i) for i in range(ord("가"), ord("가") + 1237)]  # pieces of one character
    config = VocabularyConfig(
        size=1500, max_piece_length=1, byte_fallback=True, required_characters=""
    )
    tokenizer = SentencePieceTokenizer.train(lines, config)
    model = {"kind": "encoder_decoder", "norm_first": True, "positions": "sinusoidal_rotary"}
    plan = recipe("sequence_to_sequence", size | model).with_vocabulary(len(tokenizer))
    task = get_task("sequence_to_sequence")
    pipeline = task.pipeline(drawn(task.build_model(plan.model, ())), tokenizer, plan, (), CPU)
    Web().quantize(pipeline, tmp_path, tmp_path, "int8")
    assert len(tokenizer) > 1_490
    assert (tmp_path / PAGE).stat().st_size <= 2_500_000


def test_decoding_settings_that_the_page_lacks_are_refused() -> None:
    model = generator("a language model as GPT-2")
    for decoding, name in (
        (DecodingConfig(pattern="a+"), "pattern"),
        (DecodingConfig(stop=("a",), beam=2), "stop"),
    ):
        model.recipe = replace(model.recipe, decoding=decoding)
        assert name in str(Web().unsupported_reason(model))
