"""Devices by name, precision, determinism, memory, versions."""

import pytest
import torch

from jumok.allocator import release_memory, tune_allocator
from jumok.device import (
    find_device,
    has_fast_bfloat16,
    peak_memory_bytes,
    resolve_dtype,
    set_deterministic,
    versions,
)
from jumok.errors import InputError

CPU = torch.device("cpu")


def test_find_device() -> None:
    assert find_device("cpu") == CPU
    assert find_device("auto").type in ("cuda", "mps", "cpu")
    there = torch.cuda.is_available() or torch.backends.mps.is_available()
    assert there or find_device("auto") == CPU


@pytest.mark.parametrize("name", ["tpu", "", "cuda:99x" if torch.cuda.is_available() else "cuda"])
def test_an_unavailable_device(name: str) -> None:
    with pytest.raises(InputError, match=f"device must be auto or one of .*, got '{name}'"):
        find_device(name)


def test_precision() -> None:
    assert resolve_dtype("float32", CPU) == torch.float32
    assert resolve_dtype("bfloat16", CPU) == torch.bfloat16
    fast = torch.bfloat16 if has_fast_bfloat16(CPU) else torch.float32
    assert resolve_dtype("auto", CPU) == fast
    assert resolve_dtype("auto", torch.device("mps")) == torch.float32


@pytest.mark.skipif(not hasattr(torch.cpu, "get_capabilities"), reason="torch 2.8")
@pytest.mark.parametrize(
    ("instructions", "cap", "expected"),
    [
        ({"avx512_bf16": True}, None, torch.bfloat16),
        ({"avx512_bf16": True}, "AVX512_CORE_BF16", torch.bfloat16),
        ({"avx512_bf16": True}, "AVX2", torch.float32),
        ({"avx512_bf16": True}, "avx512_core", torch.float32),
        ({"avx2": True, "avx512_bf16": False}, None, torch.float32),
        ({"avx_ne_convert": True}, None, torch.bfloat16),
        ({}, None, torch.float32),
    ],
)
def test_auto_does_not_choose_emulated_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
    instructions: dict[str, bool],
    cap: str | None,
    expected: torch.dtype,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if cap is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", cap)
    assert resolve_dtype("auto", CPU) == expected
    assert resolve_dtype("bfloat16", CPU) == torch.bfloat16


def test_set_deterministic() -> None:
    threads = torch.get_num_threads()
    try:
        set_deterministic()
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)


def test_memory() -> None:
    before = peak_memory_bytes()
    assert 20 * 2**20 < before < 2**40  # torch alone is more than 20 MB
    block = torch.zeros(64 * 2**20, dtype=torch.uint8).add_(1)
    assert peak_memory_bytes() >= before
    del block
    assert tune_allocator() in (True, False)
    release_memory()


def test_versions_are_texts() -> None:
    found = versions()
    assert found["torch"].startswith(torch.__version__.partition("+")[0])
    assert set(found) >= {"jumok", "python", "torch", "numpy", "sentencepiece", "threads"}
    assert all(isinstance(value, str) for value in found.values())
