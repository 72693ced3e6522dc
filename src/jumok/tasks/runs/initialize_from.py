"""Initialize a model from another run: backbone weights by name, a head only for the same task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.config_io import from_dict
from jumok.errors import InputError, Message
from jumok.models.weights import check_finite, named_weights
from jumok.pretrained.hub import is_hf_folder
from jumok.safe_json import read_json
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair, read_hf_tokenizer
from jumok.tasks.recipe.inherited_config import check_same_architecture
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.registry import get_task
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.run_files import trained_labels

BACKBONE_PREFIXES = ("encoder.", "decoder.")
MAX_NAMES = 8  # in a line of the report


@dataclass(frozen=True)
class LoadReport:
    """The weights of a model that were loaded or are new, and those of the run that were skipped.

    >>> print(LoadReport(Path("runs/mlm-ko"), ("encoder.a", "encoder.b"), ("output.bias",), ()))
    2 of 3 weights from runs/mlm-ko; new: output.bias
    """

    folder: Path
    loaded: tuple[str, ...]
    new: tuple[str, ...]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.message)

    @property
    def message(self) -> Message:
        """The report on one line."""
        return Message(
            "run.loaded_weights",
            "{n} of {n_all} weights from {folder}{new}{skipped}",
            n=len(self.loaded),
            n_all=len(self.loaded) + len(self.new),
            folder=self.folder,
            new=_listed("new", self.new),
            skipped=_listed("skipped", [name for name in self.skipped if name not in self.new]),
        )


def initialize_from(
    folder: Path, recipe: Recipe, model: nn.Module, labels: Sequence[str]
) -> LoadReport:
    """Copy the weights that the model shares with the run in `folder`.

    Backbone weights are matched by name; those of the head are copied only when task, model kind,
    labels, pooling and tagging are the same. Raises InputError when the folder has no finished run,
    when the run has another architecture, and when no weight fits.
    """
    source = _read_source(folder)
    check_same_architecture(recipe.model, source.model, folder)
    head_keys = get_task(recipe.task).head_keys
    same_head = (
        source.task == recipe.task
        and all(getattr(source.model, name) == getattr(recipe.model, name) for name in head_keys)
        and source.labels == tuple(labels)
    )
    weights, own = source.weights, named_weights(model)
    _check_embedding_sizes(folder, weights, own)
    check_finite(weights, str(folder))
    loaded = tuple(
        name
        for name in own
        if name in weights and (same_head or name.startswith(BACKBONE_PREFIXES))
        if own[name].shape == weights[name].shape
    )
    if not loaded:
        raise InputError(
            "run.init_of_another_model",
            "model.init must name a run with weights of this model, got {folder}; initialize "
            "from a run of a similar model",
            folder=folder,
        )
    with torch.no_grad():
        for name in loaded:
            own[name].copy_(weights[name])
    new = tuple(name for name in own if name not in loaded)
    skipped = tuple(sorted(weights.keys() - set(loaded)))
    return LoadReport(folder, loaded, new, skipped)


def load_tokenizers(folder: Path) -> TokenizerPair:
    """Load the tokenizers of the run, or of the Hugging Face checkpoint, in `folder`."""
    if not is_hf_folder(folder):
        return Run.open(folder).tokenizers()
    path = folder / "generation_config.json"
    generation = read_json(path) if path.is_file() else {}
    found = read_hf_tokenizer(folder, read_json(folder / "config.json"), generation)
    if found is None:
        raise InputError(
            "run.no_tokenizer_to_initialize",
            "{folder} must hold a tokenizer to initialize from it; put its files there",
            folder=folder,
        )
    return TokenizerPair.from_pretrained(found)


def is_encoder(folder: Path) -> bool:
    """Whether the run in `folder` is an encoder, which has a tokenizer of sources only."""
    if is_hf_folder(folder):
        return False
    return bool(Run.open(folder).read_model_config()["model"]["kind"] == "encoder")


def _check_embedding_sizes(
    folder: Path, weights: Mapping[str, Tensor], own: Mapping[str, nn.Parameter]
) -> None:
    """Raise InputError when the tokenizer and the embedding of a run differ in size."""
    for name in own.keys() & weights.keys():
        rows, expected = len(weights[name]), len(own[name])
        if name.endswith(".embedding.tokens.weight") and rows != expected:
            raise InputError(
                "run.tokenizer_size",
                "the tokenizer in {folder} must have {rows:,} pieces, as many as its model, got "
                "{expected:,}; put the tokenizer that it was trained with there",
                folder=folder,
                rows=rows,
                expected=expected,
            )


@dataclass(frozen=True)
class _Source:
    """The model in a folder to initialize from."""

    task: str
    model: ModelConfig
    labels: tuple[str, ...]
    weights: Mapping[str, Tensor]


def _read_source(folder: Path) -> _Source:
    if is_hf_folder(folder):
        from jumok.tasks.runs.import_checkpoint import open_hf  # with all of jumok.pretrained

        imported = open_hf(folder)
        recipe = imported.recipe
        weights = _with_backbone_prefix(named_weights(imported.model), recipe.model)
        return _Source(recipe.task, recipe.model, imported.labels, weights)
    run = Run.open(folder)
    config = run.read_model_config()
    model = from_dict(ModelConfig, config["model"], "model")
    weights = _with_backbone_prefix(run.read_weights(), model)
    return _Source(str(config.get("task")), model, trained_labels(folder, config), weights)


def _with_backbone_prefix(
    weights: Mapping[str, Tensor], config: ModelConfig
) -> Mapping[str, Tensor]:
    """The weights under the names of a model with a head: a backbone alone has no prefix."""
    if any(name.startswith(BACKBONE_PREFIXES) for name in weights):
        return weights
    return {f"{config.kind}.{name}": weight for name, weight in weights.items()}


def _listed(what: str, names: Sequence[str]) -> str:
    """`; what: a, b and 3 more`; nothing when there are no names."""
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"; {what}: {', '.join(names[:MAX_NAMES])}{more}"
