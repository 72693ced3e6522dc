"""Texts packed end to end in rows give the same outputs as unpacked."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jumok.models import Decoder, Encoder, TextClassifier
from jumok.models.config import Positions
from jumok.models.pooling import TokenPooling
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
    numbers, places = torch.full_like(ids, -1), torch.zeros_like(ids)
    n_texts = 0
    for i, texts in enumerate(rows):
        start = 0
        for text in texts:
            inside = slice(start, start + len(text))
            ids[i, inside], numbers[i, inside] = text, n_texts
            places[i, inside] = torch.arange(len(text))
            start, n_texts = inside.stop, n_texts + 1
    return ids, numbers, places


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
    backbone: type[Encoder] | type[Decoder], positions: Positions, data: st.DataObject
) -> None:
    rows, width, seed = drawn(data)
    config = small(positions=positions, norm_first=data.draw(st.booleans()))
    model = randomized(backbone(config), seed).double().eval()
    ids, numbers, places = pack(rows, width)
    mask = AttentionMask.from_segments(numbers, causal=backbone is Decoder)
    packed = model(ids, mask, positions=places)
    for n, text in enumerate(text for row in rows for text in row):
        assert close(packed[numbers == n], model(text[None])[0], FLOAT64)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
@given(data=st.data())
def test_packed_texts_give_the_same_logits(pooling: TokenPooling, data: st.DataObject) -> None:
    rows, width, seed = drawn(data)
    model = randomized(TextClassifier(small(), 3, pooling), seed).double().eval()
    texts = [text for row in rows for text in row]
    logits = model.forward_packed(*pack(rows, width), n_texts=len(texts))
    alone = torch.cat([model(text[None]) for text in texts])
    assert close(logits, alone, FLOAT64)


@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_packed_texts_give_the_same_gradients(pooling: TokenPooling) -> None:
    model = randomized(TextClassifier(small(), 3, pooling)).double().eval()
    rows = [[tokens(n, size=VOCABULARY, seed=n) for n in row] for row in ([3, 1, 2], [5])]
    model.forward_packed(*pack(rows, 7), n_texts=4).logsumexp(-1).sum().backward()
    packed = gradients(model)
    model.zero_grad()
    for text in (text for row in rows for text in row):
        model(text[None]).logsumexp(-1).sum().backward()
    for name, gradient in gradients(model).items():
        assert close(packed[name], gradient, FLOAT64), name


@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_a_text_without_tokens_gives_the_logits_of_zeros(pooling: TokenPooling) -> None:
    """Texts 0 and 2 have tokens, text 1 has none: its vector is 0, as unpacked."""
    model = randomized(TextClassifier(small(), 3, pooling)).double().eval()
    texts = [tokens(n, size=VOCABULARY, seed=n) for n in (3, 2)]
    ids, numbers, places = pack([texts], 6)
    logits = model.forward_packed(ids, numbers.where(numbers < 1, numbers + 1), places, n_texts=3)
    empty = model(ids[:, :1], torch.tensor([[False]]))
    assert close(logits[1:2], empty, FLOAT64)
    assert close(logits[[0, 2]], torch.cat([model(text[None]) for text in texts]), FLOAT64)
    assert close(empty[0], model.output.bias, FLOAT64)
