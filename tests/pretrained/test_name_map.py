"""Name maps: rules, and every transform inverted; test_parity.py has the maps of all families."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jumok.pretrained.name_map import (
    CONV1D,
    IDENTITY,
    ROW_VECTOR,
    NameRule,
    Transform,
    expand,
    rule,
    with_prefix,
)


def test_parameter_without_a_rule() -> None:
    with pytest.raises(AssertionError, match=r"no rule for \['decoder\.norm\.bias'\]"):
        expand([rule("wte", "tokens")], ["tokens.weight", "decoder.norm.bias"])


def test_rules_of_missing_layers_are_skipped() -> None:
    table = with_prefix("h.{}", "layers.{}", [rule("mlp", "feed_forward")])
    found = expand(table, ["layers.0.feed_forward.weight", "layers.11.feed_forward.weight"])
    assert [mapping.hf_name for mapping in found] == ["h.0.mlp.weight", "h.11.mlp.weight"]


def random_tensor(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@given(inputs=st.integers(1, 7), outputs=st.integers(1, 7), parts=st.integers(1, 4))
def test_conv1d_split_and_join(inputs: int, outputs: int, parts: int) -> None:
    names = tuple(f"part{i}.weight" for i in range(parts))
    mapping, hf_tensor = (
        NameRule("c_attn.weight", names, CONV1D),
        random_tensor(inputs, outputs * parts),
    )
    jumok_tensors = mapping.split(hf_tensor)
    x = random_tensor(3, inputs)
    concatenated = torch.cat([x @ jumok_tensors[name].T for name in names], -1)
    torch.testing.assert_close(concatenated, x @ hf_tensor)
    assert all(part.shape == (outputs, inputs) for part in jumok_tensors.values())
    assert torch.equal(mapping.join(jumok_tensors), hf_tensor)


@pytest.mark.parametrize(
    ("transform", "parts", "hf_tensor"),
    [
        (IDENTITY, 1, random_tensor(3, 4)),
        (ROW_VECTOR, 1, random_tensor(1, 5)),
        (CONV1D, 3, random_tensor(12)),
    ],
)
def test_transforms_are_inverted(transform: Transform, parts: int, hf_tensor: Tensor) -> None:
    mapping = NameRule("x", tuple(f"part{i}" for i in range(parts)), transform)
    jumok_tensors = mapping.split(hf_tensor)
    assert torch.equal(mapping.join(jumok_tensors), hf_tensor)
    assert {part.untyped_storage().data_ptr() for part in jumok_tensors.values()} == {
        hf_tensor.untyped_storage().data_ptr()
    }
