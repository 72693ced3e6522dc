"""Parity with transformers for every family and variant: outputs, gradients, generated text."""

import pytest
import torch

from jumok.errors import InputError
from jumok.models.weights import named_weights
from jumok.pretrained.architecture import FAMILIES
from jumok.pretrained.name_map import expand
from tests.errors import raises
from tests.pretrained.generation_parity import GENERATIVE_VARIANTS, compare_generation, search_cases
from tests.pretrained.hf_variants import VARIANTS
from tests.pretrained.model_pairs import (
    ParityBatch,
    difference,
    gradient_difference,
    jumok_outputs,
    make_batch,
    make_pair,
)
from tests.pretrained.tensor_names import hf_tensor_names

pytest.importorskip("transformers")

NAMES = [variant.name for variant in VARIANTS]
FIRST = {each.architecture: each.name for each in reversed(VARIANTS)}.values()
each_variant = pytest.mark.parametrize("name", NAMES)


def test_variants() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 80
    assert len(GENERATIVE_VARIANTS) >= 30
    found = {make_pair(name).opened.architecture.family.model_type for name in NAMES}
    assert found == set(FAMILIES.names())


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
def test_same_outputs(name: str) -> None:
    """Without padding, one variant of each class; the gradients of all are in float32 too."""
    found = difference(make_pair(name), "none")
    assert max(found.values()) <= 1e-5, found


@pytest.mark.slow
@each_variant
def test_same_outputs_in_float64(name: str) -> None:
    """Padding changes no number by more than the rounding of float64."""
    pair = make_pair(name, torch.float64)
    for padding in ("right", "left"):
        found = difference(pair, padding)
        assert max(found.values()) <= 1e-12, (padding, found)


@each_variant
def test_same_gradients(name: str) -> None:
    worst, n = gradient_difference(make_pair(name))
    assert worst <= 1e-4
    assert n >= len(make_pair(name).checkpoint.tensors) // 2


@each_variant
def test_names_are_those_of_transformers(name: str) -> None:
    """Each once; transformers saves some tensors that are not used: poolers, sinusoidal tables."""
    pair = make_pair(name)
    opened, weights = pair.opened, named_weights(pair.opened.model)
    found = expand(opened.architecture.name_rules(), weights)
    assert sorted(name for mapping in found for name in mapping.jumok_names) == sorted(weights)
    assert len({mapping.hf_name for mapping in found}) == len(found)
    if pair.variant.file_changes or pair.variant.renamed:
        return
    names = hf_tensor_names(opened.model, opened.architecture).keys()
    unused = {name for name, canonical in opened.names.items() if canonical in opened.unused}
    assert names <= pair.checkpoint.tensors.keys() <= names | unused


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATIVE_VARIANTS)
def test_same_generated_tokens(name: str) -> None:
    pair = make_pair(name)
    found = [compare_generation(pair, case) for case in search_cases(pair)]
    assert [line for result in found for line in result.different] == []
    ties = [line for result in found for line in result.ties]
    assert len(ties) <= 1, ties
    assert sum(result.ended for result in found) > 0


@pytest.mark.parametrize(
    "name", ["bert-masked", "roberta-masked", "gpt2-language", "marian-plain", "bart-plain"]
)
def test_too_many_tokens(name: str) -> None:
    pair = make_pair(name)
    whole = make_batch(pair, "none")
    more = ParityBatch(
        torch.cat([whole.ids, whole.ids[:, :1]], 1),
        torch.cat([whole.attention_mask, whole.attention_mask[:, :1]], 1),
        target=whole.target,
    )
    with raises(InputError, "model.text_too_long"):
        jumok_outputs(pair, more)


def test_architecture_is_inferred_from_the_stored_head() -> None:
    found = {
        name: make_pair(name).opened.architecture.class_name
        for name in NAMES
        if name.partition("-")[2].startswith(("unsaid", "headed"))
    }
    assert found == {name: _architecture(name) for name in found}
    assert len(found) >= 7


def _architecture(name: str) -> str:
    return next(variant.architecture for variant in VARIANTS if variant.name == name)
