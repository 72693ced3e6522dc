"""An encoder without layers: the engine computes it with numpy, equal to PyTorch."""

import json
import shutil
import subprocess
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok import safetensors_io
from jumok.engine import find, load
from jumok.engine.run import UnsupportedError
from jumok.engine.token_vectors import BLOCK, TokenVectors
from jumok.errors import ConfigError, InputError
from jumok.inference import optimize
from jumok.models import TransformerConfig
from jumok.models.int8_weights import quantize_rows
from jumok.native.session import Head
from jumok.shipped import resolve_model
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.runs.run import Run
from jumok.text.ragged import Ragged
from tests.cli.commands import environment
from tests.engine.test_engine import make_run, save_run, texts_of
from tests.errors import raises

ALONE = {"n_layers": 0, "positions": "none"}
TASKS = {
    "similarity": ("similarity", {**ALONE, "n_segments": 0}, ()),
    "labels": ("classification", {**ALONE, "scale_embedding": False}, ("good", "bad", "한")),
    "several": ("multi_label_classification", {**ALONE, "pooling": "max"}, ("연기", "음악")),
    "score": ("regression", {**ALONE, "pooling": "first"}, ()),
}


@pytest.mark.parametrize("kind", TASKS)
def test_outputs_are_those_of_pytorch(kind: str, tmp_path: Path) -> None:
    folder, texts = save_run(tmp_path / "run", *TASKS[kind]), texts_of(kind)
    reference, engine = jumok.load(folder, device="cpu"), load(folder)
    found = engine.predict(texts)
    assert [to_json(engine.predict([text])[0]) for text in texts] == [to_json(x) for x in found]
    for mine, expected in zip(found, reference.predict(texts), strict=True):
        assert (type(mine), mine.warnings) == (type(expected), expected.warnings)
        numbers = [json.loads(to_json(each)) for each in (mine, expected)]
        values = [x.get("probabilities") or {"score": x["score"]} for x in numbers]
        assert values[0] == pytest.approx(values[1], rel=1e-5, abs=1e-5)


def test_vectors_are_those_of_pytorch(tmp_path: Path) -> None:
    folder, texts = save_run(tmp_path / "run", *TASKS["labels"]), texts_of("labels")
    reference, engine = jumok.load(folder, device="cpu"), load(folder)
    for pooling in (None, "first", "mean", "max", "last"):
        for normalize in (True, False):
            mine = engine.encode(texts, pooling=pooling, normalize=normalize)
            theirs = reference.encode(texts, pooling=pooling, normalize=normalize)
            np.testing.assert_allclose(mine, theirs, atol=1e-6)
    assert str(engine.kernel) == "numpy in float32: the encoder has no layers"
    assert find(folder, device="cpu") is not None  # whether or not a kernel is compiled


def test_a_text_has_the_same_bits_in_any_batch() -> None:
    rng = np.random.default_rng(0)
    arrays = {"encoder.embedding.tokens.weight": rng.normal(size=(50, 7)).astype(np.float32)}
    rows = [rng.integers(0, 50, n).tolist() for n in rng.integers(0, 9, 2 * BLOCK + 3)]
    config = TransformerConfig(d_model=7, n_heads=1, n_layers=0, scale_embedding=False)
    session = TokenVectors(config, arrays, Head("mean", normalize=True))
    found = session.vectors(Ragged.from_lists(rows), "mean", normalize=False)
    for row, vector in zip(rows, found, strict=True):
        alone = session.vectors(Ragged.from_lists([row]), "mean", normalize=False)[0]
        np.testing.assert_array_equal(alone, vector)
        table = arrays["encoder.embedding.tokens.weight"]
        expected = table[row].mean(0) if row else np.zeros(7)
        np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_what_numpy_does_not_compute_is_left_to_pytorch(tmp_path: Path) -> None:
    pairs = {"pooling": "compare", "n_segments": 2}
    for text, model in (("영화", {"norm_first": True}), ("영화\t음악", pairs)):
        folder = save_run(
            tmp_path / str(len(text)), "classification", {**ALONE, **model}, ("a", "b")
        )
        with raises(UnsupportedError, "engine.unsupported_token_vectors"):
            load(folder)
        assert jumok.load(folder, device="cpu").predict([text])[0].label in ("a", "b")


