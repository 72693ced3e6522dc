"""Read a `pytorch_model.bin` without executing it: the only place where jumok accepts a pickle.

A pickle is a program. It is never executed: `zip_check` validates the archive around it, then a
subprocess without network and with limits on memory, time and disk (`pickle_worker`) reads it with
`torch.load(weights_only=True)` and writes its tensors to an unnamed file, which is validated and
mapped like any safetensors file. If a step fails, the file is not read; there is no fallback.
"""

import os
import subprocess
import sys
import tempfile
from io import BufferedReader
from pathlib import Path

from torch import Tensor

from jumok.atomic_io import open_regular, storage_errors
from jumok.errors import InputError
from jumok.pretrained.memory_map import mmap_safetensors
from jumok.pretrained.zip_check import check_zip
from jumok.safe_json import parse_json

WORKER = Path(__file__).with_name("pickle_worker.py")
MAX_RESULT_BYTES = 32 * 2**20


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of a `pytorch_model.bin`; two names of one tensor share it.

    They are mapped from an unnamed file in the folder for temporary files (`TMPDIR`), which needs
    as much space as the checkpoint and is deleted with the last tensor. Raises InputError for a
    pickle with code, a zip archive that `torch.save` does not write, values that are not dense
    tensors, and on systems other than Linux, where the limits do not hold; StorageError if the file
    cannot be read.
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
    """The tensors of a checked archive, converted by the worker process."""
    with (
        storage_errors(f"{tempfile.gettempdir()}: cannot write a copy of {size:,} bytes"),
        tempfile.TemporaryFile() as weights,
        tempfile.TemporaryFile() as output,
    ):
        file.seek(0)
        process = subprocess.run(  # noqa: S603  (our own program, and no shell)
            [sys.executable, "-P", "-B", WORKER, str(weights.fileno()), str(size)],
            stdin=file,
            stdout=output,
            stderr=subprocess.DEVNULL,
            pass_fds=[weights.fileno()],
            env=_environment(),
            check=False,
        )
        if process.returncode:
            raise _pickle_error(f"the worker exceeded its limits (code {process.returncode})")
        output.seek(0)
        result = parse_json(output.read(MAX_RESULT_BYTES))
        if "error" in result:
            raise _pickle_error(str(result["error"])[:300])
        tensors = mmap_safetensors(Path(f"/proc/self/fd/{weights.fileno()}"))
        return _with_tied(tensors, result.get("tied"))


def _environment() -> dict[str, str]:
    """The environment of the worker: the library paths, and nothing else of the user's."""
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    return kept | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONUTF8": "1",
        "OMP_NUM_THREADS": "1",
    }


def _with_tied(tensors: dict[str, Tensor], tied: object) -> dict[str, Tensor]:
    """The same tensors, with the further names of tied tensors."""
    if not isinstance(tied, dict):
        raise _pickle_error("the worker returned no result")
    for name, first in tied.items():
        if name in tensors or not isinstance(first, str) or first not in tensors:
            raise _pickle_error(f"the worker returned the name {ascii(name)[:80]} twice")
    return tensors | {name: tensors[first] for name, first in tied.items()}


def _pickle_error(reason: str) -> InputError:
    return InputError(
        f"{reason}; jumok reads tensors only and never executes a file's code: "
        "get model.safetensors instead"
    )
