"""Random configurations of ModernBERT and DeBERTa against transformers.

`python -m benchmarks.parity` compares 200 of each family.
"""

import pytest

from tests.pretrained.family_parity import compare_variant
from tests.pretrained.random_encoders import FAMILIES, random_encoder

pytest.importorskip("transformers")

each_family = pytest.mark.parametrize("family", FAMILIES)


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))]


@each_family
@pytest.mark.parametrize("seed", SEEDS)
def test_same_as_transformers(family: str, seed: int) -> None:
    found = compare_variant(random_encoder(family, seed))
    assert found.float64[0] <= 1e-12, found  # the same mathematics
    assert found.float64[1] <= 1e-11, found
    assert found.outputs.within(5e-6), found
    assert found.gradients.within(1e-5), found
