"""Open a Hugging Face folder: its JSON files, and its tensors mapped into memory.

No code is executed: configs are data, and a folder whose model is custom code raises InputError.
Nothing is guessed: every tensor of a sharded checkpoint must be in the file that the index names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from jumok.atomic_io import sha256_of
from jumok.errors import Message, ModelFileError, join_messages
from jumok.models.weight_shapes import missing
from jumok.pretrained.memory_map import mmap_safetensors
from jumok.pretrained.pickle_reader import read_pickle
from jumok.safe_json import read_json
from jumok.safetensors_io import MAX_TENSORS

MAX_SHARDS = 1000
MAX_INDEX_BYTES = 32 * 2**20

Tensors = dict[str, Tensor]

_WRAPPERS = ("module.", "_orig_mod.")  # of DataParallel and torch.compile

# The first existing file is read; a pickle only if there are no safetensors.
_WEIGHTS: tuple[tuple[str, Callable[[Path], Tensors]], ...] = (
    ("model.safetensors", mmap_safetensors),
    ("pytorch_model.bin", read_pickle),
)


@dataclass(frozen=True)
class HFCheckpoint:
    """The configs and tensors of a folder, under their stored names; see `open_checkpoint`.

    `paths` are the files that were read: configs first, then files with tensors.
    """

    folder: Path
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    paths: tuple[Path, ...]

    @cached_property
    def checksums(self) -> Mapping[str, str]:
        """The SHA-256 of every file that was read, by name; computed on first use."""
        return {path.name: sha256_of(path) for path in self.paths}


def open_checkpoint(folder: Path) -> HFCheckpoint:
    """The checkpoint in `folder`: config.json, generation_config.json (optional) and tensors.

    The tensors keep the names (see `without_wrapper`) and dtypes of the file and are mapped into
    memory (`memory_map`). The first existing file is read: `model.safetensors`,
    `model.safetensors.index.json` for several files, `pytorch_model.bin` (`pickle_reader`), its
    index. Raises InputError if a file is missing or invalid, StorageError if it cannot be read.
    """
    if not folder.is_dir():
        raise ModelFileError(
            "pretrained.no_such_folder",
            "{folder}: no such folder; give a folder with config.json and weights",
            folder=folder,
        )
    config_path, generation_path = folder / "config.json", folder / "generation_config.json"
    if not config_path.exists():
        raise ModelFileError(
            "pretrained.no_config_json",
            "{folder}: no config.json in it; give the folder of a checkpoint",
            folder=folder,
        )
    config = read_json(config_path)
    _check_no_code(config_path, config)
    paths = [config_path]
    generation_config: dict[str, Any] = {}
    if generation_path.exists():
        generation_config = read_json(generation_path)
        paths.append(generation_path)
    stored, files = _read_weights(folder)
    tensors = without_wrapper(stored)
    return HFCheckpoint(folder, config, generation_config, tensors, (*paths, *files))


def without_wrapper(tensors: Tensors) -> Tensors:
    """The tensors without a prefix of all names that DataParallel or torch.compile puts there.

    >>> without_wrapper({"_orig_mod.module.a": Tensor()}).keys()
    dict_keys(['a'])
    """
    while tensors:
        prefix = next((p for p in _WRAPPERS if all(n.startswith(p) for n in tensors)), None)
        if prefix is None:
            break
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def _check_no_code(path: Path, config: Mapping[str, Any]) -> None:
    """Raise InputError for a model that is Python code in the repository: it is never executed.

    Custom code for the tokenizer only is ignored.
    """
    named = config.get("auto_map") or {}
    classes = dict(named) if isinstance(named, dict) else {"auto_map": named}
    classes.pop("AutoTokenizer", None)
    if classes:
        raise ModelFileError(
            "pretrained.custom_code",
            "{path}: auto_map must not name custom code, got {next}; remove it if the model is "
            "of a supported family",
            path=path,
            next=str(next(iter(classes.values())))[:80],
        )


def _read_weights(folder: Path) -> tuple[Tensors, list[Path]]:
    """The tensors of a folder, and the files they were read from, the index first."""
    for name, read in _WEIGHTS:
        path, index = folder / name, folder / f"{name}.index.json"
        if path.exists():
            return read(path), [path]
        if index.exists():
            shards = _read_index(index, path.suffix)
            tensors = _read_shards(index, shards, read)
            return tensors, [index, *(folder / shard for shard in shards)]
    names = ", ".join(name for name, _ in _WEIGHTS)
    raise ModelFileError(
        "pretrained.no_weights",
        "{folder}: no weights in it; add one of {names} (or its .index.json)",
        folder=folder,
        names=names,
    )


def _read_index(path: Path, suffix: str) -> dict[str, set[str]]:
    """The names of the tensors in each file of an index.

    Raises InputError for file names outside the folder, hidden, or with another suffix.
    """
    weight_map = read_json(path, MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or len(weight_map) > MAX_TENSORS:
        raise ModelFileError(
            "pretrained.weight_map",
            "{path}: weight_map must map 1 to {max_tensors:,} tensor names to file names; get it "
            "again",
            path=path,
            max_tensors=MAX_TENSORS,
        )
    shards: dict[str, set[str]] = {}
    for name, shard in weight_map.items():
        if not _is_plain(shard, suffix):
            raise ModelFileError(
                "pretrained.file_of_other_folder",
                "{path}: the file of {ascii} must be a {suffix} file in the same folder, got "
                "{ascii_2}; get it again",
                path=path,
                ascii=ascii(name)[:80],
                suffix=suffix,
                ascii_2=ascii(shard)[:80],
            )
        shards.setdefault(shard, set()).add(name)
    if len(shards) > MAX_SHARDS:
        raise ModelFileError(
            "pretrained.too_many_files",
            "{path}: must name at most {max_shards:,} files, got {n_shards:,}",
            path=path,
            max_shards=MAX_SHARDS,
            n_shards=len(shards),
        )
    return dict(sorted(shards.items()))


def _is_plain(name: object, suffix: str) -> bool:
    """Whether this is the name of a file in the same folder, on every operating system."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= 255
        and name.isprintable()
        and name.endswith(suffix)
        and not name.startswith(".")
        and not set(name) & set('/\\:*?"<>|')
    )


def _read_shards(
    index: Path, shards: Mapping[str, set[str]], read: Callable[[Path], Tensors]
) -> Tensors:
    """The tensors of all files of an index; each must be in the file that the index names."""
    tensors: Tensors = {}
    for shard, expected in shards.items():
        path = index.with_name(shard)
        if not path.exists():
            raise ModelFileError(
                "pretrained.missing_but_named",
                "{path}: missing, but named in {index}; get it again",
                path=path,
                index=index.name,
            )
        stored = read(path)
        errors = [missing(name) for name in sorted(expected - stored.keys())]
        errors += [
            Message("pretrained.not_in_index", "{name} is not in the index", name=name)
            for name in sorted(stored.keys() - expected)
        ]
        if errors:
            more = Message("pretrained.and_more", "; and {n} more", n=len(errors) - 10)
            raise ModelFileError(
                "pretrained.does_not_match",
                "{path}: does not match {index}: {errors}{more}; get both again",
                path=path,
                index=index.name,
                errors=join_messages("; ", errors[:10]),
                more=more if len(errors) > 10 else "",
            )
        tensors |= stored
    return tensors
