"""Every family and variant against transformers: answers, gradients, and what is written."""

import pytest
import torch

from jumok.errors import InputError
from tests.pretrained.generation_parity import WRITERS, compared, ways
from tests.pretrained.hf_variants import VARIANTS
from tests.pretrained.model_pairs import (
    Padding,
    Question,
    difference,
    gradient_difference,
    our_answer,
    pair_of,
    question,
)

pytest.importorskip("transformers")

NAMES = [variant.name for variant in VARIANTS]
each_variant = pytest.mark.parametrize("name", NAMES)
each_padding = pytest.mark.parametrize("padding", ["none", "right", "left"])


def test_there_are_enough_of_them() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 80
    assert len(WRITERS) >= 30


@each_padding
@each_variant
def test_same_answers(name: str, padding: Padding) -> None:
    found = difference(pair_of(name), padding)
    assert max(found.values()) <= 1e-5, found


@each_variant
def test_same_answers_in_float64(name: str) -> None:
    pair = pair_of(name, torch.float64)
    for padding in ("right", "left"):
        found = difference(pair, padding)
        assert max(found.values()) <= 1e-12, (padding, found)


@each_variant
def test_same_gradients(name: str) -> None:
    worst, n = gradient_difference(pair_of(name))
    assert worst <= 1e-4
    assert n >= len(pair_of(name).stored.tensors) // 2


@pytest.mark.parametrize("name", WRITERS)
def test_same_words(name: str) -> None:
    pair = pair_of(name)
    found = [compared(pair, way) for way in ways(pair)]
    assert [line for each in found for line in each.different] == []
    ties = [line for each in found for line in each.ties]
    assert len(ties) <= 1, ties
    assert sum(each.ended for each in found) > 0


@pytest.mark.parametrize(
    "name", ["bert-masked", "roberta-masked", "gpt2-language", "marian-plain", "bart-plain"]
)
def test_a_token_more_than_the_model_holds(name: str) -> None:
    pair = pair_of(name)
    whole = question(pair, "none")
    more = Question(
        torch.cat([whole.ids, whole.ids[:, :1]], 1),
        torch.cat([whole.real, whole.real[:, :1]], 1),
        target=whole.target,
    )
    with pytest.raises(InputError, match="the model holds"):
        our_answer(pair, more)


def test_the_architecture_is_the_one_whose_head_is_there() -> None:
    found = {
        name: pair_of(name).opened.described.architecture
        for name in NAMES
        if name.partition("-")[2].startswith(("unsaid", "headed"))
    }
    assert found == {name: _variant(name) for name in found}
    assert len(found) >= 7


def _variant(name: str) -> str:
    return next(each.architecture for each in VARIANTS if each.name == name)
