"""A from-scratch movie classifier: positions with padding, segments, Q/K/V, an encoder-decoder."""

import torch
from torch import nn

from jumok.models import Encoder, EncoderDecoder, EncoderDecoderClassifier, TransformerConfig
from jumok.nn import (
    AttentionMask,
    SegmentEmbedding,
    SinusoidalPositions,
    TokenEmbedding,
    positions_from_mask,
    record,
)
from tests.nn.strategies import tokens
from tests.nn.tolerances import close, randomized

POSITIONS = torch.tensor(  # counted from 1, padding at 0
    [
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
        [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0],
    ]
)
SEGMENTS = [0] * 8 + [1] * 5 + [2] * 5 + [0] * 5  # the last five are padding
CONFIG = TransformerConfig(vocabulary_size=30, d_model=8, n_heads=2, d_ff=16, n_layers=2)


def test_1_2_embedding() -> None:
    """Two sentences, thirteen tokens, width 128: the sum of token and position."""
    real = POSITIONS > 0
    ids = tokens(2, 13, size=100).masked_fill(~real, 0)
    places = positions_from_mask(real)
    assert torch.equal(places[real] + 1, POSITIONS[real])
    token, position = TokenEmbedding(100, 128), SinusoidalPositions(64, 128)
    assert position.table.shape == (64, 128)
    assert (token(ids) + position(places)).shape == (2, 13, 128)


def test_1_2_an_index_means_the_same_in_every_sentence() -> None:
    """Position 3 has one vector, however long the text."""
    position = SinusoidalPositions(64, 8)
    short, long = torch.arange(11)[None], torch.arange(22)[None]
    assert torch.equal(position(short)[0, 3], position(long)[0, 3])


def test_1_2_segments_0_1_2() -> None:
    """Three texts in one row, distinguished by a third embedding."""
    numbers = torch.tensor([SEGMENTS])
    embedding = SegmentEmbedding(3, 8)
    assert embedding(numbers).shape == (1, 23, 8)
    config = TransformerConfig(vocabulary_size=30, d_model=8, n_heads=2, d_ff=16, n_segments=3)
    encoder = randomized(Encoder(config)).eval()
    ids = tokens(1, 23, size=30)
    places = torch.arange(23)[None]
    tables = encoder.embedding
    assert tables.positions is not None
    assert tables.segments is not None
    by_hand = tables.tokens(ids) + tables.positions(places) + tables.segments(numbers)
    assert close(tables(ids, places, numbers), by_hand)
    assert encoder(ids, segments=numbers).shape == (1, 23, 8)


def test_2_1_self_and_encoder_decoder_attention() -> None:
    """Q, K and V from one text; then Q from the target, K and V from the source."""
    model = randomized(EncoderDecoder(CONFIG)).eval()
    with record(model) as seen:
        model(tokens(1, 5, size=30), tokens(1, 3, size=30))
    assert seen["encoder.stack.layers.0.self_attention"][0].shape == (1, 2, 5, 5)
    assert seen["decoder.stack.layers.0.self_attention"][0].shape == (1, 2, 3, 3)
    assert seen["decoder.stack.layers.0.cross_attention"][0].shape == (1, 2, 3, 5)
    ahead = torch.ones(3, 3, dtype=torch.bool).triu(1)
    assert not seen["decoder.stack.layers.0.self_attention"][0][..., ahead].any()


def test_3_1_movie_classification() -> None:
    """enc_inputs (bs, n), dec_inputs (bs, 1) of [BOS] -> logits (bs, 2)."""
    model = randomized(EncoderDecoderClassifier(CONFIG, n_labels=2)).eval()
    assert model.output.bias is None
    bos, pad = 2, 0
    reviews = [torch.tensor([5, 6, 7, 8]), torch.tensor([9, 10])]
    source = nn.utils.rnn.pad_sequence(reviews, batch_first=True, padding_value=pad)
    target = torch.full((2, 1), bos)
    logits = model(source, target, source != pad)
    assert logits.shape == (2, 2)
    mask = AttentionMask.from_padding(source != pad)
    decoded = model.decoder(target, memory=model.encoder(source, mask), memory_mask=mask)
    assert decoded.shape == (2, 1, 8)
    maximum, _ = torch.max(decoded, dim=1)
    assert maximum.shape == (2, 8)
    assert close(logits, maximum @ model.output.weight.T)


def test_3_3_one_step_of_training() -> None:
    """CrossEntropyLoss and Adam with 5e-5: the loss falls on the same reviews."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocabulary_size=30, d_model=16, n_heads=2, d_ff=32, n_layers=1, dropout=0.0
    )
    model = EncoderDecoderClassifier(config, n_labels=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
    criterion = nn.CrossEntropyLoss()
    source, labels = tokens(4, 6, size=30), torch.tensor([0, 1, 1, 0])
    bos = torch.full((4, 1), 2)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = criterion(model(source, bos), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


def test_3_3_evaluation_counts_matches() -> None:
    """The label is the argmax of the logits."""
    logits = torch.tensor([[0.1, 0.9], [2.0, 1.0], [0.0, 3.0]])
    _, indices = logits.max(1)
    assert torch.eq(indices, torch.tensor([1, 1, 1])).tolist() == [True, False, True]
