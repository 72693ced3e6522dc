"""Tokens end to end, and back on their seats."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.inference.unpad import PaddingLayout, group_by_length

BATCHES = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=6
    )
)


@given(BATCHES, st.integers(1, 20))
def test_every_real_token_is_in_one_group(rows: list[list[bool]], tokens: int) -> None:
    real = torch.tensor(rows)
    seen = []
    for places, some in group_by_length(real, tokens):
        assert some.any(1).all()
        assert some[:, 0].all()  # rows begin with a real token, and the longest ends with one
        assert some[0, -1]
        assert len(places) == 1 or places.numel() <= tokens
        seen += places[some].tolist()
    assert sorted(seen) == real.flatten().nonzero().flatten().tolist()


@given(BATCHES)
def test_gathered_as_spread(rows: list[list[bool]]) -> None:
    real = torch.tensor(rows)
    seats = PaddingLayout.from_mask(real)
    tokens = torch.arange(1, int(real.sum()) + 1)
    spread = seats.pad(tokens)
    assert torch.equal(spread > 0, real)
    assert torch.equal(seats.unpad(spread), tokens)
    assert torch.equal(seats.lengths, real.sum(1))
    assert torch.equal(seats.columns, real.nonzero()[:, 1])


def test_a_long_text_alone_is_a_group() -> None:
    groups = list(group_by_length(torch.ones(3, 50, dtype=torch.bool), batch_tokens=20))
    assert [tuple(places.shape) for places, _ in groups] == [(1, 50)] * 3
