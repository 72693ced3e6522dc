"""Somebody else's checkpoint as a model that answers: which task it is, and how it writes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from jumok import tensorfile
from jumok.config import plain
from jumok.decoding import DecodingConfig
from jumok.decoding.config import EarlyStop
from jumok.errors import InputError
from jumok.jsonfile import read_json
from jumok.models import TransformerConfig
from jumok.models.weights import load_weights, tied_names, weights_of
from jumok.pretrained.checkpoint import Checkpoint, open_checkpoint
from jumok.pretrained.hub import commit_of
from jumok.pretrained.load import Described, Pretrained, describe, hold, open_model
from jumok.pretrained.settings import Settings
from jumok.storage import storage_errors, write_atomically
from jumok.tasks.origin import Origin
from jumok.tasks.recipe import ModelConfig, Recipe, TaskName
from jumok.tasks.run import Run
from jumok.tasks.vocabularies import Vocabularies, save_imported
from jumok.tasks.windows import WindowConfig
from jumok.text.pretrained import PretrainedVocabulary, read_vocabulary
from jumok.training.config import TrainingConfig

ORIGIN = "origin"  # the folder in an imported run that tells where it is from
TASKS: Mapping[str, TaskName] = {
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
class Imported:
    """A foreign checkpoint in our words: everything `jumok.load` needs."""

    recipe: Recipe
    model: nn.Module
    labels: tuple[str, ...]
    vocabularies: Vocabularies | None
    origin: Origin


def open_foreign(folder: Path) -> Imported:
    """The checkpoint in a foreign folder, its weights mapped, not copied, in float32.

    Raises InputError for what we do not read, StorageError for what cannot be read.
    """
    checkpoint = open_checkpoint(folder)
    found = _opened(checkpoint)
    vocabulary = read_vocabulary(folder, checkpoint.config)
    origin = _origin(checkpoint, found)
    return _imported(found.described, found.model.float(), vocabulary, origin, folder)


def open_imported(run: Run) -> Imported:
    """A checkpoint that `jumok import` has brought into a folder of ours."""
    folder = run.folder / ORIGIN
    facts = read_json(folder / "origin.json")
    config = read_json(folder / "config.json")
    path = folder / "generation_config.json"
    generation = read_json(path) if path.is_file() else {}
    names = {str(name): str(first) for name, first in facts["names"].items()}
    described = describe(config, list(names))
    tensors = tensorfile.read_tensors(run.weights_path)
    described = described.with_tying(facts["tying"])
    model = described.module()
    load_weights(model, tensors)
    vocabularies = Vocabularies.existing(run.folder, joint=True)
    vocabulary = vocabularies.source if vocabularies else None
    assert vocabulary is None or isinstance(vocabulary, PretrainedVocabulary)
    answers = described.head.answers
    origin = Origin(folder, described.architecture, config, generation, names, answers)
    return _imported(described, model, vocabulary, origin, run.folder)


def import_checkpoint(folder: Path, out: Path) -> Imported:
    """Bring the checkpoint in `folder` into the new folder `out`, in our format.

    Weights keep their dtype, the tokeniser its very files. Raises InputError when `out` holds a
    run already; then nothing was written.
    """
    Run(out).refuse_existing()
    checkpoint = open_checkpoint(folder)
    found = _opened(checkpoint)
    vocabulary = read_vocabulary(folder, checkpoint.config)
    imported = _imported(found.described, found.model, vocabulary, _origin(checkpoint, found), out)
    run, origin = Run(out), out / ORIGIN
    with storage_errors(f"{origin}: cannot be made"):
        origin.mkdir(parents=True, exist_ok=True)
    if vocabulary is not None:
        save_imported(vocabulary, out)
    for name in ("config.json", "generation_config.json"):
        if (folder / name).is_file():
            write_atomically(origin / name, (folder / name).read_bytes())
    write_atomically(origin / "carried.safetensors", tensorfile.pack(_apart(found.carried)))
    facts = {
        "from": str(folder.name),
        "commit": commit_of(folder),
        "family": found.described.family.model_type,
        "architecture": found.described.architecture,
        "tying": found.described.config.tying,
        "names": dict(found.names),
        "sha256": dict(checkpoint.files),
    }
    write_atomically(origin / "origin.json", json.dumps(facts, indent=2).encode())
    weights = {name: p.detach() for name, p in weights_of(found.model).items()}
    tied = json.dumps(tied_names(found.model), sort_keys=True)
    write_atomically(run.weights_path, tensorfile.pack(_apart(weights), {"tied": tied}))
    prints = imported.vocabularies.fingerprints if imported.vocabularies else {}
    run.write_json(
        run.config_path,
        {
            "format": 1,
            "task": imported.recipe.task,
            "model": plain(imported.recipe.model),
            "labels": list(imported.labels),
            "vocabulary_sha256": prints.get("vocabulary"),
        },
    )
    run.write_text(run.recipe_path, imported.recipe.to_toml())  # last: then it is there
    return imported


def original(folder: Path) -> tuple[Pretrained, Path]:
    """A checkpoint as it came, every tensor in its own dtype, and the folder of its JSON files.

    `folder` is that of an `Origin`: a foreign one, or the one an imported run keeps.
    """
    facts_path = folder / "origin.json"
    if not facts_path.is_file():
        return _opened(open_checkpoint(folder)), folder
    facts = read_json(facts_path)
    names = {str(name): str(first) for name, first in facts["names"].items()}
    described = describe(read_json(folder / "config.json"), list(names))
    described = described.with_tying(facts["tying"])
    with torch.device("meta"):
        model = described.module()
    hold(model, tensorfile.read_tensors(Run(folder.parent).weights_path))
    carried = tensorfile.read_tensors(folder / "carried.safetensors")
    return Pretrained(described, model, names, carried), folder


def _opened(checkpoint: Checkpoint) -> Pretrained:
    try:
        return open_model(checkpoint.config, checkpoint.tensors)
    except InputError as error:
        raise InputError(f"{checkpoint.folder}: {error}") from error


def _origin(checkpoint: Checkpoint, found: Pretrained) -> Origin:
    described = found.described
    settings = {**_legacy(checkpoint.config), **checkpoint.generation}
    return Origin(
        checkpoint.folder,
        described.architecture,
        checkpoint.config,
        settings,
        found.names,
        described.head.answers,
    )


def _legacy(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of generation that older folders keep in config.json."""
    keys = ("forced_bos_token_id", "bad_words_ids", "num_beams", "length_penalty", "max_length",
            "no_repeat_ngram_size", "early_stopping")  # fmt: skip
    return {key: config[key] for key in keys if config.get(key) is not None}


