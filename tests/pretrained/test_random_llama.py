"""Random configurations of the families of Llama: transformers, the kernel, and `jumok check`.

`python -m benchmarks.parity` compares 200 configurations of each family.
"""

import copy
from typing import Any

import pytest
import torch

from jumok.native import NativeDecoder, NativeModel
from tests.pretrained.family_parity import RoundingErrors, compare_variant
from tests.pretrained.model_pairs import make_batch, pair_of, relative_error
from tests.pretrained.random_llama import FAMILIES, random_llama

pytest.importorskip("transformers")

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 2))]
each_family = pytest.mark.parametrize("family", FAMILIES)
each_seed = pytest.mark.parametrize("seed", SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@each_family
def test_same_as_transformers(family: str, seed: int) -> None:
    found = compare_variant(random_llama(family, seed))
    assert found.float64[0] <= 1e-12, found  # the same mathematics
    assert found.float64[1] <= 1e-11, found
    assert found.outputs.within(5e-6), found
    assert found.gradients.within(1e-5), found
    assert found.different == []


def test_configurations_reach_beyond_windows_and_original_lengths() -> None:
    for family in FAMILIES:
        drawn = [random_llama(family, seed).config_values for seed in range(40)]
        assert any(v["num_key_value_heads"] < v["num_attention_heads"] for v in drawn), family
        ropes = [v["rope_parameters"].get("full_attention", v["rope_parameters"]) for v in drawn]
        originals = [r["original_max_position_embeddings"] for r in ropes if len(r) > 3]
        assert originals
        assert max(originals) < min(v["max_position_embeddings"] for v in drawn)
        windows = {v.get("sliding_window") for v in drawn} - {None}
        assert len(windows) > 2 or family in ("llama", "exaone")


@each_seed
@each_family
@pytest.mark.usefixtures("compiled")
@torch.no_grad()
def test_kernel_computes_the_same_logits(family: str, seed: int) -> None:
    pair = pair_of(random_llama(family, seed))
    model: Any = pair.opened.model
    if pair.opened.architecture.config.output_softcap is not None:
        pytest.skip("the kernel has no soft caps")
    ids = make_batch(pair, "none").ids
    decoder = NativeDecoder(NativeModel(model, "float32"), capacity=ids.shape[1])
    steps = [decoder.step_all(ids[:, :9])]
    steps += [decoder.step_all(ids[:, [i]]) for i in range(9, ids.shape[1])]
    kernel, whole, exact = torch.cat(steps, 1), model(ids), copy.deepcopy(model).double()(ids)
    found = RoundingErrors(
        relative_error(kernel, whole),
        relative_error(kernel.double(), exact),
        relative_error(whole.double(), exact),
    )
    assert found.within(5e-6), found
