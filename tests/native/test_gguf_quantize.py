"""Blocks are those of the gguf package, and weights that came from blocks keep their values."""

import numpy as np
import pytest

from jumok.native.gguf_quantize import BLOCK_TYPES, BlockName, quantize, scales
from jumok.native.gguf_types import Bytes, Floats, dequantize

NAMES: tuple[BlockName, ...] = ("q8_0", "q4_0")


def weights(rows: int = 60, inputs: int = 96) -> Floats:
    """Weights of several magnitudes, with a row of zeros and ties."""
    rng = np.random.default_rng(1)
    w = rng.standard_normal((rows, inputs)).astype(np.float32)
    w *= np.float32(10.0) ** rng.integers(-7, 4, (rows, 1))
    w[3] = 0
    w[4] = np.round(w[4])
    w[5, 1:33] = -w[5, 0]
    return w


def values(blocks: Bytes, name: BlockName) -> Floats:
    return dequantize(blocks.reshape(-1), BLOCK_TYPES[name]).reshape(len(blocks), -1)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_as_the_gguf_package(name: BlockName) -> None:
    gguf = pytest.importorskip("gguf")
    expected = gguf.quants.quantize(weights(), gguf.GGMLQuantizationType[name.upper()])
    assert np.array_equal(quantize(weights(), name), expected)


@pytest.mark.parametrize(("name", "largest_error"), [("q8_0", 0.51 / 127), ("q4_0", 1.01 / 8)])
def test_the_error_is_within_the_step(name: BlockName, largest_error: float) -> None:
    """Half a step of d, or a whole one where q4_0 ends at 7; and float16 rounds d."""
    w = weights()[:, :32]
    error = np.abs(values(quantize(w, name), name) - w).max(1)
    assert (error <= largest_error * np.abs(w).max(1) + 2**-24 * 127).all()


@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_any_quantizer_keep_their_values(name: BlockName) -> None:
    """Random blocks: the largest integer is any, and the scale is any finite float16."""
    kind = BLOCK_TYPES[name]
    rng = np.random.default_rng(2)
    blocks = rng.integers(0, 256, (4000, kind.bytes), dtype=np.uint8)
    blocks[:2000, 2:] //= 3  # small integers in q8_0
    blocks = blocks[np.isfinite(scales(blocks, name))]
    if name == "q8_0":
        blocks[:, 2:][blocks[:, 2:] == 128] = 129  # -128, which no quantizer writes
    w = values(blocks, name)
    assert np.array_equal(values(quantize(w, name), name), w)


@pytest.mark.parametrize("name", NAMES)
def test_a_short_row_is_padded_with_zeros(name: BlockName) -> None:
    w = weights(inputs=40)
    blocks = quantize(w, name)
    assert blocks.shape == (60, 2 * BLOCK_TYPES[name].bytes)
    assert not values(blocks, name)[:, 40:].any()
    assert np.array_equal(blocks, quantize(np.pad(w, ((0, 0), (0, 24))), name))


def test_tiny_and_huge_weights() -> None:
    for name in NAMES:
        assert not values(quantize(np.full((1, 32), 1e-41, np.float32), name), name).any()
        assert np.isinf(scales(quantize(np.full((1, 32), 1e9, np.float32), name), name)).all()
