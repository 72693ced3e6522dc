"""Import Hugging Face checkpoints: the task, labels and decoding settings of a model."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Protocol, get_args

import torch
from torch import nn

from jumok import safetensors_io
from jumok.atomic_io import atomic_directory, check_empty, sha256_of, write_atomically
from jumok.config_io import to_dict
from jumok.decoding import DecodingConfig
from jumok.errors import InputError, located
from jumok.foreign_keys import print_not_read
from jumok.models import TransformerConfig
from jumok.models.config import Tying
from jumok.models.size import check_model_size
from jumok.models.weights import check_weights, named_weights, tied_weights
from jumok.pretrained.architecture import HFArchitecture, parse_config
from jumok.pretrained.checkpoint import HFCheckpoint, open_checkpoint
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.hub import commit_of, name_of, resolve
from jumok.pretrained.memory_map import release_pages
from jumok.pretrained.meta_init import (
    WeightType,
    assign_weights,
    build_with_weights,
    convert_weights,
)
from jumok.pretrained.sentence_encoding import (
    CONFIG,
    SentenceEncoding,
    is_cross_encoder,
    read_sentence_encoding,
    transformer_folder,
    write_sentence_encoding,
)
from jumok.pretrained.state_dict import PretrainedModel, model_from_hf
from jumok.registry import Registry
from jumok.safe_json import read_json
from jumok.safetensors_io import LazyTensor
from jumok.tasks.inputs.tokenizer_pair import (
    IMPORTED,
    TokenizerPair,
    load_imported,
    matches,
    read_hf_tokenizer,
    save_imported,
)
from jumok.tasks.pipeline.generation_rules import GENERATION_CONFIG, name_unread_keys
from jumok.tasks.pipeline.origin import Origin
from jumok.tasks.recipe.inherited_config import ORIGIN_FOLDER
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig, WindowConfig
from jumok.tasks.registry import get_task
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.run_files import FORMAT, files_disagree, other_vocabulary
from jumok.text.pretrained import PretrainedTokenizer
from jumok.training.config import TrainingConfig

UNUSED_TENSORS = "unused.safetensors"  # tensors of a checkpoint that its model does not use
SENTENCE_FOLDER = "sentence_transformers"  # modules.json and its modules, without the Transformer

GENERATING = ("encoder_decoder", "language_model")  # the heads of models that generate text
TASK_BY_HEAD: Mapping[str, str] = {
    "text_classifier": "classification",
    "token_classifier": "tagging",
    "masked_language_model": "masked_language_modeling",
    "replaced_token_detector": "masked_language_modeling",
    "encoder": "masked_language_modeling",
    "decoder": "language_modeling",
    "language_model": "language_modeling",
    "encoder_decoder": "sequence_to_sequence",
}


@dataclass(frozen=True)
class ImportedCheckpoint:
    """A Hugging Face checkpoint as a model with recipe and tokenizers: what `jumok.load` needs."""

    recipe: Recipe
    model: nn.Module
    labels: tuple[str, ...]
    tokenizers: TokenizerPair | None
    origin: Origin
    sentence_encoding: SentenceEncoding | None = None  # of sentence-transformers


class Converter(Protocol):
    """Writes checkpoints of another format as Hugging Face folders."""

    def accepts(self, path: Path) -> bool:
        """Whether a file or folder has this format."""

    def base(self, path: Path) -> str | None:
        """The name or folder of the checkpoint that it changes; None if it is a whole one."""

    def write(self, path: Path, base: Path | None, out: Path) -> None:
        """Write it, with the checkpoint in `base` that it changes, into an empty folder."""


CONVERTERS = Registry[Callable[[], Converter]](
    "jumok.importers",
    "format",
    {
        "gguf": "jumok.formats.gguf_checkpoint:GgufConverter",
        "peft": "jumok.formats.peft_adapter:AdapterConverter",
    },
)


def open_hf(folder: Path, dtype: WeightType = "float32") -> ImportedCheckpoint:
    """Open the checkpoint in a Hugging Face folder; its weights are memory-mapped.

    They become float32 unless `dtype` keeps their type. Raises InputError for unsupported files,
    StorageError for unreadable ones.
    """
    checkpoint = open_checkpoint(folder)
    found = _open_model(checkpoint)
    tokenizer = read_hf_tokenizer(folder, checkpoint.config, checkpoint.generation_config)
    origin = _origin_of(checkpoint, found)
    print_not_read(found.architecture.unread, folder / "config.json")
    if found.architecture.head.kind in GENERATING:
        path = folder / GENERATION_CONFIG
        name_unread_keys(path, origin.generation, is_seq2seq=origin.is_seq2seq)
    convert_weights(found.model, dtype)
    return _imported(found.architecture, found.model, tokenizer, origin, folder)


def open_imported(run: Run, dtype: WeightType = "float32") -> ImportedCheckpoint:
    """Open a checkpoint that `jumok import` has written.

    Except for [model] the settings in its recipe.toml apply. Raises InputError for files of
    different folders.
    """
    folder = run.folder / ORIGIN_FOLDER
    metadata = _read_metadata(folder)
    _check_checksums(folder, metadata)
    config = read_json(folder / "config.json")
    path = folder / "generation_config.json"
    generation = read_json(path) if path.is_file() else {}
    architecture = parse_config(config, list(metadata.names)).with_tying(metadata.tying)
    weights = run.read_weights()
    check_model_size(architecture.config, sum(tensor.numel() for tensor in weights.values()))
    model = build_with_weights(architecture.build, weights, dtype)
    tokenizer = load_imported(run.folder) if (run.folder / IMPORTED).is_dir() else None
    model_config = run.read_model_config()
    if tokenizer is not None and not matches(model_config, tokenizer):
        raise other_vocabulary(run.folder, IMPORTED)
    origin = _origin(folder, architecture, config, generation, metadata.names)
    imported = _imported(architecture, model, tokenizer, origin, run.folder)
    recipe = run.recipe()
    if (
        recipe.task != imported.recipe.task
        or recipe.model != imported.recipe.model
        or tuple(model_config["labels"]) != imported.labels
    ):
        raise files_disagree(run.folder)
    encoding = read_sentence_encoding(folder / SENTENCE_FOLDER)
    return replace(imported, recipe=recipe, sentence_encoding=encoding)


def converter_of(path: Path) -> Converter | None:
    """The converter of a file or folder of another format; None for any other path."""
    converters = (CONVERTERS.get(name)() for name in CONVERTERS.names())
    return next((each for each in converters if each.accepts(path)), None)


def import_checkpoint(path: Path, out: Path, base: str | None = None) -> ImportedCheckpoint:
    """Import a Hugging Face folder, or a checkpoint of another format, into the new folder `out`.

    Weights keep their dtype, the tokenizer its files; the pooling, the dense layers and the prompts
    of a folder of sentence-transformers are kept with it. `base` is the checkpoint that an adapter
    changes, by default the one that it names: a folder in its own, or a name on the Hub. Raises
    InputError when `out` is not empty and for another folder that an adapter names; a failed import
    leaves no files.
    """
    check_empty(out)
    converter = converter_of(path)
    named = None if converter is None else converter.base(path)
    if base is not None and named is None:
        raise InputError(
            "run.base_without_adapter",
            "--base is for LoRA adapters, got {path}, a checkpoint; remove it",
            path=path,
        )
    if converter is None:
        return _import_folder(path, out)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / ((path.name if path.is_dir() else path.stem) or "model")
        folder.mkdir()
        found = None if named is None else resolve(base) if base else _named_base(path, named)
        converter.write(path, found, folder)
        return _import_folder(folder, out)


def _named_base(adapter: Path, named: str) -> Path:
    """The checkpoint that an adapter names; the name is untrusted input.

    Raises InputError for a folder that is not in that of the adapter: its user names it.
    """
    inner = adapter / named
    if named and inner.is_dir() and inner.resolve().is_relative_to(adapter.resolve()):
        return inner
    if not named or inner.exists() or Path(named).exists():
        raise InputError(
            "run.base_of_adapter",
            "{adapter}: the checkpoint of an adapter must be a name on the Hub or a folder in that "
            "of the adapter, got {named!r}; name it with --base",
            adapter=adapter,
            named=named,
        )
    return resolve(named)


def _import_folder(folder: Path, out: Path) -> ImportedCheckpoint:
    encoding = read_sentence_encoding(folder)
    folder = transformer_folder(folder)
    checkpoint = open_checkpoint(folder)
    found = _open_model(checkpoint, release_pages)
    tokenizer = read_hf_tokenizer(folder, checkpoint.config, checkpoint.generation_config)
    origin = _origin_of(checkpoint, found)
    imported = _imported(found.architecture, found.model, tokenizer, origin, out)
    imported = replace(imported, sentence_encoding=encoding)
    with atomic_directory(out) as scratch:
        _write(Run(scratch), checkpoint, found, tokenizer, imported)
    return imported


def _write(
    run: Run,
    checkpoint: HFCheckpoint,
    found: PretrainedModel,
    tokenizer: PretrainedTokenizer | None,
    imported: ImportedCheckpoint,
) -> None:
    """Write the files of an imported run into its folder."""
    origin = run.folder / ORIGIN_FOLDER
    origin.mkdir()
    if tokenizer is not None:
        save_imported(tokenizer, run.folder)
    for name in ("config.json", "generation_config.json"):
        if (checkpoint.folder / name).is_file():
            write_atomically(origin / name, (checkpoint.folder / name).read_bytes())
    unused = safetensors_io.serialize(_copies(found.unused))
    write_atomically(origin / UNUSED_TENSORS, unused)
    if imported.sentence_encoding is not None:
        folder = origin / SENTENCE_FOLDER
        folder.mkdir()
        write_sentence_encoding(imported.sentence_encoding, folder, imported.recipe.model.d_model)
    elif is_cross_encoder(checkpoint.folder):  # for its export
        (origin / SENTENCE_FOLDER).mkdir()
        config = (checkpoint.folder / CONFIG).read_bytes()
        write_atomically(origin / SENTENCE_FOLDER / CONFIG, config)
    metadata = {
        "from": name_of(checkpoint.folder),
        "commit": commit_of(checkpoint.folder),
        "family": found.architecture.family.model_type,
        "architecture": found.architecture.class_name,
        "tying": found.architecture.config.tying,
        "names": dict(found.names),
        "sha256": {
            **checkpoint.checksums,
            UNUSED_TENSORS: hashlib.sha256(unused).hexdigest(),
            **_sentence_checksums(origin),
        },
    }
    run.write_json(origin / "origin.json", metadata)
    weights = {name: p.detach() for name, p in named_weights(found.model).items()}
    tied = json.dumps(tied_weights(found.model), sort_keys=True)
    digest = hashlib.sha256()

    def write(file: BinaryIO) -> None:
        for chunk in safetensors_io.iter_lazy_chunks(_one_by_one(weights), {"tied": tied}):
            digest.update(chunk)
            file.write(chunk)

    write_atomically(run.weights_path, write)
    checksums = imported.tokenizers.checksums if imported.tokenizers else {}
    run.write_json(
        run.config_path,
        {
            "format": FORMAT,
            "task": imported.recipe.task,
            "model": to_dict(imported.recipe.model),
            "labels": list(imported.labels),
            "weights_sha256": digest.hexdigest(),
            "vocabulary_sha256": checksums.get("vocabulary"),
            "vocabulary_identity_sha256": checksums.get("vocabulary_identity"),
        },
    )
    run.write_text(run.recipe_path, imported.recipe.to_toml())


@dataclass(frozen=True)
class ImportMetadata:
    """The contents of origin.json that are not in other files."""

    names: Mapping[str, str]  # of each tensor, in the table of the model family
    tying: Tying
    checksums: Mapping[str, str]  # SHA-256 of the original files, and of UNUSED_TENSORS


def _read_metadata(folder: Path) -> ImportMetadata:
    path = folder / "origin.json"
    metadata = read_json(path)
    names, tying = metadata.get("names"), metadata.get("tying")
    checksums = metadata.get("sha256")
    if not _are_texts(names) or not _are_texts(checksums) or tying not in get_args(Tying):
        raise InputError(
            "run.origin_not_as_written",
            "{path}: names, sha256 and tying must be as jumok import writes them; restore the "
            "file, or import the checkpoint again",
            path=path,
        )
    return ImportMetadata(names, tying, checksums)  # type: ignore[arg-type]  # they are


def _are_texts(table: object) -> bool:
    return isinstance(table, dict) and all(type(text) is str for text in table.values())


def _check_checksums(folder: Path, metadata: ImportMetadata) -> None:
    """Raise InputError for files whose checksums differ from those in origin.json."""
    expected = {n: each for n, each in metadata.checksums.items() if n.startswith(SENTENCE_FOLDER)}
    names = ("config.json", "generation_config.json", UNUSED_TENSORS)
    damaged = [
        name
        for name in names
        if name in metadata.checksums and sha256_of(folder / name) != metadata.checksums[name]
    ]
    if _sentence_checksums(folder) != expected:  # without a file, the vectors would be others
        damaged.append(SENTENCE_FOLDER)
    if damaged:
        raise InputError(
            "run.origin_damaged",
            "{folder} is damaged or of another checkpoint than origin.json; restore the "
            "run's own files, or import the checkpoint again",
            folder=folder / damaged[0],
        )


def _sentence_checksums(origin: Path) -> dict[str, str]:
    """The SHA-256 of the files of sentence-transformers in an imported run, by relative path."""
    files = [path for path in (origin / SENTENCE_FOLDER).rglob("*") if not path.is_dir()]
    return {path.relative_to(origin).as_posix(): sha256_of(path) for path in sorted(files)}


def open_original(folder: Path) -> tuple[PretrainedModel, Path]:
    """The original checkpoint, every tensor in its own dtype, and the folder of its JSON files.

    `folder` is that of an `Origin`: a Hugging Face folder, or the one inside an imported run.
    """
    if not (folder / "origin.json").is_file():
        return _open_model(open_checkpoint(folder)), folder
    metadata = _read_metadata(folder)
    _check_checksums(folder, metadata)
    architecture = parse_config(read_json(folder / "config.json"), list(metadata.names))
    architecture = architecture.with_tying(metadata.tying)
    model = architecture.build_on_meta()
    weights = Run(folder.parent).read_weights()
    check_weights(model, weights)
    assign_weights(model, weights)
    unused = safetensors_io.read_tensors(folder / UNUSED_TENSORS)
    return PretrainedModel(architecture, model, metadata.names, unused), folder


def _open_model(
    checkpoint: HFCheckpoint, on_checked: Callable[[torch.Tensor], None] = lambda tensor: None
) -> PretrainedModel:
    with located(checkpoint.folder):
        return model_from_hf(checkpoint.config, checkpoint.tensors, on_checked)


def _origin_of(checkpoint: HFCheckpoint, found: PretrainedModel) -> Origin:
    return _origin(
        checkpoint.folder,
        found.architecture,
        checkpoint.config,
        checkpoint.generation_config,
        found.names,
    )


def _origin(
    folder: Path,
    architecture: HFArchitecture,
    config: Mapping[str, Any],
    generation: Mapping[str, Any],
    names: Mapping[str, str],
) -> Origin:
    return Origin(
        folder,
        architecture.class_name,
        config,
        generation or _legacy_generation_config(config),
        names,
        has_text_head=architecture.head.has_task,
        is_seq2seq=architecture.head.kind == "encoder_decoder",
    )


def _legacy_generation_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The generation settings that older folders have in config.json."""
    keys = ("forced_bos_token_id", "forced_eos_token_id", "bad_words_ids", "suppress_tokens",
            "eos_token_id", "num_beams", "length_penalty", "early_stopping", "max_length",
            "min_length", "repetition_penalty", "no_repeat_ngram_size")  # fmt: skip
    return {key: config[key] for key in keys if config.get(key) is not None}


