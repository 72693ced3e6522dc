"""Peak memory of opening and importing checkpoints of 1 GB, relative to the size of their weights.

    python -m benchmarks.opening_memory [--layers 39] [--only WORD ...]

A model of the shape of Qwen3 (d 1024, vocabulary of 16,000) with random weights, in every format
that people's files have. Each number is the growth of the peak resident memory (VmHWM) of a new
process during one call, mapped pages of the file included, divided by the size of the weight files:
load: `jumok.load(FOLDER, dtype="auto")`; import: `jumok import`, which writes a run; run: `load` of
that run. `kernel`: `load` of the run and one step of the C++ kernel in the format of the blocks
(q8_0 and q4_0; else in bfloat16 or float32), with the packed weights.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from jumok.formats.gguf_from_hf import GGUFType, write_gguf_file
from tests.pretrained.test_import_memory import checkpoint, peak

sys.path.insert(0, str(Path(__file__).parent))
from turns import heading

RESULTS = Path(__file__).parent / "results" / "opening_memory.txt"
SHARDS = 3
SETUP = """
import torch
from jumok.native import NativeDecoder, NativeModel
from jumok.native.library import library
from jumok.pretrained.memory_map import release_pages
library()
def step(model, precision):
    native = NativeModel(model, precision, on_packed=release_pages)
    return NativeDecoder(native, capacity=8).step(torch.tensor([[1, 2, 3]]))
"""


@dataclass(frozen=True)
class Case:
    """A kind of file; `make` turns a folder with one safetensors file into it."""

    name: str
    dtype: torch.dtype
    make: Callable[[Path], Path]
    precision: str


def as_it_is(folder: Path) -> Path:
    """One safetensors file."""
    return folder


def sharded(folder: Path) -> Path:
    """Several safetensors files and their index."""
    single = folder / "model.safetensors"
    tensors = load_file(single)
    names = list(tensors)
    weight_map: dict[str, str] = {}
    for number in range(SHARDS):
        file = f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        part = {name: tensors[name] for name in names[number::SHARDS]}
        save_file(part, folder / file, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    single.unlink()
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def pickled(folder: Path) -> Path:
    """pytorch_model.bin."""
    single = folder / "model.safetensors"
    torch.save(load_file(single), folder / "pytorch_model.bin")
    single.unlink()
    return folder


def gguf(kind: GGUFType) -> Callable[[Path], Path]:
    """A GGUF file."""

    def make(folder: Path) -> Path:
        path = folder.with_suffix(".gguf")
        write_gguf_file(folder, path, kind, "qwen3")
        (folder / "model.safetensors").unlink()
        return path

    return make


CASES = (
    Case("safetensors, float32", torch.float32, as_it_is, "float32"),
    Case("safetensors, float16", torch.float16, as_it_is, "bfloat16"),
    Case("safetensors, bfloat16", torch.bfloat16, as_it_is, "bfloat16"),
    Case("three safetensors, bfloat16", torch.bfloat16, sharded, "bfloat16"),
    Case("pytorch_model.bin, float32", torch.float32, pickled, "float32"),
    Case("pytorch_model.bin, bfloat16", torch.bfloat16, pickled, "bfloat16"),
    Case("GGUF, F32", torch.float32, gguf("f32"), "float32"),
    Case("GGUF, F16", torch.bfloat16, gguf("f16"), "bfloat16"),
    Case("GGUF, BF16", torch.bfloat16, gguf("bf16"), "bfloat16"),
    Case("GGUF, Q8_0", torch.bfloat16, gguf("q8_0"), "q8_0"),
    Case("GGUF, Q4_0", torch.bfloat16, gguf("q4_0"), "q4_0"),
)


def size_of(path: Path) -> int:
    """The bytes of the weights."""
    files = [path] if path.is_file() else [*path.glob("*.safetensors"), *path.glob("*.bin")]
    return sum(file.stat().st_size for file in files)


def line(case: Case, bf16_layers: int) -> str:
    """The row of one case."""
    per_weight = {"GGUF, Q8_0": 8.5 / 16, "GGUF, Q4_0": 4.5 / 16}.get(
        case.name, case.dtype.itemsize / 2
    )
    layers = round((bf16_layers + 1.3) / per_weight - 1.3)  # the table counts as 1.3 layers
    with tempfile.TemporaryDirectory() as scratch:
        source = case.make(checkpoint(Path(scratch) / "hf", layers, case.dtype))
        run = Path(scratch) / "run"
        size = size_of(source)
        calls = {}
        if source.is_dir():
            calls["load"] = f"load({str(source)!r}, dtype='auto')"
        opening = "import_checkpoint" if source.is_dir() else "import_gguf"
        calls["import"] = f"{opening}(Path({str(source)!r}), Path({str(run)!r}))"
        calls["run"] = f"load({str(run)!r}, dtype='auto')"
        calls["kernel"] = f"step(load({str(run)!r}, dtype='auto').model, {case.precision!r})"
        cells = [f"{case.name:<28} {size / 1e6:6,.0f}"]
        for name in ("load", "import", "run", "kernel"):
            cells.append(
                f"{peak(calls[name], SETUP) / size:6.2f}" if name in calls else f"{'-':>6}"
            )
            print(cells[-1], flush=True)
    return " ".join(cells)


def main() -> None:
    """Measure each case, print the table and write it to the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--layers", type=int, default=39, help="of a file in bfloat16")
    arguments.add_argument("--only", nargs="*", default=[], help="cases with this in their names")
    given = arguments.parse_args()
    columns = " ".join(f"{name:>6}" for name in ("MB", "load", "import", "run", "kernel"))
    table = [heading("python -m benchmarks.opening_memory"), f"{'':<28} {columns}"]
    for case in CASES:
        if not given.only or any(word in case.name for word in given.only):
            table.append(line(case, given.layers))
            print(table[-1], flush=True)
    if not given.only and given.layers == 39:
        RESULTS.write_text("\n".join([*table, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
