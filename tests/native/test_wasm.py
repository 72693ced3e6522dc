"""The kernel as WebAssembly: of these sources, and the same bytes when it is built again."""

import importlib.util
import json
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts/build_wasm.py"
    spec = importlib.util.spec_from_file_location("build_wasm", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_kernel_is_of_these_sources(script: ModuleType) -> None:
    record = json.loads(script.RECORD.read_text())
    assert record == {
        "emscripten": script.EMSCRIPTEN,
        "sha256": sha256(script.WASM.read_bytes()).hexdigest(),
        "sources": script.sources_digest(),
    }, "run python scripts/build_wasm.py and commit kernel.wasm and kernel.json"


@pytest.mark.slow
def test_a_build_gives_the_same_bytes(script: ModuleType) -> None:
    if script.compiler_version() != script.EMSCRIPTEN:
        pytest.skip(f"needs em++ {script.EMSCRIPTEN}: apt install emscripten")
    assert script.build() == script.WASM.read_bytes()
