"""Compiling: once, by several at the same moment, for any processor, or not at all."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from jumok.native import KernelError, NativeDecoder, NativeModel, build
from jumok.native.library import library, load_library
from tests.native.conftest import encoder_decoder

LITTLE = ("-O1",)  # the flags last given count: compiling quickly is enough here
OTHERS = {"x86_64": ["-march=x86-64", "-march=haswell"]}.get(platform.machine(), [])


def test_a_compiler_that_cannot_be_started_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "compiler"
    script.write_text("no interpreter is named here\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(KernelError, match="name another compiler in CXX"):
        build.kernel_path.__wrapped__()


def test_two_processes_that_come_at_once_both_get_it(compiled: Path, tmp_path: Path) -> None:
    code = f"from jumok.native import build; build.COMMON += {LITTLE}; print(build.kernel())"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    paths = {process.communicate(timeout=250)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert paths == {str(path) for path in (tmp_path / "jumok" / "native").iterdir()}
    load_library(Path(paths.pop()))


def test_it_is_compiled_once(compiled: Path) -> None:
    before = compiled.stat().st_mtime_ns
    assert build.kernel_path.__wrapped__() == compiled
    assert compiled.stat().st_mtime_ns == before


@pytest.mark.parametrize("processor", OTHERS)
def test_other_processors_compute_the_same(
    processor: str, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those without the instructions of this one: the portable code, and that for AVX2."""
    path = tmp_path / "kernel.so"
    build.compile_kernel(build.find_compiler(), path, [(processor, *LITTLE)])
    model, source = encoder_decoder("T5's", "rotary"), torch.arange(3, 45).view(6, 7)
    ids = torch.arange(12).view(6, 2)

    def logits(precision: str) -> torch.Tensor:
        return NativeDecoder(NativeModel(model, precision), source, capacity=4).step_all(ids)

    here = {precision: logits(precision) for precision in ("float32", "bfloat16", "int8")}
    other = load_library(path)
    monkeypatch.setattr("jumok.native.packed_weights.library", lambda: other)
    monkeypatch.setattr("jumok.native.decoder.library", lambda: other)
    # Sums of floats differ in order; where that tips a rounding, by one step of the format.
    for precision, tolerance in (("float32", 1e-5), ("bfloat16", 0.02), ("int8", 0.02)):
        found, wanted = logits(precision), here[precision]
        assert (found - wanted).abs().max() < tolerance * wanted.abs().max(), precision


def test_a_child_of_a_process_with_threads_writes_on(compiled: Path) -> None:
    code = """
import os, torch
from jumok.models import LanguageModel, TransformerConfig
from jumok.native import NativeModel, NativeWriter
torch.set_num_threads(2)
model = NativeModel(LanguageModel(TransformerConfig(vocabulary_size=300, n_layers=1, d_model=64)))
ids = torch.arange(40).view(8, 5)
before = NativeWriter(model, room=8).step(ids)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(NativeWriter(model, room=8).step(ids), before) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_without_a_compiler_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(KernelError, match=r"no C\+\+ compiler was found .* write with the plain"):
        build.find_compiler()


def test_a_compiler_that_fails_is_named_with_its_complaint(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'error: out of ink' >&2\nexit 1\n", encoding="ascii")
    broken.chmod(0o700)
    with pytest.raises(KernelError, match=r"broken cannot compile .*\(error: out of ink\)"):
        build.compile_kernel(str(broken), tmp_path / "kernel.so")
    assert list(tmp_path.iterdir()) == [broken]


def test_flags_that_the_compiler_does_not_know_are_left_out(tmp_path: Path) -> None:
    picky = tmp_path / "picky"
    picky.write_text(
        '#!/bin/sh\nfor word; do case "$word" in -march=*) exit 1;; -o) out=1;; *)'
        ' [ "$out" ] && { echo done > "$word"; out=; };; esac; done\nexit 0\n',
        encoding="ascii",
    )
    picky.chmod(0o700)
    build.compile_kernel(str(picky), tmp_path / "kernel.so")
    assert (tmp_path / "kernel.so").read_text("ascii") == "done\n"


def test_a_compiler_that_never_ends_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n", encoding="ascii")
    slow.chmod(0o700)
    monkeypatch.setattr(build, "SECONDS", 0.1)
    with pytest.raises(KernelError, match=r"slow has not compiled .* in 0\.1 seconds"):
        build.compile_kernel(str(slow), tmp_path / "kernel.so")
    assert list(tmp_path.iterdir()) == [slow]


def test_what_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    path = tmp_path / "kernel.so"
    path.write_text("no program", encoding="ascii")
    with pytest.raises(KernelError, match=r"cannot be loaded .* set XDG_CACHE_HOME"):
        load_library(path)


@pytest.fixture
def damaged(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A kernel in a cache of its own, all zeros; compiling another one is a copy here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "compile_kernel", lambda _, path: shutil.copy(compiled, path))
    (tmp_path / "jumok" / "native").mkdir(parents=True)
    build.kernel_path.cache_clear()
    path = build.kernel_path()
    path.write_bytes(bytes(1_000))
    yield path
    build.kernel_path.cache_clear()


def test_a_damaged_kernel_is_compiled_anew(compiled: Path, damaged: Path) -> None:
    assert library.__wrapped__().jumok_model.restype is not None
    assert damaged.read_bytes() == compiled.read_bytes()


@pytest.mark.skipif(not hasattr(os, "ST_NOEXEC"), reason="the system does not tell")
def test_where_no_program_may_stand_none_is_compiled_anew(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(KernelError, match="a folder that may hold programs"):
        library.__wrapped__()
    assert damaged.read_bytes() == bytes(1_000)


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not any(map(shutil.which, build.COMPILERS)):
        pytest.skip("no compiler")
    (tmp_path / "jumok").write_text("in the way", encoding="ascii")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(KernelError, match=r"cannot be kept in .*native .* set XDG_CACHE_HOME"):
        build.kernel_path.__wrapped__()


SHARED_WORK = """
#include <cstdio>
#include <new>
#include "threads.h"
int main() {
  auto& threads = jumok::Threads::of_process();
  int told = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> done{0};
    try {
      threads.share(64, 4, [&](int i) {
        if (i % 16 == round % 16) throw std::bad_alloc();
        ++done;
      });
    } catch (const std::bad_alloc&) {
      ++told;
    }
    std::atomic<int> sum{0};
    threads.share(64, 4, [&](int i) { sum += i; });
    if (sum != 64 * 63 / 2) return 1;
  }
  std::printf("%d", told);
}
"""


def test_who_shared_work_is_told_what_went_wrong_in_it(compiled: Path, tmp_path: Path) -> None:
    """Wherever it is thrown, when nobody is at the work any more; the next work is done as ever."""
    source, program = tmp_path / "shared_work.cpp", tmp_path / "shared_work"
    source.write_text(SHARED_WORK)
    flags = ["-std=c++17", "-O1", "-pthread", "-I", str(build.SOURCE_FOLDER)]
    command = [build.find_compiler(), *flags, "-o", str(program), str(source)]
    subprocess.run(command, check=True, timeout=120)
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "200"
