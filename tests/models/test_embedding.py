"""The input embedding: the sum of the vectors of token, position and segment."""

import pytest
import torch

from jumok.models import Encoder
from tests.models.small_models import POSITIONS, VOCABULARY, set_seed, small
from tests.nn.strategies import tokens
from tests.nn.tolerances import close, randomized

IDS, PLACES = tokens(2, 4, size=VOCABULARY), torch.tensor([[0, 1, 2, 3], [5, 0, 1, 9]])


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_sum(positions: str) -> None:
    embedding = randomized(Encoder(small(positions=positions))).embedding.eval()
    x = embedding.tokens.weight[IDS] * 8**0.5
    if embedding.positions is not None:
        x = x + embedding.positions(PLACES)
    assert close(embedding(IDS, PLACES), x)
    assert (embedding.positions is None) == (positions in ("rotary", "relative", "none"))


def test_the_embedding_has_dropout_in_training() -> None:
    """Section 5.4: dropout to the sums of the embeddings and the positions."""
    embedding = randomized(Encoder(small(dropout=0.5))).embedding
    whole = embedding.eval()(IDS, PLACES)
    set_seed()
    dropped = embedding.train()(IDS, PLACES)
    kept = dropped != 0
    assert 0 < int(kept.sum()) < kept.numel()
    assert close(dropped, kept * whole * 2)
