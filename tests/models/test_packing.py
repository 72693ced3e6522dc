"""Texts packed end to end in rows give the same outputs as unpacked."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jumok.models import Decoder, Encoder
from jumok.nn import AttentionMask
from tests.models.small_models import POSITIONS, VOCABULARY, small
from tests.nn.strategies import seeds, tokens
from tests.nn.tolerances import FLOAT64, close, gradients, randomized

lengths_by_row = st.lists(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=2
)


def pack(rows: list[list[Tensor]], width: int) -> tuple[Tensor, Tensor, Tensor]:
    """ids, text number (-1 on padding) and position of every token; each (B, width)."""
    ids = torch.zeros(len(rows), width, dtype=torch.int64)
    numbers, locations = torch.full_like(ids, -1), torch.zeros_like(ids)
    n_texts = 0
    for i, texts in enumerate(rows):
        start = 0
        for text in texts:
            inside = slice(start, start + len(text))
            ids[i, inside], numbers[i, inside] = text, n_texts
            locations[i, inside] = torch.arange(len(text))
            start, n_texts = inside.stop, n_texts + 1
    return ids, numbers, locations


def drawn(data: st.DataObject) -> tuple[list[list[Tensor]], int, int]:
    sizes, seed = data.draw(lengths_by_row), data.draw(seeds)
    rows = [
        [tokens(n, size=VOCABULARY, seed=seed + 10 * i + j) for j, n in enumerate(row)]
        for i, row in enumerate(sizes)
    ]
    return rows, max(map(sum, sizes)) + data.draw(st.integers(0, 2)), seed


@pytest.mark.slow
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("backbone", [Encoder, Decoder])
@given(data=st.data())
def test_packed_texts_give_the_same_vectors(
    backbone: type[Encoder] | type[Decoder], positions: str, data: st.DataObject
) -> None:
    rows, width, seed = drawn(data)
    config = small(positions=positions, norm_first=data.draw(st.booleans()))
    model = randomized(backbone(config), seed).double().eval()
    ids, numbers, locations = pack(rows, width)
    mask = AttentionMask.from_segments(numbers, causal=backbone is Decoder)
    packed = model(ids, mask, positions=locations)
    for n, text in enumerate(text for row in rows for text in row):
        assert close(packed[numbers == n], model(text[None])[0], FLOAT64)


@pytest.mark.parametrize("backbone", [Encoder, Decoder])
def test_packed_texts_give_the_same_gradients(backbone: type[Encoder] | type[Decoder]) -> None:
    model = randomized(backbone(small())).double().eval()
    rows = [[tokens(n, size=VOCABULARY, seed=n) for n in row] for row in ([3, 1, 2], [5])]
    ids, numbers, locations = pack(rows, 7)
    mask = AttentionMask.from_segments(numbers, causal=backbone is Decoder)
    model(ids, mask, positions=locations)[numbers >= 0].logsumexp(-1).sum().backward()
    packed = gradients(model)
    model.zero_grad()
    for text in (text for row in rows for text in row):
        model(text[None]).logsumexp(-1).sum().backward()
    for name, gradient in gradients(model).items():
        assert close(packed[name], gradient, FLOAT64), name
