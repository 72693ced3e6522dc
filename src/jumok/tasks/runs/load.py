"""Load a pipeline from a run, a checkpoint of a run, or a Hugging Face folder."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from jumok.atomic_io import check_path_name
from jumok.config_io import check_choice, from_dict
from jumok.device import find_device, tune_threads
from jumok.errors import CheckpointError, InputError
from jumok.models.size import check_model_size
from jumok.models.weights import load_weights
from jumok.nn.lora import merge_lora_tensors
from jumok.pretrained.hub import find_model, is_hf_folder
from jumok.pretrained.meta_init import WeightType, build_with_weights
from jumok.pretrained.sentence_encoding import read_sentence_encoding, transformer_folder
from jumok.tasks.own_model import OwnModel, register_model
from jumok.tasks.pipeline.outputs import GeneratedText, RegressionOutput
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.inherited_config import ORIGIN_FOLDER
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.registry import TRANSFORMER, get_task
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.run_files import files_disagree, load_vocabularies, trained_labels

if TYPE_CHECKING:
    from jumok.tasks.runs.import_checkpoint import ImportedCheckpoint


@overload
def load(
    folder: Literal["ko-small", "note"], device: str = ..., *, dtype: WeightType = ...
) -> Pipeline[GeneratedText]: ...
@overload
def load(
    folder: Literal["ko-small-vectors"], device: str = ..., *, dtype: WeightType = ...
) -> Pipeline[RegressionOutput]: ...
@overload
def load(
    folder: str | Path,
    device: str = ...,
    *,
    dtype: WeightType = ...,
    model: OwnModel | None = ...,
) -> Pipeline: ...
def load(
    folder: str | Path,
    device: str = "auto",
    *,
    dtype: WeightType = "float32",
    model: OwnModel | None = None,
) -> Pipeline:
    """Load a trained run, an imported checkpoint or a folder in the format of Hugging Face.

    `folder` may be the name of a model that ships with jumok (`jumok models`), or OWNER/NAME of a
    model on the Hub, which is read from its cache, or downloaded.

    RUN/checkpoints/step-N is a run with the weights after N steps: their exponential moving
    average, if the recipe has one. Its training may still be running.

    The model is in eval mode, without gradients. `device` is "auto" (the first available of cuda,
    mps and cpu) or the name of a device. `dtype` is the type of its weights: "float32", or "auto",
    the type of the file, where all matrices are bfloat16 or all are float16; these stay in the
    mapped file, so that opening takes about the memory of the file. A checkpoint without a
    tokenizer loads as well and accepts ids only. `model` is that of `jumok.train(model=...)`, in a
    program that has not registered it. Raises InputError when the folder has no finished
    model, or lacks one of its files, or has files of different runs, and for another `dtype`.

    Without PyTorch `jumok.load` is `jumok.engine.without_torch.load`: its model answers and encodes
    in the same way where the engine computes the model, and otherwise MissingDependencyError has
    the command that installs PyTorch.

    >>> model = load("note", device="cpu")
    >>> model("감기 조심하세요.").output
    'Watch out for colds.'
    """
    check_choice("dtype", dtype, WeightType)
    name = None if model is None else register_model(model)
    tune_threads()
    folder = find_model(os.path.expanduser(str(folder)))
    check_path_name(folder)
    here = folder.absolute()
    if _is_checkpoint(here):
        _check_own_model(Run.open(here.parent.parent).recipe(), here, name)
        return _load_checkpoint(here, device)
    inner = transformer_folder(folder)
    if is_hf_folder(inner):
        _check_own_model(None, folder, name)
        from jumok.tasks.runs.import_checkpoint import open_hf  # with all of jumok.pretrained

        pipeline = _imported_pipeline(open_hf(inner, dtype), device, inner / "model.safetensors")
        pipeline.sentence_encoding = read_sentence_encoding(folder)
        return pipeline
    run = Run.open(folder)
    if (folder / ORIGIN_FOLDER).is_dir():
        from jumok.tasks.runs.import_checkpoint import open_imported

        return _imported_pipeline(open_imported(run, dtype), device, run.weights_path)
    config = run.read_model_config()
    recipe = run.recipe()
    _check_own_model(recipe, folder, name)
    model_config = from_dict(ModelConfig, config["model"], "model")
    source, target = load_vocabularies(folder, config, joint=recipe.vocabulary.joint)
    target_size = None if recipe.vocabulary.joint else model_config.target_vocabulary_size
    recipe = recipe.with_vocabulary(model_config.vocabulary_size, target_size)
    if (
        model_config != recipe.model
        or config.get("task") != recipe.task
        or (source is not None and source.n_embeddings != model_config.vocabulary_size)
        or (target is not None and target.n_embeddings != model_config.target_vocabulary_size)
    ):
        raise files_disagree(folder)
    labels, task = trained_labels(folder, config), get_task(recipe.task)
    weights = run.read_weights()
    if recipe.model.architecture == TRANSFORMER:
        check_model_size(recipe.model, sum(tensor.numel() for tensor in weights.values()))
        built = build_with_weights(lambda: task.build_model(recipe.model, labels), weights, dtype)
    else:  # of code that may compute buffers: not without memory
        built = task.new_model(recipe.model, labels)
        load_weights(built, weights)
    pipeline = task.pipeline(built, source, recipe, labels, find_device(device), target)
    pipeline.weights_path = run.weights_path
    return pipeline


def _check_own_model(recipe: Recipe | None, folder: Path, name: str | None) -> None:
    """Raise InputError for a `model` with which the run was not trained."""
    architecture = TRANSFORMER if recipe is None else recipe.model.architecture
    if name not in (None, architecture):
        raise InputError(
            "run.other_own_model",
            'model must be left out, or the one of {folder}, "{architecture}", got "{name}"',
            folder=folder,
            architecture=architecture,
            name=name,
        )


def _is_checkpoint(folder: Path) -> bool:
    if folder.parent.name != "checkpoints":
        return False
    from jumok.training.checkpoints.store import CHECKPOINT_NAME  # nothing else here needs training

    return CHECKPOINT_NAME.fullmatch(folder.name) is not None


def _load_checkpoint(folder: Path, device: str) -> Pipeline:
    """Load a run, finished or not, with the weights of one of its checkpoints.

    Raises CheckpointError when the checkpoint is missing, damaged, or of another run.
    """
    from jumok.training.checkpoints.checkpoint import parse_step
    from jumok.training.checkpoints.store import CheckpointStore

    run = Run.open(folder.parent.parent)
    checkpoint = CheckpointStore(run.folder).checkpoint(parse_step(folder))
    if not checkpoint.belongs_to({"recipe": run.recipe_fingerprint()}):
        raise CheckpointError(
            "run.foreign_checkpoint",
            "{folder} must be a checkpoint of the run in {run}, got one of another run; move it "
            "back to its own",
            folder=folder,
            run=run.folder,
        )
    if run.config_path.is_file():
        pipeline = load(run.folder, device)
    else:
        pipeline = _unfinished(run, tuple(json.loads(str(checkpoint.metadata["labels"]))), device)
    state = "average" if "average" in checkpoint.states else "model"
    lora = pipeline.recipe.training.lora
    load_weights(pipeline.model, merge_lora_tensors(checkpoint.state(state), lora))
    pipeline.weights_path = None
    return pipeline


def _unfinished(run: Run, labels: tuple[str, ...], device: str) -> Pipeline:
    """The pipeline of a training that has not ended, before its weights are loaded."""
    tokenizers, recipe = run.tokenizers(), run.recipe()
    recipe, task = recipe.with_vocabulary(*tokenizers.sizes), get_task(recipe.task)
    model = task.new_model(recipe.model, labels)
    target = None if tokenizers.joint else tokenizers.target
    return task.pipeline(model, tokenizers.source, recipe, labels, find_device(device), target)


def _imported_pipeline(imported: "ImportedCheckpoint", device: str, weights: Path) -> Pipeline:
    """The pipeline of a checkpoint; `weights` may be missing where there are several files."""
    tokenizers = imported.tokenizers
    pipeline = get_task(imported.recipe.task).pipeline(
        imported.model,
        tokenizers.source if tokenizers else None,
        imported.recipe,
        imported.labels,
        find_device(device),
        tokenizers.target if tokenizers and not tokenizers.joint else None,
        origin=imported.origin,
    )
    pipeline.sentence_encoding = imported.sentence_encoding
    pipeline.weights_path = weights if weights.is_file() else None
    return pipeline
