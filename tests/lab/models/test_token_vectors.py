"""An encoder that begins as a weighted mean of given token vectors."""

import pytest
import torch
import torch.nn.functional as F

from jumok.lab.models.token_vectors import RARITY, begin_from_token_vectors
from jumok.models import SentenceEncoder, TransformerConfig


@pytest.mark.parametrize(("positions", "gated"), [("rotary", False), ("relative", True)])
def test_vectors_begin_as_a_weighted_mean(positions: str, gated: bool) -> None:
    config = TransformerConfig(
        vocabulary_size=9,
        d_model=16,
        n_heads=2,
        d_ff=32,
        n_layers=2,
        norm_first=True,
        positions=positions,  # type: ignore[arg-type]
        gated=gated,
        scale_embedding=False,
        dropout=0.0,
    )
    torch.manual_seed(0)
    model = SentenceEncoder(config)
    vectors = torch.randn(9, 14)
    vectors -= vectors.mean(-1, keepdim=True)  # the norm subtracts the mean of each token
    frequencies = torch.tensor([1, 0.4, 0.2, 0.1, 0.01, 0.001, 0.0001, 0, 0])
    begin_from_token_vectors(model.encoder, vectors, frequencies)
    ids = torch.tensor([[0, 1, 2, 3, 7], [0, 4, 5, 6, 8]])
    weights = torch.where(frequencies < 1, RARITY / (RARITY + frequencies), 0)
    means = (F.normalize(vectors, dim=-1) * weights[:, None])[ids].mean(1)
    found = model(ids)
    torch.testing.assert_close(found[:, :-2], F.normalize(means, dim=-1), atol=1e-3, rtol=0)
    assert not found[:, -2:].any()
    found.sum().backward()
    for name, parameter in model.named_parameters():  # every layer can leave its beginning
        if name.endswith(("output.weight", "down.weight", "tokens.weight")):
            assert parameter.grad is not None
            assert parameter.grad.any(), name
