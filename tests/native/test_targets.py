"""Every instruction set computes the same: those of this processor, and others under emulation.

check_target.cpp holds the checks. NEON runs under qemu; AVX-VNNI is the same source with the same
instruction in the encoding of AVX-512 where the processor has only that.
"""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from jumok.native import NativeDecoder, NativeModel, build
from jumok.native.instruction_sets import INSTRUCTION_SETS, InstructionSet
from jumok.native.library import load_library
from tests.native.conftest import encoder_decoder
from tests.native.test_decoder import TOLERANCE, with_weights_of

SETS = {each.name: each for each in INSTRUCTION_SETS}
SUPPORTED = [each.name for each in INSTRUCTION_SETS if each.is_supported]
AARCH64 = ("aarch64-linux-gnu-g++", "qemu-aarch64")
DRIVER = Path(__file__).parent / "check_target.cpp"


def run_checks(folder: Path, target: InstructionSet, compiler: str, *emulator: str) -> str:
    """The output of check_target.cpp, compiled for a target."""
    program = folder / "check_target"
    flags = [
        flag
        for flag in build.compile_flags(target, "aarch64" if emulator else "")
        if flag not in ("-fPIC", "-shared")
    ]
    command = [compiler, *flags, "-O1", "-I", str(build.SOURCE_FOLDER), str(DRIVER)]
    static = ["-static"] if emulator else []
    subprocess.run([*command, *static, "-o", str(program)], check=True, timeout=300)
    return subprocess.run(
        [*emulator, str(program)], capture_output=True, text=True, check=False, timeout=300
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SUPPORTED)
def test_products_attention_and_infinity(name: str, compiled: Path, tmp_path: Path) -> None:
    assert run_checks(tmp_path, SETS[name], build.find_compiler()) == "ok\n"


@pytest.mark.slow
def test_avx_vnni_in_the_encoding_of_avx512(compiled: Path, tmp_path: Path) -> None:
    if "avx512_vnni" not in SUPPORTED:
        pytest.skip("the processor lacks avx512_vnni")
    flags = ("-mavx2", "-mfma", "-mf16c", "-mavx512vl", "-mavx512vnni")
    target = InstructionSet("avx_vnni", "avx2", None, frozenset(), flags)
    assert run_checks(tmp_path, target, build.find_compiler()) == "ok\n"


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() == "aarch64", reason="runs without emulation")
@pytest.mark.parametrize("name", ["neon", "generic"])
def test_aarch64_under_emulation(name: str, tmp_path: Path) -> None:
    compiler, emulator = AARCH64
    if not shutil.which(compiler) or not shutil.which(emulator):
        pytest.skip(f"needs {compiler} and {emulator}")
    assert run_checks(tmp_path, SETS[name], compiler, emulator) == "ok\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", SUPPORTED)
def test_logits_are_those_of_the_model_in_any_batch(
    name: str, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernel.so"
    monkeypatch.setattr(build, "COMMON_FLAGS", (*build.COMMON_FLAGS, "-O1"))  # compiles faster
    build.compile_kernel(SETS[name], path)
    kernel = load_library(path)
    monkeypatch.setattr("jumok.native.packed_weights.library", lambda: kernel)
    monkeypatch.setattr("jumok.native.decoder_session.library", lambda: kernel)
    model, source = encoder_decoder("t5", "rotary"), torch.arange(3, 66).view(9, 7)
    ids = torch.arange(18).view(9, 2)
    for precision, tolerance in TOLERANCE.items():
        native = NativeModel(model, precision)
        with torch.inference_mode():
            expected = with_weights_of(model, precision)(source, ids)
        logits = NativeDecoder(native, source, capacity=4).step_all(ids)
        error = (logits - expected).abs().max() / expected.abs().max().clamp(min=1)
        assert error < tolerance, precision
        for rows in (slice(0, 1), slice(3, 8)):
            part = NativeDecoder(native, source[rows], capacity=4).step_all(ids[rows])
            assert torch.equal(part, logits[rows]), precision
