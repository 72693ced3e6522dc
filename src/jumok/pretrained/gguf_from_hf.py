"""A Hugging Face folder as a GGUF file, as llama.cpp's own converter writes it.

GPT-2 with gelu_new, Llama, Mistral without a window, Qwen2 and Qwen3 without windows. The
counterpart of `gguf_checkpoint`, which has the names of the tensors. The whole tokenizer.json is
kept under the key of the specification for it, so that `jumok import` reads the same tokenizer.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from jumok.atomic_io import write_atomically
from jumok.errors import InputError
from jumok.native.gguf_types import Floats
from jumok.pretrained.checkpoint import open_checkpoint
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.gguf_checkpoint import (
    CONTROL,
    GPT2_NAMES,
    LLAMA_NAMES,
    PRE_TOKENIZERS,
    SPECIAL,
    TOKENIZER_JSON,
)
from jumok.pretrained.gguf_reader import Value
from jumok.pretrained.gguf_rope import HIGH, LOW, ROPE_TABLE, frequency_divisors
from jumok.pretrained.gguf_writer import NewTensor, write_gguf
from jumok.pretrained.llama import read_rope
from jumok.safe_json import read_json

GGUFType = Literal["f32", "f16", "bf16", "q8_0", "q4_0"]

_FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "bf16": 32}  # general.file_type
_FAMILIES = {"gpt2": "gpt2", "llama": "llama", "mistral": "llama", "qwen2": "qwen2"}
_FAMILIES |= {"qwen3": "qwen3"}
_NAME = re.compile(
    r"(?:(?:(?:transformer\.)?h|model\.layers)\.(\d+)\.|transformer\.)?(.+)\.(weight|bias)"
)
_DERIVED = re.compile(r"(\.attn\.(masked_)?bias|rotary_emb\.inv_freq)$")
_NORMAL, _UNKNOWN, _BYTE, _UNUSED = 1, 2, 6, 5  # token types, with CONTROL


def unsupported_in_gguf(config: Mapping[str, Any]) -> str | None:
    """Why a config.json has no GGUF file that jumok writes; None if it has.

    >>> print(unsupported_in_gguf({"model_type": "bert"}))
    GGUF is written for gpt2, llama, mistral, qwen2, qwen3, got 'bert'
    """
    family, reader = config.get("model_type"), ConfigReader(config)
    if family not in _FAMILIES:
        return f"GGUF is written for {', '.join(_FAMILIES)}, got {family!r}"
    if family == "gpt2":
        activation = config.get("activation_function", "gelu_new")
        if activation not in ("gelu_new", "gelu_pytorch_tanh"):
            return f"llama.cpp computes GPT-2 with gelu_new, got {activation}"
        scaled = config.get("scale_attn_weights", True)
        return None if scaled else "llama.cpp scales the attention of GPT-2"
    if config.get("hidden_act", "silu") != "silu":
        return f"llama.cpp computes {family} with silu, got {config['hidden_act']}"
    if config.get("attention_bias") or config.get("mlp_bias"):
        return f"llama.cpp has no biases in {family}"
    windowed = family == "mistral" or config.get("use_sliding_window")
    if windowed and config.get("sliding_window", 4096) is not None:
        return f"llama.cpp has no attention windows in {family}"
    rope = read_rope(reader, 10_000.0, 2048)
    limits = rope.low_frequency_factor, rope.high_frequency_factor
    if rope.scaling == "llama3" and (_FAMILIES[family] != "llama" or limits != (LOW, HIGH)):
        return (
            f"rotary positions scaled as in Llama 3 are written for llama with limits {LOW:g} and "
            f"{HIGH:g}"
        )
    return None


def write_gguf_file(folder: Path, path: Path, kind: GGUFType, name: str) -> None:
    """Write the model and the tokenizer of a Hugging Face folder to a GGUF file.

    Matrices have the given type, or f16 where their rows are not whole blocks; norms, biases and
    positions are f32. Raises InputError for a model that `unsupported_in_gguf` names, and for
    weights that a type cannot represent.
    """
    checkpoint = open_checkpoint(folder)
    config = checkpoint.config
    reason = unsupported_in_gguf(config)
    if reason is not None:
        raise InputError(f"{folder}: {reason}; use another format")
    metadata = dict(_metadata(config, kind, name)) | dict(_tokenizer(folder, config))
    tensors = [*_rope_table(config), *_tensors(config, checkpoint.tensors, kind)]
    try:
        write_atomically(path, lambda file: write_gguf(file, metadata, tensors))
    except ValueError as error:
        raise InputError(f"{folder}: {error}; use f32 or bf16") from None


def _metadata(config: Mapping[str, Any], kind: GGUFType, name: str) -> Iterator[tuple[str, Value]]:
    arch = _FAMILIES[config["model_type"]]
    yield "general.architecture", arch
    yield "general.name", name
    yield "general.file_type", _FILE_TYPES[kind]
    if kind in ("q8_0", "q4_0"):
        yield "general.quantization_version", 2
    read = ConfigReader(config)
    if arch == "gpt2":
        width = read.positive_int("n_embd", 768)
        yield "gpt2.context_length", read.positive_int("n_positions", 1024)
        yield "gpt2.embedding_length", width
        yield "gpt2.feed_forward_length", read.positive_int("n_inner", 4 * width)
        yield "gpt2.block_count", read.positive_int("n_layer", 12)
        yield "gpt2.attention.head_count", read.positive_int("n_head", 12)
        yield "gpt2.attention.layer_norm_epsilon", read.epsilon("layer_norm_epsilon", 1e-5)
        return
    width, heads = read.positive_int("hidden_size", 4096), _heads(config)[0]
    d_head = read.positive_int("head_dim", 128 if arch == "qwen3" else width // heads)
    length = read.positive_int("max_position_embeddings", 2048)
    rope = read_rope(read, 10_000.0, length)
    yield f"{arch}.vocab_size", read.positive_int("vocab_size", 32_000)
    yield f"{arch}.context_length", length
    yield f"{arch}.embedding_length", width
    yield f"{arch}.feed_forward_length", read.positive_int("intermediate_size", 11_008)
    yield f"{arch}.block_count", read.positive_int("num_hidden_layers", 32)
    yield f"{arch}.attention.head_count", heads
    yield f"{arch}.attention.head_count_kv", _heads(config)[1]
    yield f"{arch}.attention.layer_norm_rms_epsilon", read.epsilon("rms_norm_eps", 1e-6)
    yield f"{arch}.attention.key_length", d_head
    yield f"{arch}.attention.value_length", d_head
    yield f"{arch}.rope.dimension_count", d_head
    yield f"{arch}.rope.freq_base", float(rope.base)
    if rope.scaling == "linear":
        yield f"{arch}.rope.scaling.type", "linear"
        yield f"{arch}.rope.scaling.factor", float(rope.factor)


def _heads(config: Mapping[str, Any]) -> tuple[int, int]:
    """The numbers of query heads and of key and value heads."""
    read = ConfigReader(config)
    heads = read.positive_int("num_attention_heads", 32)
    return heads, read.positive_int("num_key_value_heads", heads)


def _rope_table(config: Mapping[str, Any]) -> Iterator[NewTensor]:
    """The divisors of the frequencies, if the rotation is scaled as in Llama 3."""
    if _FAMILIES[config["model_type"]] != "llama":
        return
    read = ConfigReader(config)
    rope = read_rope(read, 10_000.0, read.positive_int("max_position_embeddings", 2048))
    if rope.scaling == "llama3":
        width = read.positive_int("hidden_size", 4096)
        divisors = frequency_divisors(
            rope, read.positive_int("head_dim", width // _heads(config)[0])
        )
        yield NewTensor(ROPE_TABLE, divisors.shape, "F32", lambda: divisors)


def _tensors(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], kind: GGUFType
) -> Iterator[NewTensor]:
    """Every tensor under its name in GGUF."""
    arch = _FAMILIES[config["model_type"]]
    table = GPT2_NAMES if arch == "gpt2" else LLAMA_NAMES
    names = {theirs: ours for ours, theirs in table.items()}
    tied = config.get("tie_word_embeddings", arch == "gpt2")
    for name, tensor in tensors.items():
        if _DERIVED.search(name):
            continue
        match = _NAME.fullmatch(name)
        found = None if match is None else names.get(match[2], names.get(f"model.{match[2]}"))
        if match is None or found is None:
            raise InputError(f"{name[:80]} has no name in GGUF; use another format")
        if found != "output" or not tied:
            layer = "" if match[1] is None else f"blk.{match[1]}."
            yield _tensor(config, f"{layer}{found}.{match[3]}", tensor, kind)


def _tensor(config: Mapping[str, Any], name: str, tensor: Tensor, kind: GGUFType) -> NewTensor:
    arch, part = _FAMILIES[config["model_type"]], name.split(".")[-2]
    linear = tensor.ndim == 2 and part not in ("token_embd", "position_embd", "output")
    transposed = arch == "gpt2" and linear
    shape = (tensor.shape[1], tensor.shape[0]) if transposed else tuple(tensor.shape)
    stored = "f32" if tensor.ndim == 1 or part == "position_embd" else kind
    if stored in ("q8_0", "q4_0") and shape[-1] % 32:
        stored = "f16"
    heads = dict(zip(("attn_q", "attn_k"), _heads(config), strict=True))

    def read() -> Floats:
        numbers: Floats = tensor.float().numpy()
        if transposed:
            return numbers.T
        return permute(numbers, heads[part]) if arch == "llama" and part in heads else numbers

    return NewTensor(name, shape, stored.upper(), read)


def permute(weight: Floats, heads: int) -> Floats:
    """Rows in halves -> rows in which the two of a rotated pair are adjacent, for each head.

    >>> import numpy as np
    >>> permute(np.float32([[0], [1], [2], [3]]), 1).ravel().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    halves = weight.reshape(heads, 2, -1, *weight.shape[1:])
    pairs: Floats = halves.swapaxes(1, 2).reshape(weight.shape)
    return pairs


