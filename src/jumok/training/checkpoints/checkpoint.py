"""What a checkpoint is, and whether it is still what was written: each byte is checked.

    RUN/checkpoints/step-40/state-model.safetensors      named tensors, one file per state
                            state-optimizer.safetensors
                            manifest.json                 step, sums of the files, facts

Of a model that several processes hold in parts (`sharding.py`) each writes a file of every state,
state-model-00001-of-00004.safetensors, and the manifest names them all. How such a folder comes
to be: `checkpoint_store.py`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import read_regular, sha256_of, storage_errors
from jumok.errors import CheckpointError, InputError
from jumok.training.checkpoints.manifest import (
    JSON,
    STATE_FILE,
    FileRecord,
    Manifest,
    parse_manifest,
)
from jumok.training.checkpoints.resharding import group_shards, read_local_rows

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Rejected:
    """A checkpoint that cannot be used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is as it was written; `rejected` are the newer, damaged ones."""

    path: Path
    manifest: Manifest
    rejected: tuple[Rejected, ...] = ()

    @property
    def step(self) -> int:
        """How many steps had been trained."""
        return self.manifest.step

    @property
    def metadata(self) -> Mapping[str, JSON]:
        """What was committed with the tensors: recipe, versions, data position, best score."""
        return self.manifest.metadata

    @property
    def states(self) -> dict[str, list[str]]:
        """The states by name, each with the parts that lie in files of their own."""
        return group_shards(map(_state_name, self.manifest.files))

    def belongs_to(self, facts: Mapping[str, Any]) -> bool:
        """Whether it belongs to the run with these facts: recipe, vocabulary, data."""
        return all(self.metadata.get(key) == value for key, value in facts.items())

    def load(self) -> dict[str, dict[str, Tensor]]:
        """The whole tensors by state and name, on the CPU.

        Raises CheckpointError when a file changed since this checkpoint was found, StorageError
        when it cannot be read.
        """
        return {state: self.state(state) for state in self.states}

    def state(self, state: str, rank: int = 0, size: int = 1) -> dict[str, Tensor]:
        """The tensors of one state; of many processes the rows of one, see `read_local_rows`."""
        parts = [file_name(part) for part in self.states[state]]
        if size == len(parts) == 1:
            return self._tensors(parts[0])
        files = {self.path / name: self.manifest.files[name] for name in parts}
        return read_local_rows(files, rank, size)

    def _tensors(self, name: str) -> dict[str, Tensor]:
        record = self.manifest.files[name]
        data = read_regular(self.path / name, record.bytes)
        if hashlib.sha256(data).hexdigest() != record.sha256:
            raise CheckpointError(f"{self.path / name}: changed while it was read; resume again")
        return tensorfile.deserialize(data)


def check_same_run(checkpoint: Checkpoint, facts: Mapping[str, Any]) -> None:
    """Raises CheckpointError for a checkpoint of another run than the one with these facts."""
    for key, value in facts.items():
        if checkpoint.metadata.get(key) != value:
            raise CheckpointError(
                f"{checkpoint.path}: its {key} is {checkpoint.metadata.get(key)!r}, the run's "
                f"{value!r}; they do not belong together: move it away to go on from an "
                "older one, or train anew in another folder"
            )


def verified(path: Path) -> Checkpoint:
    """The checkpoint in `path`, each byte of it checked; InputError or StorageError say why not."""
    with storage_errors(f"{path.name}: cannot be read"):
        present = {file.name for file in path.iterdir() if not file.name.startswith(".")}
    if MANIFEST not in present:
        raise InputError("it has no manifest; it is damaged")
    manifest = parse_manifest(read_regular(path / MANIFEST, MAX_MANIFEST_BYTES))
    if manifest.step != parse_step(path):
        raise InputError(f"its manifest is that of step {manifest.step}; it was moved or mixed up")
    wanted = {MANIFEST, *manifest.files}
    if present != wanted:
        raise InputError(
            f"files missing: {sorted(wanted - present)}, too many: {sorted(present - wanted)}; "
            "it is damaged"
        )
    for name, record in manifest.files.items():
        _verify_file(path / name, record)
    return Checkpoint(path, manifest)


def _verify_file(path: Path, record: FileRecord) -> None:
    """Size first, as it costs nothing; then the sum of all bytes; then the safetensors header."""
    with storage_errors(f"{path.name}: cannot be read"):
        size = path.stat().st_size
    if size != record.bytes:
        raise InputError(f"{path.name} has {size:,} bytes of {record.bytes:,}; it is damaged")
    if sha256_of(path) != record.sha256:
        raise InputError(f"{path.name} is not what was written (SHA-256 differs); it is damaged")
    tensorfile.read_header(path)


def parse_step(path: Path) -> int:
    """The step of a folder that is named like a checkpoint."""
    return int(path.name.removeprefix("step-"))


def file_name(state: str) -> str:
    """The file of a state; InputError for one that names no file."""
    name = f"state-{state}.safetensors"
    if not STATE_FILE.fullmatch(name):
        raise InputError(f"state {state!r} names no file; use small letters, digits, - and _")
    return name


def _state_name(file: str) -> str:
    return file.removeprefix("state-").removesuffix(".safetensors")
