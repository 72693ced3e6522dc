"""An encoder's layers in the kernel; `tests/inference` compares them for every config."""

from copy import deepcopy

import pytest
import torch

from jumok.errors import InputError
from jumok.models import Encoder
from jumok.native import NativeEncoder
from tests.native.conftest import config, randomize_vectors

pytestmark = pytest.mark.usefixtures("compiled")


def encoder(positions: str = "learned") -> Encoder:
    torch.manual_seed(1)
    return randomize_vectors(Encoder(config(positions=positions)))


def given(*lengths: int) -> tuple[torch.Tensor, ...]:
    """Embedded tokens of texts, and what the kernel asks about them."""
    columns = torch.cat([torch.arange(length) for length in lengths])
    x = torch.randn(len(columns), 24, generator=torch.Generator().manual_seed(3))
    return x, torch.tensor(lengths), columns, columns


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@torch.no_grad()
def test_texts_end_to_end_as_each_alone(precision) -> None:
    plain = encoder().stack
    native = NativeEncoder(plain, 40, precision)
    lengths = (1, 40, 7, 17)  # whole lines of sixteen keys and rests, six queries at once and rests
    x, *about = given(*lengths)
    read = native(x, *about)
    for part, text in zip(read.split(lengths), x.split(lengths), strict=True):
        places = torch.arange(len(text))
        assert torch.equal(native(text, torch.tensor([len(text)]), places, places), part)
        tolerance = 1e-5 if precision == "float32" else 4e-2
        assert (plain(text[None], places[None])[0] - part).abs().max() < tolerance


def test_no_text_at_all() -> None:
    assert NativeEncoder(encoder().stack, 40)(*given(0)).shape == (0, 24)


def test_positions_that_the_kernel_does_not_hold() -> None:
    native = NativeEncoder(encoder("rotary").stack, 40)
    x, lengths, places, columns = given(3)
    with pytest.raises(InputError, match="positions 39 to 41 came, the kernel was given 40"):
        native(x, lengths, places + 39, columns)


def test_a_copy_shares_the_weights_and_outlives_the_first() -> None:
    native = NativeEncoder(encoder().stack, 40)
    before = native(*given(3, 4))
    copied = deepcopy(native)
    del native
    assert torch.equal(copied(*given(3, 4)), before)


def test_a_byte_a_weight() -> None:
    sizes = {
        precision: NativeEncoder(encoder().stack, 40, precision).weight_bytes
        for precision in ("float32", "bfloat16", "int8")
    }
    assert sizes["int8"] < sizes["bfloat16"] < sizes["float32"]
