"""To begin from another run: the weights of its towers by name, a head only for the same task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.config_io import from_dict
from jumok.errors import InputError
from jumok.models.weights import named_weights
from jumok.pretrained.checkpoint import is_hf_folder
from jumok.safe_json import read_json
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair, read_hf_tokenizer
from jumok.tasks.recipe.inherited_config import check_same_architecture
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.runs.import_checkpoint import open_hf
from jumok.tasks.runs.run import Run

BACKBONE_PREFIXES = ("encoder.", "decoder.")
MAX_NAMES = 8  # names in a line


@dataclass(frozen=True)
class LoadReport:
    """Which weights came from a run, which of the model begin anew, which of the run were left.

    >>> print(LoadReport(Path("runs/mlm-ko"), ("encoder.a", "encoder.b"), ("output.bias",), ()))
    2 of 3 weights from runs/mlm-ko; begun anew: output.bias
    """

    folder: Path
    loaded: tuple[str, ...]
    new: tuple[str, ...]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        """All of it on one line."""
        n = len(self.loaded)
        return (
            f"{n} of {n + len(self.new)} weights from {self.folder}"
            f"{_listed('begun anew', self.new)}{_listed('not taken', self.skipped)}"
        )


def initialize_from(
    folder: Path, recipe: Recipe, model: nn.Module, labels: Sequence[str]
) -> LoadReport:
    """Copy into the model what it shares with the run in `folder`.

    The towers' weights go by their names; the head's are taken only when task, kind of model,
    labels and what the head looks at are the same. Raises InputError when the folder holds no
    finished run, when the run has other measures, and when no weight fits.
    """
    start = _start(folder)
    check_same_architecture(recipe.model, start.model, folder)
    pooled = recipe.task in ("classification", "regression")
    alike = ("kind", "pooling", "pooler") if pooled else ("kind",)
    same_head = (
        start.task == recipe.task
        and all(getattr(start.model, name) == getattr(recipe.model, name) for name in alike)
        and start.labels == tuple(labels)
    )
    theirs, own = start.weights, named_weights(model)
    _check_embedding_sizes(folder, theirs, own)
    taken = tuple(
        name
        for name in own
        if name in theirs and (same_head or name.startswith(BACKBONE_PREFIXES))
        if own[name].shape == theirs[name].shape
    )
    if not taken:
        raise InputError(f"no weight of {folder} fits this model; begin from a like one")
    with torch.no_grad():
        for name in taken:
            own[name].copy_(theirs[name])
    fresh = tuple(name for name in own if name not in taken)
    left = tuple(sorted(theirs.keys() - set(taken)))
    return LoadReport(folder, taken, fresh, left)


def load_tokenizers(folder: Path) -> TokenizerPair:
    """What the run, or the foreign checkpoint, in `folder` reads and writes with."""
    if not is_hf_folder(folder):
        return Run.open(folder).vocabularies()
    path = folder / "generation_config.json"
    generation = read_json(path) if path.is_file() else {}
    found = read_hf_tokenizer(folder, read_json(folder / "config.json"), generation)
    if found is None:
        raise InputError(f"{folder} has no tokeniser; put its files there to begin from it")
    return TokenizerPair.from_pretrained(found)


def _check_embedding_sizes(
    folder: Path, theirs: Mapping[str, Tensor], own: Mapping[str, nn.Parameter]
) -> None:
    """Raises InputError when a tokeniser has not as many pieces as its model knows."""
    for name in own.keys() & theirs.keys():
        rows, wanted = len(theirs[name]), len(own[name])
        if name.endswith(".embedding.tokens.weight") and rows != wanted:
            raise InputError(
                f"{folder} knows {rows:,} pieces, its tokeniser has {wanted:,}; put the "
                "tokeniser it was trained with there"
            )


@dataclass(frozen=True)
class _Start:
    """What a folder to begin from holds."""

    task: str
    model: ModelConfig
    labels: tuple[str, ...]
    weights: Mapping[str, Tensor]


def _start(folder: Path) -> _Start:
    if is_hf_folder(folder):
        found = open_hf(folder)
        weights = _with_backbone_prefix(named_weights(found.model), found.recipe.model)
        return _Start(found.recipe.task, found.recipe.model, found.labels, weights)
    run = Run.open(folder)
    config = run.read_model_config()
    described = from_dict(ModelConfig, config["model"], "model")
    weights = _with_backbone_prefix(run.read_weights(), described)
    return _Start(str(config.get("task")), described, tuple(config["labels"]), weights)


def _with_backbone_prefix(
    weights: Mapping[str, Tensor], config: ModelConfig
) -> Mapping[str, Tensor]:
    """The weights by the names of a model with a head: a tower saved alone calls none its own."""
    if any(name.startswith(BACKBONE_PREFIXES) for name in weights):
        return weights
    return {f"{config.kind}.{name}": weight for name, weight in weights.items()}


def _listed(what: str, names: Sequence[str]) -> str:
    """`; what: a, b and 3 more`; nothing when there are no names."""
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"; {what}: {', '.join(names[:MAX_NAMES])}{more}"
