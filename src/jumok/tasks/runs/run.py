"""A run: the folder of one training, with readable files."""

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from jumok import safetensors_io
from jumok.atomic_io import read_regular, sha256_of, storage_errors, write_atomically
from jumok.config_io import read_toml, to_dict
from jumok.errors import InputError
from jumok.models.weights import named_weights, tied_weights
from jumok.pretrained.hub import HUB_NAME
from jumok.pretrained.memory_map import mmap_safetensors
from jumok.safe_json import MAX_BYTES, read_json
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.extensions import EXTENSIONS, extensions_json, used_extensions
from jumok.tasks.recipe.recipe import Recipe, load_run_recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.terminal import command_line

FORMAT = 3  # of the files of a run, in config.json
MAX_WEIGHTS_BYTES = 2**40
ADAPTER = "adapter.safetensors"  # the matrices of training.lora, which the weights contain too
MUTABLE_KEYS = ("sharding", "timeout")  # keys of [training] that may change when a run is resumed


@dataclass(frozen=True)
class Run:
    """The files of one training, finished or not."""

    folder: Path

    @property
    def recipe_path(self) -> Path:
        """The recipe, with every default written out."""
        return self.folder / "recipe.toml"

    @property
    def weights_path(self) -> Path:
        """The best weights, under their names in the model."""
        return self.folder / "model.safetensors"

    @property
    def config_path(self) -> Path:
        """The model hyperparameters, the labels, and the checksums of the other files."""
        return self.folder / "config.json"

    @property
    def initialization_path(self) -> Path:
        """The load report of `model.init`, if the recipe has one."""
        return self.folder / "initialization.txt"

    @property
    def results_path(self) -> Path:
        """The final scores."""
        return self.folder / "results.json"

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
        run = cls(folder)
        if not run.recipe_path.is_file():
            raise InputError(
                "run.not_a_run",
                "{folder} must be a run, {what_is_here}",
                folder=folder,
                what_is_here=_what_is_here(folder),
            )
        return run

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
        checksums: Mapping[str, str],
    ) -> None:
        """Save the weights, and config.json with the model config and all checksums."""
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
        if not self.weights_path.is_file() or not self.config_path.is_file():
            raise InputError(
                "run.no_model_yet",
                "{folder} has no model yet; finish it with {value}",
                folder=self.folder,
                value=command_line("jumok", "train", "--resume", self.folder),
            )
        config = read_json(self.config_path)
        if config.get("format") != FORMAT:
            raise InputError(
                "run.other_format",
                "{config_path}: the format of a run must be {format}, got {get}; open it with "
                "the jumok that wrote it, or train or import it again",
                config_path=self.config_path,
                format=FORMAT,
                get=repr(config.get("format"))[:40],
            )
        expected = {
            "model": dict,
            "labels": list,
            "weights_sha256": str,
            "vocabulary_sha256": str | None,
        }
        wrong = [
            key for key, kind in expected.items() if not isinstance(config.get(key, ...), kind)
        ]
        if wrong or not all(isinstance(label, str) for label in config["labels"]):
            raise InputError(
                "run.file_missing",
                "{config_path} must hold {wrong}; restore the run's own file",
                config_path=self.config_path,
                wrong=", ".join(wrong or ["labels"]),
            )
        return config

    def read_weights(self) -> dict[str, Tensor]:
        """The weights whose checksum is in `config.json`, mapped into memory (`memory_map`).

        Raises InputError when they are those of another run, or damaged.
        """
        expected = self.read_model_config()["weights_sha256"]
        if sha256_of(self.weights_path, MAX_WEIGHTS_BYTES) != expected:
            raise InputError(
                "run.file_damaged",
                "{weights_path} is damaged or of another run than {config_path}; restore the "
                "run's own files",
                weights_path=self.weights_path,
                config_path=self.config_path.name,
            )
        return mmap_safetensors(self.weights_path)


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


def _what_is_here(folder: Path) -> str:
    """What is at the place of a run that is none, and what to do."""
    if folder.is_dir():
        return "got a folder without recipe.toml; name a folder of jumok train"
    if folder.exists():
        return "got a file; name the folder that contains it"
    parent = folder.parent
    runs = [path.parent.name for path in parent.glob("*/recipe.toml")] if parent.is_dir() else []
    if close := difflib.get_close_matches(folder.name, runs, n=1):
        return f"got no such folder; did you mean {parent / close[0]}?"
    if HUB_NAME.fullmatch(str(folder)) and (parent == Path() or not parent.exists()):
        get = command_line("jumok", "import", folder, Path("runs") / folder.name)
        return f"got no such folder; if it is a model of the Hub, get it with {get}"
    return "got no such folder; name a folder of jumok train"
