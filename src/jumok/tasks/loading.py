"""From a folder to a model that answers."""

from pathlib import Path

from jumok.config import build
from jumok.errors import InputError
from jumok.tasks.answering import Loaded
from jumok.tasks.known import task_of
from jumok.tasks.recipe import ModelConfig
from jumok.tasks.run import Run
from jumok.text.sentencepiece import SentencePieceVocabulary
from jumok.training.machine import find_device


def load(folder: str | Path, device: str = "auto") -> Loaded:
    """A trained run, ready to answer: eval mode, no gradients.

    `device` is "auto" (the first of cuda, mps and cpu that is there) or a device's name. A folder
    without vocabulary.model loads as well, and answers to ids only. Raises InputError when the
    folder holds no finished model, or files of different runs.
    """
    run = Run.existing(Path(folder))
    config = run.read_model_config()
    recipe = run.recipe()
    described = build(ModelConfig, config["model"], "model")
    vocabulary = _vocabulary(run, run.vocabulary_path, config["vocabulary_sha256"])
    target = None
    if not recipe.vocabulary.joint:
        fingerprint = config.get("target_vocabulary_sha256")
        target = _vocabulary(run, run.target_vocabulary_path, fingerprint)
    target_size = None if recipe.vocabulary.joint else described.target_vocabulary_size
    recipe = recipe.with_vocabulary(described.vocabulary_size, target_size)
    if (
        described != recipe.model
        or (vocabulary is not None and len(vocabulary) != described.vocabulary_size)
        or (target is not None and len(target) != described.target_vocabulary_size)
    ):
        raise InputError(
            f"{run.config_path} and {run.recipe_path.name} describe different models; "
            "restore the run's own files"
        )
    labels = tuple(config["labels"])
    model = task_of(recipe).model(recipe.model, labels)
    run.load_weights(model)
    return Loaded(model, vocabulary, recipe, labels, find_device(device), target)


def _vocabulary(run: Run, path: Path, fingerprint: str | None) -> SentencePieceVocabulary | None:
    """The vocabulary in a run's file, if it is there and the one the run was trained with."""
    if not path.is_file():
        return None
    vocabulary = SentencePieceVocabulary.load(path)
    if vocabulary.fingerprint != fingerprint:
        raise InputError(
            f"{path} is not the vocabulary {run.weights_path.name} was trained with; "
            "restore the run's own file"
        )
    return vocabulary
