"""How a folder of sentence-transformers makes vectors of texts: pooling, dense layers, prompts.

modules.json lists the modules in order: Transformer, Pooling, then Dense and Normalize. Their types
are import paths; the class names of a closed list are accepted and nothing is imported. Before
version 2.0 of sentence-transformers, the Transformer is in a folder of its own, 0_Transformer.
The folder of a CrossEncoder (version 6) lists one Transformer, a classifier: it has no vectors.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from jumok.atomic_io import read_regular, write_atomically
from jumok.errors import Message, ModelFileError, located
from jumok.foreign_keys import KeyTable
from jumok.models.config import SentencePooling
from jumok.safe_json import MAX_BYTES, parse_json_value, read_json
from jumok.safetensors_io import read_tensors, serialize
from jumok.text.prompts import find_prompt

MODULES = "modules.json"
TRANSFORMER = "sentence_bert_config.json"
CONFIG = "config_sentence_transformers.json"
CROSS_ENCODER = "CrossEncoder"  # the model_type of a classifier of pairs
_POOLINGS: Mapping[str, SentencePooling] = {
    "cls": "first",
    "mean": "mean",
    "max": "max",
    "lasttoken": "last",
}
_FORMER_KEYS = {  # before version 5.7
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
_ACTIVATIONS = {
    "Identity": nn.Identity,
    "Tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "SiLU": nn.SiLU,
    "Sigmoid": nn.Sigmoid,
}


_ADVICE = Message("pretrained.model_not_supported", "such a model is not supported")
_OWN_INPUT = ("sentence_embedding",)
_LOADING: Mapping[str, tuple[object, ...]] = {  # options of the loading, such as a dtype
    "model_args": ({},),
    "tokenizer_args": ({},),
    "config_args": ({},),
    "model_kwargs": ({},),
    "processor_kwargs": ({},),
    "config_kwargs": ({},),
    "tokenizer_name_or_path": ({},),
}
KEYS = {  # by file; folders of modules by their kind
    MODULES: KeyTable(read={"path", "type"}, without_effect={"idx", "name"}),
    TRANSFORMER: KeyTable(
        read={"max_seq_length", "do_lower_case"},
        without_effect={"unpad_inputs"},  # speed
        refused={  # other inputs or outputs than the tokens of a text
            "transformer_task": ("feature-extraction",),
            "module_output_name": ("token_embeddings",),
            "modality_config": (
                {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
            ),
            "processing_kwargs": ({},),
        },
        named=_LOADING,
    ),
    CONFIG: KeyTable(
        read={"prompts", "default_prompt_name"},
        without_effect={"__version__"},
        refused={
            "model_type": ("SentenceTransformer",),  # others: sparse or several vectors
            "truncate_dim": (),  # shorter vectors
        },
        named={"similarity_fn_name": ("cosine",)},  # the vectors are the same
    ),
    "Pooling": KeyTable(
        read={"pooling_mode", "include_prompt", *_FORMER_KEYS},
        without_effect={"word_embedding_dimension", "embedding_dimension"},  # of the weights
    ),
    "Dense": KeyTable(
        read={"activation_function", "use_residual", "module_input_name", "module_output_name"},
        without_effect={"in_features", "out_features", "bias"},  # of the weights
    ),
    "Normalize": KeyTable(
        refused={"module_input_name": _OWN_INPUT, "module_output_name": _OWN_INPUT}
    ),
}
CROSS_ENCODER_TASK = {  # of a Transformer that is a classifier
    "transformer_task": "sequence-classification",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "module_output_name": "scores",
}
CROSS_ENCODER_KEYS = {
    TRANSFORMER: KeyTable(
        without_effect={"unpad_inputs"},
        refused={
            **{key: (value,) for key, value in CROSS_ENCODER_TASK.items()},
            "processing_kwargs": ({},),
        },
        named=_LOADING,
    ),
    CONFIG: KeyTable(
        read={"activation_fn"},  # by the export: predictions are the outputs before it
        without_effect={"__version__", "keep_in_fp32_modules"},
        refused={"model_type": (CROSS_ENCODER,), "default_prompt_name": ()},
        named={"prompts": ({},)},
    ),
}


@dataclass(frozen=True)
class DenseLayer:
    """activation(x W^T + b): (B, D) -> (B, E)."""

    weight: Tensor  # (E, D)
    bias: Tensor | None  # (E,)
    activation: nn.Module

    @property
    def tensors(self) -> list[Tensor]:
        """The weight, and the bias if there is one."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def __call__(self, x: Tensor) -> Tensor:
        """The layer's output."""
        bias = None if self.bias is None else self.bias.to(x)
        return self.activation(F.linear(x, self.weight.to(x), bias))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Normalize:
    """Each vector divided by its length."""

    def __call__(self, x: Tensor) -> Tensor:
        """The vectors of length 1."""
        return F.normalize(x, dim=-1)


