"""Crash-safe checkpoints: a folder appears complete, under its final name, or not at all.

A commit writes everything under a temporary name, syncs it to disk, renames the folder and syncs
the new name. Nothing is overwritten; older checkpoints are deleted only after the new one is safe.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

from jumok import safetensors_io
from jumok.atomic_io import (
    cleanup_on_error,
    remove,
    remove_stale_temp,
    rename,
    storage_errors,
    sync_folder,
    temp_path,
    write_durably,
)
from jumok.config_io import check_range
from jumok.errors import CheckpointError, InputError, StorageError, join_messages
from jumok.training.checkpoints.checkpoint import (
    MANIFEST,
    Checkpoint,
    InvalidCheckpoint,
    file_name,
    open_checkpoint,
    parse_step,
)
from jumok.training.checkpoints.manifest import JSON, FileRecord, Manifest

States = Mapping[str, Mapping[str, Tensor]]  # tensors by state and name
FileStats = dict[str, tuple[int, ...]]  # of every file of a checkpoint
CHECKPOINTS = "checkpoints"  # the folder of a run that holds them
CHECKPOINT_NAME = re.compile(r"step-(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True)
class CheckpointStore:
    """The checkpoints of the run in `folder`, of which the `keep` newest are kept.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = CheckpointStore(Path(folder))
    ...     path = store.commit(40, {"model": {"bias": torch.ones(2)}}, {"epoch": 3})
    ...     newest = store.newest()
    ...     path.name, newest.step, newest.metadata, newest.load()
    ('step-40', 40, {'epoch': 3}, {'model': {'bias': tensor([1., 1.])}})
    """

    folder: Path
    keep: int = 2
    _verified: dict[str, FileStats] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_range("keep", self.keep, "[2, inf)", "; the newest may be damaged")

    @property
    def checkpoints(self) -> Path:
        """The folder that holds the checkpoints."""
        return self.folder / CHECKPOINTS

    def commit(
        self,
        step: int,
        states: States,
        metadata: Mapping[str, JSON],
        protect: Collection[int] = (),
    ) -> Path:
        """Write the checkpoint of `step` and return its folder once it is safe on disk.

        Then all but the `keep` newest valid ones are deleted, except those of the steps in
        `protect` (the best one). Raises StorageError, which leaves the older ones unchanged, and
        InputError for metadata or tensors that cannot be written. An existing checkpoint of this
        step is never overwritten: a valid one is an error, a damaged one is renamed.
        """
        final = self._final(step)
        scratch = temp_path(self.checkpoints, "tmp", str(step))
        with cleanup_on_error(scratch), storage_errors(f"{final}: cannot be written"):
            self._prepare()
            self._make_way(final)
            scratch.mkdir()
            records = {
                file_name(state): _write_state(scratch / file_name(state), tensors)
                for state, tensors in states.items()
            }
            write_durably(scratch / MANIFEST, Manifest(step, records, metadata).to_bytes())
            sync_folder(scratch)
            rename(scratch, final)
            sync_folder(self.checkpoints)
        with storage_errors(f"{final}: written, but older ones cannot be deleted"):
            self._verified[final.name] = _file_stats(final)
            self._prune(protect)
        return final

    def _final(self, step: int) -> Path:
        return self.checkpoints / f"step-{step}"

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint whose every byte is intact; None without any checkpoint.

        Newer, damaged ones are not touched and listed in its `invalid`. Raises CheckpointError if
        all of them are damaged.
        """
        invalid: list[InvalidCheckpoint] = []
        for path in self._newest_first():
            try:
                return replace(open_checkpoint(path), invalid=tuple(invalid))
            except (InputError, StorageError) as error:
                invalid.append(InvalidCheckpoint(path, error.message))
        if invalid:
            reasons = join_messages(
                "; ", [join_messages("", [each.reason]).at(each.path.name) for each in invalid]
            )
            raise CheckpointError(
                "checkpoint.none_usable",
                "{checkpoints}: none of {n_invalid} checkpoints can be used ({reasons}); copy a "
                "valid one back, or train in another folder",
                checkpoints=self.checkpoints,
                n_invalid=len(invalid),
                reasons=reasons,
            )
        return None

    def last(self, n: int | None = None) -> list[Checkpoint]:
        """At most `n` of the newest valid checkpoints, newest first; None: all of them."""
        valid: list[Checkpoint] = []
        for path in self._newest_first():
            if len(valid) == n:
                break
            with suppress(InputError, StorageError):  # a damaged one
                valid.append(open_checkpoint(path))
        return valid

    def checkpoint(self, step: int) -> Checkpoint:
        """The checkpoint of one step. Raises CheckpointError if it is absent or damaged."""
        path = self._final(step)
        try:
            return open_checkpoint(path)
        except (InputError, StorageError) as error:
            raise CheckpointError(
                "checkpoint.unreadable",
                "{path}: cannot be used ({error}); copy a valid one back, or resume the run",
                path=path,
                error=error,
            ) from error

    def _check_own(self) -> None:
        """Refuse a link in place of the folder: files of another place would be deleted there."""
        if self.checkpoints.is_symlink():
            raise InputError(
                "checkpoint.folder_is_a_link",
                "{checkpoints} must be a folder of the run, got a link to another place; copy "
                "the checkpoints here, or train in another folder",
                checkpoints=self.checkpoints,
            )

    def _prepare(self) -> None:
        """Create the folder durably; delete what dead processes left unfinished."""
        self._check_own()
        if not self.checkpoints.is_dir():
            self.checkpoints.mkdir(parents=True)
            sync_folder(self.folder)
        remove_stale_temp(self.checkpoints)

    def _make_way(self, final: Path) -> None:
        """Rename a damaged checkpoint of the same name; a valid one is an error."""
        if not final.exists():
            return
        try:
            open_checkpoint(final)
        except (InputError, StorageError):
            number = 1
            while (aside := final.with_name(f"damaged-{number}-{final.name}")).exists():
                number += 1
            rename(final, aside)
        else:
            raise StorageError(
                "checkpoint.exists",
                "{final}: exists already and is never overwritten; is another process training "
                "this run? Resume from it, or train in another folder",
                final=final,
            )

    def _newest_first(self) -> list[Path]:
        """The folders with names of checkpoints, the last step first."""
        self._check_own()
        with storage_errors(f"{self.checkpoints}: cannot be read"):
            paths = list(self.checkpoints.iterdir()) if self.checkpoints.is_dir() else []
        names = (path for path in paths if CHECKPOINT_NAME.fullmatch(path.name))
        return sorted(names, key=parse_step, reverse=True)

    def _prune(self, protect: Collection[int]) -> None:
        """Delete what is older than the `keep` newest valid checkpoints."""
        valid = 0
        for path in self._newest_first():
            step = parse_step(path)
            if valid < self.keep:
                valid += self._is_valid(path)
            elif step not in protect:
                doomed = temp_path(self.checkpoints, "del", str(step))
                rename(path, doomed)
                remove(doomed)

    def _is_valid(self, path: Path) -> bool:
        """Whether every byte is intact; files that were verified and did not change are not read.

        Otherwise each commit would read all checkpoints that are kept.
        """
        try:
            stats = _file_stats(path)
            if self._verified.get(path.name) != stats:
                open_checkpoint(path)
        except (InputError, StorageError, OSError):
            return False
        self._verified[path.name] = stats
        return True


def _file_stats(path: Path) -> FileStats:
    """What changes whenever a file of a checkpoint changes: its inode, size and times."""
    stats = ((file.name, file.stat()) for file in path.iterdir())
    return {name: (s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in stats}


def _write_state(path: Path, tensors: Mapping[str, Tensor]) -> FileRecord:
    """Write a file of tensors without a copy of them in memory; return its size and checksum."""
    size, digest = 0, hashlib.sha256()

    def write(file: BinaryIO) -> None:
        nonlocal size
        for chunk in safetensors_io.iter_chunks(tensors):
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)

    write_durably(path, write)
    return FileRecord(size, digest.hexdigest())
