"""Orthogonalized updates: singular values, rank, types, and torch's own Muon."""

import pytest
import torch

from jumok.training.muon import Muon, orthogonalize


@pytest.mark.parametrize("shape", [(16, 64), (64, 16), (32, 64)])
def test_singular_vectors_stay_and_values_become_one(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    core = u.T @ orthogonalize(matrix, torch.float32) @ v.T
    values = core.diagonal()
    assert values.min() > 0.65
    assert values.max() < 1.25
    assert (core - torch.diag(values)).abs().max() < 1e-4


def test_the_length_of_a_gradient_does_not_matter() -> None:
    matrix = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    expected = orthogonalize(matrix, torch.float32)
    for factor in (1e-4, 1e4):
        assert torch.allclose(orthogonalize(factor * matrix, torch.float32), expected, atol=1e-5)
    assert not orthogonalize(torch.zeros(8, 16), torch.float32).any()


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon needs torch 2.9")
def test_bfloat16_gives_the_bits_of_torch() -> None:
    ours, torchs = (torch.nn.Parameter(torch.ones(24, 8)) for _ in range(2))
    muon = Muon([{"params": [ours], "weight_decay": 0.1}], 1e-2, torch.bfloat16)
    expected = torch.optim.Muon([torchs], 1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(5):
        gradient = torch.randn(24, 8, generator=torch.Generator().manual_seed(step))
        ours.grad, torchs.grad = gradient, gradient.clone()
        muon.step()
        expected.step()
    assert torch.equal(ours, torchs)
