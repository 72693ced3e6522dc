"""Compiling the kernel: once, by concurrent processes, for other processors, or not at all."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from jumok.atomic_io import sha256_of
from jumok.native import KernelError, build
from jumok.native.instruction_sets import INSTRUCTION_SETS
from jumok.native.library import library, load_library
from tests.errors import raises

GENERIC = INSTRUCTION_SETS[-1]


def test_compiler_that_cannot_start_raises_kernel_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "compiler"
    script.write_text("no interpreter line\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(KernelError, match="set CXX to another compiler"):
        build.kernel_path.__wrapped__()


@pytest.mark.slow
def test_of_two_concurrent_processes_one_compiles(compiled: Path, tmp_path: Path) -> None:
    """The compiler waits until both run, then for more, and writes a kernel in two parts."""
    half = compiled.stat().st_size // 2
    script = tmp_path / "compiler"
    script.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != -o ]; do shift; done\n'
        f'echo compiled >> "{tmp_path}/log"\n'
        f'while [ "$(ls "{tmp_path}" | grep -c started)" -lt 2 ]; do sleep 0.05; done; sleep 0.5\n'
        f'head -c {half} "{compiled}" > "$2"; sleep 0.2; cat "{compiled}" > "$2"\n'
    )
    script.chmod(0o755)
    code = (
        "import sys; from jumok.native import build; open(sys.argv[1], 'w')\n"
        "print(build.kernel_path(bundled=False))"
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "CXX": str(script)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / f"started-{number}")],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    paths = {process.communicate(timeout=250)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert (tmp_path / "log").read_text() == "compiled\n"
    assert paths == {str(path) for path in (tmp_path / "jumok" / "native").glob("*.so")}
    load_library(Path(paths.pop()))


def test_kernel_is_compiled_once(compiled: Path) -> None:
    before = compiled.stat().st_mtime_ns
    assert build.kernel_path.__wrapped__() == compiled
    assert compiled.stat().st_mtime_ns == before


@pytest.mark.slow
def test_forked_child_decodes_with_a_new_thread_pool(compiled: Path) -> None:
    code = """
import os, torch
from jumok.models import LanguageModel, TransformerConfig
from jumok.native import NativeModel, NativeDecoder
torch.set_num_threads(2)
model = NativeModel(LanguageModel(TransformerConfig(vocabulary_size=300, n_layers=1, d_model=64)))
ids = torch.arange(40).view(8, 5)
before = NativeDecoder(model, capacity=8).step(ids)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(NativeDecoder(model, capacity=8).step(ids), before) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_missing_compiler_raises_kernel_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with raises(KernelError, "kernel.no_compiler"):
        build.find_compiler()


def test_without_a_compiler_nothing_is_logged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A training then computes with PyTorch; it must not announce a compilation."""
    for name in ("PATH", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with raises(KernelError, "kernel.no_compiler"):
        build.kernel_path.__wrapped__("training", bundled=False)
    assert not caplog.records


def test_a_compilation_is_announced_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the sets that a broken compiler is tried with."""
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    broken.chmod(0o700)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "usable", lambda: (GENERIC, GENERIC))
    with raises(KernelError, "kernel.not_compiled"):
        build.kernel_path.__wrapped__("training", bundled=False)
    [record] = caplog.records
    assert "the C++ kernel of trainings for generic once" in record.getMessage()


def test_compiler_error_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'error: out of ink' >&2\nexit 1\n", encoding="ascii")
    broken.chmod(0o700)
    with pytest.raises(KernelError, match=r"broken cannot compile .*\(error: out of ink\)"):
        build.compile_kernel(GENERIC, tmp_path / "kernel.so", str(broken))
    assert list(tmp_path.iterdir()) == [broken]


def test_compiler_without_the_newest_instructions_compiles_the_next_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picky = tmp_path / "picky"
    picky.write_text(
        '#!/bin/sh\nfor word; do case "$word" in -mavx*|-march=*) exit 1;; -o) out=1;; *)'
        ' [ "$out" ] && { echo done > "$word"; out=; };; esac; done\nexit 0\n',
        encoding="ascii",
    )
    picky.chmod(0o700)
    monkeypatch.setenv("CXX", str(picky))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = build.kernel_path.__wrapped__(bundled=False)
    assert path.name.startswith("kernel-generic-")
    assert path.read_text("ascii") == "done\n"


