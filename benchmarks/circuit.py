"""Transcoders and circuits of a finished run of `numbers` against the bars of docs/circuits.md.

    python benchmarks/circuit.py RUN [--steps N] [--transcoders FILE]

Transcoders learn on rows of the train split and are measured on the dev split: explained variance,
active features, and exact match of the first 300 rows with all feed-forward layers replaced. 200
ablations: in each of 20 short rows a drawn place of the answer, and 10 features drawn from its
pruned graph, each taken out of the model; the change of the logit is compared with what the whole
graph predicts. Seconds are those of the processor, with one thread. --transcoders: the file to keep
them in; if it exists, nothing is trained.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from turns import heading

import jumok
from jumok import experiment as ex
from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES
from jumok.tasks.pipeline.pipeline import Pipeline

RESULTS = Path(__file__).parent / "results"
TRAIN_ROWS, DEV_ROWS = 4_000, 300
TEXTS, FEATURES, LONGEST = 20, 10, 16  # short rows, ablations in each, tokens of a source

Pairs = list[tuple[str, str]]


def main() -> None:
    """Train or read transcoders, measure them, print the figures and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--transcoders", type=Path)
    parser.add_argument("--name", default="circuit", help="of the results file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = jumok.load(given.run, device="cpu")
    train, dev = (rows_of(model, name) for name in ("train", "dev"))
    lines = [heading(f"python benchmarks/circuit.py RUN --steps {given.steps}")]
    if given.transcoders and given.transcoders.exists():
        coders = ex.Transcoders.load(given.transcoders)
    else:
        start = time.process_time()
        data = ex.read(model, train[:TRAIN_ROWS])
        coders = ex.train_transcoders(model, data, steps=given.steps)
        lines.append(f"training: {time.process_time() - start:.0f} s, {given.steps} steps")
        if given.transcoders:
            coders.save(given.transcoders)
    for name, fit in coders.fit(model, dev).items():
        lines.append(f"{name:<32} explained {fit.explained:.3f}, active {fit.active:.1f}")
    print(*lines, sep="\n", flush=True)
    whole, spliced = exact_match(model, coders, dev[:DEV_ROWS])
    lines.append(f"exact match: {whole:.3f}, with transcoders {spliced:.3f}: {spliced / whole:.1%}")
    print(lines[-1], flush=True)
    lines += circuit_of(model, coders, ("세 시 반에 만나요", "3시 30분에 만나요"))
    print(lines[-1], flush=True)
    lines += ablations(model, coders, [row for row in dev if len(row[0]) <= LONGEST][:TEXTS])
    print(*lines[-3:], sep="\n")
    (RESULTS / f"{given.name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def rows_of(model: Pipeline, split: str) -> Pairs:
    """The rows of a split of the recipe's data."""
    table = load_splits(model.recipe.data, SEQUENCES, only=[split])[split]
    return list(zip(table.column("source"), table.column("target"), strict=True))


def exact_match(model: Pipeline, coders: ex.Transcoders, rows: Pairs) -> tuple[float, float]:
    """The share of right answers of the model and of the model with transcoders."""
    first, second = (
        float(jumok.evaluate(each, rows)["exact_match"])
        for each in (model, model.with_models(coders.splice))
    )
    return first, second


def ablations(model: Pipeline, coders: ex.Transcoders, rows: Pairs) -> Sequence[str]:
    """Predicted against measured effects of ablations on logits, and of edges."""
    rng = np.random.default_rng(0)
    effects, edges, scores = list[tuple[float, float]](), list[tuple[float, float]](), []
    derivatives = list[tuple[float, float]]()
    for row in rows:
        n_places = int(ex.read(model, [row]).lengths("target")[0])
        tokens = [int(rng.integers(n_places))]
        graph = ex.circuit(model, coders, [row], tokens)
        slopes = ex.circuit(model, coders, [row], tokens, freeze_norms=False).effects([-1])[0]
        part = graph.pruned()
        scores.append((graph.replacement, graph.completeness))
        places = [graph.nodes.index(node) for node in part.nodes]
        predicted = graph.effects([-1])[0, places]
        measured = part.confirm(direct=False)[-1]
        features = np.flatnonzero(part.where("feature"))
        drawn = rng.choice(features, min(FEATURES, len(features)), replace=False)
        effects += list(zip(predicted[drawn], measured[drawn], strict=True))
        derivatives += list(zip(slopes[places][drawn], measured[drawn], strict=True))
        kept = (part.weights != 0) & part.where("feature")
        edges += list(zip(part.weights[kept], part.confirm()[kept], strict=True))
    replacement, completeness = np.mean(scores, 0)
    return [
        f"ablations of features: r = {correlation(derivatives):.3f} ({len(effects)} logits), "
        f"with frozen norms {correlation(effects):.3f}",
        f"edges of features:     r = {correlation(edges):.3f} ({len(edges)} edges)",
        f"mean replacement score {replacement:.3f}, completeness {completeness:.3f}",
    ]


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Pearson's r of predicted and measured values."""
    return float(np.corrcoef(np.array(pairs).T)[0, 1])


def circuit_of(model: Pipeline, coders: ex.Transcoders, row: tuple[str, str]) -> Sequence[str]:
    """The time and the size of the graph of one text."""
    tokens = ex.read(model, [row])
    start = time.process_time()
    graph = ex.circuit(model, coders, tokens)
    part = graph.pruned()
    seconds = time.process_time() - start
    return [
        f"graph of {row[0]!r} -> {row[1]!r}, {tokens.lengths('source')[0]} + "
        f"{tokens.lengths('target')[0]} tokens: {seconds:.1f} s, {len(graph.nodes)} nodes; "
        f"pruned {len(part.nodes)} nodes, {np.count_nonzero(part.weights)} edges",
    ]


if __name__ == "__main__":
    main()
