"""Build the C++ kernel as WebAssembly for exported pages (`make web` calls it).

    python scripts/build_wasm.py [--check]

Writes kernel.wasm and kernel.json, the version of emscripten and the SHA-256 of the sources and of
the file, where em++ of the pinned version is installed (`apt install emscripten` of Debian 12) and
the sources have changed. With `--check` the kernel is built again and must have the same bytes.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from jumok.native.build import COMMON_FLAGS, SOURCE_FOLDER, is_for_training

EMSCRIPTEN = "3.1.6"
STATIC = Path(__file__).parents[1] / "src/jumok/viewer/static"
WASM, RECORD = STATIC / "kernel.wasm", STATIC / "kernel.json"

# What the page calls; the rest of the C API is left out.
FUNCTIONS = (
    *("malloc", "free"),
    *("jumok_create_model", "jumok_free_model", "jumok_allocate_linear", "jumok_set_rows"),
    *("jumok_set_vector", "jumok_set_tokens", "jumok_encode_ids", "jumok_pool"),
    "jumok_compare_pairs",
    *("jumok_normalize", "jumok_apply_head", "jumok_attend_ids", "jumok_set_decoder_layer"),
    *("jumok_create_request", "jumok_free_request", "jumok_encode_sources", "jumok_reset"),
    *("jumok_step", "jumok_start_search", "jumok_search", "jumok_unfinished", "jumok_n_found"),
    *("jumok_found_length", "jumok_read_found", "jumok_record_encoder", "jumok_record_attention"),
    *("jumok_attention_width", "jumok_read_attention", "jumok_change_scores"),
)
NATIVE_FLAGS = {"-O3", "-fPIC", "-shared", "-pthread"}  # without a meaning here
FLAGS = (
    *(flag for flag in COMMON_FLAGS if flag not in NATIVE_FLAGS),
    "-O2",  # as fast as -O3; -Os does not inline loads and stores and takes ten times as long
    "-msimd128",
    "-Wno-pass-failed",  # a loop that cannot be vectorized
    "-fwasm-exceptions",  # otherwise a failed allocation throws a bare number
    '-DJUMOK_TARGET="targets/generic.h"',
    "--no-entry",
    "-sSTANDALONE_WASM=1",  # no JavaScript of emscripten
    "-sWASM_BIGINT=1",
    "-sMALLOC=emmalloc",  # 4 kB smaller than dlmalloc; few and large allocations
    "-sALLOW_MEMORY_GROWTH=1",
    "-sMAXIMUM_MEMORY=4GB",
    "-sEXPORTED_FUNCTIONS=" + ",".join(f"_{name}" for name in FUNCTIONS),
)


def sources_digest() -> str:
    """The SHA-256 of the flags and of every source of the kernel, by name."""
    digest = hashlib.sha256(repr((EMSCRIPTEN, FLAGS)).encode())
    for source in sorted(SOURCE_FOLDER.rglob("*.*")):
        if is_for_training(source):
            continue
        name = source.relative_to(SOURCE_FOLDER).as_posix()
        digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def compiler_version() -> str:
    """The version of em++; empty if it is not installed."""
    if shutil.which("em++") is None:
        return ""
    done = subprocess.run(["em++", "--version"], capture_output=True, text=True, env=_environment())
    found = re.search(r"\) (\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else ""


def build() -> bytes:
    """The bytes of the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / WASM.name
        command = ["em++", *FLAGS, "-o", str(out), "c_api.cpp"]
        subprocess.run(command, check=True, cwd=SOURCE_FOLDER, env=_environment())
        return out.read_bytes()


def _environment() -> dict[str, str]:
    """Debian's emscripten finds the packages of its own node only by this variable."""
    return {**os.environ, "NODE_PATH": "/usr/share/nodejs"}


def main() -> int:
    """Build where the sources have changed, or check that a build gives the same bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    version = compiler_version()
    if not check and record.get("sources") == sources_digest():
        return 0
    if version != EMSCRIPTEN:
        found = f"version {version}" if version else "none"
        print(f"kernel.wasm needs em++ {EMSCRIPTEN}, got {found}; apt install emscripten")
        return 1
    wasm = build()
    digest = hashlib.sha256(wasm).hexdigest()
    if check:
        same = digest == record.get("sha256")
        print("the same bytes" if same else "other bytes: run python scripts/build_wasm.py")
        return 0 if same else 1
    WASM.write_bytes(wasm)
    entries = {"emscripten": EMSCRIPTEN, "sha256": digest, "sources": sources_digest()}
    RECORD.write_text(json.dumps(entries, indent=1) + "\n")
    print(f"{WASM.name}: {len(wasm):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
