"""The C++ kernel, compiled at first use with the system's compiler and kept in the user's cache."""

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
COMPILERS = ("c++", "g++", "clang++")  # CXX comes before them
COMPILE_TIMEOUT = 600  # a compiler that has not finished by then never will
COMMON_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-pthread",
    "-fopenmp-simd",  # only the vector loops: no OpenMP runtime
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-Wno-psabi",
)
# What this processor can do, as compilers spell it; the first that is understood is taken.
TARGET_FLAGS = (
    ("-march=native", "-mprefer-vector-width=512"),
    ("-march=native",),
    ("-mcpu=native",),
    (),
)


class KernelError(JumokError):
    """The C++ kernel cannot be had, or cannot do what is asked: the plain model can."""


@cache
def kernel_path() -> Path:
    """The compiled kernel for this processor, made if need be. KernelError says why it cannot be.

    Processes that come at the same moment each compile it, and the last rename wins: at every
    moment the file is absent or whole.
    """
    compiler = find_compiler()
    try:
        path = cache_folder("native") / f"kernel-{fingerprint(compiler)}.so"
        if not path.exists():
            logger.info("compiling the C++ kernel, once: half a minute")
            compile_kernel(compiler, path)
    except (OSError, subprocess.TimeoutExpired) as error:  # a broken CXX
        raise KernelError(
            f"the fast kernel cannot be compiled by {compiler} and kept ({error}); name another "
            "compiler in CXX and a folder in XDG_CACHE_HOME, or write with the plain model"
        ) from error
    return path


def discard(path: Path) -> None:
    """Throw away a kernel that is damaged: the next one asked for is compiled anew."""
    path.unlink(missing_ok=True)
    kernel_path.cache_clear()


def find_compiler() -> str:
    """The C++ compiler of this system; KernelError if there is none."""
    wanted = (os.environ.get("CXX", ""), *COMPILERS)
    found = next((path for name in wanted if name and (path := shutil.which(name))), None)
    if found is None:
        raise KernelError(
            "no C++ compiler was found for the fast kernel; install g++ or clang++, "
            "or write with the plain model"
        )
    return found


def fingerprint(compiler: str) -> str:
    """What the compiled kernel depends on, in 16 letters: sources, compiler, flags, processor."""
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
    """What kind of processor this is and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    known = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(known)}))


def compile_kernel(
    compiler: str, path: Path, choices: Sequence[Sequence[str]] = TARGET_FLAGS
) -> None:
    """Compile the kernel into `path`, at one stroke, with the first choice of flags that works."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".kernel-", suffix=".so")
    except OSError as error:
        raise KernelError(
            f"the compiled kernel cannot be kept in {path.parent} ({error.strerror}); "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from None
    os.close(descriptor)
    try:
        for flags in choices:
            done = subprocess.run(  # noqa: S603  (the user's own compiler)
                [compiler, *COMMON_FLAGS, *flags, "-o", name, str(SOURCE_FOLDER / "door.cpp")],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=COMPILE_TIMEOUT,
            )
            if done.returncode == 0:
                with open(name, "rb") as written:
                    os.fsync(written.fileno())  # or a power cut leaves half a kernel under the name
                os.replace(name, path)
                return
        complaint = next((line for line in done.stderr.splitlines() if "error" in line), "")
        raise KernelError(
            f"{compiler} cannot compile the fast kernel ({complaint.strip() or 'no reason given'});"
            " use another compiler (CXX names it), or write with the plain model"
        )
    except subprocess.TimeoutExpired:
        raise KernelError(
            f"{compiler} has not compiled the fast kernel in {COMPILE_TIMEOUT} seconds; try again when the "
            "machine is less busy, or write with the plain model"
        ) from None
    finally:
        Path(name).unlink(missing_ok=True)
