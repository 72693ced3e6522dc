"""Translation under load: `jumok serve` against CTranslate2 in the usual FastAPI server.

    python -m benchmarks.serving.translation --peers ENV/bin/python --save     # 4 minutes

A model of the size of `koen` (4 + 4 layers, d_model 256; 3,500 tokens) is trained a little on short
sentences of that corpus, and exported to CTranslate2. Each of 16 clients sends one sentence after
another; every translation has 24 tokens, so that both compute the same amount. Both use int8 and
the same number of threads, and take turns; CTranslate2 with all threads for one text and with one
thread for each of several. The answers of jumok are compared with those of
`predict`. ENV is an environment with ctranslate2, fastapi, uvicorn and sentencepiece.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import torch

from jumok.data.corpora.paths import corpus_folders, find_file
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.runs.load import load

from .__main__ import Connections, Measured, Side, Table, free_port, of_peers, processor, running

CLIENTS = 16
TOKENS = 24
PEER = Path(__file__).with_name("translation_peer.py")
RESULT = Path(__file__).parents[1] / "results" / "serving_translation.txt"
RECIPE = """
name = "koen"
task = "sequence_to_sequence"

[data]
train = "{folder}/train.tsv"
dev = "{folder}/dev.tsv"
test = "{folder}/dev.tsv"

[vocabulary]
size = {vocabulary}

[model]
kind = "encoder_decoder"
n_layers = 4
d_model = 256
n_heads = 4
d_ff = 512
norm_first = true
positions = "sinusoidal"
max_length = 128

[training]
steps = 10
batch_tokens = 1024
learning_rate = 1e-4
"""


def run(*arguments: str) -> None:
    """A command of jumok."""
    command = [sys.executable, "-m", "jumok", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])


def prepare(folder: Path, vocabulary: int) -> list[str]:
    """A run, its export to CTranslate2, and sentences to translate."""
    path = find_file(corpus_folders("koen"), "tatoeba.train.tsv")
    assert path is not None, "the corpus koen is missing"
    rows = path.read_text(encoding="utf-8").splitlines()
    pairs = ["\t".join(row.split("\t")[1:3]) for row in rows[1:]]
    pairs = [pair for pair in pairs if 12 < len(pair.split("\t")[0]) < 60]
    for name, part in (("train", pairs[64:]), ("dev", pairs[:64])):
        text = "\n".join(["source\ttarget", *part])
        (folder / f"{name}.tsv").write_text(text + "\n", encoding="utf-8")
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.format(folder=folder, vocabulary=vocabulary), encoding="utf-8")
    run("train", str(recipe), "--out", str(folder / "koen"))
    run("export", str(folder / "koen"), str(folder / "exported"), "--to", "ctranslate2")
    return [pair.split("\t")[0] for pair in random.Random(4).sample(pairs, 256)]


def decoding(beam: int) -> list[str]:
    """The settings of jumok."""
    return [
        *("kernel=native", "precision=int8", f"beam={beam}"),
        *(f"max_length={TOKENS}", f"min_length={TOKENS - 1}"),  # the end token counts in one
    ]


def sides(folder: Path, port: int, threads: int, beam: int, peers: str) -> list[Side]:
    """jumok, and CTranslate2 with all threads for one text, and with one thread for each."""
    serve = [sys.executable, "-m", "jumok", "serve", str(folder / "koen"), "--port", str(port)]
    for setting in decoding(beam):
        serve += ["--decoding", setting]
    found = [Side("jumok serve int8", [*serve, "--max-wait", "60"])]
    for inter, intra in ((1, threads), (threads, 1)):
        peer = [peers, str(PEER), str(folder / "exported"), str(port), str(inter), str(intra)]
        name = f"CTranslate2 int8, FastAPI, {inter} x {intra}"
        found.append(Side(name, [*peer, str(beam), str(TOKENS)], "/translate", "/health"))
    return found


async def closed(
    side: Side, port: int, texts: list[str], expected: list[str], seconds: float
) -> Measured:
    """Clients with one sentence each."""
    connections, measured, chance = Connections(port), Measured(), random.Random(1)
    started = time.perf_counter()
    key = "texts" if side.path == "/v1/predict" else "text"

    async def client() -> None:
        while (now := time.perf_counter()) - started < seconds:
            number = chance.randrange(len(texts))
            sent: object = [texts[number]] if key == "texts" else texts[number]
            status, content = await connections.post(side.path, json.dumps({key: sent}).encode())
            measured.statuses[status] = measured.statuses.get(status, 0) + 1
            if status == 200:
                measured.latencies.append(time.perf_counter() - now)
                if key == "texts":
                    differs = expected[number].encode() not in content
                    measured.differing = (measured.differing or 0) + differs

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    measured.seconds = time.perf_counter() - started
    return measured


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", metavar="PYTHON", required=True)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2, help="of all servers in turns")
    parser.add_argument("--beams", default="1,5")
    parser.add_argument("--vocabulary", type=int, default=3_500)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--save", action="store_true", help="write results/")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table.add("python -m benchmarks.serving.translation " + " ".join(sys.argv[1:]))
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        peers = of_peers(options.peers, ("ctranslate2", "fastapi", "uvicorn"))
        table.add(
            f"{date}; {processor()}; {options.threads} threads; torch {version('torch')}{peers}"
        )
        texts = prepare(folder, options.vocabulary)
        for beam in map(int, options.beams.split(",")):
            pipeline = load(folder / "koen").with_decoding(decoding(beam))
            expected = [to_json(pipeline(text)) for text in texts]
            compare(folder, beam, texts, expected, options, table)
    if options.save:
        RESULT.write_text("\n".join(table.lines) + "\n", encoding="utf-8")


def compare(
    folder: Path,
    beam: int,
    texts: list[str],
    expected: list[str],
    options: argparse.Namespace,
    table: Table,
) -> None:
    """All servers in turns, and the ratio of their medians."""
    rates: dict[str, list[float]] = {}
    slowest: dict[str, list[float]] = {}
    port = free_port()
    for _ in range(options.rounds):
        for side in sides(folder, port, options.threads, beam, options.peers):
            with running(side, port, options.threads):
                asyncio.run(closed(side, port, texts, expected, 2.0))  # warms up
                found = asyncio.run(closed(side, port, texts, expected, options.seconds))
            table.add(found.row(f"beam {beam}, {CLIENTS} clients: {side.name}"))
            rates.setdefault(side.name, []).append(len(found.latencies) / found.seconds)
            ordered = sorted(found.latencies)
            slowest.setdefault(side.name, []).append(ordered[int(0.99 * (len(ordered) - 1))])
    ours, *others = rates
    for theirs in others:
        speed = median(rates[ours]) / median(rates[theirs])
        wait = median(slowest[ours]) / median(slowest[theirs])
        table.add(f"beam {beam}: {speed:.2f} x the requests/s at {wait:.2f} x the p99 of {theirs}")


if __name__ == "__main__":
    main()
