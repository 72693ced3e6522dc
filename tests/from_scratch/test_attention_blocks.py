"""A from-scratch Transformer: vocabulary, embeddings, attention, heads, masks, feed-forward.

Our modules against textbook code that builds the blocks one by one; the numbers are its output.
"""

import numpy as np
import torch
from torch import Tensor, nn

from jumok.nn import (
    AttentionMask,
    MultiHeadAttention,
    PositionwiseFeedForward,
    SinusoidalPositions,
    TokenEmbedding,
    attention_weights,
    positions_from_mask,
    record,
    sinusoids,
)
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from tests.nn.strategies import noise
from tests.nn.tolerances import close, randomized

LINES = ["겨울은 추워요.", "감기 조심하세요."]
INPUTS = torch.tensor(  # with the kowiki vocabulary
    [
        [3091, 3604, 206, 3958, 3760, 3590, 0, 0],
        [212, 3605, 53, 3832, 3596, 3682, 3760, 3590],
    ]
)
N_VOCAB, D_HIDN, N_HEAD, D_HEAD = 8007, 128, 2, 64
CPU = torch.device("cpu")

PAD_MASK = [[0, 0, 0, 0, 0, 0, 1, 1]] * 8  # as printed there; True hides
DECODER_MASK = [
    [0, 1, 1, 1, 1, 1, 1, 1],
    [0, 0, 1, 1, 1, 1, 1, 1],
    [0, 0, 0, 1, 1, 1, 1, 1],
    [0, 0, 0, 0, 1, 1, 1, 1],
    [0, 0, 0, 0, 0, 1, 1, 1],
    [0, 0, 0, 0, 0, 0, 1, 1],
    [0, 0, 0, 0, 0, 0, 0, 1],
    [0, 0, 0, 0, 0, 0, 0, 0],
]
BOTH = [
    [0, 1, 1, 1, 1, 1, 1, 1],
    [0, 0, 1, 1, 1, 1, 1, 1],
    [0, 0, 0, 1, 1, 1, 1, 1],
    [0, 0, 0, 0, 1, 1, 1, 1],
    [0, 0, 0, 0, 0, 1, 1, 1],
    [0, 0, 0, 0, 0, 0, 1, 1],
    [0, 0, 0, 0, 0, 0, 1, 1],
    [0, 0, 0, 0, 0, 0, 1, 1],
]


def may(table: list[list[int]]) -> Tensor:
    """The mask in our convention: True may attend."""
    return ~torch.tensor(table, dtype=torch.bool)


def input_sums() -> Tensor:
    embedding = randomized(TokenEmbedding(N_VOCAB, D_HIDN, scaled=False))
    places = SinusoidalPositions(64, D_HIDN)(positions_from_mask(INPUTS != 0))
    return embedding(INPUTS) + places


def test_1_vocabulary() -> None:
    """The joined pieces are the sentence; shorter rows are padded."""
    text = [*LINES, "겨울은 너무 기나긴 날들의 연속이었습니다.", "감기가 추워요."]
    vocabulary = SentencePieceTokenizer.train(text, VocabularyConfig(size=45))
    for line in LINES:
        pieces = vocabulary.pieces(line)
        assert "".join(pieces).replace("▁", " ").strip() == line
        assert [vocabulary.id(piece) for piece in pieces] == vocabulary.encode(line)
        assert vocabulary.decode(vocabulary.encode(line)) == line
    ids = [torch.tensor(row) for row in vocabulary.encode_batch(LINES)]
    pad = vocabulary.pad_id
    inputs = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=pad)
    assert inputs.shape == (2, max(map(len, ids)))
    assert (inputs != pad).sum(-1).tolist() == [len(row) for row in ids]


def test_2_1_input_embedding() -> None:
    assert INPUTS.shape == (2, 8)
    assert TokenEmbedding(N_VOCAB, D_HIDN)(INPUTS).shape == (2, 8, 128)


