"""What `predict --json --alignment` costs with the C++ kernel: the same run with and without.

    python benchmarks/alignment_speed.py --out RUNS [--rounds 9]

An encoder-decoder of the base size (6+6 layers, d 512, 8 heads, d_ff 2048), trained for one step so
that it has a vocabulary of 8,000 pieces, translates 32 Korean sentences, one by one or as a batch,
into exactly 24 tokens each. Both sides are the lines of JSON that the command prints; they take
turns batch by batch in one process of two threads, and the first round is not counted. The weights
are those of all heads of all layers, kept by the kernel while it writes.
"""

import argparse
import random
import statistics
import time
from pathlib import Path

import torch
from trained_runs import results_of
from turns import heading

from jumok.data.corpora.paths import corpus_folders, find_file
from jumok.tasks.pipeline.generation import align_output
from jumok.tasks.pipeline.generation_pipeline import as_generation
from jumok.tasks.pipeline.outputs import GeneratedText, to_json
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.load import load

RESULTS = Path(__file__).parent / "results" / "alignment_speed.txt"
TOKENS = 24
RECIPE = """
name = "base"
task = "sequence_to_sequence"

[data]
train = "{folder}/train.tsv"
dev = "{folder}/dev.tsv"
test = "{folder}/dev.tsv"

[vocabulary]
size = 8000

[model]
kind = "encoder_decoder"
max_length = 128

[training]
steps = 1
batch_tokens = 512
"""


def prepare(folder: Path) -> list[str]:
    """A run of the base size, if it is missing, and sentences to translate."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = []
    for name in ("docs.dev", "news.dev", "tatoeba.train"):
        path = find_file(corpus_folders("koen"), f"{name}.tsv")
        assert path is not None, "the corpus koen is missing"
        rows = path.read_text(encoding="utf-8").splitlines()
        pairs += ["\t".join(row.split("\t")[1:3]) for row in rows[1:]]
    for name, part in (("train", pairs), ("dev", pairs[-4:])):
        text = "\n".join(["source\ttarget", *part])
        (folder / f"{name}.tsv").write_text(text + "\n", encoding="utf-8")
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.format(folder=folder), encoding="utf-8")
    results_of(folder / "base", [str(recipe), "decoding.max_length=4"])
    sources = [pair.split("\t")[0] for pair in pairs]
    return random.Random(4).sample([source for source in sources if 12 < len(source) < 60], 32)


def lines(pipeline: Pipeline, batch: list[str], alignment: bool) -> list[str]:
    """The lines that the command prints for a batch."""
    found = []
    for output in pipeline.predict(batch):
        assert isinstance(output, GeneratedText)
        extra = None
        if alignment:
            aligned = align_output(pipeline, output)
            extra = {"source": aligned.source, "alignment": aligned.alignment}
        found.append(to_json(output, extra))
    return found


def measure(run: Path, texts: list[str], precision: str, n: int, beam: int, rounds: int) -> str:
    """The line of one case."""
    pipeline = as_generation(
        load(run, device="cpu").with_decoding(
            [
                *("kernel=native", f"precision={precision}", f"beam={beam}"),
                *(f"max_length={TOKENS}", f"min_length={TOKENS - 1}"),
            ]
        )
    )
    sides = {False: pipeline, True: pipeline.with_alignment()}
    batches = [texts[i : i + n] for i in range(0, len(texts), n)]
    repeats = 1 if n == 1 else 4 if beam == 1 else 2  # of the whole batch, which takes less time
    seconds: list[dict[bool, float]] = []
    for _ in range(rounds + 1):
        total = {False: 0.0, True: 0.0}
        for turn, batch in enumerate(batches * repeats):
            for side in (False, True) if turn % 2 else (True, False):
                begin = time.perf_counter()
                lines(sides[side], batch, side)
                total[side] += time.perf_counter() - begin
        seconds.append(total)
    ratios = [total[True] / total[False] for total in seconds[1:]]
    without, with_ = (statistics.median(s[side] for s in seconds[1:]) for side in sides)
    tokens = len(texts) * TOKENS * repeats
    return (
        f"{precision:<9} {n:>9} {beam:>4} {tokens / without:8,.0f} {tokens / with_:14,.0f} "
        f"{min(ratios):6.3f} {statistics.median(ratios):6.3f} {max(ratios):6.3f}"
    )


def main() -> None:
    """Print the table and write it to the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    torch.set_num_threads(2)
    table = [
        heading(f"python benchmarks/alignment_speed.py --out RUNS --rounds {given.rounds}"),
        f"{'':<9} {'':>9} {'':>4} {'tokens/s':>8} {'':>14} {'time with / without':>20}",
        f"{'precision':<9} {'sentences':>9} {'beam':>4} {'without':>8} {'with alignment':>14} "
        f"{'min':>6} {'median':>6} {'max':>6}",
    ]
    print("\n".join(table))
    texts = prepare(given.out)
    for precision in ("float32", "int8"):
        for n, beam in ((1, 1), (32, 1), (32, 5)):
            found = measure(given.out / "base", texts, precision, n, beam, given.rounds)
            table.append(found)
            print(found, flush=True)
    RESULTS.write_text("\n".join([*table, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
