"""Korean sentences found among 50,000: by vectors, by BM25, and by both.

    python benchmarks/hybrid_search.py --data FOLDER [--lines 50000] [--queries 250]

The query is one sentence of a pair with (nearly) the same meaning, the other one is among the lines
of `korean`, `question_pair` and KorSTS in FOLDER (docs/data.md). The rank offset of reciprocal rank
fusion is chosen on the dev queries: the dev part of KorSTS and training pairs of `question_pair`.
The test queries are those of KLUE-STS and of the test part of KorSTS, read once.
"""

import argparse
import csv
import json
import lzma
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from turns import heading

from jumok.engine import load
from jumok.tasks.pipeline import hybrid_search
from jumok.tasks.pipeline.vector_index import VectorIndex
from jumok.text.bm25 import BigramIndex

RESULTS = Path(__file__).parent / "results" / "hybrid_search.txt"
MODEL = "ko-small-vectors"
TOP = 10
SOURCES = {  # lines of each file of running text, of 50,000
    "spoken": 16_000,
    "comments": 10_000,
    "docs": 10_000,
    "wiki-1": 5_000,
    "news": 3_000,
    "stories": 1_500,
}
OFFSETS = (5, 10, 60)
SAME = 4.0  # the lowest score of a pair with the same meaning, of 5

Pairs = list[tuple[str, str]]


def main() -> None:
    """Print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--lines", type=int, default=50_000)
    arguments.add_argument("--queries", type=int, default=250, help="of each dev set")
    given = arguments.parse_args()
    command = f"python benchmarks/hybrid_search.py --data FOLDER --lines {given.lines}"
    lines = [heading(command, "numpy"), "", f"{MODEL} in int8, {given.lines:,} lines", ""]
    sampler = random.Random(0)
    sets = _sets(given.data, given.queries, sampler)
    rest = _running_text(given.data, given.lines, sampler)
    for split, pairs in sets.items():
        lines += _table(split, pairs, rest, given.lines)
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def _table(split: str, sets: dict[str, Pairs], rest: Sequence[str], n_lines: int) -> list[str]:
    """Recall at 10 of each set and MRR, for each method."""
    queries = [query for pairs in sets.values() for query, _ in pairs]
    targets = [target for pairs in sets.values() for _, target in pairs]
    names = np.array([name for name, pairs in sets.items() for _ in pairs])
    others = [text for text in rest if text not in set(queries)]
    texts = list(dict.fromkeys([*targets, *others]))[:n_lines]
    where = {text: i for i, text in enumerate(texts)}
    model = load(MODEL, "int8")
    index = VectorIndex(texts, model.encode(texts))
    started = time.process_time()
    bigrams = BigramIndex.build(texts)
    built = time.process_time() - started
    cosines = [index.scores(vector) for vector in model.encode(queries)]
    started = time.process_time()
    bm25 = [np.where(s := bigrams.scores(query), s, -np.inf) for query in queries]
    asked = (time.process_time() - started) / len(queries)
    methods = {"vectors": cosines, "BM25 of character bigrams": bm25}
    coverage = [bigrams.coverage(query) for query in queries]
    chosen = hybrid_search.RANK_OFFSET
    for offset in OFFSETS if split == "dev" else (chosen,):
        hybrid_search.RANK_OFFSET = offset
        methods[f"both, rank offset {offset}"] = [
            hybrid_search.fused(*each) for each in zip(cosines, bm25, coverage, strict=True)
        ]
    hybrid_search.RANK_OFFSET = chosen
    width = 14
    head = "".join(f"{name:>{width}}" for name in ("all", *sets, "MRR"))
    lines = [f"{f'recall@{TOP}, {split}: {len(queries)} queries':<36}{head}"]
    for method, scores in methods.items():
        ranks = np.array([(s > s[where[t]]).sum() for s, t in zip(scores, targets, strict=True)])
        found = [(ranks < TOP).mean(), *((ranks[names == name] < TOP).mean() for name in sets)]
        cells = "".join(f"{value:{width}.3f}" for value in (*found, (1 / (ranks + 1)).mean()))
        lines.append(f"{method:<36}{cells}")
    seconds = (
        f"index of BM25: {built:.1f} s, a query of BM25: {1000 * asked:.1f} ms (processor time)"
    )
    return [*lines, seconds, ""]


def _sets(data: Path, n: int, sampler: random.Random) -> dict[str, dict[str, Pairs]]:
    """The pairs of each set, by split."""
    rows = json.loads(_read(data / "klue" / "klue-sts-v1.1_dev.json.xz"))
    klue = [(row["sentence1"], row["sentence2"]) for row in rows if row["labels"]["label"] >= SAME]
    questions = csv.DictReader(
        _read(data / "question_pair" / "kor_pair_train.csv.xz").removeprefix("\ufeff").splitlines()
    )
    same = [(r["question1"], r["question2"]) for r in questions if r["is_duplicate"] == "0"]
    dev = {"korsts": _korsts(data / "korsts" / "sts-dev.tsv"), "question_pair": same}
    test = {"klue-sts": klue, "korsts": _korsts(data / "korsts" / "sts-test.tsv")}
    return {
        split: {name: _sample(pairs, n, sampler) for name, pairs in sets.items()}
        for split, sets in (("dev", dev), ("test", test))
    }


def _korsts(path: Path) -> Pairs:
    rows = [line.split("\t") for line in _read(path).splitlines()[1:]]
    return [(row[5], row[6]) for row in rows if float(row[4]) >= SAME]


def _sample(pairs: Pairs, n: int, sampler: random.Random) -> Pairs:
    """So many pairs of two different texts, each target once."""
    known = {target: query for query, target in pairs if query.strip() != target.strip()}
    found = sorted((query, target) for target, query in known.items())
    return sampler.sample(found, min(n, len(found)))


def _running_text(data: Path, n_lines: int, sampler: random.Random) -> list[str]:
    """Lines of 8 to 150 characters, and questions and captions in the style of the pairs."""
    found = []
    for name, n in SOURCES.items():
        lines = _read(data / "korean" / f"{name}.txt.xz").splitlines()
        fitting = [line for line in lines if 8 <= len(line) <= 150]
        found += sampler.sample(fitting, min(n * n_lines // 50_000 + 1, len(fitting)))
    similar = _korsts(data / "korsts" / "sts-train.tsv.xz")
    found += sorted({text for pair in similar for text in pair})[: n_lines // 10]
    return found


def _read(path: Path) -> str:
    opened = lzma.open if path.suffix == ".xz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main()
