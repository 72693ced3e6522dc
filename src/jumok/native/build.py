"""The compiled C++ kernel: the one in the wheel, the one in the user's cache, or compiled now.

    python -m jumok.native.build     # compiles it into the cache where it is missing

`compile_kernel` needs neither torch nor an installed jumok, so that a build of the wheel can call
it for every instruction set of the machine.
"""

import hashlib
import logging
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from jumok.errors import JumokError, Message
from jumok.native.instruction_sets import X86_64, InstructionSet, machine, usable
from jumok.terminal import print_line

logger = logging.getLogger(__name__)

SOURCE_FOLDER = Path(__file__).parent / "kernel"
SOURCES = {"kernel": "c_api.cpp", "training": "training_api.cpp"}  # a library each
BUNDLED_FOLDER = Path(__file__).parent / "lib"  # in a wheel only
COMPILERS = ("c++", "g++", "clang++")  # tried after the environment variable CXX
COMPILE_TIMEOUT = 600  # seconds
COMMON_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",  # one process may load several kernels: they share no symbol
    "-pthread",
    "-fopenmp-simd",  # SIMD loops only: no OpenMP runtime
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-Wno-psabi",
)


class KernelError(JumokError):
    """The C++ kernel is not available or does not support the request; use the PyTorch model."""


@cache
def kernel_path(part: str = "kernel", *, bundled: bool = True) -> Path:
    """The path of the fastest kernel for this processor; KernelError if there is none.

    `part` is "kernel", for inference, or "training".

    A kernel is looked up in the wheel (unless not `bundled`) and in the user's cache, and compiled
    otherwise. A compiler that does not know an instruction set compiles the next one. Of concurrent
    processes one compiles, and the others wait for it; a file is either absent or complete. A file
    in the cache that others may have written is not used (`data/trusted_cache.py`).
    """
    from jumok.data.trusted_cache import is_trusted, record_sum

    folders = [BUNDLED_FOLDER] * bundled + [_cache()]
    failure: KernelError | None = None
    for instruction_set in usable():
        paths = [folder / kernel_name(instruction_set, part) for folder in folders]
        for path in paths:
            if (path.parent == BUNDLED_FOLDER and path.exists()) or is_trusted(path):
                return path
        try:
            with _alone(paths[-1]):
                if is_trusted(paths[-1]):  # another process has compiled it meanwhile
                    return paths[-1]
                compiler = find_compiler()
                if failure is None:
                    logger.warning(_compiling(instruction_set.name, part))
                compile_kernel(instruction_set, paths[-1], compiler, part=part)
                record_sum(paths[-1])
        except KernelError as error:
            failure = failure or error
            if error.code in ("kernel.compilation_timeout", "kernel.no_compiler"):
                break  # the next one would take as long, or fail as well
        else:
            return paths[-1]
    assert failure is not None
    raise failure


def _compiling(instruction_set: str, part: str) -> Message:
    """What is logged before a compilation."""
    if part == "training":
        return Message(
            "kernel.compiling_training",
            "compiling the C++ kernel of trainings for {instruction_set} once, which takes some "
            "seconds",
            instruction_set=instruction_set,
        )
    return Message(
        "kernel.compiling",
        "compiling the C++ kernel for {instruction_set} once, which takes about half a minute",
        instruction_set=instruction_set,
    )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time compile into `path`, where its folder can be locked."""
    from filelock import FileLock

    from jumok.file_lock import acquire

    lock = FileLock(path.with_suffix(".lock"), timeout=COMPILE_TIMEOUT)
    with suppress(OSError):  # also one that holds it for longer; `compile_kernel` reports the rest
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        acquire(lock)
    try:
        yield
    finally:
        lock.release()


def compiled_kernel() -> Path | None:
    """The kernel of this processor in the wheel or in the user's cache; None without compiling."""
    from jumok.data.arrow_cache import cache_folder
    from jumok.data.trusted_cache import is_trusted

    name = kernel_name(usable()[0])
    bundled, cached = BUNDLED_FOLDER / name, cache_folder("native") / name
    return bundled if bundled.exists() else cached if is_trusted(cached) else None


def _cache() -> Path:
    """The folder of compiled kernels; a temporary one if others may write to the user's."""
    from jumok.data.arrow_cache import cache_folder
    from jumok.data.trusted_cache import private_folder

    folder = cache_folder("native")
    try:
        return private_folder(folder)
    except OSError:
        return folder  # which `compile_kernel` reports


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
            "kernel.no_compiler",
            "the C++ kernel needs a compiler, and none was found; install g++ or clang++, or use "
            'PyTorch, which is slower: pip install "jumok[train]"',
        )
    return found


