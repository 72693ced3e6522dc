"""The files of a finished run and the checks that they belong together, without torch.

`jumok.load` and the engine open runs with these functions, so that both refuse a folder with the
same sentence.
"""

import difflib
import hashlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from jumok.atomic_io import sha256_of
from jumok.config_io import ConfigDict, unknown_key
from jumok.errors import InputError, Message
from jumok.pretrained.hub import HUB_NAME
from jumok.safe_json import read_json
from jumok.shipped import shipped_folders
from jumok.tasks.inputs.tokenizer_pair import (
    IMPORTED,
    SOURCE,
    TARGET,
    TokenizerPair,
    load_imported,
    matches,
)
from jumok.terminal import command_line
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer

FORMAT = 3  # of the files of a run, in config.json
MAX_WEIGHTS_BYTES = 2**40
RECIPE, CONFIG = "recipe.toml", "config.json"
WEIGHTS, RESULTS = "model.safetensors", "results.json"

_VOCABULARIES = {"vocabulary": SOURCE, "target_vocabulary": TARGET}
_KEYS = (
    *("format", "task", "model", "labels", "labels_sha256", "weights_sha256"),
    *(f"{name}_sha256" for name in _VOCABULARIES),
    *(f"{name}_identity_sha256" for name in _VOCABULARIES),
)


def check_is_run(folder: Path) -> None:
    """Raise InputError where the folder is not a run, and for a recipe.toml that is not a file."""
    recipe = folder / RECIPE
    if os.path.lexists(recipe):
        check_own_file(recipe)
        return
    raise InputError(
        "run.not_a_run",
        "{folder} must be a run, {what_is_here}",
        folder=folder,
        what_is_here=_what_is_here(folder),
    )


def check_own_file(path: Path) -> None:
    """Raise InputError unless a file of a run is there and is a regular file."""
    what: Message | None = None
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            what = Message("run.not_a_regular_file", "not a regular file")
    except FileNotFoundError:
        what = Message("run.missing", "missing")
        if path.is_symlink():
            what = Message("run.dead_link", "a link to a file that is missing")
    except OSError:
        if not path.is_symlink():
            return  # reading it raises StorageError with the reason
        what = Message("run.link_not_followed", "a link that cannot be followed")
    if what is not None:
        raise InputError(
            "run.own_file",
            "{path} is {what}; restore the run's own file",
            path=path,
            what=what,
        )


def read_run_config(folder: Path) -> ConfigDict:
    """The contents of `config.json`; InputError when it or the weights are missing or damaged."""
    path = folder / CONFIG
    if not any(os.path.lexists(folder / name) for name in (CONFIG, RESULTS)):
        raise InputError(
            "run.no_model_yet",
            "{folder} has no model yet; finish it with {value}",
            folder=folder,
            value=command_line("jumok", "train", "--resume", folder),
        )
    check_own_file(path)
    check_own_file(folder / WEIGHTS)
    config = read_json(path)
    if config.get("format") != FORMAT:
        raise InputError(
            "run.other_format",
            "{config_path}: the format of a run must be {format}, got {get}; open it with "
            "the jumok that wrote it, or train or import it again",
            config_path=path,
            format=FORMAT,
            get=repr(config.get("format"))[:40],
        )
    for key in config:
        if key not in _KEYS:
            raise unknown_key(key, _KEYS).at(path)
    expected = {
        "model": dict,
        "labels": list,
        "weights_sha256": str,
        "vocabulary_sha256": str | None,
    }
    wrong = [key for key, kind in expected.items() if not isinstance(config.get(key, ...), kind)]
    if wrong or not all(isinstance(label, str) for label in config["labels"]):
        raise InputError(
            "run.file_missing",
            "{config_path} must hold {wrong}; restore the run's own file",
            config_path=path,
            wrong=", ".join(wrong or ["labels"]),
        )
    return config


