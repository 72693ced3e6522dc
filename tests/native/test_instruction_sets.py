"""Which instruction set is chosen, and the cap that JUMOK_CPU sets."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jumok.errors import InputError
from jumok.native.build import compile_kernel
from jumok.native.instruction_sets import (
    INSTRUCTION_SETS,
    X86_64,
    best_instruction_set,
    compilable,
    machine,
    usable,
)


def test_every_machine_has_the_generic_set() -> None:
    assert [each.name for each in compilable("riscv64")] == ["generic"]
    assert [each.name for each in compilable("x86_64")] == [
        *("amx_int8", "avx512_bf16", "avx512_vnni", "avx512", "avx_vnni", "avx2", "generic")
    ]


def test_the_cap_is_the_best_of_what_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUMOK_CPU", raising=False)
    everything = usable()
    assert best_instruction_set() is everything[0]
    for index, each in enumerate(everything):
        monkeypatch.setenv("JUMOK_CPU", each.name)
        assert usable() == everything[index:]


def test_wrong_cap_raises_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_CPU", "sse9")
    with pytest.raises(InputError, match=r"JUMOK_CPU must be one of .*generic, got 'sse9'; leave"):
        usable()
    lacking = next(each.name for each in INSTRUCTION_SETS if not each.is_supported)
    monkeypatch.setenv("JUMOK_CPU", lacking)
    with pytest.raises(InputError, match=f"got {lacking}, which this processor lacks; leave"):
        best_instruction_set()


@pytest.mark.slow
@pytest.mark.skipif(
    machine() != X86_64 or not shutil.which("objdump"), reason="needs x86-64 and objdump"
)
def test_the_generic_kernel_has_no_mmx(tmp_path: Path) -> None:
    """Its registers are those of the x87 unit: after a use, fmod is NaN in the whole process."""
    path = tmp_path / "kernel.so"
    compile_kernel(INSTRUCTION_SETS[-1], path)
    command = ["objdump", "--disassemble", str(path)]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "%xmm0" in code
    assert not re.search(r"%mm[0-7]", code)
