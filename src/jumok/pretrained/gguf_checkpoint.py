"""GGUF files as Hugging Face folders: config.json, model.safetensors and tokenizer.json.

The architectures gpt2, llama (also Mistral's files), qwen2 and qwen3. llama.cpp stores the rows of
Llama's queries and keys in pairs for its interleaved rotation (convert_hf_to_gguf.py, `permute`),
and GPT-2's linear maps as (out, in); both are undone here. F16 and BF16 keep their type; blocks
become float32. Tensors are written one at a time.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from jumok import safetensors_io
from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import InputError
from jumok.pretrained.gguf_reader import GGUFFile, read_gguf
from jumok.pretrained.gguf_rope import ROPE_TABLE, rope_of_table
from jumok.safetensors_io import LazyTensor
from jumok.text.pretrained.library_errors import library_errors

Numbers = NDArray[np.generic]
Change = Callable[[Numbers], Numbers]

GPT2_NAMES = {
    "token_embd": "wte",
    "position_embd": "wpe",
    "output_norm": "ln_f",
    "output": "lm_head",
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
LLAMA_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_output": "self_attn.o_proj",
    **{f"attn_{letter}": f"self_attn.{letter}_proj" for letter in "qkv"},
    **{f"attn_{letter}_norm": f"self_attn.{letter}_norm" for letter in "qk"},
}
CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_NAME = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")

# The regular expressions that split texts, by `tokenizer.ggml.pre`; None: that of GPT-2.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{%s}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PRE_TOKENIZERS = {"gpt-2": None, "qwen2": _WORDS % "1", "llama-bpe": _WORDS % "1,3"}
CONTROL = 3  # a token type: special
SPECIAL = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
TOKENIZER_JSON = "tokenizer.huggingface.json"  # the whole file, if it was written


def write_hf_folder(path: Path, folder: Path) -> None:
    """Write the model in a GGUF file as a Hugging Face folder.

    The tokenizer is written if the file has its tokenizer.json, or byte-level BPE of a known kind;
    other models accept ids only.
    Raises InputError for another architecture and for settings that jumok does not support.
    """
    file = read_gguf(path)
    try:
        config = _config(file)
        tensors = _tensors(file, config)
        tokenizer = _tokenizer(file.metadata)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    with storage_errors(f"{folder}: cannot be made"):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "config.json", json.dumps(config, indent=2).encode())
    chunks = safetensors_io.iter_lazy_chunks(tensors, {"format": "pt"})
    write_atomically(folder / "model.safetensors", lambda file: file.writelines(chunks))
    if tokenizer is not None:
        write_atomically(folder / "tokenizer.json", tokenizer.encode())
        names = {"tokenizer_class": "PreTrainedTokenizerFast"}
        tokens = file.metadata["tokenizer.ggml.tokens"]
        for name in SPECIAL:
            token = config.get(f"{name}_token_id")
            if isinstance(token, int) and isinstance(tokens, tuple) and token < len(tokens):
                names[f"{name}_token"] = str(tokens[token])
        write_atomically(folder / "tokenizer_config.json", json.dumps(names).encode())


class _Metadata:
    """The keys of one architecture, with their types checked."""

    def __init__(self, file: GGUFFile, architecture: str) -> None:
        self._file, self._architecture = file, architecture

    def number(self, key: str, default: float | None = None) -> Any:
        """A number of at least 0; None in the file counts as missing."""
        name = f"{self._architecture}.{key}"
        found = self._file.metadata.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or not found >= 0:
            raise InputError(f"{name} must be a number, got {str(found)[:40]}; convert it again")
        return found


def _config(file: GGUFFile) -> dict[str, Any]:
    """The config.json of transformers."""
    name = file.metadata.get("general.architecture")
    if name not in CLASSES:
        raise InputError(
            f"general.architecture must be one of {', '.join(CLASSES)}, got {str(name)[:40]!r}; "
            "import the original checkpoint"
        )
    assert isinstance(name, str)
    read = _Metadata(file, name).number
    if "token_embd.weight" not in file.tensors:
        raise InputError("it must have the tensor token_embd.weight; download it again")
    config: dict[str, Any] = {
        "model_type": name,
        "architectures": [CLASSES[name]],
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    for key, theirs in SPECIAL.items():
        token = file.metadata.get(f"tokenizer.ggml.{theirs}_token_id")
        if isinstance(token, int):
            config[f"{key}_token_id"] = token
    if name == "gpt2":
        return config | {
            "n_embd": read("embedding_length"),
            "n_layer": read("block_count"),
            "n_head": read("attention.head_count"),
            "n_positions": read("context_length"),
            "n_inner": read("feed_forward_length"),
            "layer_norm_epsilon": read("attention.layer_norm_epsilon"),
        }
    width, heads = read("embedding_length"), read("attention.head_count")
    config |= {
        "hidden_size": width,
        "num_hidden_layers": read("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": read("attention.head_count_kv", heads),
        "intermediate_size": read("feed_forward_length"),
        "max_position_embeddings": read("context_length"),
        "rms_norm_eps": read("attention.layer_norm_rms_epsilon"),
        "rope_theta": read("rope.freq_base", 10_000.0),
    }
    if name != "qwen2":
        config["head_dim"] = read("attention.key_length", width // max(heads, 1))
    scaling = file.metadata.get(f"{name}.rope.scaling.type", "none")
    if scaling == "linear":
        factor = read("rope.scaling.factor")
        config["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    elif scaling != "none":
        raise InputError(
            "its rotary positions must be plain, scaled linearly or those of Llama 3, got "
            f"{str(scaling)[:40]}; import the original checkpoint"
        )
    elif name == "llama" and ROPE_TABLE in file.tensors:
        config |= _scaled_rope(file, config)
    return config


def _scaled_rope(file: GGUFFile, config: Mapping[str, Any]) -> dict[str, Any]:
    """The `rope_scaling` of a file with a table of divisors."""
    d_head, shape = config["head_dim"], file.tensors[ROPE_TABLE].shape
    if shape != (d_head // 2,):
        raise InputError(
            f"{ROPE_TABLE} must have the shape ({d_head // 2},), got {shape}; import the original "
            "checkpoint"
        )
    rope = rope_of_table(file.read(ROPE_TABLE), float(config["rope_theta"]))
    if rope.scaling == "none":
        return {}
    return {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": rope.factor,
            "low_freq_factor": rope.low_frequency_factor,
            "high_freq_factor": rope.high_frequency_factor,
            "original_max_position_embeddings": rope.original_length,
        }
    }


def _tensors(file: GGUFFile, config: Mapping[str, Any]) -> dict[str, LazyTensor]:
    """The tensors under their names in transformers: F16 and BF16 as they are, else in float32."""
    is_gpt2 = config["model_type"] == "gpt2"
    names, layers = (GPT2_NAMES, "transformer.h") if is_gpt2 else (LLAMA_NAMES, "model.layers")
    found: dict[str, LazyTensor] = {}
    for name in file.tensors:
        if name == ROPE_TABLE and config["model_type"] == "llama":
            continue  # read by _scaled_rope
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in names:
            raise InputError(
                f"its tensors must be those of {config['model_type']}, got {name[:80]!r}; import "
                "the original checkpoint"
            )
        theirs = names[match[2]]
        if match[1] is not None:
            theirs = f"{layers}.{match[1]}.{theirs}"
        elif is_gpt2 and theirs != "lm_head":
            theirs = f"transformer.{theirs}"
        change = _change(config, match[2], match[3])
        found[f"{theirs}.{match[3]}"] = _lazy(file, name, change)
    return found


def _lazy(file: GGUFFile, name: str, change: Change) -> LazyTensor:
    """A tensor of the file, changed to the layout of transformers when it is written."""
    tensor = file.tensors[name]
    dtype = {"F16": torch.float16, "BF16": torch.bfloat16}.get(tensor.type.name, torch.float32)
    shape = change(np.broadcast_to(np.float32(0), tensor.shape)).shape  # and its checks

    def read() -> torch.Tensor:
        changed = np.ascontiguousarray(change(file.read_stored(name)))
        return torch.from_numpy(changed).view(dtype)

    return LazyTensor(dtype, shape, read)


def _change(config: Mapping[str, Any], part: str, kind: str) -> Change:
    """What turns a stored tensor into that of transformers."""
    if config["model_type"] == "gpt2":
        linear = part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down") and kind == "weight"
        return (lambda weight: weight.T) if linear else (lambda weight: weight)
    if config["model_type"] == "llama" and part in ("attn_q", "attn_k"):
        key = "num_attention_heads" if part == "attn_q" else "num_key_value_heads"
        return lambda weight: unpermute(weight, config[key])
    return lambda weight: weight


def unpermute(weight: Numbers, heads: int) -> Numbers:
    """Rows in which pairs are adjacent -> rows in halves, for each head.

    >>> unpermute(np.float32([[0], [2], [1], [3]]), 1).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    if heads < 1 or len(weight) % (2 * heads):
        raise InputError(
            f"the rows of queries and keys must be pairs for {heads} heads, got {len(weight)}; "
            "download it again"
        )
    pairs = weight.reshape(heads, -1, 2, *weight.shape[1:])
    halves: Numbers = pairs.swapaxes(1, 2).reshape(weight.shape)
    return halves