def test_it_has_no_layers_to_optimize(tmp_path: Path) -> None:
    model = jumok.load(save_run(tmp_path / "run", *TASKS["similarity"]), device="cpu").model
    with raises(InputError, "inference.no_layers"):
        optimize(model)


def test_it_has_no_attention_to_trace() -> None:
    with raises(InputError, "trace.no_layers"):
        jumok.trace(jumok.load("ko-static", device="cpu"), "영화")


def test_weights_of_int8_are_read_by_both(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", *TASKS["similarity"])
    exact = load(folder).encode(["영화", "음악"])
    q, scale = quantized_file(folder)
    assert Path(folder, "model.safetensors").stat().st_size < 0.4 * 4 * q.size
    weight = jumok.load(folder, device="cpu").model.encoder.embedding.tokens.weight.detach()
    torch.testing.assert_close(weight, torch.from_numpy(q * scale[:, None]))
    mine, theirs = load(folder).encode(["영화", "음악"]), jumok.load(folder, device="cpu")
    np.testing.assert_allclose(mine, theirs.encode(["영화", "음악"]), atol=1e-6)
    assert 0 < np.abs(mine - exact).max() < 0.02


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("kind", ["labels", "bert"])
def test_a_table_of_int8_in_front_of_layers_is_read_where_it_is(kind: str, tmp_path: Path) -> None:
    """Also where the embedding is projected, and after the file was overwritten."""
    folder, texts = make_run(tmp_path / "run", kind), texts_of("labels")
    quantized_file(folder)
    model, reference = load(folder), jumok.load(folder, device="cpu")
    assert model.run.arrays["encoder.embedding.tokens.weight"].dtype == np.int8
    mine = model.encode(texts)
    np.testing.assert_allclose(mine, reference.encode(texts), atol=1e-5)
    model.detach()
    weights = Run.open(folder).weights_path
    weights.write_bytes(bytes(weights.stat().st_size))
    np.testing.assert_array_equal(model.encode(texts), mine)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("scale", [np.nan, np.inf, 3e37])
def test_scales_that_are_not_finite_are_refused(scale: float, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", "labels")
    quantized_file(folder, scale=scale)
    for opened in (load, partial(jumok.load, device="cpu")):
        with raises(ConfigError, "model.weights_not_finite"):
            opened(folder)


def test_scales_of_another_shape_are_refused(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", *TASKS["similarity"])
    quantized_file(folder, rows=3)
    for opened in (load, jumok.load):
        with pytest.raises(InputError, match=r"tokens\.weight_scale is unexpected"):
            opened(folder)


def quantized_file(
    folder: Path, rows: int = 10**9, scale: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Replace the table of a run by int8 with the scales of the first rows, `scale` first."""
    run, name = Run.open(folder), "encoder.embedding.tokens.weight"
    tensors = {key: each.clone() for key, each in run.read_weights().items()}
    q, scales = quantize_rows(tensors[name].numpy())
    if scale is not None:
        scales[0] = scale
    tensors |= {name: torch.from_numpy(q), f"{name}_scale": torch.from_numpy(scales[:rows])}
    config = json.loads(run.config_path.read_text(encoding="utf-8"))
    data = safetensors_io.serialize(tensors)
    run.weights_path.write_bytes(data)
    config["weights_sha256"] = sha256(data).hexdigest()
    run.config_path.write_text(json.dumps(config), encoding="utf-8")
    return q, scales


def test_neither_torch_nor_the_kernel_is_needed(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", *TASKS["similarity"])
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import jumok.native.library as library; library.library = None\n"
        f"import jumok.engine; print(jumok.engine.load({str(folder)!r}).encode('영화').shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("(32,)\n", 0), done.stderr


def test_detached_vectors_survive_an_overwritten_file(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(resolve_model("ko-static"), folder)
    model = load(folder)
    expected = model.encode(["비가 옵니다", "눈"])
    model.detach()
    weights = folder / "model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))
    assert np.array_equal(model.encode(["비가 옵니다", "눈"]), expected)
