"""Import, export: the same bytes under the same names."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from jumok.models.weights import named_weights
from jumok.pretrained.architecture import parse_config
from jumok.pretrained.checkpoint import open_checkpoint
from jumok.pretrained.state_dict import (
    PretrainedModel,
    hf_state_dict,
    hf_tensor_names,
    model_from_hf,
)
from jumok.safetensors_io import deserialize, serialize
from tests.pretrained.hf_variants import VARIANTS, Variant

transformers = pytest.importorskip("transformers")

each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)


def same_bytes(one: Tensor, other: Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def way_back(opened: PretrainedModel) -> dict[str, Tensor]:
    return hf_state_dict(opened.model, opened.architecture, opened.names, opened.unused)


def opened_from(folder: Path) -> PretrainedModel:
    stored = open_checkpoint(folder)
    return model_from_hf(stored.config, stored.tensors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@each_variant
def test_same_bytes_under_the_same_names(
    variant: Variant, dtype: torch.dtype, tmp_path: Path
) -> None:
    variant.save(tmp_path, dtype=dtype)
    came = load_file(tmp_path / "model.safetensors")
    gone = deserialize(serialize(way_back(opened_from(tmp_path))))
    assert gone.keys() == came.keys()
    assert [name for name in came if not same_bytes(gone[name], came[name])] == []
    assert any(tensor.dtype == dtype for tensor in gone.values())


def test_what_was_trained_goes_out_under_all_its_names(tmp_path: Path) -> None:
    [variant] = [each for each in VARIANTS if each.name == "t5-all-stored"]
    variant.save(tmp_path)
    opened = opened_from(tmp_path)
    with torch.no_grad():
        named_weights(opened.model)["encoder.embedding.tokens.weight"].add_(1.0)
    gone, came = way_back(opened), load_file(tmp_path / "model.safetensors")
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head"):
        assert torch.equal(gone[f"{name}.weight"], came["shared.weight"] + 1.0)
    carried = [name for name in came if "EncDecAttention.relative_attention_bias" in name]
    assert same_bytes(gone[carried[0]], came[carried[0]])


@pytest.mark.parametrize(
    "variant",
    [each for each in VARIANTS if not each.file_changes],
    ids=lambda variant: variant.name,
)
def test_names_are_those_transformers_writes(variant: Variant, tmp_path: Path) -> None:
    """All but what we carry without need: poolers nobody asks, tables of sines."""
    variant.save(tmp_path)
    opened = opened_from(tmp_path)
    written = load_file(tmp_path / "model.safetensors").keys()
    names = hf_tensor_names(opened.model, opened.architecture)
    needless = {name for name, canonical in opened.names.items() if canonical in opened.unused}
    assert names.keys() <= written
    assert written - names.keys() <= needless


@pytest.mark.parametrize(
    "name",
    [
        *("bert-masked", "bert-untied", "bert-texts", "roberta-masked", "electra-texts"),
        *("distilbert-tokens", "gpt2-language", "t5-gated", "bart-plain", "marian-two-tables"),
    ],
)
def test_transformers_opens_what_never_was_a_checkpoint(name: str, tmp_path: Path) -> None:
    """A fresh module of ours, written under the names of the table."""
    [variant] = [each for each in VARIANTS if each.name == name]
    variant.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    described = parse_config(config, [])
    model = described.build()
    _shake(model)
    tensors = hf_state_dict(model, described, hf_tensor_names(model, described), {})
    (tmp_path / "model.safetensors").write_bytes(serialize(tensors, {"format": "pt"}))
    found, told = getattr(transformers, variant.architecture).from_pretrained(
        tmp_path, output_loading_info=True, local_files_only=True
    )
    assert not told["missing_keys"], told
    assert not told["unexpected_keys"], told
    assert not told["mismatched_keys"], told
    theirs = found.state_dict()
    assert all(torch.equal(theirs[name], tensor) for name, tensor in tensors.items())


@torch.no_grad()
def _shake(model: nn.Module) -> None:
    """No bias is 0, no gain 1."""
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape) * 0.1)
