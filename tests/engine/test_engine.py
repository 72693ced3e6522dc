"""The outputs of the engine equal those of jumok.load, and it never imports torch."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.engine import find, load, without_torch
from jumok.engine.model import EnginePrecision
from jumok.engine.run import UnsupportedError
from jumok.errors import InputError, JumokError, MissingDependencyError
from jumok.native.measured import is_compiled
from jumok.safetensors_io import read_tensors, serialize
from jumok.tasks.pipeline.encoder_choice import with_packed_encoder
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.registry import get_task
from jumok.tasks.runs.run import Run
from tests.cli.commands import environment
from tests.errors import raises
from tests.native.conftest import randomize_vectors
from tests.tasks.tiny_jobs import joint, recipe, review_vocabulary

pytestmark = pytest.mark.usefixtures("compiled")

ODD = ["", " ", "\u1112\u1161\u11ab\u1100\u1173\u11af", "뷁👩‍👩‍👧 \u200b\ufeff", "a" * 300, "\x07"]
BERT = {
    "positions": "learned",
    "position_offset": 2,
    "n_segments": 2,
    "embedding_norm": True,
    "d_embedding": 12,
    "activation": "gelu",
    "pooling": "first",
    "pooler": "tanh",
}
MODERN = {
    "positions": "rotary",
    "layer_pattern": "GLL",
    "sliding_window": 4,
    "n_layers": 3,
    "norm": "layer_without_bias",
    "norm_first": True,
    "first_norm": False,
    "bias": False,
    "rope": {"base": 160_000.0},
    "embedding_norm": True,
    "gated": True,
    "activation": "gelu",
    "head_transform": True,
    "head_bias": False,
    "pooling": "mean",
}
DEBERTA = {
    "positions": "none",
    "attention": "disentangled",
    "embedding_norm": True,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 30,
    "share_position_maps": True,
    "position_norm": True,
    "pooling": "first",
    "pooler": "gelu",
}
KINDS = {
    "modernbert": ("classification", MODERN, ("good", "bad", "한")),
    "deberta": ("classification", DEBERTA, ("good", "bad", "한")),
    "labels": (
        "classification",
        {"positions": "rotary", "norm_first": True},
        ("good", "bad", "한"),
    ),
    "bert": ("classification", BERT, ("good", "bad")),
    "several": (
        "multi_label_classification",
        {"pooling": "max", "norm": "rms", "gated": True, "activation": "silu", "bias": False},
        ("연기", "음악"),
    ),
    "score": ("regression", {"positions": "relative", "pooler": "relu"}, ()),
    "compare": (
        "regression",
        {"n_segments": 2, "pooling": "compare", "pooler": "gelu", "positions": "sinusoidal_halves"},
        (),
    ),
    "similarity": ("similarity", {"positions": "none", "n_segments": 0}, ()),
}


def make_run(folder: Path, kind: str) -> Path:
    """A run of a model with random weights."""
    return save_run(folder, *KINDS[kind])


def save_run(folder: Path, task: str, model: dict[str, object], labels: tuple[str, ...]) -> Path:
    """The same for a task with this model and these labels."""
    vocabulary = review_vocabulary()
    plan = recipe(task, model)  # of pairs where the model has `n_segments`
    run = Run.create(folder, plan, joint(vocabulary))
    plan = plan.with_vocabulary(len(vocabulary))
    torch.manual_seed(1)
    built = randomize_vectors(get_task(task).build_model(plan.model, labels))
    with torch.no_grad():
        for name, weight in built.named_parameters():
            if name.startswith(("output", "similarity")):
                weight.normal_()  # a classifier of pairs starts at 0
    run.save_model(built, task, plan.model, labels, joint(vocabulary).checksums)
    return folder


def texts_of(kind: str) -> list[str]:
    """Mixed texts: short and long, empty, decomposed, with characters outside the vocabulary."""
    rng = np.random.default_rng(0)
    letters = np.array(list("이영화연기가음악정말재미있어요지루해 ㅋ.,Aé한"))
    texts = [*ODD, *("".join(rng.choice(letters, n)) for n in rng.integers(1, 60, 60))]
    if kind in ("bert", "compare", "similarity"):
        return [f"{text}\t{other}" for text, other in zip(texts, reversed(texts), strict=True)]
    return texts


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_the_pipeline(kind: str, tmp_path: Path) -> None:
    folder, texts = make_run(tmp_path / "run", kind), texts_of(kind)
    reference = jumok.load(folder, device="cpu")
    engine = load(folder)
    found, packed = engine.predict(texts), with_packed_encoder(reference, "float32").predict(texts)
    assert [to_json(each) for each in found] == [to_json(each) for each in packed]
    assert [to_json(engine.predict([text])[0]) for text in texts] == [to_json(x) for x in found]
    for mine, expected in zip(found, reference.predict(texts), strict=True):
        assert (type(mine), mine.warnings) == (type(expected), expected.warnings)
        numbers = [json.loads(to_json(each)) for each in (mine, expected)]
        values = [x.get("probabilities") or {"score": x["score"]} for x in numbers]
        assert values[0] == pytest.approx(values[1], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", ["bert", "similarity"])
def test_vectors_are_those_of_the_pipeline(kind: str, tmp_path: Path) -> None:
    folder, texts = make_run(tmp_path / "run", kind), texts_of("labels")
    reference, engine = jumok.load(folder, device="cpu"), load(folder)
    packed = with_packed_encoder(reference, "float32")
    for pooling in (None, "first", "mean", "max", "last"):
        for normalize in (True, False):
            options = {"pooling": pooling, "normalize": normalize}
            mine = engine.encode(texts, **options)
            np.testing.assert_array_equal(mine, packed.encode(texts, **options))
            np.testing.assert_allclose(mine, reference.encode(texts, **options), atol=1e-5)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("int8", 0.05)])
def test_the_shipped_vectors(precision: EnginePrecision, tolerance: float) -> None:
    texts = texts_of("labels")
    reference = jumok.load("ko-small-vectors", device="cpu")
    mine = load("ko-small-vectors", precision).encode(texts)
    np.testing.assert_allclose(mine, reference.encode(texts), atol=tolerance)
    np.testing.assert_array_equal(mine, with_packed_encoder(reference, precision).encode(texts))


@pytest.mark.skipif(not is_compiled("float32"), reason="torch is as fast on this processor")
def test_commands_answer_without_torch(tmp_path: Path, review_run: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("비가 와요\n주식이 올랐다\n", encoding="utf-8")
    program = (
        "import sys; from jumok.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules, file=sys.stderr)"
    )
    for words in (
        ["predict", review_run, "--json", "--timing", "재미있어요"],
        ["search", "ko-small-vectors", lines, "비", "--precision", "int8"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines()[-1] == "False", done.stderr
    assert "비가 와요" in done.stdout.splitlines()[0]


def test_what_jumok_load_opens_or_rejects_is_left_to_it(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        load("ko-small")
    assert find(tmp_path / "missing") is None
    folder = make_run(tmp_path / "run", "labels")
    assert find(folder, "cuda") is None
    for name in ("config.json", "recipe.toml"):  # a billion layers
        text = (folder / name).read_text(encoding="utf-8")
        text = re.sub(r'(n_layers"?[ =:]+)1\b', r"\g<1>1000000000", text)
        (folder / name).write_text(text, encoding="utf-8")
        with pytest.raises(InputError):
            load(folder)


def _same_error(engine: Callable[[], object], reference: Callable[[], object]) -> str:
    """The code of the error that both raise."""
    errors = []
    for function in (engine, reference):
        with pytest.raises(JumokError) as caught:
            function()
        errors.append((type(caught.value), str(caught.value), caught.value.code))
    assert errors[0] == errors[1]
    return errors[0][2]


def _write_weights(folder: Path, name: str, value: object) -> None:
    """Replace a weight, or remove it, and keep the checksum right."""
    path, config = folder / "model.safetensors", folder / "config.json"
    tensors = read_tensors(path)
    if isinstance(value, torch.Tensor):
        tensors[name] = value
    else:
        del tensors[name]
    path.write_bytes(serialize(tensors))
    tree = json.loads(config.read_text(encoding="utf-8"))
    tree["weights_sha256"] = sha256(path.read_bytes()).hexdigest()
    config.write_text(json.dumps(tree), encoding="utf-8")


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no vocabulary": ("run.own_file", lambda run: (run / "vocabulary.model").unlink()),
    "no weights": ("run.own_file", lambda run: (run / "model.safetensors").unlink()),
    "cut weights": (
        "run.file_damaged",
        lambda run: (run / "model.safetensors").write_bytes(b"\0\0\x80\x7f"),
    ),
    "no such run": ("run.not_a_run", shutil.rmtree),
    "a NaN": (
        "model.weights_not_finite",
        lambda run: _write_weights(run, "output.bias", torch.tensor([0.0, torch.nan, 0.0])),
    ),
    "integers": (
        "model.weights_do_not_fit",
        lambda run: _write_weights(run, "output.bias", torch.tensor([0, 1, 2, 3])),
    ),
    "a missing weight": (
        "model.weights_do_not_fit",
        lambda run: _write_weights(run, "output.bias", None),
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_has_the_error_of_jumok_load(damage: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", "labels")
    code, change = DAMAGE[damage]
    change(folder)
    assert _same_error(lambda: load(folder), lambda: jumok.load(folder, device="cpu")) == code


@pytest.mark.parametrize(
    ("method", "texts", "code"),
    [
        ("predict", None, "pipeline.texts_not_a_list"),
        ("predict", b"x", "pipeline.texts_not_a_list"),
        ("encode", {"a": 1}, "pipeline.texts_not_a_list"),
        ("predict", ["a", 5], "pipeline.text_not_str"),
        ("predict", [("a", "b")], "pipeline.reads_one_text"),
    ],
)
def test_arguments_are_checked_as_by_the_pipeline(
    method: str, texts: object, code: str, review_run: Path
) -> None:
    engine, reference = load(review_run), jumok.load(review_run, device="cpu")
    calls = [partial(getattr(model, method), texts) for model in (engine, reference)]
    assert _same_error(*calls) == code


def test_a_text_an_iterator_and_pairs() -> None:
    engine, reference = load("ko-small-vectors"), jumok.load("ko-small-vectors", device="cpu")
    assert engine("비\t눈") == engine.predict(iter([("비", "눈")]))[0] == engine(["비\t눈"])[0]
    assert [each.text for each in reference.predict("비\t눈")] == ["비\t눈"]
    assert engine("\t").score <= 1  # type: ignore[union-attr]  # of similarity
    vector = engine.encode("비", normalize=None)
    np.testing.assert_array_equal(vector, engine.encode(iter(["비"]))[0])
    np.testing.assert_allclose(vector, reference.encode("비"), atol=1e-5)
    assert vector.shape == (256,)
    for model in (engine, reference):  # the arguments of sentence-transformers
        raw = model.encode("비", prompt_name=None, normalize_embeddings=False)
        np.testing.assert_array_equal(raw, model.encode("비", normalize=False))
        unit = model.encode("비", normalize_embeddings=True)
        np.testing.assert_allclose(unit, vector, atol=1e-5)
        assert abs(float(np.linalg.norm(raw)) - 1) > 1e-3
    _same_error(
        lambda: engine.encode("비", normalize=True, normalize_embeddings=True),
        lambda: reference.encode("비", normalize=True, normalize_embeddings=True),
    )
    code = _same_error(
        lambda: engine.encode(["비"], pooling="foo"),
        lambda: reference.encode(["비"], pooling="foo"),
    )
    assert code == "config.wrong_type"


@pytest.mark.parametrize("precision", ["bfloat16", "q8_0", "int4", ["int8"]])
def test_the_engine_computes_in_two_precisions(precision: EnginePrecision) -> None:
    with raises(InputError, "config.wrong_type"):
        load("ko-small-vectors", precision)


def test_what_needs_pytorch_is_named() -> None:
    """The setting where it is one; a model without vectors has none with PyTorch either."""
    with pytest.raises(MissingDependencyError, match=r"^decoding\.prefix needs PyTorch"):
        without_torch.load("note", decoding=["prefix=It"])
    with pytest.raises(MissingDependencyError, match=r"^decoding\.kernel needs PyTorch"):
        without_torch.load("note", decoding=["kernel=torch"])
    with raises(InputError, "engine.needs_encoder"):
        without_torch.find("note", "auto", None, None)