def _tokenizer(metadata: Mapping[str, Any]) -> str | None:
    """The tokenizer.json in the metadata, else byte-level BPE; None for other tokenizers."""
    whole = metadata.get(TOKENIZER_JSON)
    if isinstance(whole, str):
        return whole  # checked where the folder is opened
    tokens, merges = (metadata.get(f"tokenizer.ggml.{key}") for key in ("tokens", "merges"))
    pre = metadata.get("tokenizer.ggml.pre", "gpt-2")
    is_bpe = metadata.get("tokenizer.ggml.model") == "gpt2" and pre in PRE_TOKENIZERS
    if not (is_bpe and isinstance(tokens, tuple) and isinstance(merges, tuple)):
        return None
    vocab = {str(token): i for i, token in enumerate(tokens)}
    parts = [str(merge).partition(" ") for merge in merges]
    pairs = [(left, right) for left, space, right in parts if space]
    if len(vocab) < len(tokens) or len(pairs) < len(merges):
        raise InputError(
            "its tokens must be unique and its merges pairs, got others; download it again"
        )
    with library_errors("the vocabulary cannot be used"):
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
        pattern = PRE_TOKENIZERS[pre]
        steps: list[pre_tokenizers.PreTokenizer]
        steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
        if pattern is not None:
            steps.insert(0, pre_tokenizers.Split(Regex(pattern), "isolated"))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.decoder = decoders.ByteLevel()
        types = metadata.get("tokenizer.ggml.token_type") or ()
        special = [token for token, kind in zip(tokens, types, strict=False) if kind == CONTROL]
        tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
        return str(tokenizer.to_str())
