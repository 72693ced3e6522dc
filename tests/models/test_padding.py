"""Padding changes nothing: its side, its length, its ids."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    MaskedLanguageModel,
    TextClassifier,
)
from jumok.models.config import Pooling
from jumok.nn import AttentionMask, positions_from_mask
from tests.combinations import pairwise
from tests.models.small_models import POSITIONS, VOCABULARY, padded, set_seed, small
from tests.nn.strategies import seeds, sequence_mask, tokens
from tests.nn.tolerances import FLOAT64, close, gradients, randomized

every_positions = pytest.mark.parametrize("positions", POSITIONS)
lengths = st.lists(st.integers(1, 6), min_size=1, max_size=3)


@pytest.mark.slow
@every_positions
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("backbone", [Encoder, Decoder])
@given(data=st.data())
def test_a_padded_batch_gives_the_same_vectors(
    backbone: type[Encoder] | type[Decoder], left: bool, positions: str, data: st.DataObject
) -> None:
    """A single text without a mask has the same vectors as in a batch, up to rounding."""
    sizes, seed = data.draw(lengths), data.draw(seeds)
    width = max(sizes) + data.draw(st.integers(0, 3))
    config = small(positions=positions, norm_first=data.draw(st.booleans()))
    model = randomized(backbone(config), seed).double().eval()
    rows = [tokens(n, size=VOCABULARY, seed=seed + i) for i, n in enumerate(sizes)]
    real = sequence_mask(sizes, width, left=left)
    mask = AttentionMask.from_padding(real, causal=backbone is Decoder)
    batch = model(padded(rows, width, left=left), mask, positions=positions_from_mask(real))
    for i, row in enumerate(rows):
        assert close(batch[i][real[i]], model(row[None])[0], FLOAT64)


@given(data=st.data(), left=st.booleans(), training=st.booleans())
def test_the_ids_of_padding_do_not_matter(data: st.DataObject, left: bool, training: bool) -> None:
    """Bit for bit, and a token that occurs only as padding gets no gradient."""
    sizes, seed = data.draw(lengths), data.draw(seeds)
    width = max(sizes) + 2
    model = randomized(MaskedLanguageModel(small(tie_embeddings=False)), seed).train(training)
    rows = [tokens(n, size=VOCABULARY - 1, seed=seed + i) for i, n in enumerate(sizes)]
    real = sequence_mask(sizes, width, left=left)
    mask, locations = AttentionMask.from_padding(real), positions_from_mask(real)
    results = []
    for filler in (0, VOCABULARY - 1):
        set_seed()
        logits = model(padded(rows, width, left=left, pad_id=filler), mask, positions=locations)
        results.append(logits[real])
    assert torch.equal(*results)
    model.zero_grad()
    results[1].square().sum().backward()
    assert not gradients(model)["encoder.embedding.tokens.weight"][VOCABULARY - 1].any()


@pytest.mark.parametrize(
    ("positions", "norm_first", "left"), pairwise(POSITIONS, [False, True], [False, True])
)
def test_sequence_to_sequence(positions: str, norm_first: bool, left: bool) -> None:
    """Source and target padded in a batch against each pair by itself."""
    model = (
        randomized(EncoderDecoder(small(positions=positions, norm_first=norm_first)))
        .double()
        .eval()
    )
    sources = [tokens(n, size=VOCABULARY, seed=n) for n in (5, 2, 3)]
    targets = [tokens(n, size=VOCABULARY, seed=9 + n) for n in (1, 4, 2)]
    real, real_target = (
        sequence_mask([5, 2, 3], 6, left=left),
        sequence_mask([1, 4, 2], 5, left=left),
    )
    source_mask = AttentionMask.from_padding(real)
    memory = model.encode(
        padded(sources, 6, left=left), source_mask, positions=positions_from_mask(real)
    )
    hidden = model.decode(
        padded(targets, 5, left=left),
        memory,
        source_mask,
        AttentionMask.from_padding(real_target, causal=True),
        positions=positions_from_mask(real_target),
    )
    logits = model.output(hidden)
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        assert close(logits[i][real_target[i]], model(source[None], target[None])[0], FLOAT64)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_padding_keeps_the_label(pooling: Pooling, left: bool) -> None:
    model = randomized(TextClassifier(small(), 3, pooling)).double().eval()
    rows = [tokens(n, size=VOCABULARY, seed=n) for n in (4, 1, 6)]
    real = sequence_mask([4, 1, 6], 8, left=left)
    logits = model(padded(rows, 8, left=left), real, positions=positions_from_mask(real))
    for i, row in enumerate(rows):
        assert close(logits[i], model(row[None])[0], FLOAT64)


def test_padding_keeps_the_label_of_an_encoder_decoder_classifier() -> None:
    model = randomized(EncoderDecoderClassifier(small(), 2)).double().eval()
    rows = [tokens(n, size=VOCABULARY, seed=n) for n in (4, 1, 6)]
    bos = torch.full((3, 1), 5)
    logits = model(padded(rows, 8), bos, sequence_mask([4, 1, 6], 8))
    for i, row in enumerate(rows):
        assert close(logits[i], model(row[None], bos[:1])[0], FLOAT64)


@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_a_text_without_tokens_is_finite(pooling: Pooling) -> None:
    model = randomized(TextClassifier(small(), 3, pooling)).eval()
    logits = model(torch.zeros(2, 3, dtype=torch.int64), sequence_mask([0, 3], 3))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(g.isfinite().all() for g in gradients(model).values())
