"""The cost of each format of the kernel: perplexity of a trained language model.

    python benchmarks/perplexity.py RUN [RUN ...] [--texts 1000]

On development texts of each run (`recipe.data`), cut to the longest that the model holds: every
token after [BOS] is predicted once, [EOS] included. The first row of a run is the PyTorch model,
the others are the kernel with all linear maps in a format. `cost` is by how much the perplexity
exceeds that of the first row, `same` how often the most likely token is the same. Nothing is
selected by these figures.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

import torch
from torch import Tensor
from torch.nn import functional as F
from turns import heading

import jumok
from jumok.data.load import load_splits
from jumok.data.splits import TEXTS
from jumok.evaluation.language_models import LanguageModelMetrics
from jumok.models import LanguageModel
from jumok.native import DecoderPrecision, NativeDecoder, NativeModel
from jumok.tasks.pipeline.pipeline import Pipeline

RESULTS = Path(__file__).parent / "results" / "perplexity.txt"
ROWS = 32
FORMATS: tuple[DecoderPrecision, ...] = ("float32", "bfloat16", "int8", "q8_0", "q4_0")

Logits = Callable[[Tensor], Tensor]  # (B, T) -> (B, T, V)


@dataclass(frozen=True)
class Scores:
    """The scores of one model, and its most likely next tokens."""

    metrics: LanguageModelMetrics
    best: list[Tensor]


def batches(loaded: Pipeline, texts: list[str]) -> list[tuple[Tensor, Tensor]]:
    """Ids (B, T), padded to the right, and the targets, -100 on padding: the shortest first."""
    tokenizer, width = loaded.vocabulary, loaded.recipe.model.max_length
    rows = [
        torch.tensor([tokenizer.bos_id, *ids, tokenizer.eos_id][: width + 1])
        for ids in tokenizer.encode_batch(texts)
    ]
    rows.sort(key=len)
    found = []
    for first in range(0, len(rows), ROWS):
        part = rows[first : first + ROWS]
        ids, targets = (
            torch.nn.utils.rnn.pad_sequence(side, batch_first=True, padding_value=value)
            for side, value in (([r[:-1] for r in part], 0), ([r[1:] for r in part], -100))
        )
        found.append((ids, targets))
    return found


@torch.inference_mode()
def score(logits: Logits, parts: list[tuple[Tensor, Tensor]], n: int, n_bytes: int) -> Scores:
    """Predict every target once."""
    nats, tokens = 0.0, 0
    best: list[Tensor] = []
    for ids, targets in parts:
        predicted = logits(ids).float()
        real = targets >= 0
        loss = F.cross_entropy(predicted[real].double(), targets[real], reduction="sum")
        nats, tokens = nats + loss.item(), tokens + int(real.sum())
        best.append(predicted[real].argmax(-1))
    return Scores(LanguageModelMetrics(n, tokens, n_bytes, nats), best)


def kernel(model: NativeModel) -> Logits:
    """The kernel, all positions of a batch in one step."""
    return lambda ids: NativeDecoder(model, capacity=ids.shape[1]).step_all(ids)


def table(run: Path, n_texts: int) -> list[str]:
    """The lines of one run."""
    loaded = jumok.load(run)
    assert isinstance(loaded.model, LanguageModel)
    dev = load_splits(loaded.recipe.data, TEXTS, only=["dev"]).dev.column("text")[:n_texts]
    parts = batches(loaded, dev)
    n_bytes = sum(len(normalize("NFC", text).encode()) for text in dev)
    weights = sum(p.numel() for p in loaded.model.parameters())
    reference = score(loaded.model, parts, len(dev), n_bytes)
    lines = [
        f"{run.name}: {len(dev):,} texts, {reference.metrics.tokens:,} tokens, {weights:,} weights",
        f"{'':<10} {'perplexity':>10} {'cost':>8} {'bits/byte':>9} {'same':>7} {'MB':>6}",
    ]

    def line(name: str, found: Scores, size: float) -> str:
        pairs = zip(found.best, reference.best, strict=True)
        same = sum(int((a == b).sum()) for a, b in pairs) / reference.metrics.tokens
        cost = found.metrics.perplexity / reference.metrics.perplexity - 1
        return (
            f"{name:<10} {found.metrics.perplexity:10.3f} {cost:8.3%} "
            f"{found.metrics.bits_per_byte:9.4f} {same:7.2%} {size / 1e6:6.2f}"
        )

    lines.append(line("PyTorch", reference, 4 * weights))
    for name in FORMATS:
        native = NativeModel(loaded.model, name)
        lines.append(
            line(name, score(kernel(native), parts, len(dev), n_bytes), native.weight_bytes)
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the tables and write them to the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("runs", type=Path, nargs="+")
    arguments.add_argument("--texts", type=int, default=1000)
    given = arguments.parse_args()
    torch.set_num_threads(2)
    names = " ".join(run.name for run in given.runs)
    lines = [heading(f"python benchmarks/perplexity.py {names} --texts {given.texts}")]
    for run in given.runs:
        lines += ["", *table(run, given.texts)]
    text = "\n".join(lines)
    print(text)
    RESULTS.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
