"""A folder in the format of Hugging Face, opened: what its JSON says, and its tensors, mapped.

Nothing in it chooses code: configurations are data, and a folder whose model is code of its own
is refused. Nothing is guessed either: of a checkpoint in several files, every tensor that the
index names must be in the file it says, and no other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from jumok.atomic_io import sha256_of
from jumok.errors import InputError
from jumok.pretrained.memory_map import mmap_safetensors
from jumok.pretrained.pickle_reader import read_pickle
from jumok.safe_json import read_json
from jumok.safetensors_io import MAX_TENSORS

MAX_SHARDS = 1000
_INDEX_BYTES = 32 * 2**20

Tensors = dict[str, Tensor]

# The first of these that is there is read; a pickle only when there is nothing better.
_WEIGHTS: tuple[tuple[str, Callable[[Path], Tensors]], ...] = (
    ("model.safetensors", mmap_safetensors),
    ("pytorch_model.bin", read_pickle),
)


@dataclass(frozen=True)
class HFCheckpoint:
    """What a folder holds, under its own names; see `open_checkpoint`.

    `sources` are the files that were read: configurations first, then those with tensors.
    """

    folder: Path
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    paths: tuple[Path, ...]

    @cached_property
    def checksums(self) -> Mapping[str, str]:
        """The SHA-256 of every file that was read, by its name; computed when first asked for."""
        return {path.name: sha256_of(path) for path in self.paths}


def open_checkpoint(folder: Path) -> HFCheckpoint:
    """The checkpoint in `folder`: config.json, generation_config.json (or nothing), tensors.

    The tensors keep the names and dtypes of the file and are views of it (see `mapped`): opening
    takes no memory for them. Taken is the first that is there of `model.safetensors`, its
    `model.safetensors.index.json` for many files, `pytorch_model.bin` (see `pickled`), its index.
    Raises InputError for whatever is missing or wrong, StorageError for what cannot be read.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one with config.json and weights")
    config_path, generation_path = folder / "config.json", folder / "generation_config.json"
    if not config_path.exists():
        raise InputError(f"{folder}: no config.json in it; give the folder of a checkpoint")
    config = read_json(config_path)
    _check_no_code(config_path, config)
    sources = [config_path]
    generation: dict[str, Any] = {}
    if generation_path.exists():
        generation = read_json(generation_path)
        sources.append(generation_path)
    tensors, files = _read_weights(folder)
    return HFCheckpoint(folder, config, generation, tensors, (*sources, *files))


def _check_no_code(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse a model that is Python code in somebody's repository: it is never run.

    A class of its own for the tokeniser alone says nothing of the model and is passed over.
    """
    named = config.get("auto_map") or {}
    classes = dict(named) if isinstance(named, dict) else {"auto_map": named}
    classes.pop("AutoTokenizer", None)
    if classes:
        raise InputError(
            f"{path}: auto_map names code of its own ({str(next(iter(classes.values())))[:80]}), "
            "which jumok never runs; if the model is one of a known family, remove auto_map"
        )


def _read_weights(folder: Path) -> tuple[Tensors, list[Path]]:
    """The tensors of a folder, and the files they came from, an index first."""
    for name, read in _WEIGHTS:
        path, index = folder / name, folder / f"{name}.index.json"
        if path.exists():
            return read(path), [path]
        if index.exists():
            shards = _read_index(index, path.suffix)
            tensors = _read_shards(index, shards, read)
            return tensors, [index, *(folder / shard for shard in shards)]
    names = ", ".join(name for name, _ in _WEIGHTS)
    raise InputError(f"{folder}: no weights in it; one of {names} (or its .index.json) is needed")


def _read_index(path: Path, suffix: str) -> dict[str, set[str]]:
    """For each file of an index the names of the tensors that are in it.

    File names are plain: what is outside the folder, hidden or of another kind is refused.
    """
    weight_map = read_json(path, _INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or len(weight_map) > MAX_TENSORS:
        raise InputError(
            f"{path}: weight_map has to say for 1 to {MAX_TENSORS:,} tensors in which file each "
            "is; get it again"
        )
    shards: dict[str, set[str]] = {}
    for name, shard in weight_map.items():
        if not _is_plain(shard, suffix):
            raise InputError(
                f"{path}: {ascii(name)[:80]} is said to be in {ascii(shard)[:80]}, which is no "
                f"plain name of a {suffix} file beside it; get it again"
            )
        shards.setdefault(shard, set()).add(name)
    if len(shards) > MAX_SHARDS:
        raise InputError(f"{path}: {len(shards):,} files, at most {MAX_SHARDS:,} are read")
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
    """The tensors of all files of an index, each exactly where the index says."""
    tensors: Tensors = {}
    for shard, wanted in shards.items():
        path = index.with_name(shard)
        if not path.exists():
            raise InputError(f"{path}: named in {index.name}, but not there; get it again")
        found = read(path)
        wrong = [f"{name} is missing" for name in sorted(wanted - found.keys())]
        wrong += [f"{name} is not in the index" for name in sorted(found.keys() - wanted)]
        if wrong:
            more = f" and {len(wrong) - 10:,} more" if len(wrong) > 10 else ""
            raise InputError(
                f"{path}: not as {index.name} says: {'; '.join(wrong[:10])}{more}; get both again"
            )
        tensors |= found
    return tensors
