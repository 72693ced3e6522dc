"""A language model in Chromium: the kernel of an exported page and wllama on the exported GGUF.

    npm pack @wllama/wllama && tar xzf wllama-wllama-*.tgz
    python benchmarks/browser_decoder.py RUN --wllama package [--tokens 64] [--rounds 8] [--save]

RUN is a language model that `jumok export --to gguf` writes. Both read the same prompt and generate
so many tokens greedily, with one thread and without WebGPU, in one page and in turns; the first
round of each warms it up and is not counted. Milliseconds a token, of a whole call: the least and
the median round. jumok computes in float32 and in int8, wllama in float16 and in 8 bits.
"""

import argparse
import shutil
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

from turns import command_line, heading

import jumok
from jumok.export import export
from jumok.viewer.static_files import static_file
from tests.browser.chromium import launched

RESULTS = Path(__file__).parent / "results" / "browser_decoder.txt"
GGUF = {"float16": "f16", "8 bits": "q8_0"}
PROMPT = "이 영화는 정말"
PAGE = """<!doctype html><script type="module">
import { load } from "./jumok.js";
import { Wllama } from "./wllama/index.js";
const results = [];
window.prepare = async (tokens) => {
  const calls = {};
  for (const precision of ["float32", "int8"]) {
    const model = await load(`./${precision}/model.safetensors`, "./kernel.wasm");
    const decoding = { sample: false, beam: 1, max_length: tokens, min_length: tokens };
    calls[`jumok, ${precision}`] = async () => JSON.stringify(model.predict(PROMPT, decoding));
  }
  for (const precision of ["f16", "q8_0"]) {
    const engine = new Wllama({ default: "./wllama/wasm/wllama.wasm" });
    const file = await (await fetch(`./${precision}/model.gguf`)).blob();
    await engine.loadModel([file], { n_threads: 1, n_gpu_layers: 0, n_ctx: CONTEXT });
    const options = { prompt: PROMPT, n_predict: tokens, max_tokens: tokens, temperature: 0,
      ignore_eos: true, cache_prompt: false };
    const complete = async () => JSON.stringify(await engine.createCompletion(options));
    calls[`wllama, ${precision}`] = complete;
  }
  window.calls = calls;
  return Object.keys(calls);
};
window.measure = async (name) => {
  const start = performance.now();
  const text = await window.calls[name]();
  return [performance.now() - start, text];
};
</script>"""


def main() -> None:
    """Export the run, measure both in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--wllama", type=Path, required=True, help="the unpacked package")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        context = write_files(given.run, given.wllama, folder)
        page = PAGE.replace("PROMPT", f'"{PROMPT}"').replace("CONTEXT", str(context))
        (folder / "index.html").write_text(page, encoding="utf-8")
        times, texts, version = measure(folder, f"window.prepare({given.tokens})", given.rounds)
    lines = [
        heading(command_line()),
        f"Chromium {version}, wllama {given.wllama.name}; {given.tokens} tokens after {PROMPT!r}",
        "",
        f"{'ms a token':<20}{'least':>8}{'median':>8}",
    ]
    for name, found in times.items():
        each = [value / given.tokens for value in found]
        lines.append(f"{name:<20}{min(each):>8.2f}{median(each):>8.2f}  {str(texts[name])[:100]}")
    text = "\n".join(lines) + "\n"
    print(text)
    if given.save:
        RESULTS.write_text(text, encoding="utf-8")


def write_files(run: Path, wllama: Path, folder: Path) -> int:
    """The exports, jumok.js, the kernel and wllama in a folder; returns the length of the model."""
    export(run, "web", folder / "float32")
    export(run, "web", folder / "int8", "int8")
    for quantization in GGUF.values():
        export(run, "gguf", folder / quantization, quantization)  # type: ignore[arg-type]
        written = next((folder / quantization).glob("*.gguf"))
        written.rename(folder / quantization / "model.gguf")
    for name in ("jumok.js", "kernel.wasm"):
        (folder / name).write_bytes(static_file(name).content)
    shutil.copytree(wllama / "esm", folder / "wllama")
    return int(jumok.load(run, device="cpu").recipe.model.max_length)


def measure(
    folder: Path, prepare: str, rounds: int, warm_up: int = 1
) -> tuple[dict[str, list[float]], dict[str, str], str]:
    """The milliseconds of each call by name, its text, and the version of the browser.

    `prepare` is what the page evaluates for the names; the rounds to warm up are not counted.
    """
    handler = partial(_Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    with launched() as browser:
        page = browser.new_page()
        page.set_default_timeout(0)
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.wait_for_function("window.prepare !== undefined")
        names: list[str] = page.evaluate(prepare)
        times: dict[str, list[float]] = {name: [] for name in names}
        texts: dict[str, str] = {}
        for number in range(rounds + warm_up):
            for name in names:
                milliseconds, texts[name] = page.evaluate("window.measure", name)
                if number >= warm_up:
                    times[name].append(milliseconds)
        version = browser.version
    server.shutdown()
    return times, texts, version


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name of its parameter)
        """Print nothing."""


if __name__ == "__main__":
    main()