def kernel_name(instruction_set: InstructionSet, part: str = "kernel") -> str:
    """The file name of a compiled kernel, with a hash of its sources and flags.

    A kernel of other sources, as in the cache of an older version, has another name.
    """
    digest = hashlib.sha256(repr(compile_flags(instruction_set)).encode())
    for source in sorted(SOURCE_FOLDER.rglob("*.*")):
        if part == "kernel" and is_for_training(source):
            continue
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return f"{part}-{instruction_set.name}-{digest.hexdigest()[:16]}.so"


def is_for_training(source: Path) -> bool:
    """Whether a source of the kernel is in the library for training alone."""
    return source.relative_to(SOURCE_FOLDER).as_posix().startswith("training")


def compile_kernel(
    instruction_set: InstructionSet, path: Path, compiler: str = "", *, part: str = "kernel"
) -> None:
    """Compile the kernel for an instruction set into `path` atomically; KernelError on failure.

    The compiler is by default that of `find_compiler`. The processor that compiles does not need
    to have the instructions.
    """
    compiler = compiler or find_compiler()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".kernel-", suffix=".so")
    except OSError as error:
        raise KernelError(
            "kernel.not_written",
            "the compiled kernel cannot be written to {parent} ({strerror}); set XDG_CACHE_HOME "
            "to a writable folder",
            parent=path.parent,
            strerror=error.strerror,
        ) from None
    os.close(descriptor)
    try:
        source = str(SOURCE_FOLDER / SOURCES[part])
        code, output = _run([compiler, *compile_flags(instruction_set), "-o", name, source])
        if code != 0:
            message = next((line for line in output.splitlines() if "error" in line), "")
            raise KernelError(
                "kernel.not_compiled",
                "{compiler} cannot compile the C++ kernel ({message}); set CXX to another "
                "compiler, or use the PyTorch model",
                compiler=compiler,
                message=message.strip() or "no error message",
            )
        with open(name, "rb") as written:
            os.fsync(written.fileno())  # a power failure must not leave a partial file
        os.replace(name, path)
    except subprocess.TimeoutExpired:
        raise KernelError(
            "kernel.compilation_timeout",
            "{compiler} did not compile the C++ kernel within {compile_timeout} seconds; try "
            "again when the machine is less busy, or use the PyTorch model",
            compiler=compiler,
            compile_timeout=COMPILE_TIMEOUT,
        ) from None
    except OSError as error:  # a broken CXX
        raise KernelError(
            "kernel.not_compiled_into_cache",
            "{compiler} cannot compile the C++ kernel into {parent} ({error}); set CXX to "
            "another compiler and XDG_CACHE_HOME to a writable folder, or use the PyTorch model",
            compiler=compiler,
            parent=path.parent,
            error=error,
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)


def _run(command: list[str]) -> tuple[int, str]:
    """The exit code of a compiler and what it wrote to stderr; on failure none of it runs on."""
    with subprocess.Popen(  # noqa: S603  (the user's own compiler)
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # a driver such as g++ starts the compiler itself, cc1plus
    ) as process:
        try:
            _, output = process.communicate(timeout=COMPILE_TIMEOUT)
        except BaseException:  # Ctrl-C too, which another session does not get
            if os.name == "posix":
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            process.kill()
            raise
        return process.returncode, output


def compile_flags(instruction_set: InstructionSet, machine_type: str = "") -> tuple[str, ...]:
    """The compiler's flags for an instruction set, by default of this type of machine.

    MMX is excluded: its registers are those of the x87 unit, and GCC, which uses them to move
    vectors of 8 bytes, does not release them. In the whole process `fmod` would then return NaN.
    """
    if (machine_type or machine()) == X86_64:
        return (*_portable_flags(instruction_set), "-mno-mmx")
    return _portable_flags(instruction_set)


def _portable_flags(instruction_set: InstructionSet) -> tuple[str, ...]:
    target = f'-DJUMOK_TARGET="targets/{instruction_set.target}.h"'
    return (*COMMON_FLAGS, *instruction_set.compiler_flags, target)


def main() -> None:
    """Print the kernel of this processor, compiled if necessary, or why there is none.

    The exit code is 0 in both cases: without a kernel PyTorch computes everything.
    """
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        for part in SOURCES:
            print_line(f"C++ {part}: {kernel_path(part)}")
    except KernelError as error:
        print_line(f"no C++ kernel: {error}")


if __name__ == "__main__":
    main()
