"""A finished run opened without torch: config, weights as arrays, tokenizer and labels.

Everything that `jumok.load` checks about these files is checked here as well, by the same functions
(`jumok.tasks.runs.run_files`).
"""

import math
import mmap
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from jumok.atomic_io import check_path_name, open_regular
from jumok.config_io import ConfigDict, from_dict, read_toml
from jumok.decoding.config import DecodingConfig
from jumok.engine.tasks import TASKS, EngineTask
from jumok.engine.token_vectors import unsupported_token_vectors
from jumok.errors import InputError, Message
from jumok.models.config import MAX_TABLE_POSITIONS
from jumok.models.int8_weights import SUFFIX, Kinds, dequantize_rows, scaled_names
from jumok.models.size import check_model_size
from jumok.models.weight_shapes import check_shapes
from jumok.native.layout import (
    Array,
    GeneratorKind,
    Shapes,
    decoder_layers,
    encoder_shapes,
    generator_shapes,
    tied_names,
    unsupported_encoder,
    unsupported_generator,
)
from jumok.native.session import Head
from jumok.safetensors_io import TensorEntry, dtype_name, read_header
from jumok.shipped import resolve_model
from jumok.tasks.recipe.tables import (
    ModelConfig,
    MultiLabelConfig,
    RegressionConfig,
    WindowConfig,
)
from jumok.tasks.runs.int8_loss import measured_precision
from jumok.tasks.runs.run_files import (
    RECIPE,
    WEIGHTS,
    check_is_run,
    check_weights_file,
    files_disagree,
    load_vocabularies,
    read_run_config,
    trained_labels,
)
from jumok.text.tokenizer import Tokenizer

GENERATORS: dict[str, GeneratorKind] = {  # the kind of model of a task that generates text
    "sequence_to_sequence": "encoder_decoder",
    "language_modeling": "decoder",
}
TABLE = ".embedding.tokens.weight"
_FOREIGN = ("origin", "extensions.json")  # an imported checkpoint, parts of other distributions
_CHECKPOINT = ("config.json", "modules.json")  # of another library, where there is no recipe
_DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I8": np.int8}


class UnsupportedError(InputError):
    """The engine does not compute this model; `jumok.load` may."""


@dataclass(frozen=True)
class OpenedRun:
    """What every finished run has."""

    task: str
    config: ModelConfig
    tokenizer: Tokenizer
    arrays: dict[str, Array]  # views of the mapped file
    weights_sha256: str
    corpus: str  # that it was trained on, "" for files
    labels: tuple[str, ...]
    paired: bool  # whether a row holds two texts
    mapping: mmap.mmap | None  # of the file; None where the kernel has all weights

    def release_pages(self) -> None:
        """Free the memory of the mapped weights; what is used again is read from the file."""
        if self.mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapping.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class EncoderRun(OpenedRun):
    """A run of a task with one output per text, or pair of texts."""

    head: Head
    regression: RegressionConfig
    threshold: float  # of several labels
    precision: Literal["float32", "int8"]  # int8 where its loss was measured

    @property
    def kind(self) -> EngineTask:
        """What the engine asks of the task."""
        return TASKS[self.task]

    @property
    def reads_pairs(self) -> bool:
        """Whether the model reads both texts of a pair in one row."""
        return self.paired and not self.kind.compares_vectors


@dataclass(frozen=True)
class GeneratorRun(OpenedRun):
    """A run of a task that generates text: for each source, or after each text."""

    kind: GeneratorKind
    target_tokenizer: Tokenizer  # of the outputs, usually the same
    decoding: DecodingConfig
    translates: bool  # sentences, which it reads one by one
    across_documents: bool  # whether a text begins without [BOS]