def trained_labels(folder: Path, config: ConfigDict) -> tuple[str, ...]:
    """The labels in the config.json of a trained run.

    Raises InputError where they are not distinct names, and where their checksum is of others: the
    outputs of a model are in the order of its labels. Runs without the checksum have none.
    """
    labels = tuple(config["labels"])
    expected = labels_checksum(labels)
    distinct = "" not in labels and len(set(labels)) == len(labels)
    if not distinct or config.get("labels_sha256", expected) != expected:
        raise InputError(
            "run.other_labels",
            "{path}: labels must be the distinct names of the training in their order, got "
            "{labels}; restore the run's own file",
            path=folder / CONFIG,
            labels=", ".join(map(repr, labels))[:80],
        )
    return labels


def labels_checksum(labels: Sequence[str]) -> str:
    """The SHA-256 of labels in their order.

    >>> labels_checksum(["good", "bad"]) == labels_checksum(["bad", "good"])
    False
    """
    return hashlib.sha256(json.dumps(list(labels)).encode()).hexdigest()


def check_weights_file(folder: Path, config: ConfigDict) -> None:
    """Raise InputError for weights of another checksum than that in config.json."""
    path = folder / WEIGHTS
    if sha256_of(path, MAX_WEIGHTS_BYTES) != config["weights_sha256"]:
        raise InputError(
            "run.file_damaged",
            "{weights_path} is damaged or of another run than {config_path}; restore the "
            "run's own files",
            weights_path=path,
            config_path=CONFIG,
        )


def load_vocabularies(
    folder: Path, config: ConfigDict, *, joint: bool
) -> tuple[Tokenizer | None, Tokenizer | None]:
    """The tokenizer of a run and, with two tokenizers, that of the targets.

    None where the run never had one. Raises InputError for one that is missing or of another run.
    """
    source, target = _vocabularies(folder, config, joint=joint)
    for name, tokenizer in (("vocabulary", source), ("target_vocabulary", target)):
        if tokenizer is not None and not matches(config, tokenizer, name):
            raise other_vocabulary(folder, _VOCABULARIES[name])
    return source, target


def other_vocabulary(folder: Path, file: str) -> InputError:
    """The error of a vocabulary of another run."""
    return InputError(
        "run.other_vocabulary",
        "{path} must be the vocabulary that {weights_path} was trained with; restore the run's own "
        "file",
        path=folder / (IMPORTED if (folder / IMPORTED).is_dir() else file),
        weights_path=WEIGHTS,
    )


def _vocabularies(
    folder: Path, config: ConfigDict, *, joint: bool
) -> tuple[Tokenizer | None, Tokenizer | None]:
    if (folder / IMPORTED).is_dir():
        pair = TokenizerPair.from_pretrained(load_imported(folder))
        return pair.source, None if joint else pair.target
    found: list[Tokenizer | None] = [None, None]
    for index, (name, file) in enumerate(_VOCABULARIES.items()):
        expected = config.get(f"{name}_sha256") is not None or (folder / file).is_file()
        if expected and not (index and joint):
            check_own_file(folder / file)
            found[index] = SentencePieceTokenizer.load(folder / file)
    return found[0], found[1]


def files_disagree(folder: Path) -> InputError:
    """The error of a recipe and a config.json of different models."""
    return InputError(
        "run.files_disagree",
        "{config_path} and {recipe_path} describe different models; restore the run's own files",
        config_path=folder / CONFIG,
        recipe_path=RECIPE,
    )


def _what_is_here(folder: Path) -> str:
    """What a path holds instead of a run, and what to do."""
    if folder.is_dir():
        return "got a folder without recipe.toml; name a folder of jumok train"
    if folder.exists():
        return "got a file; name the folder that contains it"
    parent = folder.parent
    runs = [path.parent.name for path in parent.glob("*/recipe.toml")] if parent.is_dir() else []
    if parent == Path() and (shipped := difflib.get_close_matches(folder.name, shipped_folders())):
        return f"got no such folder; did you mean {shipped[0]}, which ships with jumok?"
    if close := difflib.get_close_matches(folder.name, runs, n=1):
        return f"got no such folder; did you mean {parent / close[0]}?"
    if HUB_NAME.fullmatch(str(folder)) and (parent == Path() or not parent.exists()):
        get = command_line("jumok", "import", folder, Path("runs") / folder.name)
        return f"got no such folder; if it is a model of the Hub, get it with {get}"
    return "got no such folder; name a folder of jumok train"
