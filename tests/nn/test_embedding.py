"""A token embedding is scaled by sqrt(d_model); segments have their own embedding."""

import math

import torch

from jumok.nn import SegmentEmbedding, TokenEmbedding


def test_vectors_are_scaled_by_the_root_of_the_width() -> None:
    embedding = TokenEmbedding(5, 16)
    ids = torch.tensor([[3, 0, 3]])
    assert torch.equal(embedding(ids), embedding.weight[ids] * 4.0)
    plain = TokenEmbedding(5, 16, scaled=False)
    assert torch.equal(plain(ids), plain.weight[ids])


def test_scaled_vectors_have_standard_deviation_one() -> None:
    torch.manual_seed(0)
    embedding = TokenEmbedding(200, 64)
    n = embedding.weight.numel()
    assert abs(embedding.weight.std().item() - 1 / 8) < 4 / 8 / math.sqrt(2 * n)
    assert abs(embedding(torch.arange(200)).std().item() - 1) < 4 / math.sqrt(2 * n)


def test_only_tokens_of_the_batch_get_gradients() -> None:
    embedding = TokenEmbedding(5, 4)
    embedding(torch.tensor([[1, 3, 3]])).sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad[:, 0].tolist() == [0, 2, 0, 4, 0]  # sqrt(4) a time


def test_segments_are_looked_up() -> None:
    segments = SegmentEmbedding(3, 4)
    numbers = torch.tensor([[0, 0, 1, 2]])
    assert torch.equal(segments(numbers), segments.weight[numbers])
