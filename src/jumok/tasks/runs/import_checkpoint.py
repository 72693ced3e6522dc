"""Somebody else's checkpoint as a model that answers: which task it is, and how it writes."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import atomic_directory, check_empty, sha256_of, write_atomically
from jumok.config_io import to_dict
from jumok.decoding import DecodingConfig
from jumok.decoding.config import EarlyStopping
from jumok.errors import InputError
from jumok.models import TransformerConfig
from jumok.models.config import Tying
from jumok.models.weights import load_weights, named_weights, tied_weights
from jumok.pretrained.architecture import HFArchitecture, parse_config
from jumok.pretrained.checkpoint import HFCheckpoint, open_checkpoint
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.hub import commit_of, name_of
from jumok.pretrained.meta_init import assign_weights
from jumok.pretrained.state_dict import PretrainedModel, check_model_size, model_from_hf
from jumok.safe_json import read_json
from jumok.tasks.inputs.tokenizer_pair import (
    IMPORTED,
    TokenizerPair,
    load_imported,
    matches,
    read_hf_tokenizer,
    save_imported,
)
from jumok.tasks.pipeline.origin import Origin
from jumok.tasks.recipe.inherited_config import ORIGIN_FOLDER
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig, WindowConfig
from jumok.tasks.recipe.task_spec import TaskName
from jumok.tasks.runs.run import FORMAT, Run
from jumok.text.pretrained import PretrainedTokenizer
from jumok.training.config import TrainingConfig

UNUSED_TENSORS = "carried.safetensors"  # tensors of a checkpoint that its model has no use for

TASK_BY_HEAD: Mapping[str, TaskName] = {
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
    """A foreign checkpoint in our words: everything `jumok.load` needs."""

    recipe: Recipe
    model: nn.Module
    labels: tuple[str, ...]
    vocabularies: TokenizerPair | None
    origin: Origin


def open_hf(folder: Path) -> ImportedCheckpoint:
    """The checkpoint in a foreign folder, its weights mapped, not copied, in float32.

    Raises InputError for what we do not read, StorageError for what cannot be read.
    """
    checkpoint = open_checkpoint(folder)
    found = _open_model(checkpoint)
    vocabulary = read_hf_tokenizer(folder, checkpoint.config, checkpoint.generation_config)
    origin = _origin_of(checkpoint, found)
    return _imported(found.architecture, found.model.float(), vocabulary, origin, folder)


def open_imported(run: Run) -> ImportedCheckpoint:
    """A checkpoint that `jumok import` has brought into a folder of ours.

    What its recipe.toml says of everything but the model holds as it stands there. Raises
    InputError for files of different folders.
    """
    folder = run.folder / ORIGIN_FOLDER
    facts = _read_metadata(folder)
    _check_checksums(folder, facts)
    config = read_json(folder / "config.json")
    path = folder / "generation_config.json"
    generation = read_json(path) if path.is_file() else {}
    described = parse_config(config, list(facts.names)).with_tying(facts.tying)
    weights = run.read_weights()
    check_model_size(described.config, sum(tensor.numel() for tensor in weights.values()))
    model = described.build()
    load_weights(model, weights)
    vocabulary = load_imported(run.folder) if (run.folder / IMPORTED).is_dir() else None
    told = run.read_model_config()
    if vocabulary is not None and not matches(told, vocabulary):
        raise InputError(
            f"{run.folder / IMPORTED} is not the tokeniser {run.weights_path.name} came with; "
            "restore the run's own files"
        )
    origin = _origin(folder, described, config, generation, facts.names)
    imported = _imported(described, model, vocabulary, origin, run.folder)
    recipe = run.recipe()
    if (
        recipe.task != imported.recipe.task
        or recipe.model != imported.recipe.model
        or tuple(told["labels"]) != imported.labels
    ):
        raise InputError(
            f"{run.recipe_path}, {run.config_path.name} and {folder / 'config.json'} describe "
            "different models; restore the run's own files"
        )
    return replace(imported, recipe=recipe)


def import_checkpoint(folder: Path, out: Path) -> ImportedCheckpoint:
    """Bring the checkpoint in `folder` into the new folder `out`, in our format.

    Weights keep their dtype, the tokeniser its very files. Raises InputError when `out` holds
    something already; of an import that fails nothing is left.
    """
    check_empty(out)
    checkpoint = open_checkpoint(folder)
    found = _open_model(checkpoint)
    vocabulary = read_hf_tokenizer(folder, checkpoint.config, checkpoint.generation_config)
    origin = _origin_of(checkpoint, found)
    imported = _imported(found.architecture, found.model, vocabulary, origin, out)
    with atomic_directory(out) as scratch:
        _write(Run(scratch), checkpoint, found, vocabulary, imported)
    return imported


def _write(
    run: Run,
    checkpoint: HFCheckpoint,
    found: PretrainedModel,
    vocabulary: PretrainedTokenizer | None,
    imported: ImportedCheckpoint,
) -> None:
    """The files of an imported run into its folder."""
    origin = run.folder / ORIGIN_FOLDER
    origin.mkdir()
    if vocabulary is not None:
        save_imported(vocabulary, run.folder)
    for name in ("config.json", "generation_config.json"):
        if (checkpoint.folder / name).is_file():
            write_atomically(origin / name, (checkpoint.folder / name).read_bytes())
    carried = tensorfile.serialize(_copies(found.unused))
    write_atomically(origin / UNUSED_TENSORS, carried)
    facts = {
        "from": name_of(checkpoint.folder),
        "commit": commit_of(checkpoint.folder),
        "family": found.architecture.family.model_type,
        "architecture": found.architecture.class_name,
        "tying": found.architecture.config.tying,
        "names": dict(found.names),
        "sha256": dict(checkpoint.checksums)
        | {UNUSED_TENSORS: hashlib.sha256(carried).hexdigest()},
    }
    run.write_json(origin / "origin.json", facts)
    weights = {name: p.detach() for name, p in named_weights(found.model).items()}
    tied = json.dumps(tied_weights(found.model), sort_keys=True)
    data = tensorfile.serialize(_copies(weights), {"tied": tied})
    write_atomically(run.weights_path, data)
    sums = imported.vocabularies.checksums if imported.vocabularies else {}
    run.write_json(
        run.config_path,
        {
            "format": FORMAT,
            "task": imported.recipe.task,
            "model": to_dict(imported.recipe.model),
            "labels": list(imported.labels),
            "weights_sha256": hashlib.sha256(data).hexdigest(),
            "vocabulary_sha256": sums.get("vocabulary"),
            "vocabulary_identity_sha256": sums.get("vocabulary_identity"),
        },
    )
    run.write_text(run.recipe_path, imported.recipe.to_toml())


@dataclass(frozen=True)
class ImportMetadata:
    """What origin.json tells that the other files do not."""

    names: Mapping[str, str]  # what each tensor that came is called in the family's table
    tying: Tying
    checksums: Mapping[str, str]  # SHA-256 of the files that came, and of what was carried


def _read_metadata(folder: Path) -> ImportMetadata:
    path = folder / "origin.json"
    facts = read_json(path)
    names, tying, sums = facts.get("names"), facts.get("tying"), facts.get("sha256")
    if not _are_texts(names) or not _are_texts(sums) or tying not in get_args(Tying):
        raise InputError(
            f"{path}: the names of the tensors, their sums, or which of them are tied, are not as "
            "written; restore the file, or import the checkpoint again"
        )
    return ImportMetadata(names, tying, sums)  # type: ignore[arg-type]  # they are


def _are_texts(table: object) -> bool:
    return isinstance(table, dict) and all(type(text) is str for text in table.values())


def _check_checksums(folder: Path, facts: ImportMetadata) -> None:
    """Raises InputError for files beside origin.json that are not those it was written with."""
    for name in ("config.json", "generation_config.json", UNUSED_TENSORS):
        if name in facts.checksums and sha256_of(folder / name) != facts.checksums[name]:
            raise InputError(
                f"{folder / name} is damaged or of another checkpoint than origin.json; restore "
                "the run's own files, or import the checkpoint again"
            )


def open_original(folder: Path) -> tuple[PretrainedModel, Path]:
    """A checkpoint as it came, every tensor in its own dtype, and the folder of its JSON files.

    `folder` is that of an `Origin`: a foreign one, or the one an imported run keeps.
    """
    if not (folder / "origin.json").is_file():
        return _open_model(open_checkpoint(folder)), folder
    facts = _read_metadata(folder)
    _check_checksums(folder, facts)
    described = parse_config(read_json(folder / "config.json"), list(facts.names))
    described = described.with_tying(facts.tying)
    model = described.build_on_meta()
    assign_weights(model, Run(folder.parent).read_weights())
    carried = tensorfile.read_tensors(folder / UNUSED_TENSORS)
    return PretrainedModel(described, model, facts.names, carried), folder


def _open_model(checkpoint: HFCheckpoint) -> PretrainedModel:
    try:
        return model_from_hf(checkpoint.config, checkpoint.tensors)
    except InputError as error:
        raise InputError(f"{checkpoint.folder}: {error}") from error


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
    described: HFArchitecture,
    config: Mapping[str, Any],
    generation: Mapping[str, Any],
    names: Mapping[str, str],
) -> Origin:
    return Origin(
        folder,
        described.class_name,
        config,
        generation or _legacy_generation_config(config),
        names,
        has_text_head=described.head.has_task,
        is_seq2seq=described.head.kind == "encoder_decoder",
    )


def _legacy_generation_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of generation that older folders keep in config.json."""
    keys = ("forced_bos_token_id", "forced_eos_token_id", "bad_words_ids", "suppress_tokens",
            "eos_token_id", "num_beams", "length_penalty", "early_stopping", "max_length",
            "min_length", "repetition_penalty", "no_repeat_ngram_size")  # fmt: skip
    return {key: config[key] for key in keys if config.get(key) is not None}


