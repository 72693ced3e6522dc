""" "time flies like an arrow" through an embedding, separate heads, and fused heads."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.models import Decoder, Encoder, TransformerConfig
from jumok.nn import (
    NO_MASK,
    MultiHeadAttention,
    TokenEmbedding,
    attention_weights,
    fused_attention,
)
from tests.nn.strategies import noise
from tests.nn.tolerances import close, randomized

INPUT_IDS = torch.tensor([[2051, 10029, 2066, 2019, 8612]])  # bert-base-uncased's
VOCABULARY, HIDDEN, N_HEADS = 30_522, 768, 12


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The textbook function."""
    scores = torch.bmm(query, key.transpose(1, 2)) / query.size(-1) ** 0.5
    return torch.bmm(F.softmax(scores, dim=-1), value)


class AttentionHead(nn.Module):
    """The textbook class: each head has its own three projections."""

    def __init__(self, embed_dim: int, head_dim: int) -> None:
        super().__init__()
        self.q = nn.Linear(embed_dim, head_dim)
        self.k = nn.Linear(embed_dim, head_dim)
        self.v = nn.Linear(embed_dim, head_dim)

    def forward(self, x: Tensor) -> Tensor:
        return scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


def test_dense_embedding() -> None:
    with torch.device("meta"):
        token_emb = TokenEmbedding(VOCABULARY, HIDDEN)
        assert token_emb.weight.shape == (30_522, 768)
        assert token_emb(INPUT_IDS.to("meta")).shape == (1, 5, 768)


def test_scores_weights_and_outputs() -> None:
    """Q = K = V = the embeddings, scaled by the square root of their width."""
    embeds = noise(1, 5, HIDDEN)
    one_head = embeds[:, None]
    weights = attention_weights(one_head, one_head, NO_MASK, None, HIDDEN**-0.5)
    assert weights[:, 0].shape == (1, 5, 5)
    assert close(weights[:, 0].sum(-1), torch.tensor([[1.0, 1.0, 1.0, 1.0, 1.0]]), 1e-6)
    outputs = scaled_dot_product_attention(embeds, embeds, embeds)
    assert outputs.shape == (1, 5, 768)
    fused = fused_attention(one_head, one_head, one_head, NO_MASK, None, HIDDEN**-0.5, 0.0)
    assert close(fused[:, 0], outputs)


def test_separate_heads_equal_fused_heads() -> None:
    """The stacked matrices of the heads are our fused projections."""
    heads = randomized(
        nn.ModuleList(AttentionHead(HIDDEN, HIDDEN // N_HEADS) for _ in range(N_HEADS))
    )
    actual = MultiHeadAttention(HIDDEN, N_HEADS)
    for name, linear in (("q", actual.query), ("k", actual.key), ("v", actual.value)):
        parts = [getattr(head, name) for head in heads]
        linear.load_state_dict(
            {
                "weight": torch.cat([part.weight for part in parts]),
                "bias": torch.cat([part.bias for part in parts]),
            }
        )
    x = noise(1, 5, HIDDEN) * 0.05
    output = actual.output(torch.cat([head(x) for head in heads], dim=-1))
    assert output.shape == (1, 5, 768)
    assert close(actual(x, x), output)


def test_an_encoder_is_bidirectional_and_a_decoder_causal() -> None:
    config = TransformerConfig(vocabulary_size=9, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    ids = torch.tensor([[1, 2, 3]])
    for model, is_bidirectional in ((Encoder(config), True), (Decoder(config), False)):
        randomized(model).eval()
        first, other = model(ids)[0, 0], model(torch.tensor([[1, 2, 4]]))[0, 0]
        assert torch.equal(first, other) != is_bidirectional
