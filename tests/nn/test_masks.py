"""True means "may attend"; masks combine; with a cache the queries are the newest positions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jumok.errors import InputError
from jumok.models import Encoder, TransformerConfig
from jumok.nn import NO_MASK, AttentionMask, MultiHeadAttention, positions_from_mask
from tests.errors import raises
from tests.nn.strategies import random_mask, seeds, sequence_mask

CPU = torch.device("cpu")


def test_a_mask_that_hides_nothing_is_none() -> None:
    assert NO_MASK.hiding(3, 4, CPU) is None
    assert NO_MASK.dense(3, 4).all()
    assert AttentionMask(causal=True).hiding(1, 4, CPU) is None  # the newest has no future


@given(T=st.integers(2, 6), cached=st.integers(0, 5))
def test_a_causal_mask_allows_the_past_and_itself(T: int, cached: int) -> None:
    S = cached + T
    table = AttentionMask(causal=True).dense(T, S)
    for i in range(T):
        assert table[i].tolist() == [j <= cached + i for j in range(S)]


@given(T=st.integers(2, 5), p=st.sampled_from([0.2, 0.8]), seed=seeds)
def test_causal_and_allowed_are_combined(T: int, p: float, seed: int) -> None:
    allowed = random_mask(2, 1, T, T, p=p, seed=seed)
    both = AttentionMask(allowed, causal=True).dense(T, T)
    assert torch.equal(both, allowed & AttentionMask(causal=True).dense(T, T))
    assert torch.equal(AttentionMask(allowed).dense(T, T), allowed)


def test_padding_is_hidden() -> None:
    mask = AttentionMask.from_padding(sequence_mask([3, 1], 3), causal=True)
    assert mask.dense(3, 3).int().tolist() == [
        [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]],
        [[[1, 0, 0], [1, 0, 0], [1, 0, 0]]],
    ]


def test_no_padding_mask_hides_only_the_future() -> None:
    assert AttentionMask.from_padding(None) == NO_MASK
    assert AttentionMask.from_padding(None, causal=True) == AttentionMask(causal=True)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 2), st.booleans())
def test_segments_attend_only_to_themselves(
    lengths: list[int], n_padding: int, causal: bool
) -> None:
    numbers = [i for i, n in enumerate(lengths) for _ in range(n)] + [-1] * n_padding
    T = len(numbers)
    table = AttentionMask.from_segments(torch.tensor([numbers]), causal=causal).dense(T, T)
    for i, asking in enumerate(numbers):
        for j, number in enumerate(numbers):
            seen = asking == number and number >= 0 and (j <= i or not causal)
            assert bool(table[0, 0, i, j]) == seen


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans())
def test_positions_count_real_tokens(lengths: list[int], left: bool) -> None:
    real = sequence_mask(lengths, 6, left=left)
    positions = positions_from_mask(real)
    for row, n in zip(range(len(lengths)), lengths, strict=True):
        assert positions[row][real[row]].tolist() == list(range(n))
        assert not positions[row][~real[row]].any()


@pytest.mark.parametrize("mask", [torch.ones(2, 3), torch.ones(2, 3, 3, dtype=torch.bool)])
def test_a_padding_mask_is_two_dimensional_and_bool(mask: Tensor) -> None:
    with raises(InputError, "nn.padding_mask"):
        AttentionMask.from_padding(mask)


def test_a_bool_tensor_is_a_padding_mask_of_a_model_and_refused_by_its_parts() -> None:
    """In attention (B, S) and (T, S) look the same."""
    config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    ids, x = torch.tensor([[1, 2, 0]]), torch.zeros(1, 3, 8)
    real = ids != 0
    model = Encoder(config).eval()
    assert torch.equal(model(ids, real), model(ids, AttentionMask.from_padding(real)))
    with raises(InputError, "nn.not_an_attention_mask"):
        MultiHeadAttention(8, 2)(x, x, real)  # type: ignore[arg-type]
