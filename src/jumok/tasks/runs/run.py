"""A run: the folder of one training, with readable files."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from jumok import safetensors_io
from jumok.atomic_io import read_regular, storage_errors, write_atomically
from jumok.config_io import read_toml, to_dict
from jumok.errors import InputError
from jumok.models.weights import named_weights, tied_weights
from jumok.pretrained.memory_map import mmap_safetensors
from jumok.safe_json import MAX_BYTES
from jumok.safetensors_io import read_header
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.extensions import EXTENSIONS, extensions_json, used_extensions
from jumok.tasks.recipe.recipe import Recipe, load_run_recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.runs.run_files import (
    CONFIG,
    FORMAT,
    RECIPE,
    RESULTS,
    WEIGHTS,
    check_is_run,
    check_weights_file,
    labels_checksum,
    read_run_config,
)
from jumok.terminal import command_line

ADAPTER = "adapter.safetensors"  # the matrices of training.lora, which the weights contain too
MUTABLE_KEYS = ("sharding", "timeout")  # keys of [training] that may change when a run is resumed


@dataclass(frozen=True)
class Run:
    """The files of one training, finished or not."""

    folder: Path

    @property
    def recipe_path(self) -> Path:
        """The recipe, with every default written out."""
        return self.folder / RECIPE

    @property
    def weights_path(self) -> Path:
        """The best weights, under their names in the model."""
        return self.folder / WEIGHTS

    @property
    def config_path(self) -> Path:
        """The model hyperparameters, the labels, and the checksums of the other files."""
        return self.folder / CONFIG

    @property
    def initialization_path(self) -> Path:
        """The load report of `model.init`, if the recipe has one."""
        return self.folder / "initialization.txt"

    @property
    def results_path(self) -> Path:
        """The final scores."""
        return self.folder / RESULTS

    @property
    def finished(self) -> bool:
        """Whether the training has ended and was evaluated."""
        return self.results_path.is_file()

    def check_absent(self, *, resumable: bool = False) -> None:
        """Raise InputError when the folder already has a model, or a run (perhaps `resumable`)."""
        if self.recipe_path.exists():
            if resumable:
                raise InputError(
                    "run.folder_has_a_run_to_resume",
                    "{folder} must not hold a run; resume it with {value}, or choose another "
                    "folder",
                    folder=self.folder,
                    value=command_line("jumok", "train", "--resume", self.folder),
                )
            raise InputError(
                "run.folder_has_a_run",
                "{folder} must not hold a run; choose another folder",
                folder=self.folder,
            )
        for path in (self.config_path, self.weights_path):
            if path.exists():
                raise InputError(
                    "run.folder_has_a_model",
                    "{folder} must not hold a model, got {path}, which would be overwritten; "
                    "choose another folder",
                    folder=self.folder,
                    path=path.name,
                )

    @classmethod
    def create(cls, folder: Path, recipe: Recipe, tokenizers: TokenizerPair) -> "Run":
        """Create a run in `folder`; its recipe is written last and makes it a run.

        Raises InputError when the folder already has a run.
        """
        run = cls(folder)
        run.check_absent()
        with storage_errors(f"{folder}: cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)
        tokenizers.save(folder)
        recipe = replace(recipe, data=recipe.data.of_run(folder))
        if extensions := used_extensions(recipe):
            run.write_text(folder / EXTENSIONS, extensions_json(extensions))
        run.write_text(run.recipe_path, recipe.to_toml())
        return run

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """Open the run in `folder`. Raises InputError when there is none."""
        check_is_run(folder)
        return cls(folder)

    def recipe(self) -> Recipe:
        """The recipe of the run. Raises InputError that names the file for an invalid one."""
        return load_run_recipe(self.recipe_path)

    def recipe_fingerprint(self) -> str:
        """A checksum of the keys in recipe.toml that determine the result.

        How the weights are sharded, and how long processes wait for each other, may change when a
        run is resumed. A key that is not in the file does not count, so that a run of an earlier
        version with fewer keys can be resumed.
        """
        tree = read_toml(self.recipe_path)
        training = tree.get("training", {})
        tree["training"] = {k: v for k, v in training.items() if k not in MUTABLE_KEYS}
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()

    def tokenizers(self) -> TokenizerPair:
        """The tokenizer, or the two tokenizers, of the run."""
        found = TokenizerPair.load(self.folder, joint=self.recipe().vocabulary.joint)
        if found is None:
            raise InputError(
                "run.no_vocabulary",
                "{folder} must hold a vocabulary; restore the run's own files",
                folder=self.folder,
            )
        return found

    def results(self) -> dict[str, Any]:
        """The contents of `results.json`."""
        return _read_lenient_json(self.results_path)

    def initialized_from(self) -> dict[str, str]:
        """The load report of `model.init` as an entry of the results; empty without one."""
        if not self.initialization_path.is_file():
            return {}
        return {"initialized_from": self.initialization_path.read_text(encoding="utf-8").strip()}

    def write_text(self, path: Path, text: str) -> None:
        """Write a file of the run atomically."""
        write_atomically(path, text.encode())

    def write_json(self, path: Path, tree: Mapping[str, Any]) -> None:
        """Write an indented JSON file of the run."""
        self.write_text(path, json.dumps(tree, ensure_ascii=False, indent=2) + "\n")

    def save_model(
        self,
        model: nn.Module,
        task: str,
        config: ModelConfig,
        labels: tuple[str, ...],
        checksums: Mapping[str, str | None],
    ) -> None:
        """Save the weights, and config.json with the model config and all checksums.

        The checksum of a vocabulary is None where the run has none.
        """
        tied = json.dumps(tied_weights(model), sort_keys=True)
        weights = {name: p.detach() for name, p in named_weights(model).items()}
        data = safetensors_io.serialize(weights, {"tied": tied})
        write_atomically(self.weights_path, data)
        self.write_json(
            self.config_path,
            {
                "format": FORMAT,
                "task": task,
                "model": to_dict(config),
                "labels": list(labels),
                "labels_sha256": labels_checksum(labels),
                "weights_sha256": hashlib.sha256(data).hexdigest(),
                **{f"{name}_sha256": value for name, value in checksums.items()},
            },
        )

    def save_adapter(self, tensors: Mapping[str, Tensor]) -> None:
        """Save the matrices of training.lora, if there are any."""
        if tensors:
            copies = {name: tensor.cpu() for name, tensor in tensors.items()}
            write_atomically(self.folder / ADAPTER, safetensors_io.serialize(copies))

    def read_model_config(self) -> dict[str, Any]:
        """The contents of `config.json`; InputError when it is missing or damaged."""
        return read_run_config(self.folder)

    def read_weights(self) -> dict[str, Tensor]:
        """The weights whose checksum is in `config.json`, mapped into memory (`memory_map`).

        Raises InputError when they are those of another run, or damaged.
        """
        from jumok.models.int8_weights import SUFFIX, dequantize_rows, scaled_names

        check_weights_file(self.folder, self.read_model_config())
        weights = mmap_safetensors(self.weights_path)
        header = read_header(self.weights_path)
        for name in scaled_names({name: (each.dtype, each.shape) for name, each in header.items()}):
            scale = weights.pop(name + SUFFIX)
            weights[name] = torch.from_numpy(dequantize_rows(weights[name].numpy(), scale.numpy()))
        return weights


def _read_lenient_json(path: Path) -> dict[str, Any]:
    """Read a JSON object in which a score may be NaN."""
    try:
        tree = json.loads(read_regular(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(
            "run.not_json", "{path}: not JSON ({error}); restore the file", path=path, error=error
        ) from error
    if not isinstance(tree, dict):
        raise InputError(
            "run.not_a_json_object", "{path}: must be a JSON object; restore the file", path=path
        )
    return tree