def _imported(
    architecture: HFArchitecture,
    model: nn.Module,
    tokenizer: PretrainedTokenizer | None,
    origin: Origin,
    folder: Path,
) -> ImportedCheckpoint:
    tokenizers = None if tokenizer is None else TokenizerPair.from_pretrained(tokenizer)
    task = TASK_BY_HEAD[architecture.head.kind]
    task = get_task(task).imported_as(origin, architecture.labels) or task
    generates = architecture.head.kind in GENERATING
    joint = tokenizers is None or tokenizers.joint
    recipe = Recipe(
        name=_name(folder),
        task=task,
        training=TrainingConfig(epochs=1.0),
        model=_model_config(architecture),
        decoding=_decoding(origin.generation, architecture) if generates else DecodingConfig(),
        windows=WindowConfig(across_documents=not get_task(task).reads_source),
    )
    if not joint:
        recipe = replace(recipe, vocabulary=replace(recipe.vocabulary, joint=False))
    labels = get_task(task).imported_labels(architecture.labels)
    return ImportedCheckpoint(recipe, model, labels, tokenizers, origin)


def _model_config(architecture: HFArchitecture) -> ModelConfig:
    kinds = {
        "encoder_decoder": "encoder_decoder",
        "decoder": "decoder",
        "language_model": "decoder",
    }
    config = replace(architecture.config, tie_embeddings=architecture.config.tying)
    fields = {name: getattr(config, name) for name in TransformerConfig.__dataclass_fields__}
    return ModelConfig(
        **fields,
        kind=kinds.get(architecture.head.kind, "encoder"),  # type: ignore[arg-type]
        pooling=architecture.head.pooling,
        pooler=architecture.head.pooler,
    )


