"""Read a `pytorch_model.bin` without executing it: the only place where jumok accepts a pickle.

A pickle is a program. It is never executed: `zip_check` validates the archive around it, then a
subprocess without network and with limits on memory, time and disk (`pickle_worker`) reads it with
`torch.load(weights_only=True)` and writes its tensors to an unnamed file, which is validated and
mapped like any safetensors file. If a step fails, the file is not read; there is no fallback.

Only Linux has the means to drop the network and to set these limits. Elsewhere the same subprocess
runs without them, which a warning says, and its result is read into memory.
"""

import logging
import sys
import tempfile
from contextlib import AbstractContextManager
from io import BufferedReader
from pathlib import Path

from torch import Tensor

from jumok.atomic_io import open_regular, read_regular, storage_errors
from jumok.errors import InputError, Message, ModelFileError, located
from jumok.limited_process import ProgramError, run_program
from jumok.pretrained.memory_map import mmap_safetensors
from jumok.pretrained.zip_check import check_zip
from jumok.safe_json import check_downloaded
from jumok.safetensors_io import deserialize

WORKER = Path(__file__).with_name("pickle_worker.py")

logger = logging.getLogger(__name__)


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of a `pytorch_model.bin`; two names of one tensor share it.

    They are mapped from an unnamed file in the folder for temporary files (`TMPDIR`), which needs
    as much space as the checkpoint and is deleted with the last tensor. Raises InputError for a
    pickle with code, a zip archive that `torch.save` does not write, and values that are not dense
    tensors; StorageError if the file cannot be read.
    """
    read = _read_in_subprocess if sys.platform == "linux" else _read_without_limits
    with open_regular(path) as (file, size), located(path):
        check_downloaded(file.read(64))
        check_zip(file, size)
        file.seek(0)
        return read(file, size)


def _read_in_subprocess(file: BufferedReader, size: int) -> dict[str, Tensor]:
    """The tensors of a checked archive, converted by the worker process within its limits."""
    with _copy_errors(size), tempfile.TemporaryFile() as weights:
        tied = _run_worker(file, size, str(weights.fileno()), (weights.fileno(),))
        tensors = mmap_safetensors(Path(f"/proc/self/fd/{weights.fileno()}"))
    return _with_tied(tensors, tied)


def _read_without_limits(file: BufferedReader, size: int) -> dict[str, Tensor]:
    """The tensors of a checked archive, converted by a worker process without limits.

    For systems where a process cannot limit itself; a mapped file could not be deleted there.
    """
    logger.warning(
        Message(
            "pretrained.read_without_limits",
            "{file} is read without limits on memory, time, disk and network, which only Linux "
            "has; model.safetensors needs none",
            file=file.name,
        )
    )
    with _copy_errors(size), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        tied = _run_worker(file, size, str(path))
        tensors = deserialize(read_regular(path, 2 * size + 64 * 2**20))
    return _with_tied(tensors, tied)


def _copy_errors(size: int) -> AbstractContextManager[None]:
    return storage_errors(f"{tempfile.gettempdir()}: cannot write a copy of {size:,} bytes")


def _run_worker(
    file: BufferedReader, size: int, target: str, descriptors: tuple[int, ...] = ()
) -> object:
    """Let the worker write the tensors of `file` to `target`; returns the names it tied."""
    try:
        result = run_program(WORKER, [target, str(size)], stdin=file, pass_fds=descriptors)
    except ProgramError as error:
        raise _pickle_error(str(error)) from error
    return result.get("tied")


def _with_tied(tensors: dict[str, Tensor], tied: object) -> dict[str, Tensor]:
    """The tensors with the further names of tied tensors."""
    if not isinstance(tied, dict):
        raise _pickle_error("the worker returned no result")
    for name, first in tied.items():
        if name in tensors or not isinstance(first, str) or first not in tensors:
            raise _pickle_error(f"the worker returned the name {ascii(name)[:80]} twice")
    return tensors | {name: tensors[first] for name, first in tied.items()}


def _pickle_error(reason: str) -> InputError:
    return ModelFileError(
        "pretrained.code_in_pickle",
        "{reason}; jumok reads tensors only and never executes a file's code: get "
        "model.safetensors instead",
        reason=reason,
    )
