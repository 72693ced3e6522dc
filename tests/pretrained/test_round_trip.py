"""Load and save: the same bytes under the same names."""

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
    model_from_hf,
)
from jumok.safetensors_io import deserialize, serialize
from tests.pretrained.hf_variants import VARIANTS, Variant
from tests.pretrained.tensor_names import hf_tensor_names

transformers = pytest.importorskip("transformers")


def same_bytes(a: Tensor, b: Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def save(opened: PretrainedModel) -> dict[str, Tensor]:
    return hf_state_dict(opened.model, opened.architecture, opened.names, opened.unused)


def load(folder: Path) -> PretrainedModel:
    stored = open_checkpoint(folder)
    return model_from_hf(stored.config, stored.tensors)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "dtype"),
    [
        *((variant, torch.bfloat16) for variant in VARIANTS),
        (VARIANTS[0], torch.float32),
        (VARIANTS[0], torch.float16),
    ],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_same_bytes_under_the_same_names(
    variant: Variant, dtype: torch.dtype, tmp_path: Path
) -> None:
    variant.save(tmp_path, dtype=dtype)
    stored = load_file(tmp_path / "model.safetensors")
    saved = deserialize(serialize(save(load(tmp_path))))
    assert saved.keys() == stored.keys()
    assert [name for name in stored if not same_bytes(saved[name], stored[name])] == []
    assert any(tensor.dtype == dtype for tensor in saved.values())


def test_changed_tied_weight_is_saved_under_all_names(tmp_path: Path) -> None:
    [variant] = [variant for variant in VARIANTS if variant.name == "t5-all-stored"]
    variant.save(tmp_path)
    opened = load(tmp_path)
    with torch.no_grad():
        named_weights(opened.model)["encoder.embedding.tokens.weight"].add_(1.0)
    saved, stored = save(opened), load_file(tmp_path / "model.safetensors")
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head"):
        assert torch.equal(saved[f"{name}.weight"], stored["shared.weight"] + 1.0)
    unused = [name for name in stored if "EncDecAttention.relative_attention_bias" in name]
    assert same_bytes(saved[unused[0]], stored[unused[0]])


@pytest.mark.parametrize(
    "name",
    [
        *("bert-masked", "bert-untied", "bert-texts", "roberta-masked", "electra-texts"),
        *("distilbert-tokens", "gpt2-language", "t5-gated", "bart-plain", "marian-two-tables"),
    ],
)
def test_transformers_loads_a_new_model(name: str, tmp_path: Path) -> None:
    """A newly initialized jumok module, saved under the HF names."""
    [variant] = [variant for variant in VARIANTS if variant.name == name]
    variant.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    architecture = parse_config(config, [])
    model = architecture.build()
    _add_noise(model)
    tensors = hf_state_dict(model, architecture, hf_tensor_names(model, architecture), {})
    (tmp_path / "model.safetensors").write_bytes(serialize(tensors, {"format": "pt"}))
    hf_model, info = getattr(transformers, variant.architecture).from_pretrained(
        tmp_path, output_loading_info=True, local_files_only=True
    )
    assert not info["missing_keys"], info
    assert not info["unexpected_keys"], info
    assert not info["mismatched_keys"], info
    hf_weights = hf_model.state_dict()
    assert all(torch.equal(hf_weights[name], tensor) for name, tensor in tensors.items())


@torch.no_grad()
def _add_noise(model: nn.Module) -> None:
    """Add noise, so that no bias is 0 and no norm weight is 1."""
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape) * 0.1)