def test_compiler_timeout_raises_kernel_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other instruction set is tried then: it would take as long."""
    slow, calls = tmp_path / "slow", tmp_path / "calls"
    slow.write_text(f"#!/bin/sh\necho >> {calls}\nexec sleep 60\n", encoding="ascii")
    slow.chmod(0o700)
    monkeypatch.setattr(build, "COMPILE_TIMEOUT", 0.5)
    with raises(KernelError, "kernel.compilation_timeout"):
        build.compile_kernel(GENERIC, tmp_path / "kernel.so", str(slow))
    assert not (tmp_path / "kernel.so").exists()
    calls.unlink()
    monkeypatch.setenv("CXX", str(slow))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "usable", lambda: (GENERIC, GENERIC))
    with raises(KernelError, "kernel.compilation_timeout"):
        build.kernel_path.__wrapped__(bundled=False)
    assert len(calls.read_text("ascii").splitlines()) == 1


def test_a_timeout_ends_what_the_compiler_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, started = tmp_path / "driver", tmp_path / "started"
    driver.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {started}\nwait\n", encoding="ascii")
    driver.chmod(0o700)
    monkeypatch.setattr(build, "COMPILE_TIMEOUT", 2)
    with raises(KernelError, "kernel.compilation_timeout"):
        build.compile_kernel(GENERIC, tmp_path / "kernel.so", str(driver))
    status = Path("/proc") / started.read_text("ascii").strip() / "stat"
    for _ in range(100):  # a killed process may remain until its parent asks for its exit code
        if not status.exists() or " Z " in status.read_text("ascii"):
            break
        time.sleep(0.1)
    else:
        pytest.fail("what the compiler started still runs")


def test_unloadable_kernel_raises_kernel_error(tmp_path: Path) -> None:
    path = tmp_path / "kernel.so"
    path.write_text("not a library", encoding="ascii")
    with pytest.raises(KernelError, match=r"cannot be loaded .* set XDG_CACHE_HOME"):
        load_library(path)


@pytest.fixture
def damaged(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cached kernel of zeros in a separate cache; compile_kernel copies the real kernel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        build, "compile_kernel", lambda _, path, *args, **options: shutil.copy(compiled, path)
    )
    (tmp_path / "jumok" / "native").mkdir(parents=True)
    build.kernel_path.cache_clear()
    path = build.kernel_path()
    path.write_bytes(bytes(1_000))
    yield path
    build.kernel_path.cache_clear()


def test_damaged_kernel_is_recompiled(compiled: Path, damaged: Path) -> None:
    assert library.__wrapped__().jumok_create_model.restype is not None
    assert damaged.read_bytes() == compiled.read_bytes()


PLANT = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void run() { fclose(fopen(getenv("PLANT"), "w")); }
"""


@pytest.mark.parametrize(("mode", "loaded"), [(0o777, False), (0o755, True)])
def test_planted_kernel_is_not_executed(
    compiled: Path, tmp_path: Path, mode: int, loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that others may write to; in a folder of the user it is one of the user's."""
    folder = tmp_path / "jumok" / "native"
    folder.mkdir(parents=True)
    tmp_path.chmod(mode)
    plant, mark = folder / compiled.name, tmp_path / "executed"
    subprocess.run(
        [build.find_compiler(), "-shared", "-fPIC", "-x", "c++", "-", "-o", plant],
        input=PLANT.encode(),
        check=True,
    )
    plant.with_name(plant.name + ".sha256").write_text(sha256_of(plant))
    code = (
        "import shutil, sys; from pathlib import Path; from jumok.native import build, library\n"
        "build.compile_kernel = lambda _, path, *args, **options: shutil.copy(sys.argv[1], path)\n"
        "print(library.library().jumok_weight_bytes.restype)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(compiled)],
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PLANT": str(mark)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert mark.exists() == loaded
    if not loaded:
        assert done.returncode == 0, done.stderr
        assert "c_ulong" in done.stdout  # the kernel that was compiled into a temporary folder
        assert "other users may write to" in done.stderr


@pytest.mark.skipif(not hasattr(os, "ST_NOEXEC"), reason="the system does not report noexec")
def test_kernel_is_not_recompiled_on_a_noexec_disk(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(KernelError, match="a folder on a disk without noexec"):
        library.__wrapped__()
    assert damaged.read_bytes() == bytes(1_000)


def test_unwritable_cache_raises_kernel_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not any(map(shutil.which, build.COMPILERS)):
        pytest.skip("no compiler")
    (tmp_path / "jumok").write_text("not a folder", encoding="ascii")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with raises(KernelError, "kernel.not_written"):
        build.kernel_path.__wrapped__()


PARALLEL_FOR = """
#include <cstdio>
#include <new>
#include "thread_pool.h"
int main() {
  auto& pool = jumok::ThreadPool::instance();
  int caught = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> done{0};
    try {
      pool.parallel_for(64, 4, [&](int i) {
        if (i % 16 == round % 16) throw std::bad_alloc();
        ++done;
      });
    } catch (const std::bad_alloc&) {
      ++caught;
    }
    std::atomic<int> sum{0};
    pool.parallel_for(64, 4, [&](int i) { sum += i; });
    if (sum != 64 * 63 / 2) return 1;
  }
  std::printf("%d", caught);
}
"""


@pytest.mark.slow
def test_parallel_for_rethrows_exceptions(compiled: Path, tmp_path: Path) -> None:
    """An exception on any thread is rethrown at the end; the next loop runs normally."""
    source, program = tmp_path / "parallel_for.cpp", tmp_path / "parallel_for"
    source.write_text(PARALLEL_FOR)
    flags = ["-std=c++17", "-O1", "-pthread", "-I", str(build.SOURCE_FOLDER)]
    command = [build.find_compiler(), *flags, "-o", str(program), str(source)]
    subprocess.run(command, check=True, timeout=120)
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "200"