def _tokenizer(folder: Path, config: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """The tokenizer under the keys of llama.cpp; nothing without a tokenizer.json."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return
    tree = read_json(path)
    model = tree["model"]
    unigram = model.get("type") == "Unigram"
    pieces = [piece for piece, _ in model["vocab"]] if unigram else list(model["vocab"])
    ids = {piece: i for i, piece in enumerate(pieces)} if unigram else dict(model["vocab"])
    added = {token["content"]: token for token in tree.get("added_tokens", ())}
    ids |= {content: token["id"] for content, token in added.items()}
    size = max(int(config.get("vocab_size", 0)), 1 + max(ids.values()))
    tokens, types = [f"[unused{i}]" for i in range(size)], [_UNUSED] * size
    for piece, i in ids.items():
        special = added.get(piece, {}).get("special", False)
        byte = re.fullmatch(r"<0x[0-9A-F]{2}>", piece)
        tokens[i], types[i] = piece, CONTROL if special else _BYTE if byte else _NORMAL
    if unigram and isinstance(model.get("unk_id"), int):
        types[model["unk_id"]] = _UNKNOWN
    is_bytes = '"ByteLevel"' in json.dumps(tree.get("pre_tokenizer"))
    yield "tokenizer.ggml.model", "t5" if unigram else "gpt2" if is_bytes else "llama"
    if is_bytes:
        yield "tokenizer.ggml.pre", _pre_tokenizer(tree)
    yield "tokenizer.ggml.tokens", tuple(tokens)
    yield "tokenizer.ggml.token_type", tuple(types)
    if unigram:
        scores = [float(score) for _, score in model["vocab"]]
        yield "tokenizer.ggml.scores", tuple(scores + [0.0] * (size - len(scores)))
    else:
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
        yield "tokenizer.ggml.merges", tuple(merges)
        if not is_bytes:  # earlier merges first
            rank = {"".join(merge.split(" ")): -float(i) for i, merge in enumerate(merges)}
            yield "tokenizer.ggml.scores", tuple(rank.get(token, -1e6) for token in tokens)
    for key, name in SPECIAL.items():
        token = config.get(f"{key}_token_id")
        token = token[0] if isinstance(token, list) and token else token
        if isinstance(token, int) and not isinstance(token, bool) and 0 <= token < size:
            yield f"tokenizer.ggml.{name}_token_id", token
    yield "tokenizer.ggml.add_bos_token", _adds_bos(tree)
    yield TOKENIZER_JSON, path.read_text(encoding="utf-8")


def _pre_tokenizer(tree: Mapping[str, Any]) -> str:
    """The name in llama.cpp of the regular expression that splits texts; that of GPT-2 if none."""
    text = json.dumps(tree.get("pre_tokenizer"))
    found = (name for name, rule in PRE_TOKENIZERS.items() if rule and json.dumps(rule) in text)
    return next(found, "gpt-2")


def _adds_bos(tree: Mapping[str, Any]) -> bool:
    """Whether the tokenizer puts a special token before a single text."""
    single = (tree.get("post_processor") or {}).get("single")
    return isinstance(single, list) and bool(single) and "SpecialToken" in single[0]
