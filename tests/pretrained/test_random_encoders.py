"""Random configurations of ModernBERT and DeBERTa against transformers.

`python -m benchmarks.parity` compares 200 of each family.
"""

import pytest

from tests.pretrained.family_parity import compare_variant
from tests.pretrained.random_encoders import FAMILIES, random_encoder

pytest.importorskip("transformers")

each_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.mark.slow
@each_family
@pytest.mark.parametrize("seed", range(3))
def test_same_as_transformers(family: str, seed: int) -> None:
    found = compare_variant(random_encoder(family, seed))
    assert found.float64[0] <= 1e-12, found  # the same mathematics
    assert found.float64[1] <= 1e-11, found
    assert found.outputs.within(5e-6), found
    assert found.gradients.within(2e-5), found  # 1.7e-5 of DeBERTa on an Intel Xeon
