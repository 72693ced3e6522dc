"""A checkpoint on disk and its verification: every byte is checked.

    RUN/checkpoints/step-40/state-model.safetensors      named tensors, one file per state
                            state-optimizer.safetensors
                            manifest.json                 step, checksums of the files, metadata

The files are the same for any number of processes; `store.py` writes such folders.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from jumok import safetensors_io
from jumok.atomic_io import read_regular, sha256_of, storage_errors
from jumok.errors import CheckpointError, InputError, Message
from jumok.training.checkpoints.manifest import (
    JSON,
    STATE_FILE,
    FileRecord,
    Manifest,
    parse_manifest,
)

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 * 2**20


@dataclass(frozen=True)
class InvalidCheckpoint:
    """A checkpoint that cannot be used, and the reason."""

    path: Path
    reason: Message


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint; `invalid` lists newer ones that are damaged."""

    path: Path
    manifest: Manifest
    invalid: tuple[InvalidCheckpoint, ...] = ()

    @property
    def step(self) -> int:
        """The number of steps that had been trained."""
        return self.manifest.step

    @property
    def metadata(self) -> Mapping[str, JSON]:
        """What was committed with the tensors: recipe, versions, data position, best score."""
        return self.manifest.metadata

    @property
    def states(self) -> list[str]:
        """The names of the states."""
        ends = ("state-", ".safetensors")
        return [file.removeprefix(ends[0]).removesuffix(ends[1]) for file in self.manifest.files]

    def belongs_to(self, metadata: Mapping[str, Any]) -> bool:
        """Whether it belongs to the run with this metadata: recipe, vocabulary, data."""
        return all(self.metadata.get(key) == value for key, value in metadata.items())

    def load(self) -> dict[str, dict[str, Tensor]]:
        """The tensors by state and name, on the CPU.

        Raises CheckpointError if a file changed since the verification, StorageError if it cannot
        be read.
        """
        return {state: self.state(state) for state in self.states}

    def state(self, state: str) -> dict[str, Tensor]:
        """The tensors of one state; raises the errors of `load`."""
        name = file_name(state)
        record = self.manifest.files[name]
        data = read_regular(self.path / name, record.bytes)
        if hashlib.sha256(data).hexdigest() != record.sha256:
            raise CheckpointError(
                "checkpoint.changed_while_read",
                "{path}: changed while it was read; resume again",
                path=self.path / name,
            )
        return safetensors_io.deserialize(data)


def check_same_run(checkpoint: Checkpoint, metadata: Mapping[str, Any]) -> None:
    """Raises CheckpointError for a checkpoint of another run than the one with this metadata."""
    for key, value in metadata.items():
        if checkpoint.metadata.get(key) != value:
            raise CheckpointError(
                "checkpoint.of_another_run",
                "{path}: its {key} must be that of the run, {value!r}, got {get!r}; move it away "
                "to resume from an older one, or train in another folder",
                path=checkpoint.path,
                key=key,
                value=value,
                get=checkpoint.metadata.get(key),
            )


def open_checkpoint(path: Path) -> Checkpoint:
    """Verify every byte of the checkpoint in `path`. Raises InputError or StorageError.

    Neither the folder nor a file in it may be a link: the target is not a part of the run.
    """
    if path.is_symlink():
        raise InputError(
            "checkpoint.link",
            "it is a link; copy the folder here",
        )
    with storage_errors(f"{path.name}: cannot be read"):
        present = {file.name for file in path.iterdir() if not file.name.startswith(".")}
    if MANIFEST not in present:
        raise InputError(
            "checkpoint.no_manifest",
            "it has no manifest; it is damaged",
        )
    manifest = parse_manifest(read_regular(path / MANIFEST, MAX_MANIFEST_BYTES))
    if manifest.step != parse_step(path):
        raise InputError(
            "checkpoint.manifest_of_other_step",
            "its manifest is that of step {step}; it was moved or mixed up",
            step=manifest.step,
        )
    expected = {MANIFEST, *manifest.files}
    if present != expected:
        raise InputError(
            "checkpoint.wrong_files",
            "missing files: {expected}, unexpected files: {present}; it is damaged",
            expected=sorted(expected - present),
            present=sorted(present - expected),
        )
    for name, record in manifest.files.items():
        _verify_file(path / name, record)
    return Checkpoint(path, manifest)


def _verify_file(path: Path, record: FileRecord) -> None:
    """Check the size first, as it is cheap; then the checksum; then the safetensors header."""
    with storage_errors(f"{path.name}: cannot be read"):
        size = path.stat().st_size
    if path.is_symlink():
        raise InputError(
            "checkpoint.file_is_a_link",
            "{path} is a link; copy the file here",
            path=path.name,
        )
    if size != record.bytes:
        raise InputError(
            "checkpoint.wrong_size",
            "{path} has {size:,} bytes of {bytes:,}; it is damaged",
            path=path.name,
            size=size,
            bytes=record.bytes,
        )
    if sha256_of(path) != record.sha256:
        raise InputError(
            "checkpoint.checksum_mismatch",
            "{path} is not what was written (SHA-256 differs); it is damaged",
            path=path.name,
        )
    safetensors_io.read_header(path)


def parse_step(path: Path) -> int:
    """The step in the name of a checkpoint's folder."""
    return int(path.name.removeprefix("step-"))


def file_name(state: str) -> str:
    """The file of a state. Raises InputError for a name that cannot be one."""
    name = f"state-{state}.safetensors"
    if not STATE_FILE.fullmatch(name):
        raise InputError(
            "checkpoint.state_name",
            "a state's name must be small letters, digits, - and _, got {state!r}",
            state=state,
        )
    return name
