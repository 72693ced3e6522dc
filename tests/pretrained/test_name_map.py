"""Tables of names: each parameter of ours once, each name of theirs once, and every turn undone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jumok.models.weights import named_weights
from jumok.pretrained.architecture import FAMILIES
from jumok.pretrained.name_map import (
    CONV1D,
    IDENTITY,
    ROW_VECTOR,
    TensorMapping,
    Transform,
    expand,
    rule,
    with_prefix,
)
from tests.pretrained.hf_variants import VARIANTS
from tests.pretrained.model_pairs import make_pair

pytest.importorskip("transformers")

each_variant = pytest.mark.parametrize("name", [variant.name for variant in VARIANTS])


@each_variant
def test_each_parameter_once(name: str) -> None:
    opened = make_pair(name).opened
    wanted = named_weights(opened.model)
    found = expand(opened.architecture.name_rules(), wanted)
    ours = [each for entry in found for each in entry.jumok_names]
    theirs = [entry.hf_name for entry in found]
    assert sorted(ours) == sorted(wanted)
    assert len(set(theirs)) == len(theirs)


def test_every_family_is_among_the_variants() -> None:
    found = {make_pair(variant.name).opened.architecture.family.model_type for variant in VARIANTS}
    assert found == FAMILIES.keys()


def test_a_parameter_without_a_line() -> None:
    with pytest.raises(AssertionError, match=r"no line for \['decoder\.norm\.bias'\]"):
        expand([rule("wte", "tokens")], ["tokens.weight", "decoder.norm.bias"])


def test_a_layer_too_many_says_nothing() -> None:
    table = with_prefix("h.{}", "layers.{}", [rule("mlp", "feed_forward")])
    found = expand(table, ["layers.0.feed_forward.weight", "layers.11.feed_forward.weight"])
    assert [entry.hf_name for entry in found] == ["h.0.mlp.weight", "h.11.mlp.weight"]


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@given(inputs=st.integers(1, 7), outputs=st.integers(1, 7), parts=st.integers(1, 4))
def test_side_by_side_and_back(inputs: int, outputs: int, parts: int) -> None:
    names = tuple(f"part{i}.weight" for i in range(parts))
    entry, theirs = TensorMapping("c_attn.weight", names, CONV1D), numbers(inputs, outputs * parts)
    ours = entry.split(theirs)
    x = numbers(3, inputs)
    side_by_side = torch.cat([x @ ours[name].T for name in names], -1)
    torch.testing.assert_close(side_by_side, x @ theirs)
    assert all(part.shape == (outputs, inputs) for part in ours.values())
    assert torch.equal(entry.join(ours), theirs)


@pytest.mark.parametrize(
    ("turn", "parts", "theirs"),
    [(IDENTITY, 1, numbers(3, 4)), (ROW_VECTOR, 1, numbers(1, 5)), (CONV1D, 3, numbers(12))],
)
def test_there_and_back(turn: Transform, parts: int, theirs: Tensor) -> None:
    entry = TensorMapping("x", tuple(f"part{i}" for i in range(parts)), turn)
    ours = entry.split(theirs)
    assert torch.equal(entry.join(ours), theirs)
    assert {part.untyped_storage().data_ptr() for part in ours.values()} == {
        theirs.untyped_storage().data_ptr()
    }