def open_run(name: str | Path) -> EncoderRun | GeneratorRun:
    """Open a run, or a model that ships with jumok, and map its weights.

    Raises UnsupportedError for what only `jumok.load` opens, and its InputError for what both
    reject.
    """
    folder = resolve_model(os.path.expanduser(str(name)))
    check_path_name(folder)
    _check_is_own(folder)
    stored, recipe = read_run_config(folder), read_toml(folder / RECIPE)
    config = _config(folder, stored, recipe)
    labels = trained_labels(folder, stored)
    tokenizer, target_tokenizer = _tokenizers(folder, stored, recipe, config)
    check_weights_file(folder, stored)
    task: str = stored["task"]
    kind = GENERATORS.get(task)
    data = _table(recipe, "data")
    if kind is None:
        head, shapes = _head(TASKS[task], config, len(labels))
        _check_weights(folder, config, config.n_layers, lambda: encoder_shapes(config) | shapes)
        unsupported = None if config.n_layers else unsupported_token_vectors(config, head)
        if unsupported is not None:
            raise UnsupportedError(unsupported)
    else:
        n_layers = max(config.n_layers, decoder_layers(config))
        _check_weights(folder, config, n_layers, lambda: generator_shapes(config, kind))
    arrays, mapping = map_arrays(folder / WEIGHTS)
    corpus = str(data.get("corpus", ""))
    paired = kind is None and _is_paired(data)
    sha256 = stored["weights_sha256"]
    opened = (task, config, tokenizer, arrays, sha256, corpus, labels, paired, mapping)
    if kind is None:
        return EncoderRun(
            *opened,
            head=head,
            regression=from_dict(RegressionConfig, _table(recipe, "regression"), "regression"),
            threshold=from_dict(
                MultiLabelConfig, _table(recipe, "multi_label"), "multi_label"
            ).threshold,
            precision=measured_precision(folder / WEIGHTS, sha256),
        )
    for name, first in tied_names(config, kind).items():
        arrays |= {name + end: arrays[first + end] for end in ("", SUFFIX) if first + end in arrays}
    return GeneratorRun(
        *opened,
        kind=kind,
        target_tokenizer=target_tokenizer or tokenizer,
        decoding=from_dict(DecodingConfig, _table(recipe, "decoding"), "decoding"),
        translates=bool(corpus or data.get("target_language")),
        across_documents=from_dict(
            WindowConfig, _table(recipe, "windows"), "windows"
        ).across_documents,
    )


def _check_weights(
    folder: Path, config: ModelConfig, n_layers: int, shapes: Callable[[], Shapes]
) -> None:
    """Raise InputError for weights of another model than that of the config."""
    entries = read_header(folder / WEIGHTS)
    scaled = scaled_names(_kinds(entries))
    for name in scaled:
        del entries[name + SUFFIX]
    # A config of a few bytes may claim a billion layers, or positions.
    check_model_size(config, sum(math.prod(entry.shape) for entry in entries.values()))
    if n_layers > len(entries) or config.position_offset > MAX_TABLE_POSITIONS:
        raise _unsupported("weights that do not fit the model")
    check_shapes(
        shapes(),
        {name: entry.shape for name, entry in entries.items()},
        {
            name: dtype
            for name, entry in entries.items()
            if name not in scaled and "float" not in (dtype := dtype_name(entry.dtype))
        },
    )


def map_arrays(path: Path) -> tuple[dict[str, Array], mmap.mmap]:
    """The tensors of a safetensors file as read-only views of the mapped file; bfloat16 as uint16.

    A table of tokens in int8 is such a view as well, and so are the scales of its rows; other
    matrices of int8 are copies in float32. Raises InputError for an invalid file, UnsupportedError
    for other types than floats.
    """
    entries = read_header(path)
    with open_regular(path) as (file, _):
        first = 8 + int.from_bytes(file.read(8), "little")
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    data = np.frombuffer(mapping, np.uint8)[first:]
    arrays: dict[str, Array] = {}
    for name, entry in entries.items():
        if entry.dtype not in _DTYPES:
            raise _unsupported(f"weights of type {entry.dtype}")
        array: Array = data[entry.start : entry.end].view(_DTYPES[entry.dtype])
        arrays[name] = np.require(array.reshape(entry.shape), requirements="A")
    for name in scaled_names(_kinds(entries)):
        if not name.endswith(TABLE):
            arrays[name] = dequantize_rows(arrays[name], arrays.pop(name + SUFFIX))
    return arrays, mapping


def _kinds(entries: Mapping[str, TensorEntry]) -> Kinds:
    return {name: (entry.dtype, entry.shape) for name, entry in entries.items()}


def _check_is_own(folder: Path) -> None:
    """Raise UnsupportedError for what only `jumok.load` opens, InputError for what is not a run."""
    has_recipe, here = os.path.lexists(folder / RECIPE), folder.absolute()
    if not has_recipe and here.parent.name == "checkpoints" and here.name.startswith("step-"):
        raise _unsupported("a checkpoint of a run")
    foreign = _FOREIGN if has_recipe else _CHECKPOINT
    if any((folder / name).exists() for name in foreign):
        raise _unsupported("a model of another library, or with parts of one")
    check_is_run(folder)


