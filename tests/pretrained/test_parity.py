"""Every family and variant against transformers: answers, gradients, and what is written."""

import pytest
import torch

from jumok.errors import InputError
from tests.pretrained.generation_parity import GENERATIVE_VARIANTS, compare_generation, search_cases
from tests.pretrained.hf_variants import VARIANTS
from tests.pretrained.model_pairs import (
    Padding,
    ParityBatch,
    difference,
    gradient_difference,
    jumok_outputs,
    make_batch,
    make_pair,
)

pytest.importorskip("transformers")

NAMES = [variant.name for variant in VARIANTS]
each_variant = pytest.mark.parametrize("name", NAMES)
each_padding = pytest.mark.parametrize("padding", ["none", "right", "left"])


def test_there_are_enough_of_them() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 80
    assert len(GENERATIVE_VARIANTS) >= 30


@each_padding
@each_variant
def test_same_answers(name: str, padding: Padding) -> None:
    found = difference(make_pair(name), padding)
    assert max(found.values()) <= 1e-5, found


@each_variant
def test_same_answers_in_float64(name: str) -> None:
    pair = make_pair(name, torch.float64)
    for padding in ("right", "left"):
        found = difference(pair, padding)
        assert max(found.values()) <= 1e-12, (padding, found)


@each_variant
def test_same_gradients(name: str) -> None:
    worst, n = gradient_difference(make_pair(name))
    assert worst <= 1e-4
    assert n >= len(make_pair(name).checkpoint.tensors) // 2


@pytest.mark.parametrize("name", GENERATIVE_VARIANTS)
def test_same_words(name: str) -> None:
    pair = make_pair(name)
    found = [compare_generation(pair, way) for way in search_cases(pair)]
    assert [line for each in found for line in each.different] == []
    ties = [line for each in found for line in each.ties]
    assert len(ties) <= 1, ties
    assert sum(each.ended for each in found) > 0


@pytest.mark.parametrize(
    "name", ["bert-masked", "roberta-masked", "gpt2-language", "marian-plain", "bart-plain"]
)
def test_a_token_more_than_the_model_holds(name: str) -> None:
    pair = make_pair(name)
    whole = make_batch(pair, "none")
    more = ParityBatch(
        torch.cat([whole.ids, whole.ids[:, :1]], 1),
        torch.cat([whole.attention_mask, whole.attention_mask[:, :1]], 1),
        target=whole.target,
    )
    with pytest.raises(InputError, match="the model holds"):
        jumok_outputs(pair, more)


def test_the_architecture_is_the_one_whose_head_is_there() -> None:
    found = {
        name: make_pair(name).opened.architecture.class_name
        for name in NAMES
        if name.partition("-")[2].startswith(("unsaid", "headed"))
    }
    assert found == {name: _variant(name) for name in found}
    assert len(found) >= 7


def _variant(name: str) -> str:
    return next(each.architecture for each in VARIANTS if each.name == name)
