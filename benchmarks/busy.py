"""Training and serving next to other programs: speed on idle cores, and while every core is taken.

    python benchmarks/busy.py [--seconds 20] [--rounds 3] [--save]

The load is as many endless loops as there are cores, which this script starts and ends. Each round
measures each system idle and under the load, in turns:

    adapted     as jumok runs: its threads spin on idle cores and sleep next to other programs
    spinning    GOMP_SPINCOUNT=300000, the default of libgomp, as jumok ran before
    passive     OMP_WAIT_POLICY=PASSIVE: threads always sleep

training is `jumok train` of a recipe from `ko-small` on 3,000 film reviews (tokens per second of
the training itself), serving 64 texts in each request to `/embed` of `jumok serve ko-small-vectors`
in float32 and int8 (texts per second). Run nothing else at the same time: other programs are
measured first, and named in the result.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from operator import mul
from pathlib import Path

from turns import command_line, heading

import jumok
from jumok.waiting import read_sample

RESULTS = Path(__file__).parent / "results" / "busy.txt"
REVIEWS = Path(jumok.__file__).parent / "course" / "data" / "reviews.tsv"
SYSTEMS = {
    "adapted": {},
    "spinning": {"GOMP_SPINCOUNT": "300000"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"},
}
SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS", "JUMOK_THREADS")
WORK = ("training", "serving float32", "serving int8")
TEXTS = 64  # in each request
MIN_LOADED, MIN_IDLE = 0.40, 0.98  # the goals
RECIPE = """
task = "classification"
[model]
init = "ko-small"
[data]
train = "{reviews}"
text = "review"
label = "label"
[training]
batch_tokens = 4096
epochs = 1000
minutes = {minutes}
log_every = 1
evaluate_every = 1000000
"""


@contextmanager
def load(loops: int) -> Iterator[None]:
    """Programs next to the body that take a core each."""
    started = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def environment(system: str) -> dict[str, str]:
    """The environment of a system."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return kept | SYSTEMS[system]


def train(system: str, seconds: float) -> float:
    """Tokens per second of a training."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe = RECIPE.format(reviews=REVIEWS, minutes=seconds / 60)
        (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
        subprocess.run(
            [sys.executable, "-m", "jumok", "train", "recipe.toml", "--out", "run"],
            cwd=folder,
            env=environment(system),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        lines = (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [each for each in map(json.loads, lines) if each["kind"] == "train"]
        speeds = [float(each["tokens_per_second"]) for each in records]
        if len(records) == 1:  # a slow system: its first step includes what is done once
            return speeds[0]
        ends = [float(each["seconds"]) for each in records]
        spent = [end - start for start, end in pairwise(ends)]
        return float(sum(map(mul, speeds[1:], spent)) / sum(spent))


def serve(system: str, seconds: float, precision: str) -> float:
    """Texts per second of a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "jumok", "serve", "ko-small-vectors", "--port", str(port)]
        + ["--precision", precision] * (precision != "float32"),
        env=environment(system),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    texts = REVIEWS.read_text(encoding="utf-8").splitlines()[1:]
    try:
        while True:
            time.sleep(0.2)
            try:
                with urllib.request.urlopen(f"{address}/ready", timeout=5) as reply:
                    if reply.status == 200:
                        break
            except OSError:
                assert server.poll() is None, "the server has ended"
        begin, done = time.perf_counter(), 0
        while time.perf_counter() < begin + seconds:
            start = done % (len(texts) - TEXTS)
            body = json.dumps({"inputs": [each[:120] for each in texts[start : start + TEXTS]]})
            request = urllib.request.Request(
                f"{address}/embed", body.encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=120) as reply:
                json.load(reply)
            done += TEXTS
        return done / (time.perf_counter() - begin)
    finally:
        server.terminate()
        server.wait()


def measure(work: str, system: str, seconds: float) -> float:
    """The speed of one system in one kind of work."""
    kind, _, precision = work.partition(" ")
    return train(system, seconds) if kind == "training" else serve(system, seconds, precision)


def others(seconds: float = 2.0) -> float:
    """The cores that other programs take now."""
    before = read_sample()
    time.sleep(seconds)
    after = read_sample()
    assert before is not None
    assert after is not None
    return after.others(before)


def table(speeds: dict[tuple[str, str, bool], list[float]]) -> Iterator[str]:
    """The median speeds, their ratios, and whether the goals are reached."""
    middle = {key: statistics.median(each) for key, each in speeds.items()}
    yield f"{'':<28} {'idle':>8} {'loaded':>8} {'loaded/idle':>12} {'idle/spinning':>14}"
    for work, system in dict.fromkeys((work, system) for work, system, _ in speeds):
        idle, loaded = middle[work, system, False], middle[work, system, True]
        line = f"{work:<16} {system:<11} {idle:8,.0f} {loaded:8,.0f} {loaded / idle:12.2f}"
        spinning = middle.get((work, "spinning", False))
        yield line if spinning is None else f"{line} {idle / spinning:14.3f}"
        if system == "adapted":
            reached = loaded / idle >= MIN_LOADED
            reached &= spinning is None or idle / spinning >= MIN_IDLE
            yield f"{'':<16} {'goal reached' if reached else 'GOAL MISSED'}"


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print the table and write it with `--save`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loops", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(words)
    before = others()
    keys = list(product(options.work, options.systems, (False, True)))
    speeds: dict[tuple[str, str, bool], list[float]] = {key: [] for key in keys}
    for _ in range(options.rounds):
        for key in keys:
            work, system, loaded = key
            with load(options.loops * loaded):
                speeds[key].append(measure(work, system, options.seconds))
            print(
                f"{work}, {system}, {'loaded' if loaded else 'idle'}: {speeds[key][-1]:,.0f}",
                flush=True,
            )
    lines = [
        heading(command_line()),
        f"training: tokens/s; serving: texts/s; medians of {options.rounds} rounds of "
        f"{options.seconds:.0f} s; load: {options.loops} endless loops",
        f"other programs took {before:.2f} cores before"
        + (": NOT IDLE, these are no figures" if before > 0.1 else ""),
        "",
        *table(speeds),
    ]
    print("\n".join(lines))
    if options.save:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
