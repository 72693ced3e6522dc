"""The texts that the engine generates without PyTorch and those of PyTorch, for many texts.

    python benchmarks/generation_parity.py MODEL --data FILE [FILE ...] [--texts 10000] [--add]

MODEL is a run or a shipped model that generates text; samples are replaced by greedy search. The
texts are drawn from the lines of the files; one in ten is changed: decomposed (NFD), with emoji and
characters outside of any vocabulary, several in one, on several lines, blank. `same` counts equal
outputs; a tie is another output whose score differs by less than 1e-4; `bytes` counts those whose
JSON is that of the pipeline with the C++ kernel; `largest` is the largest difference of the
log-probability of a token where the outputs are equal. Beams of 2 and 8 are compared for a fifth of
the texts. Seconds are of processor time, of one thread. With --add the table follows those of other
models.
"""

import argparse
import random
import time
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from turns import command_line, heading

import jumok
from jumok.engine import load
from jumok.engine.generation import GenerationModel
from jumok.tasks.pipeline.outputs import GeneratedText, Output, to_json

RESULTS = Path(__file__).parent / "results" / "generation_parity.txt"
PLAIN = ["sample=false", "temperature=1.0", "top_p=1.0", "top_k=0", "max_length=40"]
SEARCHES = {
    "greedy": [],
    "beam 2, alpha 0": ["beam=2", "length_penalty=0"],
    "beam 4, alpha 0.6, 4 best": ["beam=4", "length_penalty=0.6", "n_best=4"],
    "beam 8, gnmt, never": ["beam=8", "length_norm=gnmt", "early_stopping=never"],
}
TIE = 1e-4
CHUNK = 500  # texts


def texts_of(files: Sequence[Path], n: int) -> list[str]:
    """Texts of the files, in an order that is always the same."""
    draw = random.Random(0)
    lines = [line for file in files for line in lines_of(file)]
    draw.shuffle(lines)
    return [changed(line, draw) for line in lines[:n]]


def lines_of(file: Path) -> Iterator[str]:
    """The longest cell of each line of a file."""
    for line in file.read_text(encoding="utf-8").splitlines()[1:]:
        yield max(line.split("\t"), key=len)


def changed(line: str, draw: random.Random) -> str:
    """The text itself, or in one case of ten an unusual form of it."""
    forms = [
        unicodedata.normalize("NFD", line),
        f"{line} 👩‍👩‍👧 뷁\u200b ㅋㅋㅋ",
        " ".join([line] * 8),
        f"{line}\n\n{line}",
        draw.choice(("", " ", "\t", "\x07")),
    ]
    return draw.choice(forms) if draw.random() < 0.1 else line


def compare(model: str, search: Sequence[str], texts: Sequence[str]) -> str:
    """The counts of one model and search, as the columns of a line."""
    engine = load(model, decoding=search)
    assert isinstance(engine, GenerationModel)
    pipeline = jumok.load(model, device="cpu")
    torch = pipeline.with_decoding([*search, "kernel=torch"])
    native = pipeline.with_decoding([*search, "kernel=native"])
    same = ties = equal_bytes = 0
    largest, seconds = 0.0, [0.0, 0.0]
    for start in range(0, len(texts), CHUNK):
        part = texts[start : start + CHUNK]
        begin = time.process_time()
        found = engine.predict(part)
        seconds[0] += time.process_time() - begin
        begin = time.process_time()
        expected = torch.predict(part)
        seconds[1] += time.process_time() - begin
        for mine, other, third in zip(found, expected, native.predict(part), strict=True):
            kind, difference = difference_of(mine, other)
            same += kind == "same"
            ties += kind == "tie"
            largest = max(largest, difference)
            equal_bytes += to_json(mine, tokens=True) == to_json(third, tokens=True)
    n = len(texts)
    return (
        f"{n:6,} {same:6,} {ties:4,} {n - same - ties:9,} {equal_bytes:6,} {largest:8.1e} "
        f"{seconds[0]:7.1f} {seconds[1]:7.1f}"
    )


def difference_of(mine: Output, other: Output) -> tuple[str, float]:
    """How two outputs differ, and the largest difference of a log-probability of equal ones."""
    assert isinstance(mine, GeneratedText)
    assert isinstance(other, GeneratedText)
    texts = [[each.output for each in output.n_best or ()] for output in (mine, other)]
    if (mine.output, texts[0]) != (other.output, texts[1]):
        ranks = [[each.rank for each in output.n_best or ()] for output in (mine, other)]
        close = abs(mine.score - other.score) < TIE and all(
            abs(a - b) < TIE for a, b in zip(*ranks, strict=True)
        )
        return "tie" if close else "different", 0.0
    if mine.warnings != other.warnings:
        return "different", 0.0
    pairs = zip(mine.tokens, other.tokens, strict=True)
    return "same", max((abs(a.log_probability - b.log_probability) for a, b in pairs), default=0.0)


def main() -> None:
    """Compare the texts of a model and save the table after each search."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--add", action="store_true")
    given = parser.parse_args()
    texts = texts_of(given.data, given.texts)
    before = RESULTS.read_text(encoding="utf-8") + "\n" if given.add else ""
    lines = [
        heading(command_line()),
        f"{'search':<26} {'texts':>6} {'same':>6} {'ties':>4} {'different':>9} "
        f"{'bytes':>6} {'largest':>8} {'engine':>7} {'PyTorch':>7}",
    ]
    print(*lines, sep="\n")
    for name, search in SEARCHES.items():
        part = texts[: len(texts) // 5] if name.startswith(("beam 2", "beam 8")) else texts
        lines.append(f"{name:<26} {compare(given.model, [*PLAIN, *search], part)}")
        print(lines[-1], flush=True)
        RESULTS.write_text(before + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
