"""A run is a folder a person can read: what stands where in it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import read_regular, storage_errors, write_atomically
from jumok.config_io import read_toml, to_dict
from jumok.errors import InputError
from jumok.migrations import FORMAT, migrate_recipe, rename_tensors
from jumok.models.weights import named_weights, tied_weights
from jumok.safe_json import MAX_BYTES, read_json
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.recipe import Recipe, load_run_recipe

MAX_WEIGHTS_BYTES = 2**40  # bytes
MUTABLE_KEYS = ("sharding", "timeout")  # of a training that is gone on with


@dataclass(frozen=True)
class Run:
    """The files of one training, finished or not."""

    folder: Path

    @property
    def recipe_path(self) -> Path:
        """Everything needed to repeat it."""
        return self.folder / "recipe.toml"

    @property
    def weights_path(self) -> Path:
        """The best weights, under their plain names."""
        return self.folder / "model.safetensors"

    @property
    def config_path(self) -> Path:
        """What kind of model the weights are of, its measures and its labels."""
        return self.folder / "config.json"

    @property
    def initialization_path(self) -> Path:
        """What was taken from the run it began from, if there was one."""
        return self.folder / "beginning.txt"

    @property
    def results_path(self) -> Path:
        """The final scores."""
        return self.folder / "results.json"

    @property
    def finished(self) -> bool:
        """Whether the training ended and was scored."""
        return self.results_path.is_file()

    def check_absent(self) -> None:
        """Raises InputError when there is a run, or a checkpoint, in the folder already."""
        if self.recipe_path.exists():
            raise InputError(
                f"{self.folder} holds a run already; go on with jumok train --resume "
                f"{self.folder}, or choose another --out"
            )
        for path in (self.config_path, self.weights_path):
            if path.exists():
                raise InputError(
                    f"{self.folder} holds a model already ({path.name}), which would be lost; "
                    "choose another --out"
                )

    @classmethod
    def create(cls, folder: Path, recipe: Recipe, vocabularies: TokenizerPair) -> "Run":
        """A new run in `folder`; its recipe is written last, and then it is one.

        Raises InputError when a run is there already.
        """
        run = cls(folder)
        run.check_absent()
        with storage_errors(f"{folder}: cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)
        vocabularies.save(folder)
        run.write_text(run.recipe_path, recipe.to_toml())
        return run

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """The run in `folder`. Raises InputError when there is none."""
        run = cls(folder)
        if not run.recipe_path.is_file():
            raise InputError(
                f"{folder} holds no run (no recipe.toml); name a folder of jumok train"
            )
        return run

    def recipe(self) -> Recipe:
        """The recipe the run was made by. Raises InputError, with the file, for what is none."""
        return load_run_recipe(self.recipe_path)

    def recipe_fingerprint(self) -> str:
        """A checksum of what recipe.toml says of what is learnt.

        Who holds what, and how long they wait for each other, may change on the way. A key that
        the file does not name has no part in it: a training begun by an earlier jumok, which knew
        fewer of them, can be gone on with.
        """
        tree = read_toml(self.recipe_path)
        training = tree.get("training", {})
        tree["training"] = {k: v for k, v in training.items() if k not in MUTABLE_KEYS}
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()

    def vocabularies(self) -> TokenizerPair:
        """The vocabulary the run was trained with, or the two of them."""
        found = TokenizerPair.load(self.folder, joint=self.recipe().vocabulary.joint)
        if found is None:
            raise InputError(f"{self.folder} has no vocabulary; restore the run's own files")
        return found

    def results(self) -> dict[str, Any]:
        """What `results.json` says."""
        return _read_lenient_json(self.results_path)

    def initialized_from(self) -> dict[str, str]:
        """What was taken from another run, as the results say it; empty when nothing was."""
        if not self.initialization_path.is_file():
            return {}
        return {"begun_from": self.initialization_path.read_text(encoding="utf-8").strip()}

    def write_text(self, path: Path, text: str) -> None:
        """Write a file of the run: whole or not at all."""
        write_atomically(path, text.encode())

    def write_json(self, path: Path, tree: Mapping[str, Any]) -> None:
        """Write a JSON file of the run, indented for people."""
        self.write_text(path, json.dumps(tree, ensure_ascii=False, indent=2) + "\n")

    def save_model(
        self,
        model: nn.Module,
        recipe: Recipe,
        labels: tuple[str, ...],
        checksums: Mapping[str, str],
    ) -> None:
        """The weights, and beside them what they are weights of, with the sums of all files."""
        tied = json.dumps(tied_weights(model), sort_keys=True)
        weights = {name: p.detach() for name, p in named_weights(model).items()}
        data = tensorfile.serialize(weights, {"tied": tied})
        write_atomically(self.weights_path, data)
        self.write_json(
            self.config_path,
            {
                "format": FORMAT,
                "task": recipe.task,
                "model": to_dict(recipe.model),
                "labels": list(labels),
                "weights_sha256": hashlib.sha256(data).hexdigest(),
                **{f"{name}_sha256": value for name, value in checksums.items()},
            },
        )

    def read_model_config(self) -> dict[str, Any]:
        """What `config.json` says; InputError when the run has no model yet, or it is damaged."""
        if not self.weights_path.is_file() or not self.config_path.is_file():
            raise InputError(
                f"{self.folder} has no model yet; finish it with jumok train --resume {self.folder}"
            )
        config = read_json(self.config_path)
        if config.get("format") not in range(1, FORMAT + 1):
            raise InputError(
                f"{self.config_path}: format must be at most {FORMAT}, got "
                f"{repr(config.get('format'))[:40]}; read it with the jumok that wrote it"
            )
        wanted = {"model": dict, "labels": list, "vocabulary_sha256": str | None}
        wrong = [key for key in wanted if not isinstance(config.get(key, ...), wanted[key])]
        if wrong or not all(isinstance(label, str) for label in config["labels"]):
            raise InputError(
                f"{self.config_path} lacks {', '.join(wrong or ['labels'])}; restore the run's own "
                "file"
            )
        config["model"] = migrate_recipe({"model": config["model"]})["model"]
        return config

    def read_weights(self) -> dict[str, Tensor]:
        """The weights that `config.json` was written with.

        Raises InputError when they are those of another run, or damaged. A run of an earlier jumok
        does not say which they are.
        """
        data = read_regular(self.weights_path, MAX_WEIGHTS_BYTES)
        config = self.read_model_config()
        wanted = config.get("weights_sha256")
        if wanted is not None and hashlib.sha256(data).hexdigest() != wanted:
            raise InputError(
                f"{self.weights_path} is damaged or of another run than {self.config_path.name}; "
                "restore the run's own files"
            )
        try:
            return rename_tensors(tensorfile.deserialize(data), config["format"])
        except InputError as error:
            raise InputError(f"{self.weights_path}: {error}") from error


def _read_lenient_json(path: Path) -> dict[str, Any]:
    """A table of JSON in which a score may be NaN."""
    try:
        tree = json.loads(read_regular(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); restore the file") from error
    if not isinstance(tree, dict):
        raise InputError(f"{path}: a JSON object was wanted; restore the file")
    return tree
