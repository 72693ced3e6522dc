"""GGUF files as Hugging Face folders: config.json, model.safetensors and tokenizer.json.

The layout of each architecture (`gguf_architectures`) is undone: pairs of rows, transposed maps,
norms as 1 + w. F16 and BF16 keep their type; blocks become float32. Tensors are written one at a
time.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from jumok import safetensors_io
from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import Message, ModelFileError, located
from jumok.foreign_keys import KeyTable
from jumok.formats.gguf_architectures import (
    ARCHITECTURES,
    LAYERS_32B,
    LOCAL_BASE,
    ROPE_TABLE,
    GGUFArchitecture,
    gemma3_scale_width,
)
from jumok.formats.gguf_reader import GGUFFile, GGUFTensor, is_gguf, read_gguf
from jumok.formats.gguf_rope import rope_of_table
from jumok.formats.gguf_tokenizer import SPECIAL, TOKENIZER_JSON, TOKENIZER_KEYS, tokenizer_files
from jumok.pretrained.config_reader import MAX_LAYERS
from jumok.safetensors_io import LazyTensor

Numbers = NDArray[np.generic]
Change = Callable[[Numbers], Numbers]

_NAME = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")


ARCHITECTURE_KEYS = KeyTable(  # the keys ARCHITECTURE.*
    read={
        *("block_count", "embedding_length", "feed_forward_length", "context_length"),
        *("attention.head_count", "attention.head_count_kv", "attention.key_length"),
        *("attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"),
        *("attention.sliding_window", "attention.sliding_window_pattern"),
        *("rope.freq_base", "rope.freq_base_swa", "rope.dimension_count"),
        *("rope.dimension_count_swa", "rope.scale_linear", "rope.scaling.type"),
        *("rope.scaling.factor", "rope.scaling.attn_factor", "final_logit_softcapping"),
    },
    without_effect={
        # in the shapes of the tensors
        *("vocab_size", "attention.value_length", "attention.key_length_swa"),
        *("attention.value_length_swa", "tensor_data_layout"),
        # what llama.cpp does not read where the positions are plain or linearly scaled
        *("rope.scaling.original_context_length", "rope.scaling.finetuned"),
    },
    refused={  # 0 is none in llama.cpp
        "attention.causal": (True,),
        "attention.clamp_kqv": (0,),
        "attention.max_alibi_bias": (0,),
        "attention.scale": (0,),
        "attn_logit_softcapping": (0,),
        "embedding_scale": (0, 1),
        "expert_count": (0,),
        "expert_used_count": (0,),
        "leading_dense_block_count": (0,),
        "logit_scale": (0, 1),
        "nextn_predict_layers": (0,),
        "residual_scale": (0, 1),
    },
    named={"pooling_type": (0,)},  # of vectors of texts; those of jumok are the mean
)
OTHER_KEYS = KeyTable(  # all but ARCHITECTURE.*, tokenizer.* and most of general.*
    refused={"general.type": ("model",), "split.count": (0, 1)},  # an adapter; several files
    without_effect={"split.no", "split.tensors.count"},
)


class GgufConverter:
    """A GGUF file: its weights become float32."""

    def accepts(self, path: Path) -> bool:
        """Whether a path is a file that begins as GGUF files do."""
        return is_gguf(path)

    def base(self, path: Path) -> str | None:
        """None: it is a whole checkpoint."""
        return None

    def write(self, path: Path, base: Path | None, out: Path) -> None:
        """Write the model as `write_hf_folder` does."""
        write_hf_folder(path, out)


def write_hf_folder(path: Path, folder: Path) -> None:
    """Write the model in a GGUF file as a Hugging Face folder.

    The tokenizer is written if `gguf_tokenizer` reads it; other models accept ids only.
    Raises InputError for another architecture and for settings that jumok does not support.
    """
    file = read_gguf(path)
    with located(path):
        arch = _architecture(file)
        check_metadata(path, file.metadata)
        config = _config(file, arch)
        tensors = _tensors(file, arch, config)
        tokenizer = tokenizer_files(file.metadata, config)
    with storage_errors(f"{folder}: cannot be made"):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "config.json", json.dumps(config, indent=2).encode())
    chunks = safetensors_io.iter_lazy_chunks(tensors, {"format": "pt"})
    write_atomically(folder / "model.safetensors", lambda file: file.writelines(chunks))
    for name, data in tokenizer.items():
        write_atomically(folder / name, data)


def _architecture(file: GGUFFile) -> GGUFArchitecture:
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise ModelFileError(
            "pretrained.gguf_architecture",
            "general.architecture must be one of {architectures}, got {name!r}; import the "
            "original checkpoint",
            architectures=", ".join(ARCHITECTURES),
            name=str(name)[:40],
        )
    return ARCHITECTURES[name]


def check_metadata(path: Path, metadata: Mapping[str, object]) -> None:
    """Raise ModelFileError for metadata that may change outputs and is not supported."""
    advice = Message("pretrained.import_original", "import the original checkpoint")
    prefix = f"{metadata['general.architecture']}."
    own, other = {}, {}
    for key, value in metadata.items():
        if key.startswith(prefix):
            own[key.removeprefix(prefix)] = value
        elif key == "general.type" or not key.startswith(("general.", "quantize.", "tokenizer.")):
            other[key] = value  # quantize.*: how it was made
    ARCHITECTURE_KEYS.check(own, Path(path.name), advice)
    OTHER_KEYS.check(other, Path(path.name), advice)
    if isinstance(metadata.get(TOKENIZER_JSON), str):
        return  # the whole tokenizer.json is read
    tokenizer = {key: each for key, each in metadata.items() if key.startswith("tokenizer.")}
    TOKENIZER_KEYS.check(tokenizer, Path(path.name), advice)


class _Metadata:
    """The keys of one architecture, with their types checked."""

    def __init__(self, file: GGUFFile, architecture: str) -> None:
        self._file, self._architecture = file, architecture

    def get(self, key: str) -> object:
        """The value of a key; None if it is missing."""
        return self._file.metadata.get(f"{self._architecture}.{key}")

    def number(self, key: str, default: float | None = None) -> Any:
        """A number of at least 0; None in the file counts as missing."""
        name = f"{self._architecture}.{key}"
        found = self._file.metadata.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or not found >= 0:
            raise ModelFileError(
                "pretrained.not_a_number",
                "{name} must be a number, got {found}; convert it again",
                name=name,
                found=str(found)[:40],
            )
        return found

    def layers(self) -> int:
        """The number of layers."""
        found = self.number("block_count")
        if not isinstance(found, int) or not 1 <= found <= MAX_LAYERS:
            raise ModelFileError(
                "pretrained.gguf_block_count",
                "{architecture}.block_count must be an integer from 1 to {max_layers:,}, got "
                "{found}; convert it again",
                architecture=self._architecture,
                max_layers=MAX_LAYERS,
                found=str(found)[:40],
            )
        return found


def _config(file: GGUFFile, arch: GGUFArchitecture) -> dict[str, Any]:
    """The config.json of transformers."""
    metadata = _Metadata(file, arch.name)
    read = metadata.number
    if "token_embd.weight" not in file.tensors:
        raise ModelFileError(
            "pretrained.no_token_embeddings",
            "it must have the tensor token_embd.weight; download it again",
        )
    config: dict[str, Any] = {
        "model_type": arch.model_type,
        "architectures": [arch.class_name],
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    for key, theirs in SPECIAL.items():
        token = file.metadata.get(f"tokenizer.ggml.{theirs}_token_id")
        if type(token) is int and token >= 0:
            config[f"{key}_token_id"] = token
    layers = metadata.layers()
    if arch.name == "gpt2":
        return config | {
            "n_embd": read("embedding_length"),
            "n_layer": layers,
            "n_head": read("attention.head_count"),
            "n_positions": read("context_length"),
            "n_inner": read("feed_forward_length"),
            "layer_norm_epsilon": read("attention.layer_norm_epsilon"),
        }
    width, heads = read("embedding_length"), read("attention.head_count")
    config |= {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": read("attention.head_count_kv", heads),
        "intermediate_size": read("feed_forward_length"),
        "max_position_embeddings": read("context_length"),
        "rms_norm_eps": read("attention.layer_norm_rms_epsilon"),
        "rope_theta": read("rope.freq_base", 10_000.0),
    }
    if arch.name != "qwen2":
        config["head_dim"] = read("attention.key_length", width // max(heads, 1))
    config |= _rope_scaling(file, metadata, arch, config)
    return config | _own_settings(metadata, arch, config)


def _rope_scaling(
    file: GGUFFile, metadata: _Metadata, arch: GGUFArchitecture, config: Mapping[str, Any]
) -> dict[str, Any]:
    """The `rope_scaling`, with the defaults of llama.cpp; none if the rotation is plain."""
    d_head = config.get("head_dim", config["hidden_size"] // max(config["num_attention_heads"], 1))
    expected = {
        "rope.dimension_count": d_head,
        "rope.dimension_count_swa": d_head,
        "rope.scaling.attn_factor": 1,
    }
    for key, only in expected.items():
        found = metadata.number(key, only)
        if found != only:
            raise ModelFileError(
                "pretrained.rope_value",
                "{arch}.{key} must be {only}, got {found:g}; jumok rotates whole heads without a "
                "factor, so run it with llama.cpp",
                arch=arch.name,
                key=key,
                only=only,
                found=found,
            )
    scaling = metadata.get("rope.scaling.type") or "linear"
    if scaling not in ("linear", "none"):
        raise ModelFileError(
            "pretrained.unsupported_rope_scaling",
            "its rotary positions must be plain, scaled linearly or those of Llama 3, got "
            "{scaling}; import the original checkpoint",
            scaling=str(scaling)[:40],
        )
    # older files have scale_linear; a factor of 0 is none
    factor = metadata.number("rope.scaling.factor", metadata.number("rope.scale_linear", 0)) or 1
    if scaling == "none":
        factor = 1
    has_table = arch.has_rope_table and ROPE_TABLE in file.tensors
    table = _scaled_rope(file, config) if has_table else {}
    if factor == 1:
        return table
    if table:
        raise ModelFileError(
            "pretrained.rope_scaled_twice",
            "its rotary positions must be scaled once, got the factor {factor:g} and "
            "{rope_table}; import the original checkpoint",
            factor=factor,
            rope_table=ROPE_TABLE,
        )
    return {"rope_scaling": {"rope_type": "linear", "factor": factor}}


def _own_settings(
    metadata: _Metadata, arch: GGUFArchitecture, config: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys that one architecture alone has."""
    layers = config["num_hidden_layers"]
    if arch.name == "exaone":  # the keys of the published code
        return {
            "num_layers": layers,
            "activation_function": "silu",
            "layer_norm_epsilon": config["rms_norm_eps"],
        }
    if arch.name == "exaone4":
        window = metadata.number("attention.sliding_window", 4096 if layers == LAYERS_32B else 0)
        return _windows(metadata, layers, window, period=4)
    if arch.name == "gemma3":
        width, heads = config["hidden_size"], config["num_attention_heads"]
        window = metadata.number("attention.sliding_window", 0)
        return {
            "hidden_activation": "gelu_pytorch_tanh",
            "query_pre_attn_scalar": gemma3_scale_width(layers, width, heads, config["head_dim"]),
            "rope_local_base_freq": metadata.number("rope.freq_base_swa", LOCAL_BASE),
            # llama.cpp reads 0 as none
            "final_logit_softcapping": metadata.number("final_logit_softcapping", 0.0) or None,
            **_windows(metadata, layers, window, period=6),
        }
    return {}