def _decoding(generation: Mapping[str, Any], architecture: HFArchitecture) -> DecodingConfig:
    """The settings of a generation_config.json, except for sampling, as a [decoding] table."""
    config = ConfigReader(generation)
    n_start = int(architecture.head.kind == "encoder_decoder")  # lengths include the start token
    max_length = max(config.non_negative_int("max_length", 257), 2) - 1
    max_length = config.non_negative_int("max_new_tokens", max_length)
    max_length = min(max_length, architecture.config.max_length)
    min_length = (config.non_negative_int("min_length", 0) - 1) * n_start
    min_length = max(config.non_negative_int("min_new_tokens", 0), min_length)
    beam = config.positive_int("num_beams", 1, maximum=1_000)
    early = generation.get("early_stopping")
    return DecodingConfig(
        beam=beam,
        length_penalty=config.number("length_penalty", 1.0) if beam > 1 else 1.0,
        early_stopping=beam > 1 and ("never" if early == "never" else early is True),
        no_repeat_ngram=config.non_negative_int("no_repeat_ngram_size", 0),
        repetition_penalty=config.number("repetition_penalty", 1.0),
        min_length=min(max(min_length, 0), max_length),
        max_length=max_length,
    )


def _name(folder: Path) -> str:
    """The name of a folder as a valid recipe name."""
    return re.sub(r"[^\w.-]+", "-", folder.resolve().name).strip(".-") or "imported"


def _one_by_one(tensors: Mapping[str, torch.Tensor]) -> dict[str, LazyTensor]:
    """The tensors to write: a mapped one is in memory, or copied if transposed, until the next."""
    written: list[torch.Tensor] = []

    def read(tensor: torch.Tensor) -> torch.Tensor:
        for before in written:
            release_pages(before)
        written[:] = [tensor]
        return tensor.contiguous()

    return {
        name: LazyTensor(tensor.dtype, tuple(tensor.shape), partial(read, tensor))
        for name, tensor in tensors.items()
    }


def _copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies of tensors that share no memory with each other."""
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
