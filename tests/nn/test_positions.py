"""Position encodings: their invariances."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.nn import (
    MultiHeadAttention,
    RelativePositionBias,
    RopeConfig,
    RotaryPositions,
    SinusoidalPositions,
    sinusoids,
)
from jumok.nn.positions import POSITIONS, LearnedPositions
from jumok.nn.rope import DEFAULT_ROPE
from tests.nn.strategies import noise
from tests.nn.tolerances import close, randomized


def test_only_learned_positions_are_saved() -> None:
    locations = torch.tensor([[3, 0, 3]])
    fixed = SinusoidalPositions(5, 4)
    assert torch.equal(fixed(locations), sinusoids(5, 4)[locations])
    assert not fixed.state_dict()
    assert not list(fixed.parameters())
    learned = LearnedPositions(5, 4)
    assert torch.equal(learned(locations), learned.weight[locations])


@given(shift=st.integers(0, 500), base=st.sampled_from([100.0, 10_000.0]))
def test_rotary_scores_depend_only_on_the_distance(shift: int, base: float) -> None:
    q, k = noise(1, 2, 5, 6, dtype=torch.float64), noise(1, 2, 5, 6, seed=1, dtype=torch.float64)
    rotary, locations = RotaryPositions(6, RopeConfig(base=base)), torch.arange(5)[None]
    here, there = rotary(locations), rotary(locations + shift)
    assert close(there(q) @ there(k).mT, here(q) @ here(k).mT, 1e-4)  # angles are float32
    assert close(here(q).norm(dim=-1), q.norm(dim=-1), 1e-6)  # a rotation keeps the length


def test_angles_are_computed_in_float32() -> None:
    """bfloat16 has 8 bits: a rounded frequency gives a wrong angle at position 1000."""
    exact, half = RotaryPositions(8), RotaryPositions(8).bfloat16()
    locations = torch.tensor([[1000, 1001]])
    assert close(half(locations).cosine, exact(locations).cosine, 1e-6)
    assert half(locations)(noise(1, 1, 2, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_relative_bias_depends_only_on_the_distance(bidirectional: bool) -> None:
    bias = randomized(RelativePositionBias(3, bidirectional=bidirectional))
    whole = bias(40, 40)  # (1, 3, 40, 40)
    assert torch.equal(whole[..., 1:, 1:], whole[..., :-1, :-1])
    assert torch.equal(bias(2, 40), whole[..., -2:, :])  # the newest two of forty


def test_a_decoder_has_buckets_only_for_the_past() -> None:
    bias = RelativePositionBias(1, bidirectional=False)
    ahead = bias.bucket(torch.arange(0, 300))
    assert not ahead.any()
    behind = bias.bucket(-torch.arange(0, 300))
    assert behind.diff().min() >= 0
    assert behind.unique().tolist() == list(range(32))


def test_both_kinds_of_positions_are_those_of_each() -> None:
    both, sines, rotary = (
        POSITIONS.get(name)() for name in ("sinusoidal_rotary", "sinusoidal", "rotary")
    )
    positions = torch.arange(9)[None]
    added, expected = (kind.embedding(16, 8, 0) for kind in (both, sines))
    assert added is not None
    assert expected is not None
    assert torch.equal(added(positions), expected(positions))
    x = noise(1, 2, 9, 4)
    turned, alike = (kind.rotation(4, DEFAULT_ROPE) for kind in (both, rotary))
    assert turned is not None
    assert alike is not None
    assert torch.equal(turned(positions)(x), alike(positions)(x))


def test_rotation_matches_roformer_equation_15() -> None:
    """Pair (x_i, x_{i + K/2}) is rotated by p base^(-2i/K): RoFormer's equation (15)."""
    x = noise(1, 1, 3, 4, dtype=torch.float64)
    turned = RotaryPositions(4)(torch.tensor([[0, 2, 7]]))(x)
    for row, p in enumerate((0, 2, 7)):
        for i, frequency in enumerate((1.0, 0.01)):
            a, b = x[0, 0, row, i].item(), x[0, 0, row, i + 2].item()
            c, s = math.cos(p * frequency), math.sin(p * frequency)
            assert turned[0, 0, row, i].item() == pytest.approx(a * c - b * s, abs=1e-6)
            assert turned[0, 0, row, i + 2].item() == pytest.approx(b * c + a * s, abs=1e-6)


def test_attention_with_rotation_is_translation_invariant() -> None:
    attention = randomized(MultiHeadAttention(8, 2)).double()
    x, rotary = noise(2, 5, 8, dtype=torch.float64), RotaryPositions(4)
    here, there = (rotary(torch.arange(5)[None] + shift) for shift in (0, 90))
    assert close(attention(x, x, rotation=there), attention(x, x, rotation=here), 1e-5)
    assert not torch.allclose(attention(x, x, rotation=here), attention(x, x))