@dataclass(frozen=True)
class SentenceEncoding:
    """The pooling and what follows it, and what precedes the tokenizer."""

    pooling: SentencePooling = "mean"
    steps: tuple[DenseLayer | Normalize, ...] = ()
    max_length: int | None = None  # tokens; None: the model's
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""  # a name in `prompts`

    def describe(self) -> str:
        """All of it as a line of text, dense layers by their checksums."""
        steps = [
            "normalize"
            if isinstance(step, Normalize)
            else f"{step.activation} {[sha256(t.numpy().tobytes()).digest() for t in step.tensors]}"
            for step in self.steps
        ]
        rest = (self.pooling, self.max_length, self.lower_case, dict(self.prompts))
        return f"{steps} {rest} {self.default_prompt}"

    def width(self, d_model: int) -> int:
        """The numbers of a vector, from hidden states of this width."""
        dense = [step for step in self.steps if isinstance(step, DenseLayer)]
        return len(dense[-1].weight) if dense else d_model

    def prompt(self, name: str) -> str:
        """The text before every text: that of this name, or the default prompt.

        >>> SentenceEncoding(prompts={"query": "query: "}).prompt("query")
        'query: '
        """
        return find_prompt(self.prompts, name, self.default_prompt)


def read_sentence_encoding(folder: Path) -> SentenceEncoding | None:
    """The encoding of a folder of sentence-transformers; None for a CrossEncoder or another folder.

    Raises InputError for a module, a pooling or an activation that is not supported.
    """
    if not (folder / MODULES).exists():
        return None
    kinds, paths = _read_modules(folder)
    if len(kinds) == 1:
        for name, keys in CROSS_ENCODER_KEYS.items():
            path = folder / name
            keys.check(read_json(path) if path.exists() else {}, path, _ADVICE)
        return None
    steps = [
        _normalize(path) if kind == "Normalize" else _dense(path)
        for kind, path in zip(kinds[2:], paths[2:], strict=True)
    ]
    transformer = _read_config(paths[0] / TRANSFORMER)
    prompts = _read_config(folder / CONFIG)
    length = transformer.get("max_seq_length")
    named = prompts.get("prompts") or {}
    return SentenceEncoding(
        _pooling(paths[1] / "config.json"),
        tuple(steps),
        length if isinstance(length, int) and length > 0 else None,
        transformer.get("do_lower_case") is True,
        {str(name): str(text) for name, text in named.items()} if isinstance(named, dict) else {},
        str(prompts.get("default_prompt_name") or ""),
    )


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder of sentence-transformers has scores of pairs."""
    path = folder / CONFIG
    return path.is_file() and read_json(path).get("model_type") == CROSS_ENCODER


def transformer_folder(folder: Path) -> Path:
    """The folder of the Transformer: `folder`, or in it that of a model from before version 2.0.

    Raises InputError for modules that are not supported.
    """
    return _read_modules(folder)[1][0] if (folder / MODULES).is_file() else folder


def _read_modules(folder: Path) -> tuple[list[str], list[Path]]:
    """The kind and the folder of each module."""
    entries = _read_list(folder / MODULES)
    for entry in entries:
        KEYS[MODULES].check(entry, folder / MODULES, _ADVICE)
    kinds = [str(entry.get("type", "")).rpartition(".")[2] for entry in entries]
    paths = [_subfolder(folder, str(entry.get("path", ""))) for entry in entries]
    pooled = kinds[:2] == ["Transformer", "Pooling"] and {*kinds[2:]} <= {"Dense", "Normalize"}
    if not pooled and not (kinds == ["Transformer"] and is_cross_encoder(folder)):
        raise ModelFileError(
            "pretrained.unsupported_modules",
            "{folder}: the modules must be Transformer, Pooling and then Dense or Normalize, got "
            "{kinds}; such a model is not supported",
            folder=folder / MODULES,
            kinds=", ".join(kinds)[:200],
        )
    return kinds, paths


def write_sentence_encoding(encoding: SentenceEncoding, folder: Path, width: int) -> None:
    """Write modules.json, and the files of its modules, for a transformer of this width.

    The folder is then one of sentence-transformers; `read_sentence_encoding` reads it back.
    """
    modules: list[tuple[str, str]] = [("Transformer", ""), ("Pooling", "1_Pooling")]
    pooling = {key: _POOLINGS.get(mode) == encoding.pooling for key, mode in _FORMER_KEYS.items()}
    _write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": width, **pooling})
    for index, step in enumerate(encoding.steps, 2):
        kind = "Normalize" if isinstance(step, Normalize) else "Dense"
        modules.append((kind, f"{index}_{kind}"))
        if isinstance(step, DenseLayer):
            _write_dense(step, folder / modules[-1][1])
    transformer = {"max_seq_length": encoding.max_length, "do_lower_case": encoding.lower_case}
    _write_json(folder / TRANSFORMER, transformer)
    prompts = {
        "prompts": dict(encoding.prompts),
        "default_prompt_name": encoding.default_prompt or None,
        "similarity_fn_name": "cosine",
    }
    _write_json(folder / CONFIG, prompts)
    _write_modules(folder, modules)


def write_cross_encoder(folder: Path, activation: str) -> None:
    """Write modules.json and the files that make a classifier of transformers a CrossEncoder.

    `activation` is the import path of the module that its `predict` applies to the outputs.
    """
    _write_json(folder / TRANSFORMER, CROSS_ENCODER_TASK)
    _write_json(folder / CONFIG, {"model_type": CROSS_ENCODER, "activation_fn": activation})
    _write_modules(folder, [("Transformer", "")])


def _write_modules(folder: Path, modules: Sequence[tuple[str, str]]) -> None:
    """Write the kind and the folder of each module."""
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(modules)
    ]
    _write_json(folder / MODULES, listed)


def _write_dense(step: DenseLayer, folder: Path) -> None:
    outputs, inputs = step.weight.shape
    activation = type(step.activation)
    config = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": step.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    }
    _write_json(folder / "config.json", config)
    tensors = {"linear.weight": step.weight}
    if step.bias is not None:
        tensors["linear.bias"] = step.bias
    write_atomically(folder / "model.safetensors", serialize(tensors, {"format": "pt"}))


def _write_json(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode())


def _normalize(folder: Path) -> Normalize:
    path = folder / "config.json"
    KEYS["Normalize"].check(read_json(path) if path.exists() else {}, path, _ADVICE)
    return Normalize()


def _pooling(path: Path) -> SentencePooling:
    config = read_json(path)
    KEYS["Pooling"].check(config, path, _ADVICE)
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for key, mode in _FORMER_KEYS.items() if config.get(key) is True]
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or str(modes[0]) not in _POOLINGS:
        raise ModelFileError(
            "pretrained.unknown_pooling",
            "{path}: the pooling must be one of {poolings}, got {modes}; such a model is not "
            "supported",
            path=path,
            poolings=", ".join(_POOLINGS),
            modes=str(modes)[:80],
        )
    if config.get("include_prompt") is False:
        raise ModelFileError(
            "pretrained.prompt_not_pooled",
            "{path}: include_prompt must be true; such a model is not supported",
            path=path,
        )
    return _POOLINGS[str(modes[0])]


def _dense(folder: Path) -> DenseLayer:
    path = folder / "config.json"
    config = read_json(path)
    KEYS["Dense"].check(config, path, _ADVICE)
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = _ACTIVATIONS.get(name.rpartition(".")[2])
    inputs = [config.get(key) for key in ("module_input_name", "module_output_name")]
    own_input = all(name in (None, "sentence_embedding") for name in inputs)
    if activation is None or config.get("use_residual") or not own_input:
        raise ModelFileError(
            "pretrained.unsupported_dense_module",
            "{path}: a Dense module must have one of the activations {activations}, no residual, "
            "and the sentence embedding as input, got {name}; such a model is not supported",
            path=path,
            activations=", ".join(_ACTIVATIONS),
            name=name[:80],
        )
    tensors = read_weights(folder / "model.safetensors", folder / "pytorch_model.bin")
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias")
    if weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise ModelFileError(
            "pretrained.dense_without_weight",
            "{folder}: must hold the tensor linear.weight and a bias that fits it",
            folder=folder,
        )
    return DenseLayer(weight, bias, activation())


def read_weights(path: Path, pickle: Path) -> dict[str, Tensor]:
    """The tensors of a module; older models have a pickle, which is not executed."""
    if pickle.exists() and not path.exists():
        from jumok.pretrained.pickle_reader import read_pickle  # with its process: rarely needed

        return read_pickle(pickle)
    return read_tensors(path)


def _read_list(path: Path) -> list[dict[str, Any]]:
    """A JSON list of objects, which `read_json` does not accept."""
    with located(path):
        listed = parse_json_value(read_regular(path, MAX_BYTES))
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise ModelFileError(
            "pretrained.modules_not_a_list",
            "{path}: must be a list of modules; restore the file",
            path=path,
        )
    return listed


def _read_config(path: Path) -> dict[str, Any]:
    """The content of a file that may be missing, whose keys are checked."""
    content = read_json(path) if path.exists() else {}
    KEYS[path.name].check(content, path, _ADVICE)
    return content


def _subfolder(folder: Path, name: str) -> Path:
    """A folder directly below `folder`, or itself; never one elsewhere."""
    if name in ("", "."):
        return folder
    if Path(name).name != name or name == "..":
        raise ModelFileError(
            "pretrained.module_path",
            "{folder}: a path must be a folder's name, got {name!r}",
            folder=folder / MODULES,
            name=name[:80],
        )
    return folder / name
