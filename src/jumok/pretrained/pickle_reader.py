"""The one guarded door for a pickle: somebody's `pytorch_model.bin`, without running anything.

A pickle is a program. Here it is never run: the zip around it is checked first (`archive`), then
a process of its own without network, with limits on memory, time and disk (`unpickle`), reads it
with `torch.load(weights_only=True)` and writes its tensors into a file that has no name; that one
is checked and mapped like any safetensors file. When a step refuses, that is the answer: there is
no other way in.
"""

import os
import subprocess
import sys
import tempfile
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

from jumok.atomic_io import open_regular, storage_errors
from jumok.errors import InputError
from jumok.pretrained.memory_map import map_tensors
from jumok.pretrained.zip_check import check_zip
from jumok.safe_json import parse_json

WORKER = Path(__file__).with_name("unpickle.py")
_ANSWER_BYTES = 32 * 2**20


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of a foreign `pytorch_model.bin`; two names of one tensor stay so.

    They are mapped from a file without a name in the folder for temporary files (`TMPDIR`), which
    needs as much room as the checkpoint and is gone with the last of them. Raises InputError for
    a pickle with code, a zip that is not as `torch.save` writes it, whatever is no plain tensor,
    and on systems other than Linux, where the limits do not hold; StorageError for what cannot be
    read.
    """
    if sys.platform != "linux":
        raise InputError(f"{path}: pickles are read on Linux only; get model.safetensors instead")
    with open_regular(path) as (file, size):
        try:
            check_zip(file, size)
            return _read_in_subprocess(file, size)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _read_in_subprocess(file: BufferedReader, size: int) -> dict[str, Tensor]:
    """The tensors of a checked archive, by way of the other process."""
    with (
        storage_errors(f"{tempfile.gettempdir()}: cannot take a copy of {size:,} bytes"),
        tempfile.TemporaryFile() as weights,
        tempfile.TemporaryFile() as answer,
    ):
        file.seek(0)
        ended = subprocess.run(  # noqa: S603  (our own program, and no shell)
            [sys.executable, "-P", "-B", WORKER, str(weights.fileno()), str(size)],
            stdin=file,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            pass_fds=[weights.fileno()],
            env=_environment(),
            check=False,
        )
        if ended.returncode:
            raise _refusal(f"reading it ended at the limits set for it (code {ended.returncode})")
        answer.seek(0)
        told = parse_json(answer.read(_ANSWER_BYTES))
        if "refused" in told:
            raise _refusal(str(told["refused"])[:300])
        return _with_tied(_mapped(weights), told.get("tied"))


def _environment() -> dict[str, str]:
    """What the other process may know: where the libraries are, and nothing of the user."""
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    return kept | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONUTF8": "1",
        "OMP_NUM_THREADS": "1",
    }


def _mapped(weights: BinaryIO) -> dict[str, Tensor]:
    """The tensors that the other process wrote, checked like anybody's."""
    return map_tensors(weights, os.fstat(weights.fileno()).st_size)


def _with_tied(tensors: dict[str, Tensor], tied: object) -> dict[str, Tensor]:
    """The same tensors under all of their names."""
    if not isinstance(tied, dict):
        raise _refusal("reading it gave no answer")
    for name, kept in tied.items():
        if name in tensors or not isinstance(kept, str) or kept not in tensors:
            raise _refusal(f"reading it gave the name {ascii(name)[:80]} twice")
    return tensors | {name: tensors[kept] for name, kept in tied.items()}


def _refusal(reason: str) -> InputError:
    return InputError(
        f"{reason}; jumok reads plain weights only and never runs a file's code: "
        "get model.safetensors instead"
    )
