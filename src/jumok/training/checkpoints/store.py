"""Checkpoints that a crash cannot break: a folder appears whole, under its name, or not at all.

To commit is to write everything under a scratch name, force it to disk, rename the folder, and
force the new name to disk. Nothing is overwritten; older ones go only after the new one is safe.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol

from torch import Tensor

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import (
    cleanup_on_error,
    remove,
    remove_stale_temp,
    storage_errors,
    sync_folder,
    temp_path,
    write_durably,
)
from jumok.errors import CheckpointError, InputError, StorageError
from jumok.training.checkpoints.checkpoint import (
    MANIFEST,
    Checkpoint,
    Rejected,
    file_name,
    parse_step,
    verified,
)
from jumok.training.checkpoints.manifest import JSON, FileRecord, Manifest

States = Mapping[str, Mapping[str, Tensor]]
Marks = dict[str, tuple[int, ...]]  # of every file
CHECKPOINTS = "checkpoints"  # the folder of a run in which they lie
CHECKPOINT_NAME = re.compile(r"step-(0|[1-9][0-9]{0,17})")


class CheckpointWriter(Protocol):
    """Where a training commits: a store of its own, or one that processes share."""

    def commit(
        self,
        step: int,
        states: States,
        metadata: Mapping[str, JSON],
        protect: Collection[int] = (),
    ) -> Path:
        """See `CheckpointStore.commit`."""


@dataclass(frozen=True)
class CheckpointStore:
    """The checkpoints of the run in `folder`, of which the `keep` newest stay.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = CheckpointStore(Path(folder))
    ...     path = store.commit(40, {"model": {"bias": torch.ones(2)}}, {"epoch": 3})
    ...     newest = store.newest()
    ...     path.name, newest.step, newest.facts, newest.load()
    ('step-40', 40, {'epoch': 3}, {'model': {'bias': tensor([1., 1.])}})
    """

    folder: Path
    keep: int = 2
    _sound: dict[str, Marks] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.keep < 2:
            raise InputError(f"keep {self.keep} checkpoints leaves no second one; keep 2 or more")

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

        After that all but the `keep` newest sound ones are deleted, those of the steps in
        `protect` (the best one) excepted. Raises StorageError, and the older ones are as they
        were; InputError for facts or tensors that cannot be written. A checkpoint of this step that
        is there already is never overwritten: a sound one is an error, a damaged one moves aside.
        """
        scratch = self.stage(step)
        with cleanup_on_error(scratch):
            records = self.write_states(step, scratch, states)
            return self.publish(step, scratch, records, metadata, protect)

    def stage(self, step: int) -> Path:
        """The first part of a commit: an empty folder for its files, of a name nobody looks at."""
        final = self._final(step)
        with storage_errors(f"{final}: cannot be committed"):
            self._prepare()
            self._make_way(final)
            scratch = temp_path(self.checkpoints, "tmp", str(step))
            scratch.mkdir()
        return scratch

    def write_states(self, step: int, scratch: Path, states: States) -> dict[str, FileRecord]:
        """The second part: a file for each of these states."""
        with storage_errors(f"{self._final(step)}: cannot be committed"):
            return {
                file_name(state): _write_state(scratch / file_name(state), tensors)
                for state, tensors in states.items()
            }

    def publish(
        self,
        step: int,
        scratch: Path,
        records: Mapping[str, FileRecord],
        facts: Mapping[str, JSON],
        protect: Collection[int] = (),
    ) -> Path:
        """The last part: the files that are safe on disk become the checkpoint of `step`."""
        final = self._final(step)
        with storage_errors(f"{final}: cannot be committed"):
            write_durably(scratch / MANIFEST, Manifest(step, records, facts).to_bytes())
            sync_folder(scratch)
            scratch.rename(final)
            sync_folder(self.checkpoints)
        with storage_errors(f"{final}: committed, but older ones cannot be deleted"):
            self._sound[final.name] = _marks(final)
            self._prune(protect)
        return final

    def _final(self, step: int) -> Path:
        return self.checkpoints / f"step-{step}"

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is sound to the last bit; None when there is none at all.

        Damaged ones are left where they are and named in its `rejected`. Raises CheckpointError
        when every one is damaged.
        """
        rejected: list[Rejected] = []
        for path in self._newest_first():
            try:
                return replace(verified(path), rejected=tuple(rejected))
            except (InputError, StorageError) as error:
                rejected.append(Rejected(path, str(error)))
        if rejected:
            reasons = "; ".join(f"{bad.path.name}: {bad.reason}" for bad in rejected)
            raise CheckpointError(
                f"{self.checkpoints}: no checkpoint of {len(rejected)} can be used ({reasons}); "
                "copy a sound one back, or train anew into another folder"
            )
        return None

    def last(self, n: int | None = None) -> list[Checkpoint]:
        """The `n` newest sound checkpoints, the newest first; all of them if there are fewer.

        None: all there are.
        """
        sound: list[Checkpoint] = []
        for path in self._newest_first():
            if len(sound) == n:
                break
            with suppress(InputError, StorageError):  # a damaged one
                sound.append(verified(path))
        return sound

    def checkpoint(self, step: int) -> Checkpoint:
        """The checkpoint of one step, the best one for example.

        Raises CheckpointError when it is absent or damaged.
        """
        path = self.checkpoints / f"step-{step}"
        try:
            return verified(path)
        except (InputError, StorageError) as error:
            raise CheckpointError(
                f"{path}: cannot be used ({error}); copy a sound one back, or resume the run"
            ) from error

    def _prepare(self) -> None:
        """The folder is there, durably, and clear of what dead processes left unfinished."""
        if not self.checkpoints.is_dir():
            self.checkpoints.mkdir(parents=True)
            sync_folder(self.folder)
        remove_stale_temp(self.checkpoints)

    def _make_way(self, final: Path) -> None:
        """Move a damaged checkpoint of the same name aside; a sound one stays and is an error."""
        if not final.exists():
            return
        try:
            verified(final)
        except (InputError, StorageError):
            number = 1
            while (aside := final.with_name(f"damaged-{number}-{final.name}")).exists():
                number += 1
            final.rename(aside)
        else:
            raise StorageError(
                f"{final}: is committed already and never overwritten; "
                "is another process training this run? Resume from it, or train into another folder"
            )

    def _newest_first(self) -> list[Path]:
        """The folders that are named like checkpoints, the last step first."""
        with storage_errors(f"{self.checkpoints}: cannot be read"):
            paths = list(self.checkpoints.iterdir()) if self.checkpoints.is_dir() else []
        return sorted(
            (p for p in paths if CHECKPOINT_NAME.fullmatch(p.name)), key=parse_step, reverse=True
        )

    def _prune(self, protect: Collection[int]) -> None:
        """Delete what is older than the `keep` newest checkpoints that can really be resumed."""
        sound = 0
        for path in self._newest_first():
            step = parse_step(path)
            if sound < self.keep:
                sound += self._is_sound(path)
            elif step not in protect:
                doomed = temp_path(self.checkpoints, "del", str(step))
                path.rename(doomed)
                remove(doomed)

    def _is_sound(self, path: Path) -> bool:
        """Whether it can be resumed: each byte is read, unless it was sound and is as it was.

        To read all that is kept at each commit would take the longer the more is kept.
        """
        try:
            marks = _marks(path)
            if self._sound.get(path.name) != marks:
                verified(path)
        except (InputError, StorageError, OSError):
            return False
        self._sound[path.name] = marks
        return True


def _marks(path: Path) -> Marks:
    """What changes with every change of a file of a checkpoint: which it is, its size and times."""
    found = ((file.name, file.stat()) for file in path.iterdir())
    return {name: (s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found}


def _write_state(path: Path, tensors: Mapping[str, Tensor]) -> FileRecord:
    """Write a file of tensors, without a copy of them in memory; what was written."""
    size, total = 0, hashlib.sha256()

    def write(file: BinaryIO) -> None:
        nonlocal size
        for piece in tensorfile.iter_chunks(tensors):
            file.write(piece)
            total.update(piece)
            size += len(piece)

    write_durably(path, write)
    return FileRecord(size, total.hexdigest())