def _imported(
    described: HFArchitecture,
    model: nn.Module,
    vocabulary: PretrainedTokenizer | None,
    origin: Origin,
    folder: Path,
) -> ImportedCheckpoint:
    vocabularies = None if vocabulary is None else TokenizerPair.from_pretrained(vocabulary)
    task = TASK_BY_HEAD[described.head.kind]
    if task == "classification" and len(described.labels) == 1:
        task = "regression"
    writes = described.head.kind in ("encoder_decoder", "language_model")
    joint = vocabularies is None or vocabularies.joint
    recipe = Recipe(
        name=_name(folder),
        task=task,
        training=TrainingConfig(epochs=1.0),
        model=_model_config(described),
        decoding=_decoding(origin.generation, described) if writes else DecodingConfig(),
        windows=WindowConfig(across_documents=task == "language_modeling"),
    )
    if not joint:
        recipe = replace(recipe, vocabulary=replace(recipe.vocabulary, joint=False))
    return ImportedCheckpoint(recipe, model, described.labels, vocabularies, origin)


def _model_config(described: HFArchitecture) -> ModelConfig:
    kinds = {
        "encoder_decoder": "encoder_decoder",
        "decoder": "decoder",
        "language_model": "decoder",
    }
    config = replace(described.config, tie_embeddings=described.config.tying)
    measures = {name: getattr(config, name) for name in TransformerConfig.__dataclass_fields__}
    return ModelConfig(
        **measures,
        kind=kinds.get(described.head.kind, "encoder"),  # type: ignore[arg-type]
        pooling="first",
        pooler=described.head.pooler,
    )