def _windows(metadata: _Metadata, layers: int, window: int, period: int) -> dict[str, Any]:
    """The layers with a window: all but each n-th, or those of a list; none if it is 0."""
    if not window:
        return {"sliding_window": None, "layer_types": ["full_attention"] * layers}
    pattern = metadata.get("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        if len(pattern) != layers:
            raise ModelFileError(
                "pretrained.gguf_window_pattern",
                "attention.sliding_window_pattern must name {layers} layers, got {n_pattern}; "
                "convert it again",
                layers=layers,
                n_pattern=len(pattern),
            )
        local = [bool(each) for each in pattern]
    else:
        period = metadata.number("attention.sliding_window_pattern", period)
        local = [period == 0 or (i + 1) % period > 0 for i in range(layers)]
    names = ["sliding_attention" if each else "full_attention" for each in local]
    return {"sliding_window": window, "layer_types": names}


def _scaled_rope(file: GGUFFile, config: Mapping[str, Any]) -> dict[str, Any]:
    """The `rope_scaling` of a file with a table of divisors."""
    d_head, shape = config["head_dim"], file.tensors[ROPE_TABLE].shape
    if shape != (d_head // 2,):
        raise ModelFileError(
            "pretrained.rope_table_shape",
            "{rope_table} must have the shape ({d_head},), got {shape}; import the original "
            "checkpoint",
            rope_table=ROPE_TABLE,
            d_head=d_head // 2,
            shape=shape,
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


def _tensors(
    file: GGUFFile, arch: GGUFArchitecture, config: Mapping[str, Any]
) -> dict[str, LazyTensor]:
    """The tensors under their names in transformers: F16 and BF16 as they are, else in float32."""
    found: dict[str, LazyTensor] = {}
    for name, tensor in file.tensors.items():
        if name == ROPE_TABLE and arch.has_rope_table:
            continue  # read by _scaled_rope
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in arch.names:
            raise ModelFileError(
                "pretrained.wrong_gguf_tensors",
                "its tensors must be those of {arch}, got {name!r}; import the original checkpoint",
                arch=arch.name,
                name=name[:80],
            )
        theirs = arch.names[match[2]]
        if match[1] is not None:
            theirs = f"{arch.body}.{arch.layers}.{match[1]}.{theirs}"
        elif theirs != "lm_head":
            theirs = f"{arch.body}.{theirs}"
        if arch.has_offset_norms and match[2].endswith("norm"):
            found[f"{theirs}.{match[3]}"] = _offset_norm(file, tensor)
        else:
            change = _change(arch, config, match[2], match[3])
            found[f"{theirs}.{match[3]}"] = _lazy(file, tensor, change)
    return found


def _lazy(file: GGUFFile, tensor: GGUFTensor, change: Change) -> LazyTensor:
    """A tensor of the file, changed to the layout of transformers when it is written."""
    dtype = {"F16": torch.float16, "BF16": torch.bfloat16}.get(tensor.type.name, torch.float32)
    shape = change(np.broadcast_to(np.float32(0), tensor.shape)).shape  # and its checks

    def read() -> torch.Tensor:
        changed = np.ascontiguousarray(change(file.read_stored(tensor.name)))
        return torch.from_numpy(changed).view(dtype)

    return LazyTensor(dtype, shape, read)


def _offset_norm(file: GGUFFile, tensor: GGUFTensor) -> LazyTensor:
    """The w of a norm that is stored as 1 + w, in float32."""
    return LazyTensor(
        torch.float32, tensor.shape, lambda: torch.from_numpy(file.read(tensor.name) - 1)
    )


def _change(arch: GGUFArchitecture, config: Mapping[str, Any], part: str, kind: str) -> Change:
    """What turns a stored tensor into that of transformers."""
    linear = part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down") and kind == "weight"
    if arch.has_transposed_maps and linear:
        return lambda weight: weight.T
    if arch.has_pairs and part in ("attn_q", "attn_k"):
        key = "num_attention_heads" if part == "attn_q" else "num_key_value_heads"
        return lambda weight: unpermute(weight, config[key])
    return lambda weight: weight


def unpermute(weight: Numbers, heads: int) -> Numbers:
    """Rows in which pairs are adjacent -> rows in halves, for each head.

    >>> unpermute(np.float32([[0], [2], [1], [3]]), 1).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    if heads < 1 or len(weight) % (2 * heads):
        raise ModelFileError(
            "pretrained.rows_not_of_heads",
            "the rows of queries and keys must be pairs for {heads} heads, got {n_weight}; "
            "download it again",
            heads=heads,
            n_weight=len(weight),
        )
    pairs = weight.reshape(heads, -1, 2, *weight.shape[1:])
    halves: Numbers = pairs.swapaxes(1, 2).reshape(weight.shape)
    return halves
