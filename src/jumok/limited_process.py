"""Run a program of the library in a child process that reads what is not trusted.

The program gets standard input and its arguments, limits itself by `process_limits`, and prints one
JSON object, which is validated here. Nothing of the current folder is imported, and of the
environment it gets only what finds libraries.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from jumok.safe_json import parse_json

MAX_RESULT_BYTES = 32 * 2**20
_PACKAGES = Path(__file__).parent.parent  # the folder that contains jumok
_LIBRARY_PATHS = (  # without SYSTEMROOT no program starts on Windows
    ("PATH", "SYSTEMROOT", "TEMP") if os.name == "nt" else ("LD_LIBRARY_PATH",)
)


class ProgramError(Exception):
    """The reason why a program has no result."""


def run_program(
    program: Path,
    arguments: Sequence[str] = (),
    *,
    stdin: IO[bytes],
    pass_fds: Sequence[int] = (),
    timeout: float | None = None,
) -> dict[str, Any]:
    """The object that the program prints; it ends after `timeout` seconds.

    Raises ProgramError for a program that exceeds its limits or prints `{"error": reason}`, and
    InputError for output that is not valid JSON.
    """
    with tempfile.TemporaryFile() as output:
        try:
            code: int | str = subprocess.run(  # noqa: S603  (our own program, and no shell)
                [sys.executable, "-P", "-B", program, *arguments],
                stdin=stdin,
                stdout=output,
                stderr=subprocess.DEVNULL,
                pass_fds=pass_fds,
                env=_environment(),
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = "timeout"
        if code:
            raise ProgramError(f"the worker exceeded its limits (code {code})")
        output.seek(0)
        result = parse_json(output.read(MAX_RESULT_BYTES))
    if "error" in result:
        raise ProgramError(str(result["error"])[:300])
    return result


def _environment() -> dict[str, str]:
    """The environment of the program: what finds libraries, and nothing else of the user's."""
    kept = {key: os.environ[key] for key in _LIBRARY_PATHS if key in os.environ}
    try:
        here = os.getcwd()
    except FileNotFoundError:  # the folder was deleted
        here = ""
    paths = [path for path in sys.path if os.path.isabs(path) and path != here]
    return kept | {
        "PYTHONPATH": os.pathsep.join([*paths, str(_PACKAGES)]),
        "PYTHONUTF8": "1",
        "OMP_NUM_THREADS": "1",
    }