def test_2_2_position_embedding() -> None:
    angles = np.array(
        [[p / np.power(10000, 2 * (i // 2) / D_HIDN) for i in range(D_HIDN)] for p in range(64)]
    )
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    assert sinusoids(64, D_HIDN).shape == (64, 128)
    assert close(sinusoids(64, D_HIDN), torch.from_numpy(angles), 1e-7)
    # that code counts from 1, with row 0 for padding; we count from 0 and mask padding
    theirs = (torch.arange(8).expand(2, 8) + 1).masked_fill(INPUTS.eq(0), 0)
    real = INPUTS != 0
    assert torch.equal(positions_from_mask(real)[real] + 1, theirs[real])
    assert input_sums().shape == (2, 8, 128)


def test_3_scaled_dot_product_attention() -> None:
    """Step by step with its own mask; ours agrees on every real query."""
    x = input_sums()
    hidden = INPUTS.eq(0).unsqueeze(1).expand(2, 8, 8)
    assert hidden.shape == (2, 8, 8)
    scores = torch.matmul(x, x.transpose(-1, -2)).mul(1 / D_HEAD**0.5)
    scores = scores.masked_fill(hidden, -1e9)
    theirs = nn.Softmax(dim=-1)(scores)
    context = torch.matmul(theirs, x)
    assert (scores.shape, theirs.shape, context.shape) == ((2, 8, 8), (2, 8, 8), (2, 8, 128))

    mask = AttentionMask.from_padding(INPUTS != 0)
    one_head = x[:, None]
    weights = attention_weights(one_head, one_head, mask, None, D_HEAD**-0.5)
    assert close(weights[:, 0], theirs)
    assert close((weights @ one_head)[:, 0], context)
    assert not weights[0, 0, :, 6:].any()


def test_4_multi_head_attention() -> None:
    x = input_sums()
    attention = randomized(MultiHeadAttention(D_HIDN, N_HEAD, d_head=D_HEAD))
    assert attention.query(x).shape == (2, 8, 128)
    assert attention.query(x).view(2, -1, N_HEAD, D_HEAD).shape == (2, 8, 2, 64)
    heads = attention.split(attention.query(x))
    assert heads.shape == (2, 2, 8, 64)
    by_hand = attention.query(x).view(2, -1, N_HEAD, D_HEAD).transpose(1, 2)
    assert torch.equal(heads, by_hand)
    mask = AttentionMask.from_padding(INPUTS != 0)
    with record(attention) as seen:
        output = attention(x, x, mask)
    assert output.shape == (2, 8, 128)
    weights = seen[""][0]
    assert weights.shape == (2, 2, 8, 8)
    context = weights @ attention.split(attention.value(x))
    assert context.shape == (2, 2, 8, 64)
    concatenated = context.transpose(1, 2).contiguous().view(2, -1, N_HEAD * D_HEAD)
    assert concatenated.shape == (2, 8, 128)
    assert close(attention.output(concatenated), output)


def test_5_masks() -> None:
    """The masks of the first sentence, which has two padding tokens."""
    padding = AttentionMask.from_padding(INPUTS != 0).dense(8, 8, CPU)
    future = AttentionMask(causal=True).dense(8, 8, CPU)
    both = AttentionMask.from_padding(INPUTS != 0, causal=True).dense(8, 8, CPU)
    assert padding is not None
    assert future is not None
    assert both is not None
    assert torch.equal(padding[0, 0].expand(8, 8), may(PAD_MASK))
    assert torch.equal(future, may(DECODER_MASK))
    assert torch.equal(both[0, 0], may(BOTH))
    assert torch.equal(both[1, 0], may(DECODER_MASK))  # the second sentence has no padding


def test_5_masked_multi_head_attention() -> None:
    x = input_sums()
    attention = randomized(MultiHeadAttention(D_HIDN, N_HEAD, d_head=D_HEAD))
    with record(attention) as seen:
        output = attention(x, x, AttentionMask.from_padding(INPUTS != 0, causal=True))
    assert output.shape == (2, 8, 128)
    assert seen[""][0].shape == (2, 2, 8, 8)
    assert not seen[""][0][0, :, ~may(BOTH)].any()


def test_6_feed_forward_by_convolution() -> None:
    """Conv1d with kernel 1 is Linear on each position."""
    ours = randomized(PositionwiseFeedForward(D_HIDN, 4 * D_HIDN, activation="gelu"))
    conv1, conv2 = nn.Conv1d(D_HIDN, 4 * D_HIDN, 1), nn.Conv1d(4 * D_HIDN, D_HIDN, 1)
    for conv, linear in ((conv1, ours.up), (conv2, ours.down)):
        conv.load_state_dict({"weight": linear.weight[..., None], "bias": linear.bias})
    x = noise(2, 8, D_HIDN)
    inner = conv1(x.transpose(1, 2))
    assert inner.shape == (2, 512, 8)
    output = conv2(nn.functional.gelu(inner)).transpose(1, 2)
    assert output.shape == (2, 8, 128)
    assert close(ours(x), output)
