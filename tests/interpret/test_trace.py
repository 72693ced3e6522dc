"""A trace in memory and in a file: the same numbers, read in parts, without torch."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from jumok.errors import InputError, StorageError
from jumok.interpret.schema import FORMAT
from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import serialize
from jumok.viewer.page import render_page
from tests.errors import raises
from tests.interpret.random_traces import random_info, random_tensors, random_trace


def test_a_saved_trace_is_unchanged(tmp_path: Path) -> None:
    trace = random_trace()
    assert trace.save(tmp_path / "t.safetensors") == tmp_path / "t.safetensors"
    opened = Trace.open(tmp_path / "t.safetensors")
    assert opened.info == trace.info
    assert opened.names == trace.names
    for name in trace.names:
        assert np.array_equal(opened.tensor(name), trace.tensor(name))
        assert opened.shape(name) == trace.shape(name) == trace.tensor(name).shape
    for b in range(2):
        for layer in range(2):
            for read in (Trace.weights, Trace.scores, Trace.q, Trace.k, Trace.v, Trace.value_norms):
                mine = read(opened, "encoder", layer, b)
                assert mine.dtype == np.float32
                assert np.array_equal(mine, read(trace, "encoder", layer, b))
        for of_block in (Trace.mask, Trace.thumbnails, Trace.entropy):
            assert np.array_equal(of_block(opened, "encoder", b), of_block(trace, "encoder", b))
        assert np.array_equal(opened.hidden("source", 2, b), trace.hidden("source", 2, b))
    assert opened.to_bytes() == trace.to_bytes() == (tmp_path / "t.safetensors").read_bytes()
    assert repr(opened) == "Trace('만든 것': encoder 2x4, 2 sequences)"


def test_any_safetensors_reader_opens_it() -> None:
    trace = random_trace()
    found = safetensors.numpy.load(trace.to_bytes())
    assert found.keys() == set(trace.names)
    assert np.array_equal(found["encoder.1.weights"][1], trace.weights("encoder", 1, 1))


def test_a_large_trace_is_float16_within_its_error_bounds(tmp_path: Path) -> None:
    info = random_info(B=1, L=3, H=6, G=6, T=360, K=16)
    exact = random_tensors(info)
    random_trace(info).save(tmp_path / "t.safetensors")
    trace = Trace.open(tmp_path / "t.safetensors")
    raw = safetensors.numpy.load_file(tmp_path / "t.safetensors")
    assert raw["encoder.0.weights"].dtype == np.float16
    assert raw["encoder.entropy"].dtype == np.float32
    for layer in range(3):
        weights = trace.weights("encoder", layer)
        expected = exact[f"encoder.{layer}.weights"][0]
        assert np.abs(weights.sum(-1) - 1).max() < 4e-4
        # 11 bits of precision; below 2^-14 a step is 2^-24
        assert (np.abs(weights - expected) <= np.maximum(expected * 2.0**-11, 2.0**-25)).all()
        q, k = trace.q("encoder", layer), trace.k("encoder", layer)
        assert np.array_equal(
            trace.scores("encoder", layer), q @ k.swapaxes(-1, -2) * np.float32(0.5)
        )


def test_heads_use_their_shared_keys() -> None:
    trace = random_trace(H=6, G=2)
    q, k = trace.q("encoder", 0, 1), trace.k("encoder", 0, 1)
    scores = trace.scores("encoder", 0, 1)
    for h in range(6):
        assert np.allclose(scores[h], 0.5 * q[h] @ k[h * 2 // 6].T, atol=1e-6)


def test_scores_include_the_bias() -> None:
    info = random_info()
    exact = random_tensors(info)
    bias = np.random.default_rng(1).standard_normal((1, 4, 5, 5)).astype(np.float32)
    plain = Trace.from_tensors(exact, info)
    biased = Trace.from_tensors(exact | {"encoder.0.bias": bias}, info)
    assert np.allclose(biased.scores("encoder", 0), plain.scores("encoder", 0) + bias[0])
    assert np.array_equal(biased.scores("encoder", 1), plain.scores("encoder", 1))
    recorded = bias.repeat(2, 0)
    changed = Trace.from_tensors(exact | {"encoder.0.scores": recorded}, info)
    assert np.array_equal(changed.scores("encoder", 0, 1), recorded[1])


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    random_trace().save(tmp_path / "t.safetensors")
    code = (
        "import sys\n"
        "from jumok import Trace\n"
        f"trace = Trace.open({str(tmp_path / 't.safetensors')!r})\n"
        "trace.scores('encoder', 1, 1), trace.thumbnails('encoder'), trace.hidden('source', 0)\n"
        "trace.save(sys.argv[1])\n"
        "heavy = {'torch', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(f'{heavy} were imported' if heavy else 0)\n"
    )
    copy = tmp_path / "copy.safetensors"
    done = subprocess.run(
        [sys.executable, "-c", code, str(copy)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert copy.read_bytes() == (tmp_path / "t.safetensors").read_bytes()


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    random_trace(random_info(B=1, L=8, H=8, G=8, T=256, K=4)).save(tmp_path / "t.safetensors")
    size = (tmp_path / "t.safetensors").stat().st_size
    assert size > 8_000_000
    code = (
        "import resource, sys\n"
        "from jumok import Trace\n"
        "def read():\n"
        "    return int(open('/proc/self/io').read().split('rchar: ')[1].split()[0])\n"
        "before = read()\n"
        "trace = Trace.open(sys.argv[1])\n"
        "trace.weights('encoder', 3)\n"
        "print(read() - before)\n"
    )
    if not Path("/proc/self/io").is_file():
        pytest.skip("only Linux counts the bytes that a process has read")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "t.safetensors")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < size / 4


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda t: t.weights("decoder", 0), "trace.unknown_block"),
        (lambda t: t.weights("encoder", 2), "trace.layer_range"),
        (lambda t: t.weights("encoder", -1), "trace.layer_range"),
        (lambda t: t.weights("encoder", 0, 2), "trace.index_range"),
        (
            lambda t: t.tensor("encoder.0.mixed"),
            "trace.unknown_tensor",
        ),
        (lambda t: t.hidden("target", 0), "trace.unknown_tensor"),
        (lambda t: t.info.tokens("target"), "trace.unknown_side"),
    ],
)
def test_missing_parts_of_a_trace_are_rejected(ask, message) -> None:  # type: ignore[no-untyped-def]
    with raises(InputError, message):
        ask(random_trace())


def damaged(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(data)
    return path


def test_a_truncated_file_is_rejected(tmp_path: Path) -> None:
    data = random_trace().to_bytes()
    for length in (0, 4, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(InputError, match=r"damaged.safetensors: not a usable safetensors file"):
            Trace.open(damaged(tmp_path, data[:length]))


def test_a_file_of_another_format_is_rejected(tmp_path: Path) -> None:
    weights = {"a": np.zeros(3, np.float32)}
    for metadata in (None, {"format": "pt"}, {"format": "jumok.trace/1"}):
        path = damaged(tmp_path, safetensors.numpy.save(weights, metadata))
        with pytest.raises(InputError, match=r"the format must be 'jumok.trace/3', got"):
            Trace.open(path)
    with pytest.raises(StorageError, match="cannot be read"):
        Trace.open(tmp_path / "nowhere.safetensors")


def test_a_missing_header_is_rejected(tmp_path: Path) -> None:
    weights = {"a": np.zeros(3, np.float32)}
    for text in ("", "{", "[]", "{}", '{"title": 1}'):
        path = damaged(tmp_path, safetensors.numpy.save(weights, {"format": FORMAT, "trace": text}))
        with pytest.raises(InputError, match="not the header of a trace"):
            Trace.open(path)


def test_a_header_with_wrong_shapes_is_rejected(tmp_path: Path) -> None:
    info = random_info()
    exact = random_tensors(info)
    whole = {name: random_trace(info).tensor(name) for name in random_trace(info).names}
    (block,) = info.blocks
    for lie, message in (
        ({"heads": 8}, r"shape \(2, 8, 5, 3\) in 2 layers by the header, got \(2, 4, 5, 3\)"),
        ({"layers": 3}, r"shape \(2, 3, 4\) in 3 layers"),
        ({"layers": 1}, "in 1 layers"),
        ({"layers": 10**12}, "in 1000000000000 layers"),
        ({"d_head": 2}, r"shape \(2, 2, 5, 2\)"),
        ({"key_heads": 1}, "encoder.0.k must have"),
        ({"key_heads": 3}, "4 heads must be a multiple of 3 key heads"),
        ({"key_heads": 0}, "4 heads must be a multiple of 0 key heads"),
        ({"heads": -4}, "-4 heads must be a multiple"),
    ):
        changed = replace(info, blocks=(replace(block, **lie),))
        with pytest.raises(InputError, match=message):
            Trace.open(damaged(tmp_path, serialize(whole, changed)))
    for name in ("encoder.mask", "encoder.thumbnails"):
        less = {key: tensor for key, tensor in whole.items() if key != name}
        with pytest.raises(InputError, match=f"{name} is missing"):
            Trace.open(damaged(tmp_path, serialize(less, info)))
    assert exact.keys() <= whole.keys()


def test_tensors_of_other_dtypes_are_rejected(tmp_path: Path) -> None:
    data = {"a": np.zeros(3, np.int64)}
    text = json.dumps({})
    with raises(InputError, "trace.tensor_type"):
        Trace.open(
            damaged(tmp_path, safetensors.numpy.save(data, {"format": FORMAT, "trace": text}))
        )


def test_a_trace_may_lack_the_weights_of_some_layers(tmp_path: Path) -> None:
    trace = random_trace()
    less = {n: trace.tensor(n) for n in trace.names if n != "encoder.1.weights"}
    opened = Trace.open(damaged(tmp_path, serialize(less, trace.info)))
    assert opened.thumbnails("encoder").shape == (2, 4, 5, 5)
    with raises(InputError, "trace.unknown_tensor"):
        opened.weights("encoder", 1)
    fewer = {name: tensor for name, tensor in less.items() if name != "encoder.entropy"}
    with raises(InputError, "trace.unknown_tensor"):
        Trace.open(damaged(tmp_path, serialize(fewer, trace.info))).entropy("encoder")


def test_figures_are_drawn_by_the_viewer() -> None:
    trace = random_trace()
    figure = trace.figure("heads", layer=1, width=6.9, title="네 머리")
    assert figure.get_size_inches()[0] == pytest.approx(6.9, abs=0.02)
    with raises(InputError, "trace.unknown_value"):
        trace.figure("hedas")


def test_the_page_is_one_file(tmp_path: Path) -> None:
    trace = random_trace()
    path = trace.html(tmp_path / "page.html")
    assert path.read_bytes() == render_page(trace)
