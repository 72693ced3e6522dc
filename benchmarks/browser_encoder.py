"""An encoder in Chromium: the kernel of an exported page and onnxruntime-web on the ONNX export.

    npm pack onnxruntime-web && tar xzf onnxruntime-web-*.tgz
    python benchmarks/browser_encoder.py ko-small-vectors --onnxruntime package [--save]

Both compute the same ids of a text of so many tokens, in one thread of WebAssembly and without
WebGPU, in one page and in turns; jumok also turns the text into ids, onnxruntime-web is given them.
A round is ten calls and counts as the least of them: milliseconds of a call in the first round,
and the least and the median round after 20, in which V8 compiles WebAssembly again. int8 is that of
each exporter; the cosines are those of the outputs with jumok's in float32.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from browser_decoder import measure
from turns import command_line, heading

import jumok
from jumok.export import export
from jumok.shipped import resolve_model
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.viewer.static_files import static_file

RESULTS = Path(__file__).parent / "results" / "browser_encoder.txt"
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
SENTENCE = "어제 친구랑 본 영화가 생각보다 재미없었어. "
WARM_UP = 20  # rounds
PAGE = """<!doctype html><script type="module">
import { load } from "./jumok.js";
import * as ort from "./ort.wasm.min.mjs";
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = "./";
window.prepare = async (text, ids) => {
  const calls = {};
  const data = BigInt64Array.from(ids, BigInt);
  const tensor = (values) => new ort.Tensor("int64", values, [1, ids.length]);
  const given = { input_ids: tensor(data), attention_mask: tensor(data.map(() => 1n)),
    token_type_ids: tensor(data.map(() => 0n)) };
  for (const precision of ["float32", "int8"]) {
    const model = await load(`./web-${precision}/model.safetensors`, "./kernel.wasm");
    if (String(model.tokenizer.inputs(text)) !== String(ids)) throw new Error("other ids");
    calls[`jumok, ${precision}`] = () => model.outputs(text);
    if (precision === "int8") calls["  ids of the text"] = () => model.tokenizer.inputs(text);
    const session = await ort.InferenceSession.create(`./onnx-${precision}/model.onnx`,
      { executionProviders: ["wasm"], graphOptimizationLevel: "all" });
    const feed = Object.fromEntries(session.inputNames.map((name) => [name, given[name]]));
    calls[`onnxruntime-web, ${precision}`] =
      async () => (await session.run(feed))[session.outputNames[0]].data;
  }
  window.calls = calls;
  return Object.keys(calls);
};
window.measure = async (name) => {
  let least = Infinity, found;
  for (let call = 0; call < 10; call++) {
    const start = performance.now();
    found = await window.calls[name]();
    least = Math.min(least, performance.now() - start);
  }
  return [least, JSON.stringify(Array.from(found))];
};
</script>"""


def main() -> None:
    """Export the model, measure both in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a run, or a model that ships")
    parser.add_argument("--onnxruntime", type=Path, required=True, help="the unpacked package")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    run = resolve_model(given.model)
    text, ids = text_of(run, given.tokens)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sizes = write_files(run, given.onnxruntime, folder)
        prepare = f"window.prepare({json.dumps(text)}, {ids})"
        times, outputs, version = measure(folder, prepare, WARM_UP + given.rounds, 0)
    release = json.loads((given.onnxruntime / "package.json").read_text(encoding="utf-8"))
    exact = json.loads(outputs["jumok, float32"])
    first = {name: found[0] for name, found in times.items()}
    times = {name: found[WARM_UP:] for name, found in times.items()}
    lines = [
        heading(command_line()),
        f"Chromium {version}, onnxruntime-web {release['version']}; {len(ids)} tokens",
        f"kB: kernel.wasm and jumok.js {sizes[0]:.0f}, onnxruntime-web {sizes[1]:,.0f}",
        "",
        f"{'ms a text':<26}{'first':>8}{'least':>8}{'median':>8}{'cosine':>10}",
    ]
    for name, found in times.items():
        row = f"{name:<26}{first[name]:>8.2f}{min(found):>8.2f}{median(found):>8.2f}"
        if not name.startswith(" "):
            row += f"{cosine(json.loads(outputs[name]), exact):>10.5f}"
        lines.append(row)
    for precision in ("float32", "int8"):
        ours, theirs = (times[f"{who}, {precision}"] for who in ("jumok", "onnxruntime-web"))
        cold = first[f"onnxruntime-web, {precision}"] / first[f"jumok, {precision}"]
        lines.append(
            f"{precision}: {min(theirs) / min(ours):.2f} x onnxruntime-web by the least, "
            f"{median(theirs) / median(ours):.2f} x by the median, {cold:.2f} x in the first round"
        )
    result = "\n".join(lines) + "\n"
    print(result)
    if given.save:
        RESULTS.write_text(result, encoding="utf-8")


def text_of(run: Path, tokens: int) -> tuple[str, list[int]]:
    """A text of so many tokens, special ones included, and its ids."""
    encode, text = TextEncoder(jumok.load(run, device="cpu").vocabulary, 2 * tokens), SENTENCE
    while len(encode([text]).ids) < tokens:
        text += SENTENCE
    while len(ids := encode([text]).ids) > tokens:
        text = text[:-1]
    return text, [int(i) for i in ids]


def write_files(run: Path, runtime: Path, folder: Path) -> tuple[float, float]:
    """The exports and both runtimes in a folder; the kB of ours and of onnxruntime-web."""
    export(run, "web", folder / "web-float32")
    export(run, "web", folder / "web-int8", "int8")
    export(run, "onnx", folder / "onnx-float32")
    export(run, "onnx", folder / "onnx-int8", "int8")
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    files = {name: static_file(name).content for name in ("jumok.js", "kernel.wasm")}
    theirs = {name: (runtime / "dist" / name).read_bytes() for name in RUNTIME}
    for name, content in (files | theirs).items():
        (folder / name).write_bytes(content)
    return sum(map(len, files.values())) / 1e3, sum(map(len, theirs.values())) / 1e3


def cosine(found: Sequence[float], exact: Sequence[float]) -> float:
    """The cosine of two outputs: exporters may or may not divide a vector by its length."""
    u, v = np.array(found), np.array(exact)
    return float(u @ v / np.sqrt((u @ u) * (v @ v)))


if __name__ == "__main__":
    main()
