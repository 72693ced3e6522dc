"""An encoder that begins as a weighted mean of given token vectors, one for each piece.

Vectors of single pieces, weighted by their rarity, are a strong start for vectors of sentences
(Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings", section 3).
Shapes: V vocabulary, D model width.
"""

import torch
from torch import Tensor, nn

from jumok.models.encoder import Encoder

RARITY = 1e-3  # a of the weight a / (a + frequency)


@torch.no_grad()
def begin_as_token_vectors(encoder: Encoder, vectors: Tensor, frequencies: Tensor) -> None:
    """The same for an encoder without layers: its table is that of the weighted vectors.

    vectors (V, D), frequencies (V,) as below. Tokens of the frequency 1 get zeros.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=2, d_model=2, n_heads=1, d_ff=1, n_layers=0,
    ...     positions="none", scale_embedding=False)
    >>> encoder = Encoder(config)
    >>> begin_as_token_vectors(encoder, torch.ones(2, 2), torch.tensor([0.001, 1.0]))
    >>> encoder.embedding.tokens.weight.tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    encoder.embedding.tokens.weight.copy_(vectors * _weights(frequencies))


def _weights(frequencies: Tensor) -> Tensor:
    """a / (a + frequency), and 0 for the frequency 1: (V,) -> (V, 1)."""
    weights = RARITY / (RARITY + frequencies)  # (V,)
    return weights.where(frequencies < 1, 0)[:, None]


@torch.no_grad()
def begin_from_token_vectors(encoder: Encoder, vectors: Tensor, frequencies: Tensor) -> None:
    """Let the mean of the hidden states be that of `vectors`, weighted by a / (a + frequency).

    vectors (V, D - 2), frequencies (V,) from 0 to 1, with 1 for a token that means nothing. The
    final norm gives all tokens the same length, so two further dimensions hold what a weight leaves
    of it, and have the gain 0. All sublayers begin with the output 0. The encoder is pre-norm and
    has token embeddings as wide as its layers.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=3, d_model=8, n_heads=2, d_ff=16, n_layers=1,
    ...     norm_first=True, positions="rotary", scale_embedding=False)
    >>> encoder = Encoder(config).eval()  # without dropout
    >>> vectors = torch.eye(3, 6) - torch.eye(3, 6).roll(3, 1)
    >>> begin_from_token_vectors(encoder, vectors, torch.tensor([0.0, 0.001, 1.0]))
    >>> encoder(torch.tensor([[0, 1, 2]]))[0, :, :3].diagonal().round(decimals=2).tolist()
    [2.0, 1.0, 0.0]
    """
    content = nn.functional.normalize(vectors, dim=-1) * _weights(frequencies)  # (V, D - 2)
    rest = ((1 - content.square().sum(-1, keepdim=True)).clamp(min=0) / 2).sqrt()  # (V, 1)
    table = encoder.embedding.tokens.weight
    table.copy_(torch.cat([content, rest, -rest], -1) * table.shape[1] ** 0.5)
    norm = encoder.stack.norm
    assert isinstance(norm.weight, Tensor)
    norm.weight[-2:] = 0
    for layer in encoder.stack.layers:
        for output in (layer.self_attention.output, layer.feed_forward.down):
            for parameter in output.parameters():
                parameter.zero_()
