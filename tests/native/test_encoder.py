"""NativeEncoder: `tests/inference` compares it with the PyTorch encoder for every config."""

from copy import deepcopy

import pytest
import torch

from jumok.errors import InputError
from jumok.models import Encoder
from jumok.native import NativeEncoder
from jumok.native.threads import set_kernel_threads
from tests.errors import raises
from tests.native.conftest import config, randomize_vectors

pytestmark = pytest.mark.usefixtures("compiled")


def encoder(positions: str = "learned") -> Encoder:
    torch.manual_seed(1)
    return randomize_vectors(Encoder(config(positions=positions)))


def inputs(*lengths: int) -> tuple[torch.Tensor, ...]:
    """Embedded tokens of texts, their lengths, positions and columns."""
    columns = torch.cat([torch.arange(length) for length in lengths])
    x = torch.randn(len(columns), 24, generator=torch.Generator().manual_seed(3))
    return x, torch.tensor(lengths), columns, columns


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@torch.no_grad()
def test_concatenated_texts_match_single_texts(precision) -> None:
    reference = encoder().stack
    native = NativeEncoder(reference, 40, precision)
    lengths = (
        1,
        40,
        7,
        17,
    )  # full and partial vectors of 16 keys, full and partial tiles of 6 queries
    x, *arguments = inputs(*lengths)
    encoded = native(x, *arguments)
    for part, text in zip(encoded.split(lengths), x.split(lengths), strict=True):
        positions = torch.arange(len(text))
        assert torch.equal(native(text, torch.tensor([len(text)]), positions, positions), part)
        tolerance = 1e-5 if precision == "float32" else 4e-2
        assert (reference(text[None], positions[None])[0] - part).abs().max() < tolerance


@torch.no_grad()
def test_many_rows_match_few_beside_products_of_torch() -> None:
    """With AMX many rows are multiplied in tiles, which PyTorch's products use as well."""
    torch.manual_seed(1)
    stack = randomize_vectors(Encoder(config(d_model=64, d_ff=128))).stack
    native = NativeEncoder(stack, 40, "int8")
    lengths = (40, 3, 40, 7, 1, 2)
    columns = torch.cat([torch.arange(length) for length in lengths])
    x = torch.randn(len(columns), 64)
    matrix = torch.randn(96, 96, dtype=torch.bfloat16)
    product = matrix @ matrix
    encoded = native(x, torch.tensor(lengths), columns, columns)
    assert torch.equal(matrix @ matrix, product)
    for part, text in zip(encoded.split(lengths), x.split(lengths), strict=True):
        positions = torch.arange(len(text))
        assert torch.equal(native(text, torch.tensor([len(text)]), positions, positions), part)
        assert torch.equal(matrix @ matrix, product)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_texts_divided_among_threads_match_single_texts(threads) -> None:
    native = NativeEncoder(encoder("relative").stack, 40)
    lengths = (3, 40, 1, 40, 40, 17, 30, 2, 39, 40, 25, 40)
    x, *arguments = inputs(*lengths)
    set_kernel_threads(threads)
    try:
        encoded = native(x, *arguments)
    finally:
        set_kernel_threads(None)
    for part, text in zip(encoded.split(lengths), x.split(lengths), strict=True):
        positions = torch.arange(len(text))
        assert torch.equal(native(text, torch.tensor([len(text)]), positions, positions), part)


def test_empty_batch() -> None:
    assert NativeEncoder(encoder().stack, 40)(*inputs(0)).shape == (0, 24)


def test_positions_beyond_max_length_raise_input_error() -> None:
    native = NativeEncoder(encoder("rotary").stack, 40)
    x, lengths, positions, columns = inputs(3)
    with raises(InputError, "kernel.positions_range"):
        native(x, lengths, positions + 39, columns)


def test_deepcopy_shares_the_weights() -> None:
    native = NativeEncoder(encoder().stack, 40)
    before = native(*inputs(3, 4))
    copied = deepcopy(native)
    del native
    assert torch.equal(copied(*inputs(3, 4)), before)


def test_lower_precision_takes_less_memory() -> None:
    sizes = {
        precision: NativeEncoder(encoder().stack, 40, precision).weight_bytes
        for precision in ("float32", "bfloat16", "int8")
    }
    assert sizes["int8"] < sizes["bfloat16"] < sizes["float32"]
