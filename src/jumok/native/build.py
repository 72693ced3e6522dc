"""Compile the C++ kernel at first use with the system's compiler, into the user's cache."""

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jumok.data.arrow_cache import cache_folder
from jumok.errors import JumokError

logger = logging.getLogger(__name__)

SOURCE_FOLDER = Path(__file__).parent / "kernel"
COMPILERS = ("c++", "g++", "clang++")  # tried after the environment variable CXX
COMPILE_TIMEOUT = 600  # seconds
COMMON_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-pthread",
    "-fopenmp-simd",  # SIMD loops only: no OpenMP runtime
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-Wno-psabi",
)
# Flags for the instructions of this processor; the first choice the compiler accepts is used.
TARGET_FLAGS = (
    ("-march=native", "-mprefer-vector-width=512"),
    ("-march=native",),
    ("-mcpu=native",),
    (),
)


class KernelError(JumokError):
    """The C++ kernel is not available or does not support the request; use the PyTorch model."""


@cache
def kernel_path() -> Path:
    """The path of the kernel for this processor, compiled if necessary; KernelError if impossible.

    Concurrent processes each compile it and rename it into place: the file is either absent or
    complete.
    """
    compiler = find_compiler()
    try:
        path = cache_folder("native") / f"kernel-{fingerprint(compiler)}.so"
        if not path.exists():
            logger.info(
                "compiling the C++ kernel, which takes about half a minute; the result is cached"
            )
            compile_kernel(compiler, path)
    except (OSError, subprocess.TimeoutExpired) as error:  # a broken CXX
        raise KernelError(
            f"{compiler} cannot compile the C++ kernel into the cache ({error}); set CXX to "
            "another compiler and XDG_CACHE_HOME to a writable folder, or use the PyTorch model"
        ) from error
    return path


def discard(path: Path) -> None:
    """Delete a damaged kernel, so that the next call of `kernel_path` recompiles it."""
    path.unlink(missing_ok=True)
    kernel_path.cache_clear()


def find_compiler() -> str:
    """The C++ compiler of this system; KernelError if none is installed."""
    candidates = (os.environ.get("CXX", ""), *COMPILERS)
    found = next((path for name in candidates if name and (path := shutil.which(name))), None)
    if found is None:
        raise KernelError(
            "the C++ kernel needs a compiler, and none was found; install g++ or clang++, or use "
            "the PyTorch model"
        )
    return found


def fingerprint(compiler: str) -> str:
    """16 hex digits of a hash over the sources, the compiler, its flags and the processor."""
    digest = hashlib.sha256()
    for source in sorted(SOURCE_FOLDER.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    version = subprocess.run(  # noqa: S603  (the user's own compiler)
        [compiler, "--version"], capture_output=True, check=False, timeout=COMPILE_TIMEOUT
    ).stdout
    for part in (
        version,
        repr((COMMON_FLAGS, TARGET_FLAGS)).encode(),
        processor_description().encode(),
    ):
        digest.update(part + b"\0")
    return digest.hexdigest()[:16]


def processor_description() -> str:
    """The processor model and its instruction set flags."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    keys = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(keys)}))


def compile_kernel(
    compiler: str, path: Path, choices: Sequence[Sequence[str]] = TARGET_FLAGS
) -> None:
    """Compile the kernel into `path` atomically, with the first choice of flags that works."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".kernel-", suffix=".so")
    except OSError as error:
        raise KernelError(
            f"the compiled kernel cannot be written to {path.parent} ({error.strerror}); set "
            "XDG_CACHE_HOME to a writable folder"
        ) from None
    os.close(descriptor)
    try:
        for flags in choices:
            done = subprocess.run(  # noqa: S603  (the user's own compiler)
                [compiler, *COMMON_FLAGS, *flags, "-o", name, str(SOURCE_FOLDER / "c_api.cpp")],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=COMPILE_TIMEOUT,
            )
            if done.returncode == 0:
                with open(name, "rb") as written:
                    os.fsync(written.fileno())  # a power failure must not leave a partial file
                os.replace(name, path)
                return
        message = next((line for line in done.stderr.splitlines() if "error" in line), "")
        raise KernelError(
            f"{compiler} cannot compile the C++ kernel ({message.strip() or 'no error message'}); "
            "set CXX to another compiler, or use the PyTorch model"
        )
    except subprocess.TimeoutExpired:
        raise KernelError(
            f"{compiler} did not compile the C++ kernel within {COMPILE_TIMEOUT} seconds; try "
            "again when the machine is less busy, or use the PyTorch model"
        ) from None
    finally:
        Path(name).unlink(missing_ok=True)
