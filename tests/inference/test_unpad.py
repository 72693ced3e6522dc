"""group_by_length: every real token once."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.inference.fast_stacks import group_by_length

BATCHES = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=6
    )
)


@given(BATCHES, st.integers(1, 20))
def test_each_real_token_is_in_one_group(rows: list[list[bool]], tokens: int) -> None:
    mask = torch.tensor(rows)
    indices = []
    for index, group_mask in group_by_length(mask, tokens):
        assert group_mask.any(1).all()
        assert group_mask[:, 0].all()  # rows start with a real token, and the longest ends with one
        assert group_mask[0, -1]
        assert len(index) == 1 or index.numel() <= tokens
        indices += index[group_mask].tolist()
    assert sorted(indices) == mask.flatten().nonzero().flatten().tolist()


def test_long_texts_form_their_own_groups() -> None:
    groups = list(group_by_length(torch.ones(3, 50, dtype=torch.bool), batch_tokens=20))
    assert [tuple(index.shape) for index, _ in groups] == [(1, 50)] * 3