def _decoding(generation: Mapping[str, Any], described: HFArchitecture) -> DecodingConfig:
    """What a generation_config.json says, in our words; what it would draw by lot is left out."""
    said = ConfigReader(generation)
    given = int(described.head.kind == "encoder_decoder")  # its lengths count what is given first
    longest = said.non_negative_int(
        "max_new_tokens", max(said.non_negative_int("max_length", 257), 2) - 1
    )
    longest = min(longest, described.config.max_length)
    least = max(
        said.non_negative_int("min_new_tokens", 0),
        (said.non_negative_int("min_length", 0) - 1) * given,
    )
    beam = said.positive_int("num_beams", 1, maximum=1_000)
    return DecodingConfig(
        beam=beam,
        length_penalty=said.number("length_penalty", 1.0) if beam > 1 else 1.0,
        early_stopping=_early_stopping(generation.get("early_stopping")) if beam > 1 else False,
        no_repeat_ngram=said.non_negative_int("no_repeat_ngram_size", 0),
        repetition_penalty=said.number("repetition_penalty", 1.0),
        min_length=min(max(least, 0), longest),
        max_length=longest,
    )


def _early_stopping(value: object) -> EarlyStopping:
    return "never" if value == "never" else value is True


def _name(folder: Path) -> str:
    """The name of a folder, fit to name another."""
    return re.sub(r"[^\w.-]+", "-", folder.resolve().name).strip(".-") or "imported"


def _copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors that share memory with none of the others."""
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
