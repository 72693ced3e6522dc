"""A folder that is there whole or not at all: made beside its name, forced to disk, renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jumok.errors import InputError
from jumok.storage import removed_on_failure, scratch_path, storage_errors, sync_folder


def refuse_filled(out: Path) -> None:
    """Raises InputError when something stands at `out` already; an empty folder may."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError(f"{out} is not a folder; name one that is not there yet")
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; name a folder that is not there yet, or empty it")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `out` when all went well; else nothing is left of it.

    Raises InputError when `out` holds something already, StorageError when it cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     out = Path(home) / "exported"
    ...     with whole_folder(out) as scratch:
    ...         _ = (scratch / "README.md").write_text("a model")
    ...         before = out.exists()
    ...     before, [path.name for path in out.iterdir()], len(os.listdir(home))
    (False, ['README.md'], 1)
    """
    refuse_filled(out)
    scratch = scratch_path(out.parent, "tmp", out.name)
    with storage_errors(f"{out}: cannot be written"), removed_on_failure(scratch):
        scratch.mkdir(parents=True)
        yield scratch
        for path in scratch.rglob("*"):
            if path.is_file():
                _sync_file(path)
            else:
                sync_folder(path)
        sync_folder(scratch)
        scratch.replace(out)
        sync_folder(out.parent)


def _sync_file(path: Path) -> None:
    """Force the bytes of a file to disk, whoever wrote them."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
