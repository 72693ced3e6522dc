"""Completions under load: `jumok serve` against a server around libllama.

    python -m benchmarks.serving.generation --library FOLDER --save     # 3 minutes

GPT-2 of the small size with random weights. 1 and 8 clients send one prompt of 16 tokens after
another and get 64 tokens each, greedily. No compiled llama-server is available here, so the peer is
a small server around the same library (`generation_peer.py`): it decodes the prompts that wait
together, in Q8_0, with llama.cpp's own threads. It gets token ids, so it needs no tokenizer. FOLDER
has libllama, as in benchmarks/llama_cpp_speed.py.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import torch

from jumok.tasks.runs.load import load
from tests.hf_folders import gpt2, lines

from .__main__ import Connections, Measured, Side, Table, free_port, processor, running

BENCHMARKS = Path(__file__).parents[1]
sys.path.append(str(BENCHMARKS))
PROMPT, OUTPUT, VOCABULARY = 16, 64, 50_257
STREAMS = (1, 8)
WANTED = {1: 1.0, 8: 1.2}
PEER = Path(__file__).with_name("generation_peer.py")
RESULT = BENCHMARKS / "results" / "serving_generation.txt"


def prepare(folder: Path) -> list[str]:
    """The checkpoint, its GGUF file, and prompts of 16 tokens.

    The tokenizer has 400 tokens. The embeddings of the others are 0, so that none of them is the
    most likely one.
    """
    from llama_cpp_speed import write_gguf

    model = gpt2(folder, vocab_size=VOCABULARY, n_embd=768, n_layer=12, n_head=12, n_positions=1024)
    pipeline = load(folder)
    with torch.no_grad():
        model.transformer.wte.weight[len(pipeline.vocabulary) :] = 0
    model.save_pretrained(folder)
    write_gguf(model.config, model.state_dict(), folder / "model.gguf", "Q8_0")
    pieces = [pipeline.vocabulary.encode(line) for line in lines()]
    texts = [pipeline.vocabulary.decode(ids[:PROMPT]) for ids in pieces if len(ids) >= PROMPT]
    return [text for text in texts if len(pipeline.vocabulary.encode(text)) == PROMPT]


def sides(folder: Path, port: int, threads: int, library: str) -> list[Side]:
    """jumok in both formats, and libllama."""
    found = []
    for precision in ("int8", "q8_0"):
        serve = [sys.executable, "-m", "jumok", "serve", str(folder), "--port", str(port)]
        settings = [f"precision={precision}", "kernel=native", "sample=false", "beam=1"]
        for setting in (*settings, f"max_length={OUTPUT}", f"min_length={OUTPUT - 1}"):
            serve += ["--decoding", setting]
        found.append(Side(f"jumok serve {precision}", [*serve, "--max-wait", "60"]))
    peer = [sys.executable, str(PEER), library, str(folder / "model.gguf"), str(port), str(threads)]
    return [*found, Side("libllama Q8_0", peer, "/completion", "/health")]


async def closed(side: Side, port: int, texts: list[str], clients: int, seconds: float) -> Measured:
    """Clients with one prompt each."""
    connections, measured, chance = Connections(port), Measured(), random.Random(1)
    started = time.perf_counter()

    async def client() -> None:
        while (now := time.perf_counter()) - started < seconds:
            if side.path == "/completion":
                sent: object = {"tokens": [chance.randrange(1, 400) for _ in range(PROMPT)]}
            else:
                sent = {"texts": [chance.choice(texts)]}
            status, _ = await connections.post(side.path, json.dumps(sent).encode())
            measured.statuses[status] = measured.statuses.get(status, 0) + 1
            if status == 200:
                measured.latencies.append(time.perf_counter() - now)

    await asyncio.gather(*(client() for _ in range(clients)))
    measured.seconds = time.perf_counter() - started
    return measured


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="the folder of libllama")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2, help="of all servers in turns")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--save", action="store_true", help="write results/")
    options = parser.parse_args()
    table = Table()
    rates: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name) / "gpt2", free_port()
        texts = prepare(folder)
        table.add("python -m benchmarks.serving.generation " + " ".join(sys.argv[1:]))
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        table.add(f"{date}; {processor()}; {options.threads} threads; torch {version('torch')}")
        for _ in range(options.rounds):
            for side in sides(folder, port, options.threads, options.library):
                with running(side, port, options.threads):
                    asyncio.run(closed(side, port, texts, 8, 2.0))  # warms up
                    for clients in STREAMS:
                        found = asyncio.run(closed(side, port, texts, clients, options.seconds))
                        table.add(found.row(f"{clients} clients: {side.name}"))
                        rate = OUTPUT * len(found.latencies) / found.seconds
                        rates.setdefault((side.name, clients), []).append(rate)
    for (name, clients), each in rates.items():
        ratio = median(each) / median(rates["libllama Q8_0", clients])
        wanted = f", wanted {WANTED[clients]}" if name.startswith("jumok") else ""
        speed = f"{median(each):.0f} tokens/s, {ratio:.2f} x libllama"
        table.add(f"{clients} streams, {name}: {speed}{wanted}")
    if options.save:
        RESULT.write_text("\n".join(table.lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