def _imported(
    described: Described,
    model: nn.Module,
    vocabulary: PretrainedVocabulary | None,
    origin: Origin,
    folder: Path,
) -> Imported:
    vocabularies = None if vocabulary is None else Vocabularies.both(vocabulary)
    task = TASKS[described.head.kind]
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
    return Imported(recipe, model, described.labels, vocabularies, origin)


def _model_config(described: Described) -> ModelConfig:
    kinds = {
        "encoder_decoder": "encoder_decoder",
        "decoder": "decoder",
        "language_model": "decoder",
    }
    measures = {
        name: getattr(described.config, name) for name in TransformerConfig.__dataclass_fields__
    }
    return ModelConfig(
        **measures,
        kind=kinds.get(described.head.kind, "encoder"),  # type: ignore[arg-type]
        pooling="first",
        pooler=described.head.pooler,
    )


def _decoding(generation: Mapping[str, Any], described: Described) -> DecodingConfig:
    """What a generation_config.json says, in our words."""
    said = Settings(generation)
    stops: Mapping[object, EarlyStop] = {False: "likely", True: "full", "never": "exact"}
    stop = generation.get("early_stopping")
    longest = said.count("max_new_tokens", max(said.count("max_length", 257), 2) - 1)
    beam = said.size("num_beams", 1, most=1_000)
    return DecodingConfig(
        beam=beam,
        length_penalty=float(generation.get("length_penalty") or 1.0) if beam > 1 else 1.0,
        early_stop=stops.get(stop, "likely"),
        no_repeat_ngram=said.count("no_repeat_ngram_size", 0),
        max_length=min(longest, described.config.max_length),
    )


def _name(folder: Path) -> str:
    """The name of a folder, fit to name another."""
    return re.sub(r"[^\w.-]+", "-", folder.resolve().name).strip(".-") or "imported"


def _apart(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors that share memory with none of the others."""
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
