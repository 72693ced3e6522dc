r"""Michel et al. 2019, "Are Sixteen Heads Really Better than One?", on a small translator.

    python benchmarks/sixteen_heads.py koen-small data/koen/tatoeba.dev.tsv \
        --test data/koen/tatoeba.test.tsv --cache heads.json

BLEU of greedy search on a development set: each head muted alone (their table 1), all but one head
of a layer (table 2), and up to half of all heads in the order of their importance (figure 3), which
is |dL/dxi| of section 4.1, normalized in each layer. The two other orders are the change of BLEU of
each head alone, and a greedy search. Orders are chosen on the development set; the test set is only
read. What was translated is kept in the cache: the same command continues after an interruption.
Writes results/sixteen_heads.txt, and the numbers of lesson 15.
"""

import argparse
import csv
import json
import time
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from turns import processor

import jumok
from jumok import experiment as ex
from jumok.evaluation.bootstrap import RowStatistics, paired_bootstrap
from jumok.models.points import attention_modules, muted_copy
from jumok.tasks.runs.own_data import table_of

RESULTS = Path(__file__).parent / "results" / "sixteen_heads.txt"
LESSON = Path(__file__).parents[1] / "src" / "jumok" / "course" / "data" / "heads.json"
SIGNIFICANT = 0.01  # as in the paper
PARTS = 8  # of the heads, where the paper has tenths
TRIED = 4  # heads at each step of the greedy search

Head = tuple[str, int, int]


class Ablations:
    """BLEU of one model with any heads muted; what was translated before is in the cache."""

    def __init__(self, model: Any, rows: list[tuple[str, str]], cache: Path) -> None:
        self.model, self.rows, self.cache = model.with_decoding(["beam=1"]), rows, cache
        self.table = table_of(rows, model.recipe, model.labels, model.paired_columns)
        self.known: dict[str, Any] = json.loads(cache.read_text()) if cache.is_file() else {}
        self.heads: list[Head] = [
            (each.block, each.layer, head)
            for each in attention_modules(model.model)
            for head in range(each.module.n_heads)
        ]

    def statistics(self, muted: Iterable[Head]) -> RowStatistics:
        """The statistics of BLEU of each row with these heads muted."""
        heads = sorted(muted)
        key = " ".join(f"{block}.{layer}.{head}" for block, layer, head in heads)
        model = self.model.with_models(partial(muted_copy, heads=heads))
        if key not in self.known:
            began = time.process_time()
            found = model.task.row_outputs(model, self.table).statistics["bleu"]
            self.score = found.score
            self.known[key] = found.values.astype(int).tolist()
            self.known["seconds"] = self.known.get("seconds", 0.0) + time.process_time() - began
            self.cache.write_text(json.dumps(self.known))
        return RowStatistics(np.array(self.known[key], np.float64), self.score)

    @cached_property
    def score(self) -> Any:
        """BLEU of the sums of statistics."""
        few = table_of(self.rows[:1], self.model.recipe, (), self.model.paired_columns)
        return self.model.task.row_outputs(self.model, few).statistics["bleu"].score

    def bleu(self, muted: Iterable[Head] = ()) -> float:
        """BLEU with these heads muted."""
        return self.statistics(muted).total()

    def significant(self, muted: Iterable[Head]) -> bool:
        """Whether BLEU differs from that of all heads, by the paired bootstrap."""
        found = paired_bootstrap([self.statistics(())], [self.statistics(muted)], seed=1)
        return found.p < SIGNIFICANT

    def importance(self) -> dict[Head, float]:
        """|dL/dxi| of each head over the rows, divided by the norm of its layer (section 4.1)."""
        sites = [ex.Site(f"{block}.{layer}.mixed", head) for block, layer, head in self.heads]
        data = ex.read(self.model, self.rows)
        found = ex.attribution_patch(self.model, data, None, ex.mean_log_probability, sites)
        scores = np.abs(found).mean(1)
        norms: dict[tuple[str, int], float] = {}
        for (block, layer, _), score in zip(self.heads, scores, strict=True):
            norms[block, layer] = norms.get((block, layer), 0.0) + score**2
        return {
            head: float(score / norms[head[:2]] ** 0.5)
            for head, score in zip(self.heads, scores, strict=True)
        }


