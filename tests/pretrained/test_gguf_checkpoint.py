"""GGUF files of GPT-2 and of the Llama family, opened through `jumok import`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.pretrained.gguf_checkpoint import write_hf_folder
from tests import hf_folders
from tests.cli.commands import call

gguf = pytest.importorskip("gguf")

Capture = pytest.CaptureFixture[str]
F32, Q8_0 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.Q8_0


def permuted(weight: Any, heads: int) -> Any:
    """As convert_hf_to_gguf.py stores queries and keys of Llama."""
    shape = weight.shape
    return (
        weight.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
    )


def written(path: Path, model: Any, folder: Path, arch: str, kind: Any = F32) -> Path:
    """The model of transformers as a GGUF file, by the names of the gguf package."""
    config = model.config
    writer: Any = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if arch == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        if arch != "qwen2":
            writer.add_key_length(config.head_dim)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].__getitem__)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name.endswith((".attn.bias", ".attn.masked_bias")) or name == "lm_head.weight":
            continue
        data = weight.float().numpy()
        if arch == "gpt2" and name.split(".")[-2].startswith("c_") and data.ndim == 2:
            data = data.T
        if arch == "llama" and (".q_proj." in name or ".k_proj." in name):
            q = ".q_proj." in name
            data = permuted(data, config.num_attention_heads if q else config.num_key_value_heads)
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        quantized = kind != F32 and data.ndim == 2 and data.shape[1] % 32 == 0
        data = gguf.quants.quantize(data, kind) if quantized else np.ascontiguousarray(data)
        writer.add_tensor(theirs, data, raw_dtype=kind if quantized else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def make(folder: Path, arch: str, **settings: Any) -> Any:
    if arch == "gpt2":
        model = hf_folders.gpt2(folder, **settings)
        vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
        merges = [line.split(" ") for line in lines if line and not line.startswith("#")]
        tree = {"model": {"vocab": vocab, "merges": merges}}
        tree["added_tokens"] = [{"content": hf_folders.END}]
        (folder / "tokenizer.json").write_text(json.dumps(tree), encoding="utf-8")
        return model
    return hf_folders.llama(folder, arch, tie_word_embeddings=True, sliding_window=None, **settings)


@pytest.mark.parametrize("arch", ["gpt2", "llama", "qwen2", "qwen3"])
def test_an_imported_file_is_the_model(arch: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "hf"
    model = make(folder, arch).float().eval()
    path = written(tmp_path / "model.gguf", model, folder, arch)
    done = call(capsys, "import", path, tmp_path / "run")
    assert done.code == 0, done.err
    loaded = jumok.load(tmp_path / "run")
    ids = torch.tensor([[3, 9, 27, 11, 30, 4]])
    with torch.no_grad():
        expected = model(ids).logits
    torch.testing.assert_close(loaded.model(ids), expected, rtol=0, atol=5e-6)
    text = "이 영화 정말 재미있어요"
    if arch != "gpt2":
        original = jumok.load(folder)
        assert loaded.vocabulary.encode(text) == original.vocabulary.encode(text)
    assert loaded.vocabulary.decode(loaded.vocabulary.encode(text)) == text


def test_quantized_weights(tmp_path: Path) -> None:
    model = make(tmp_path / "hf", "llama", hidden_size=32).float().eval()
    path = written(tmp_path / "model.gguf", model, tmp_path / "hf", "llama", Q8_0)
    write_hf_folder(path, tmp_path / "out")
    ids = torch.tensor([[3, 9, 27]])
    with torch.no_grad():
        expected = model(ids).logits
    found = jumok.load(tmp_path / "out").model(ids)
    # 0.1: seven bits a weight, random weights, so that errors do not cancel in 32 inputs
    assert 1e-6 < (found - expected).abs().max() < 0.1 * expected.abs().max()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda w: w.add_string("general.architecture", "mamba"), "must be one of gpt2, llama"),
        (lambda w: None, "must have the tensor token_embd.weight"),
    ],
)
def test_files_that_cannot_be_imported(change: Any, sentence: str, tmp_path: Path) -> None:
    writer: Any = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    change(writer)
    writer.add_tensor("other.weight", np.zeros((2, 2), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(InputError, match=sentence):
        write_hf_folder(tmp_path / "a.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
