"""A Hugging Face folder as a GGUF file, as llama.cpp's own converter writes it.

The counterpart of `gguf_checkpoint`, for the models that `gguf_support` accepts. The whole
tokenizer.json is kept under the key of the specification for it, so that `jumok import` reads the
same tokenizer.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from torch import Tensor

from jumok.atomic_io import write_atomically
from jumok.errors import ModelFileError
from jumok.formats.gguf_architectures import (
    BY_MODEL_TYPE,
    ROPE_TABLE,
    GGUFArchitecture,
    head_width,
    window_period,
)
from jumok.formats.gguf_reader import Value
from jumok.formats.gguf_rope import frequency_divisors
from jumok.formats.gguf_support import unsupported_in_gguf
from jumok.formats.gguf_tokenizer import tokenizer_metadata
from jumok.formats.gguf_writer import NewTensor, write_gguf
from jumok.models.config import TransformerConfig
from jumok.native.gguf_types import Floats
from jumok.pretrained.architecture import FAMILIES
from jumok.pretrained.checkpoint import open_checkpoint
from jumok.pretrained.config_reader import ConfigReader

GGUFType = Literal["f32", "f16", "bf16", "q8_0", "q4_0"]

_FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "bf16": 32}  # general.file_type
_NAME = re.compile(
    r"(?:(?:(?:transformer\.)?h|(?:model\.)?layers)\.(\d+)\.|transformer\.|model\.)?(.+)\."
    r"(weight|bias)"
)
_DERIVED = re.compile(r"(\.attn\.(masked_)?bias|rotary_emb\.inv_freq)$")


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
        raise ModelFileError(
            "pretrained.use_another_format",
            "{folder}: {reason}; use another format",
            folder=folder,
            reason=reason,
        )
    family = config["model_type"]
    arch, model = BY_MODEL_TYPE[family], FAMILIES.get(family).read_config(ConfigReader(config))
    metadata = dict(_metadata(arch, model, kind, name)) | dict(tokenizer_metadata(folder, config))
    tensors = [*_rope_table(model), *_tensors(arch, model, checkpoint.tensors, kind)]
    try:
        write_atomically(path, lambda file: write_gguf(file, metadata, tensors))
    except ValueError as error:
        raise ModelFileError(
            "pretrained.use_another_type",
            "{folder}: {error}; use f32 or bf16",
            folder=folder,
            error=error,
        ) from None


def _metadata(
    arch: GGUFArchitecture, model: TransformerConfig, kind: GGUFType, name: str
) -> Iterator[tuple[str, Value]]:
    yield "general.architecture", arch.name
    yield "general.name", name
    yield "general.file_type", _FILE_TYPES[kind]
    if kind in ("q8_0", "q4_0"):
        yield "general.quantization_version", 2
    for key, value in _sizes(model) if arch.name == "gpt2" else _llama_sizes(model):
        yield f"{arch.name}.{key}", value


def _sizes(model: TransformerConfig, norm: str = "layer_norm") -> Iterator[tuple[str, Value]]:
    yield "vocab_size", model.vocabulary_size
    yield "context_length", model.max_length
    yield "embedding_length", model.d_model
    yield "feed_forward_length", model.d_ff
    yield "block_count", model.n_layers
    yield "attention.head_count", model.n_heads
    yield f"attention.{norm}_epsilon", model.norm_eps


def _llama_sizes(model: TransformerConfig) -> Iterator[tuple[str, Value]]:
    yield from _sizes(model, "layer_norm_rms")
    yield "attention.head_count_kv", model.n_kv_heads or model.n_heads
    for key in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        yield key, head_width(model)
    yield "rope.freq_base", float(model.rope.base)
    if model.rope.scaling == "linear":
        yield "rope.scaling.type", "linear"
        yield "rope.scaling.factor", float(model.rope.factor)
    if model.local_rope is not None:
        yield "rope.freq_base_swa", float(model.local_rope.base)
    period = window_period(model.layer_kinds(model.n_layers))
    if model.sliding_window is not None and period is not None:
        yield "attention.sliding_window", model.sliding_window
        yield "attention.sliding_window_pattern", period
    if model.output_softcap is not None:
        yield "final_logit_softcapping", float(model.output_softcap)


def _rope_table(model: TransformerConfig) -> Iterator[NewTensor]:
    """The divisors of the frequencies, if the rotation is scaled as in Llama 3."""
    if model.rope.scaling == "llama3":
        divisors = frequency_divisors(model.rope, head_width(model))
        yield NewTensor(ROPE_TABLE, divisors.shape, "F32", lambda: divisors)


def _tensors(
    arch: GGUFArchitecture,
    model: TransformerConfig,
    tensors: Mapping[str, Tensor],
    kind: GGUFType,
) -> Iterator[NewTensor]:
    """Every tensor under its name in GGUF."""
    names = {theirs: ours for ours, theirs in arch.names.items()}
    for name, tensor in tensors.items():
        if _DERIVED.search(name):
            continue
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in names:
            raise ModelFileError(
                "pretrained.no_name_gguf",
                "{name} has no name in GGUF; use another format",
                name=name[:80],
            )
        found = names[match[2]]
        if found != "output" or model.tying == "none":
            layer = "" if match[1] is None else f"blk.{match[1]}."
            yield _tensor(arch, model, f"{layer}{found}.{match[3]}", tensor, kind)


def _tensor(
    arch: GGUFArchitecture, model: TransformerConfig, name: str, tensor: Tensor, kind: GGUFType
) -> NewTensor:
    part = name.split(".")[-2]
    linear = tensor.ndim == 2 and part not in ("token_embd", "position_embd", "output")
    transposed = arch.has_transposed_maps and linear
    shape = (tensor.shape[1], tensor.shape[0]) if transposed else tuple(tensor.shape)
    stored = "f32" if tensor.ndim == 1 or part == "position_embd" else kind
    if stored in ("q8_0", "q4_0") and shape[-1] % 32:
        stored = "f16"
    heads = {"attn_q": model.n_heads, "attn_k": model.n_kv_heads or model.n_heads}

    def read() -> Floats:
        numbers: Floats = tensor.float().numpy()
        if transposed:
            return numbers.T
        if arch.has_offset_norms and part.endswith("norm"):
            return numbers + 1
        return permute(numbers, heads[part]) if arch.has_pairs and part in heads else numbers

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
