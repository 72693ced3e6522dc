"""From a folder to a model that answers."""

from pathlib import Path

from jumok.atomic_io import check_path_name
from jumok.config_io import from_dict
from jumok.device import find_device
from jumok.errors import CheckpointError, InputError
from jumok.models.weights import load_weights
from jumok.pretrained.checkpoint import is_hf_folder
from jumok.pretrained.state_dict import check_model_size
from jumok.tasks.inputs.tokenizer_pair import (
    IMPORTED,
    SOURCE,
    TARGET,
    TokenizerPair,
    load_imported,
    matches,
)
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.inherited_config import ORIGIN_FOLDER
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.registry import get_task
from jumok.tasks.runs.import_checkpoint import ImportedCheckpoint, open_hf, open_imported
from jumok.tasks.runs.run import Run
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer
from jumok.training.checkpoints.checkpoint import parse_step
from jumok.training.checkpoints.store import CHECKPOINT_NAME, CHECKPOINTS, CheckpointStore


def load(folder: str | Path, device: str = "auto") -> Pipeline:
    """A trained run, an imported checkpoint or a folder in the format of Hugging Face.

    RUN/checkpoints/step-N is the finished run as it was after N steps: the running average of its
    weights, where the recipe asked for one.

    The model is in eval mode, without gradients, in float32. `device` is "auto" (the first of
    cuda, mps and cpu that is there) or a device's name. A folder without a vocabulary loads as
    well, and answers to ids only. Raises InputError when the folder holds no finished model, or
    files of different runs.
    """
    folder = Path(folder)
    check_path_name(folder)
    here = folder.absolute()
    if here.parent.name == CHECKPOINTS and CHECKPOINT_NAME.fullmatch(here.name):
        return _load_checkpoint(here, device)
    if is_hf_folder(folder):
        return _imported_pipeline(open_hf(folder), device, folder / "model.safetensors")
    run = Run.open(folder)
    if (folder / ORIGIN_FOLDER).is_dir():
        return _imported_pipeline(open_imported(run), device, run.weights_path)
    config = run.read_model_config()
    recipe = run.recipe()
    described = from_dict(ModelConfig, config["model"], "model")
    source, target = _load_tokenizers(folder, joint=recipe.vocabulary.joint)
    for file, name, vocabulary in (
        (SOURCE, "vocabulary", source),
        (TARGET, "target_vocabulary", target),
    ):
        if vocabulary is not None and not matches(config, vocabulary, name):
            here = folder / (IMPORTED if (folder / IMPORTED).is_dir() else file)
            raise InputError(
                f"{here} is not the vocabulary {run.weights_path.name} was trained with; "
                "restore the run's own file"
            )
    target_size = None if recipe.vocabulary.joint else described.target_vocabulary_size
    recipe = recipe.with_vocabulary(described.vocabulary_size, target_size)
    if (
        described != recipe.model
        or config.get("task") != recipe.task
        or (source is not None and source.n_embeddings != described.vocabulary_size)
        or (target is not None and target.n_embeddings != described.target_vocabulary_size)
    ):
        raise InputError(
            f"{run.config_path} and {run.recipe_path.name} describe different models; "
            "restore the run's own files"
        )
    labels = tuple(config["labels"])
    weights = run.read_weights()
    check_model_size(recipe.model, sum(tensor.numel() for tensor in weights.values()))
    model = get_task(recipe).build_model(recipe.model, labels)
    load_weights(model, weights)
    loaded = Pipeline(model, source, recipe, labels, find_device(device), target)
    loaded.weights_path = run.weights_path
    return loaded


def _load_checkpoint(folder: Path, device: str) -> Pipeline:
    """A finished run with the weights of one of its checkpoints.

    Raises CheckpointError when that is absent, damaged, or of another run.
    """
    run = folder.parent.parent
    loaded = load(run, device)
    found = CheckpointStore(run).checkpoint(parse_step(folder))
    if not found.belongs_to({"recipe": Run.open(run).recipe_fingerprint()}):
        raise CheckpointError(
            f"{folder} is not of the run whose folder it lies in; move it back to its own"
        )
    load_weights(loaded.model, found.state("average" if "average" in found.states else "model"))
    loaded.weights_path = None
    return loaded


def _imported_pipeline(imported: ImportedCheckpoint, device: str, weights: Path) -> Pipeline:
    """The model of a checkpoint; one in several files has no file of weights."""
    both = imported.vocabularies
    loaded = Pipeline(
        imported.model,
        both.source if both else None,
        imported.recipe,
        imported.labels,
        find_device(device),
        both.target if both and not both.joint else None,
        origin=imported.origin,
    )
    loaded.weights_path = weights if weights.is_file() else None
    return loaded


def _load_tokenizers(folder: Path, *, joint: bool) -> tuple[Tokenizer | None, Tokenizer | None]:
    """The vocabulary in a run's folder and, where the target has its own, that one too."""
    if (folder / IMPORTED).is_dir():
        both = TokenizerPair.from_pretrained(load_imported(folder))
        return both.source, None if joint else both.target
    names = [SOURCE] if joint else [SOURCE, TARGET]
    found = [
        SentencePieceTokenizer.load(folder / name) if (folder / name).is_file() else None
        for name in names
    ]
    return found[0], None if joint else found[1]
