"""Memory and time of training a language model on files of text of several sizes.

    python benchmarks/large_text.py [--gigabytes 0.1 0.4 1.6] [--steps 20] [--folder FOLDER]
        [--save]

For each size a generator writes a file of lines: words of the vocabulary of `ko-small`, drawn by
Zipf's law, in lines from one word to some thousands. `jumok train` trains a tiny decoder on it for
some steps, with that vocabulary and an empty cache. The files and the cache are in FOLDER (default:
that of temporary files; 2.5 times the size of the text is needed) and are removed afterwards.

MB is the largest anonymous memory (RssAnon) of the process in a part of the training, read every 20
ms: what the system cannot take back, as it can the pages of mapped files. Seconds are those of the
processor, of all threads.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from turns import heading

from jumok.shipped import resolve_vocabulary
from jumok.text.sentencepiece import SentencePieceTokenizer

RESULTS = Path(__file__).parent / "results" / "large_text.txt"
VOCABULARY = "ko-small"
BLOCK_WORDS = 1_000_000  # that are drawn at a time
MEDIAN_WORDS = 20  # of a line
# The parts of a training, and how the line on stderr begins after which each follows.
PARTS = {
    "import": "",
    "read, split": "reading ",
    "tokenize, report": "training or loading ",
    "train": "train: ",
    "test": "epoch ",
}
RECIPE = """
task = "language_modeling"

[data]
train = "{text}"
dev_rows = 1000

[vocabulary]
file = "{vocabulary}"

[model]
kind = "decoder"
n_layers = 1
d_model = 32
n_heads = 2
d_ff = 64
max_length = 128

[training]
steps = {steps}
batch_tokens = 1024
evaluate_every = {steps}
"""


def words() -> list[bytes]:
    """The words of the vocabulary that begin after a space, the most frequent first."""
    tokenizer = SentencePieceTokenizer.load(resolve_vocabulary(VOCABULARY))
    pieces = tokenizer.model_file.pieces
    return [piece[1:].encode() for piece in pieces if piece.startswith("▁") and len(piece) > 1]


def blocks(seed: int) -> Iterator[bytes]:
    """Lines of words without end, some megabytes at a time; the same for the same seed."""
    known = words()
    table = np.array(known, dtype=object)
    frequency = np.cumsum(1 / np.arange(1, len(known) + 1))
    rng = np.random.default_rng(seed)
    while True:
        draws = rng.random(BLOCK_WORDS) * frequency[-1]
        drawn = table[np.searchsorted(frequency, draws)].tolist()
        lengths = np.ceil(MEDIAN_WORDS * rng.lognormal(0, 1, BLOCK_WORDS // MEDIAN_WORDS))
        ends = np.cumsum(lengths).astype(np.int64)
        ends = ends[ends < BLOCK_WORDS].tolist()
        bounds = zip([0, *ends], [*ends, BLOCK_WORDS], strict=True)
        yield b"".join(b" ".join(drawn[a:b]) + b"\n" for a, b in bounds)


def write_text(path: Path, size: int) -> int:
    """Write at least `size` bytes of lines; returns their number."""
    lines = 0
    with path.open("wb") as file:
        for block in blocks(seed=0):
            file.write(block)
            lines += block.count(b"\n")
            if file.tell() >= size:
                return lines
    raise AssertionError("the blocks end")


@dataclass
class Part:
    """What a part of a training took."""

    megabytes: float = 0.0
    seconds: float = 0.0


def measure(command: list[str], environment: dict[str, str]) -> dict[str, Part]:
    """The anonymous memory and the processor time of each part of a training."""
    parts = {name: Part() for name in PARTS}
    current = ["import"]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    said: list[str] = []

    def follow() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            for name, begin in PARTS.items():
                if begin and line.startswith(begin):
                    current[0] = name

    reader = threading.Thread(target=follow)
    reader.start()
    before = 0.0
    while process.poll() is None:
        part = parts[current[0]]
        try:
            now, anonymous = usage(process.pid)
        except (OSError, StopIteration):  # it has ended
            continue
        part.megabytes = max(part.megabytes, anonymous)
        part.seconds += now - before
        before = now
        time.sleep(0.02)
    reader.join()
    if process.returncode:
        raise SystemExit("".join(said))
    return parts


def usage(pid: int) -> tuple[float, float]:
    """The processor seconds of a process so far, and its anonymous memory in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    anonymous = next(line for line in status if line.startswith("RssAnon"))
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(anonymous.split()[1]) * 1024 / 1e6


def train(gigabytes: float, steps: int, folder: Path) -> tuple[int, dict[str, Part]]:
    """The lines of a file of this size, and the parts of a training on it."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        text, recipe = Path(scratch) / "text.txt", Path(scratch) / "recipe.toml"
        lines = write_text(text, int(gigabytes * 1e9))
        content = RECIPE.format(text=text, vocabulary=VOCABULARY, steps=steps)
        recipe.write_text(content, encoding="utf-8")
        command = [sys.executable, "-m", "jumok", "train", str(recipe)]
        command += ["--out", str(Path(scratch) / "run")]
        environment = os.environ | {"XDG_CACHE_HOME": str(Path(scratch) / "cache"), "LC_ALL": "C"}
        return lines, measure(command, environment)


def table(found: dict[float, tuple[int, dict[str, Part]]]) -> list[str]:
    """A line for each size, and the growth between the smallest and the largest."""
    title = f"{'GB':>6} {'lines':>12} " + " ".join(f"{name:>17}" for name in PARTS)
    rows = [title, " " * 20 + f"{'MB':>8} {'s':>8} " * len(PARTS)]
    for gigabytes, (lines, parts) in found.items():
        cells = [f"{part.megabytes:8,.0f} {part.seconds:8,.1f}" for part in parts.values()]
        rows.append(f"{gigabytes:6.2f} {lines:12,} {' '.join(cells)}")
    if len(found) > 1:
        (few, first), *_, (many, last) = found.values()
        growth = [last[name].megabytes - first[name].megabytes for name in PARTS]
        bytes_per_line = " ".join(f"{each * 1e6 / (many - few):17.1f}" for each in growth)
        rows.append(f"{'bytes a line':<19} {bytes_per_line}")
    return rows


def main() -> None:
    """Train on each size, print the table and write it to the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 0.4, 1.6])
    arguments.add_argument("--steps", type=int, default=20)
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    arguments.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    given = arguments.parse_args()
    found: dict[float, tuple[int, dict[str, Part]]] = {}
    for gigabytes in given.gigabytes:
        found[gigabytes] = train(gigabytes, given.steps, given.folder)
        print(table(found)[-2 if len(found) > 1 else -1], flush=True)
    load = f"load average {', '.join(f'{each:.0f}' for each in os.getloadavg())}"
    sizes = " ".join(f"{each:g}" for each in given.gigabytes)
    command = f"python benchmarks/large_text.py --gigabytes {sizes} --steps {given.steps}"
    lines = [heading(command), load, *table(found)]
    print("\n".join(lines))
    if given.save:
        RESULTS.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
