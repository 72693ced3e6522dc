"""Random configurations of ModernBERT and DeBERTa against transformers."""

import pytest

from tests.pretrained.family_parity import compare_variant
from tests.pretrained.random_encoders import FAMILIES, HEADS, random_encoder

pytest.importorskip("transformers")

each_family = pytest.mark.parametrize("family", FAMILIES)


def check(family: str, seed: int) -> None:
    found = compare_variant(random_encoder(family, seed))
    assert found.float64[0] <= 1e-12, found  # the same mathematics
    assert found.float64[1] <= 1e-11, found
    assert found.outputs.within(5e-6), found
    assert found.gradients.within(1e-5), found


@each_family
@pytest.mark.parametrize("seed", range(len(HEADS)))
def test_same_as_transformers(family: str, seed: int) -> None:
    check(family, seed)


@pytest.mark.slow
@each_family
def test_200_configurations(family: str) -> None:
    for seed in range(len(HEADS), 200):
        check(family, seed)
