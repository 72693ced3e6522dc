"""The extensions that a recipe uses, recorded in extensions.json of its run.

A run that was trained with a part of another distribution, or of a program, is that part as well:
without it the run is not opened.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from jumok.config_io import from_dict, to_dict
from jumok.errors import Message, RecipeError
from jumok.evaluation.own_metric import METRICS
from jumok.nn.config import ATTENTION, NORMS
from jumok.nn.losses import LOSSES
from jumok.nn.positions import POSITIONS
from jumok.registry import Extension, Registry
from jumok.safe_json import read_json
from jumok.tasks.registry import ARCHITECTURES, TASKS
from jumok.terminal import print_notice
from jumok.training.optimizers import OPTIMIZERS
from jumok.training.schedules import SCHEDULES

EXTENSIONS = "extensions.json"

REGISTRIES: Mapping[str, Registry[Any]] = {  # by the key of a recipe that names a part
    "task": TASKS,
    "metric": METRICS,
    "loss": LOSSES,
    "model.architecture": ARCHITECTURES,
    "model.attention": ATTENTION,
    "model.norm": NORMS,
    "model.positions": POSITIONS,
    "training.optimizer": OPTIMIZERS,
    "training.schedule": SCHEDULES,
}


@dataclass(frozen=True)
class _Extensions:
    """The content of extensions.json."""

    extensions: tuple[Extension, ...]


def used_extensions(recipe: object) -> list[Extension]:
    """The records of the parts that a recipe names and that are not of jumok."""
    found = []
    for key, registry in REGISTRIES.items():
        name = attrgetter(key)(recipe)
        if name in registry:  # not a metric of the task, or none
            found.append(registry.extension(name))
    return [extension for extension in found if extension is not None]


def extensions_json(extensions: Sequence[Extension]) -> str:
    """The content of extensions.json."""
    tree = to_dict(_Extensions(tuple(extensions)))
    return json.dumps(tree, ensure_ascii=False, indent=2) + "\n"


def check_extensions(folder: Path) -> None:
    """Raise InputError, with what to install or import, if an extension of a run is missing.

    Prints a warning where the file of an extension is another one than in the training.
    """
    path = folder / EXTENSIONS
    if not path.is_file():
        return
    registries = {registry.group: registry for registry in REGISTRIES.values()}
    for extension in from_dict(_Extensions, read_json(path)).extensions:
        registry = registries.get(extension.group)
        if registry is None or extension.name not in registry:
            raise RecipeError(
                "recipe.extension_missing",
                "{folder} was trained with the extension {extension!r} of {group}, which is not "
                "registered; {advice}",
                folder=folder,
                extension=extension.name,
                group=extension.group,
                advice=_advice(extension),
            )
        found = registry.extension(extension.name)
        if found is None or found.sha256 != extension.sha256:
            print_notice(
                Message(
                    "recipe.extension_changed",
                    "jumok: {module} is not the file that {folder} was trained with; its outputs "
                    "may differ",
                    module=extension.module,
                    folder=folder,
                )
            )


def _advice(extension: Extension) -> Message:
    if extension.distribution:
        return Message(
            "extension.install",
            "install {distribution}=={version}",
            distribution=extension.distribution,
            version=extension.version,
        )
    if extension.group == ARCHITECTURES.group:
        return Message(
            "extension.import_model",
            "import {module} first, or pass its {name}: jumok.load(FOLDER, model={name})",
            module=extension.module,
            name=extension.name,
        )
    return Message("extension.import", "import {module} first", module=extension.module)