def measure(ablations: Ablations, test: Ablations) -> dict[str, Any]:
    """All numbers of the page, by name."""
    heads, base = ablations.heads, ablations.bleu()
    single = {head: ablations.bleu([head]) - base for head in heads}
    layers = dict.fromkeys((block, layer) for block, layer, _ in heads)
    kept = {}
    for block, layer in layers:
        here = [head for head in heads if head[:2] == (block, layer)]
        kept[block, layer] = max(
            ablations.bleu(other for other in here if other != head) - base for head in here
        )
    importance = ablations.importance()
    by_importance = sorted(heads, key=lambda head: importance[head])
    orders = {
        "importance": by_importance,
        "change": sorted(heads, key=lambda head: -single[head]),
        "greedy": greedy(ablations, single),
    }
    return {
        "base": base,
        "single": [
            (*head, change, ablations.significant([head])) for head, change in single.items()
        ],
        "kept": [(*layer, change) for layer, change in kept.items()],
        "pruned": {name: curve(ablations, order, len(heads)) for name, order in orders.items()},
        "tested": {
            name: curve(test, orders[name], len(heads)) for name in ("importance", "change")
        },
    }


def greedy(ablations: Ablations, single: dict[Head, float]) -> list[Head]:
    """Half of the heads: always the one whose loss, with those before, costs least BLEU.

    Of the heads that are left, only those are tried that cost least when they were last muted.
    """
    last, order = dict(single), list[Head]()
    for _ in range(len(single) // 2):
        left = sorted((head for head in last if head not in order), key=lambda head: -last[head])
        for head in left[:TRIED]:
            last[head] = ablations.bleu([*order, head]) - ablations.bleu()
        order.append(max(left[:TRIED], key=lambda head: last[head]))
    return order


def curve(ablations: Ablations, order: Sequence[Head], heads: int) -> list[tuple[float, float]]:
    """The percentage of all heads that are muted, the first ones of the order, and BLEU."""
    counts = range(0, heads // 2 + 1, heads // PARTS)  # with half of them BLEU is near 0
    return [(100 * n / heads, ablations.bleu(order[:n])) for n in counts]


def report(found: dict[str, Any], rows: int) -> list[str]:
    """The tables as text."""
    lines = [f"BLEU of greedy search with all heads: {found['base']:.2f} ({rows} rows)", ""]
    lines.append("change of BLEU when one head is muted (* p < 0.01, paired bootstrap over rows)")
    layers = dict.fromkeys((block, layer) for block, layer, *_ in found["single"])
    for block, layer in layers:
        cells = [
            f"{change:+6.2f}{'*' if certain else ' '}"
            for b, i, _, change, certain in found["single"]
            if (b, i) == (block, layer)
        ]
        lines.append(f"{block:8} {layer}  {' '.join(cells)}")
    certain = [change for *_, change, sure in found["single"] if sure]
    better = sum(change > 0 for change in certain)
    lines += [
        "",
        f"{len(certain)} of {len(found['single'])} heads change it, {better} for the better",
    ]
    lines += ["", "change of BLEU when all heads of a layer but the best one are muted"]
    lines += [f"{block:8} {layer}  {change:+6.2f}" for block, layer, change in found["kept"]]
    for part, title in {"pruned": "development set", "tested": "test set"}.items():
        for name, points in found[part].items():
            lines += ["", f"heads muted together, order {name}, {title}: percentage and BLEU"]
            lines.append("  ".join(f"{muted:.0f}% {bleu:.2f}" for muted, bleu in points))
    return lines


def read(path: Path) -> list[tuple[str, str]]:
    """The pairs of a TSV file."""
    with path.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(line["ko"], line["en"]) for line in lines]


def main() -> None:
    """Measure what the cache does not have, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("data", type=Path, help="a TSV file with the columns ko and en")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    options = parser.parse_args()
    model, rows = jumok.load(options.model, "cpu"), read(options.data)
    ablations = Ablations(model, rows, options.cache)
    test = Ablations(model, read(options.test), options.cache.with_suffix(".test.json"))
    found = measure(ablations, test)
    command = f"python benchmarks/sixteen_heads.py {options.model} {options.data.name}"
    seconds = f"{ablations.known['seconds']:.0f} s of processor time for all translations"
    text = "\n".join([command, processor(), seconds, "", *report(found, len(rows))])
    print(text)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    LESSON.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
