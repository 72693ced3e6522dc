"""Pairs of texts for a reranker: those that belong together, and those that a search confuses.

Question and answer, two ways to ask the same, a heading and the paragraph below it. The other texts
of a query are among the best of a hybrid search in its source (hard negatives, Karpukhin et al.
2020, section 3.2), and one is random.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import PAIRS, SEQUENCES
from jumok.engine import load
from jumok.lab.assemble import HeldOut
from jumok.lab.assemble_korean import evaluation_texts, held_out_texts, source_lines
from jumok.tasks.pipeline.hybrid_search import HybridIndex
from jumok.tasks.pipeline.vector_index import VectorIndex

MODEL = "ko-small-vectors"  # of the search
HARD, RANDOM = 5, 1  # other texts of a query
BEST = 30  # lines of the search from which the hard ones are drawn
HEADINGS = ("korean/news.txt", "korean/docs.txt", "korean/unesco.txt")
MAX_HEADINGS = 3_000  # of each file
MAX_CHARACTERS = 160  # of a paragraph


@dataclass
class Query:
    """A query with the texts that belong to it, and texts that are known not to."""

    texts: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)

    def without(self, held_out: HeldOut) -> "Query":
        """The same without texts that repeat a held-out sentence."""
        return Query(
            *(
                {t for t in texts if not held_out.repeated_in(t)}
                for texts in (self.texts, self.others)
            )
        )


def assemble_pairs(path: Path) -> dict[str, int]:
    """Write the rows (query, text, score 0 or 1) of all sources, and count those of each.

    The queries are in random order; each has one row with the score 1, and after it `HARD` +
    `RANDOM` with 0. No query repeats a sentence of a dev or test set, and no text one of KorSTS,
    KLUE and FLORES. The same sources give the same bytes on one processor.
    """
    held_out = HeldOut([*held_out_texts(), *evaluation_texts()])
    evaluation = HeldOut([*evaluation_texts(), *held_out_texts("korsts")])
    rng, groups, counts = random.Random(0), list[list[str]](), dict[str, int]()
    for source, found in sources().items():
        kept = {
            query: each.without(evaluation)
            for query, each in found.items()
            if not held_out.repeated_in(query)
        }
        kept = {query: each for query, each in kept.items() if each.texts}
        rows = [(query, f"{query}\t{t}\t{n}") for query, t, n in _with_negatives(kept, rng)]
        groups += ([row for _, row in found] for _, found in groupby(rows, itemgetter(0)))
        counts[source] = len(rows)
    rng.shuffle(groups)
    lines = ["query\ttext\tscore", *chain.from_iterable(groups)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    return counts


def sources() -> dict[str, Mapping[str, Query]]:
    """The queries of each source, with all their texts."""
    answers = load_splits(DataConfig(corpus="chatbot"), SEQUENCES, only=["train"]).train
    asked: dict[str, Query] = {}
    for question, answer in zip(answers.column("source"), answers.column("target"), strict=True):
        asked.setdefault(_plain(question), Query()).texts.add(_plain(answer))
    questions = load_splits(DataConfig(corpus="question_pair"), PAIRS, only=["train"]).train
    same: dict[str, Query] = {}
    for first, second, label in zip(*(questions.column(name) for name in PAIRS), strict=True):
        query = same.setdefault(_plain(first), Query())
        (query.texts if label == "same" else query.others).add(_plain(second))
    headings: dict[str, Query] = {}
    for file in HEADINGS:
        for heading, paragraph in _headings(file):
            headings.setdefault(heading, Query()).texts.add(paragraph)
    return {"answers": asked, "questions": same, "headings": headings}


def _headings(file: str) -> Iterator[tuple[str, str]]:
    """Short lines that are no sentences, each with the beginning of the paragraph after it."""
    lines = [line.content.decode() for line in source_lines("headings", file)]
    found = [
        (_plain(first), _plain(second[:MAX_CHARACTERS]))
        for first, second in pairwise(lines)
        if 8 <= len(first) <= 50 and first[-1] not in '.!?:…",)다요까'
        if len(second) >= 50 and second[-1] == "."
    ]
    yield from random.Random(file).sample(found, min(len(found), MAX_HEADINGS))


def _with_negatives(
    queries: Mapping[str, Query], rng: random.Random
) -> Iterator[tuple[str, str, int]]:
    """A text of each query with the score 1, and others with 0."""
    texts = sorted({text for each in queries.values() for text in (*each.texts, *each.others)})
    model = load(MODEL, "int8")
    index = HybridIndex(VectorIndex(texts, model.encode(texts)))
    for query, vector in zip(queries, model.encode(list(queries)), strict=True):
        own = queries[query]
        best = [match.text for match in index.search(query, vector, BEST)]
        hard = [text for text in best if text not in own.texts and text not in own.others]
        known = sorted(own.others)[:HARD]
        yield query, rng.choice(sorted(own.texts)), 1
        for text in (*known, *rng.sample(hard, min(HARD - len(known), len(hard)))):
            yield query, text, 0
        for _ in range(RANDOM):
            text = rng.choice(texts)
            if text not in own.texts:
                yield query, text, 0


def _plain(text: str) -> str:
    return " ".join(text.split())
