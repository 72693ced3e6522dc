"""A token embedding is scaled by sqrt(d_model); segments have their own embedding."""

import torch

from jumok.nn import TokenEmbedding


def test_vectors_are_scaled_by_the_root_of_the_width() -> None:
    embedding = TokenEmbedding(5, 16)
    ids = torch.tensor([[3, 0, 3]])
    assert torch.equal(embedding(ids), embedding.weight[ids] * 4.0)
    plain = TokenEmbedding(5, 16, scaled=False)
    assert torch.equal(plain(ids), plain.weight[ids])