def _config(folder: Path, stored: ConfigDict, recipe: ConfigDict) -> ModelConfig:
    """The config of the model, which config.json and recipe.toml must agree about."""
    if stored.get("task") != recipe.get("task"):
        raise files_disagree(folder)
    task = stored.get("task")
    if task not in TASKS and task not in GENERATORS:
        raise _unsupported(f"the task {task}")
    config = from_dict(ModelConfig, stored["model"], "model")
    described = from_dict(ModelConfig, _table(recipe, "model"), "model")
    default = ModelConfig().vocabulary_size
    if described.vocabulary_size not in (default, config.vocabulary_size) or config != replace(
        described,
        vocabulary_size=config.vocabulary_size,
        target_vocabulary_size=config.target_vocabulary_size,
    ):
        raise files_disagree(folder)
    kind = GENERATORS.get(stored["task"])
    reason = unsupported_encoder(config) if kind is None else unsupported_generator(config, kind)
    if reason is not None:
        raise UnsupportedError(reason)
    if config.kind != (kind or "encoder"):
        raise _unsupported(f"a model of kind {config.kind} for the task {stored['task']}")
    return config


def _table(recipe: ConfigDict, name: str) -> ConfigDict:
    """A table of a recipe, empty where it is missing."""
    table = recipe.get(name, {})
    if not isinstance(table, dict):
        raise _unsupported(f"a recipe where {name} must be a table")
    return table


def _is_paired(data: ConfigDict) -> bool:
    """Whether a row of the data holds two texts."""
    if data.get("pair") or not data.get("corpus"):
        return bool(data.get("pair"))
    from jumok.data.corpora.registry import corpus_by_name  # an encoder of files needs none

    return "pair" in corpus_by_name(str(data["corpus"])).columns


def _tokenizers(
    folder: Path, stored: ConfigDict, recipe: ConfigDict, config: ModelConfig
) -> tuple[Tokenizer, Tokenizer | None]:
    """The tokenizer of a run and, with two vocabularies, that of the targets."""
    joint = _table(recipe, "vocabulary").get("joint", True)
    if not joint and stored["task"] != "sequence_to_sequence":
        raise _unsupported("two vocabularies")
    tokenizer, target = load_vocabularies(folder, stored, joint=bool(joint))
    if tokenizer is None or (target is None) == (not joint):
        raise _unsupported("a model without a vocabulary")
    for each, size in (
        (tokenizer, config.vocabulary_size),
        (target, config.target_vocabulary_size),
    ):
        if (None if each is None else each.n_embeddings) != size:
            raise files_disagree(folder)
        if each is not None and len(each) > (size or 0):
            raise _unsupported("a vocabulary that does not fit the model")
    return tokenizer, target


def _head(
    task: EngineTask, config: ModelConfig, n_labels: int
) -> tuple[Head, dict[str, tuple[int, ...]]]:
    """The head of a task's model, and the shapes of its weights."""
    if task.compares_vectors:
        if config.pooling == "compare":
            raise _unsupported("vectors with this pooling")
        return Head(config.pooling, normalize=True), {}
    outputs, D = 1 if task.one_output else n_labels, config.d_model
    compares = config.pooling == "compare"
    width = 4 * D if compares else D
    shapes: dict[str, tuple[int, ...]] = {
        "output.weight": (outputs, width),
        "output.bias": (outputs,),
    }
    if compares:
        shapes["similarity.weight"] = (outputs, 3)
    if config.head_transform and not compares:
        shapes["pooler.0.weight"] = (width, width)
        biases = ["pooler.0.bias"] * config.head_bias
        biases += ["pooler.2.bias"] * (config.norm == "layer")
        shapes |= dict.fromkeys(["pooler.2.weight", *biases], (width,))
        pooler, activation, norm = "pooler.0", config.head_activation, "pooler.2"
        return Head(config.pooling, "output", pooler, activation, norm=norm), shapes
    if config.pooler == "none":
        return Head(config.pooling, "output"), shapes
    shapes |= {"pooler.0.weight": (width, width), "pooler.0.bias": (width,)}
    return Head(config.pooling, "output", "pooler.0", config.pooler), shapes


def _unsupported(what: Any) -> UnsupportedError:
    return UnsupportedError(
        Message(
            "engine.unsupported",
            "the engine does not open {what}; use jumok.load",
            what=what,
        )
    )
