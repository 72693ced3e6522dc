"""What a trace file has: all tensors if small, then fewer, then float16; thumbnails."""

from dataclasses import replace

import numpy as np
import pytest

from jumok.interpret import trace_writer as writing
from jumok.interpret.thumbnails import mean_entropy, thumbnail
from jumok.interpret.trace_writer import finalize
from tests.interpret.random_traces import Arrays, random_info, random_tensors


def everything() -> Arrays:
    """Tensors of every kind in addition to those of `random_tensors`."""
    some = np.random.default_rng(2).standard_normal
    return random_tensors(random_info()) | {
        "encoder.0.scores": some((2, 4, 5, 5)),
        "encoder.0.mixed": some((2, 4, 5, 3)),
        "encoder.0.bias": some((1, 4, 5, 5)),
        "source.steps.0.self_attention": some((2, 5, 12)),
        "source.embedding": some((2, 5, 12)),
        "source.positions": some((5, 12)),
        "rotary": some(6),
        "parameters.source.0.self_attention.query.weight": some((12, 12)),
    }


def test_small_traces_keep_everything_in_float32() -> None:
    given = everything()
    kept, info = finalize(given, random_info())
    assert kept.keys() == {*given, "encoder.thumbnails", "encoder.entropy"}
    assert {kept[name].dtype.name for name in kept} == {"float32", "uint8"}
    assert info.notes == ()


@pytest.mark.parametrize(
    ("left_out", "notes"),
    [("parameters", 1), ("steps", 2), ("scores", 3)],
)
def test_large_traces_leave_out_optional_tensors(
    left_out: str, notes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = everything()
    sizes = {
        "parameters": [name for name in given if name.startswith("parameters.")],
        "steps": ["encoder.0.mixed", "source.steps.0.self_attention", "source.embedding"],
        "scores": ["encoder.0.scores"],
    }
    order = list(sizes)
    gone = {name for part in order[: order.index(left_out) + 1] for name in sizes[part]}
    floats = sum(
        np.asarray(t, np.float32).nbytes
        for n, t in given.items()
        if n not in gone | {"encoder.mask"}
    )
    floats += 2 * 2 * 4 * 4  # the entropies
    monkeypatch.setattr(writing, "MAX_FLOAT32_BYTES", floats)
    kept, info = finalize(given, replace(random_info(), notes=("said before",)))
    assert given.keys() - kept.keys() == gone
    assert kept["encoder.0.weights"].dtype == np.float32
    assert len(info.notes) == 1 + notes
    monkeypatch.setattr(writing, "MAX_FLOAT32_BYTES", floats - 1)
    kept, info = finalize(given, random_info())
    assert (writing.ROUNDED in info.notes) == (left_out == "scores")
    if left_out == "scores":
        assert kept["encoder.0.weights"].dtype == np.float16
        assert kept["rotary"].dtype == kept["encoder.entropy"].dtype == np.float32


def test_whole_traces_keep_everything_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_FLOAT32_BYTES", 0)
    given = everything()
    kept, info = finalize(given, random_info(), whole=True)
    assert kept.keys() == {*given, "encoder.thumbnails", "encoder.entropy"}
    assert {kept[name].dtype.name for name in kept} == {"float32", "uint8"}
    assert info.notes == ()


def test_numbers_beyond_float16_stay_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_FLOAT32_BYTES", 0)
    given = random_tensors(random_info())
    given["source.hidden.1"] = given["source.hidden.1"] * 1e6
    given["encoder.0.q"] = given["encoder.0.q"].copy()
    given["encoder.0.q"][0, 0, 0, 0] = np.inf
    kept, _ = finalize(given, random_info())
    assert kept["source.hidden.1"].dtype == np.float32
    assert kept["encoder.0.q"].dtype == np.float16
    assert np.isinf(kept["encoder.0.q"][0, 0, 0, 0])


@pytest.mark.parametrize(("T", "S"), [(5, 7), (64, 64), (65, 64), (130, 99), (200, 3)])
def test_a_thumbnail_is_the_largest_weight_of_each_tile(T: int, S: int) -> None:
    weights = np.random.default_rng(0).random((2, T, S)).astype(np.float32)
    found = thumbnail(weights)
    Pt, Ps = min(T, 64), min(S, 64)
    assert found.shape == (2, Pt, Ps)
    for h in range(2):
        for i in range(Pt):
            for j in range(Ps):
                rows = range(i * T // Pt, (i + 1) * T // Pt)
                columns = range(j * S // Ps, (j + 1) * S // Ps)
                largest = max(weights[h, t, s] for t in rows for s in columns)
                assert abs(int(found[h, i, j]) - 255 * largest**0.5) <= 0.5 + 1e-4


def test_thumbnails_of_empty_and_nan_weights() -> None:
    assert thumbnail(np.zeros((2, 0, 3), np.float32)).shape == (2, 0, 3)
    assert thumbnail(np.full((1, 1), np.nan, np.float32)).tolist() == [[0]]


def test_entropy_is_the_mean_over_real_queries() -> None:
    weights = random_tensors(random_info())["encoder.0.weights"]
    real = np.array([[True] * 5, [True] * 4 + [False]])
    found = mean_entropy(weights, real)
    for b in range(2):
        for h in range(4):
            rows = [
                -sum(float(w) * np.log2(float(w)) for w in weights[b, h, t] if w > 0)
                for t in range(5)
                if real[b, t]
            ]
            assert abs(found[b, h] - sum(rows) / len(rows)) < 1e-5
    assert mean_entropy(weights, np.zeros((2, 5), bool)).tolist() == [[0.0] * 4] * 2
