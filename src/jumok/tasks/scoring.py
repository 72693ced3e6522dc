"""How good a loaded model is on a table: the scores, and what a report shows of them."""

from dataclasses import dataclass, field
from typing import Any

import torch

from jumok.data.table import Table
from jumok.errors import InputError
from jumok.evaluation import score_sequences
from jumok.models import EncoderDecoder
from jumok.tasks.answering import Loaded
from jumok.tasks.classification import LabelledTexts, TextEncoder, score_texts
from jumok.tasks.sequence_to_sequence import PairEncoder, write_all
from jumok.training.report import Example, Mistake

SHOWN = 30  # mistakes or examples in a report


@dataclass(frozen=True)
class Scored:
    """`scores` is the answer of `jumok evaluate`; the rest goes into the report."""

    scores: dict[str, Any]
    confusion: list[list[int]] | None = None
    mistakes: list[Mistake] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)


@torch.inference_mode()
def score(loaded: Loaded, table: Table, split: str) -> Scored:
    """The scores of a model on the rows of a table, in float32.

    Raises InputError when there are none.
    """
    if not len(table):
        raise InputError(f"{split} has no rows to score; name a file with some")
    if isinstance(loaded.model, EncoderDecoder):
        return _score_pairs(loaded, loaded.model, table, split)
    return _score_labels(loaded, table, split)


def _score_labels(loaded: Loaded, table: Table, split: str) -> Scored:
    encode = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length)
    labels = loaded.labels
    data = LabelledTexts.of_table(table, loaded.recipe.data.pieces, encode, labels)
    texts, wanted = data.texts, data.labels.tolist()
    found, probabilities = score_texts(
        loaded.model, data.ids, wanted, loaded.vocabulary, loaded.device
    )
    sure, guessed = probabilities.max(-1)
    wrong = (guessed != torch.tensor(wanted)).nonzero().flatten().tolist()
    worst = sorted(wrong, key=lambda i: -float(sure[i]))[:SHOWN]
    return Scored(
        {
            "task": loaded.recipe.task,
            "split": split,
            "n": found.n,
            "accuracy": found.accuracy,
            "macro_f1": found.macro_f1,
        },
        confusion=found.confusion.tolist(),
        mistakes=[
            Mistake(texts[i], labels[wanted[i]], labels[int(guessed[i])], float(sure[i]))
            for i in worst
        ],
    )


def _score_pairs(loaded: Loaded, model: EncoderDecoder, table: Table, split: str) -> Scored:
    sources, targets = list(table.column("source")), list(table.column("target"))
    rows = PairEncoder(loaded.vocabulary, loaded.recipe.model.max_length).sources(sources)
    outputs = [text for text, _ in write_all(model, rows, loaded.vocabulary, loaded.device)]
    found = score_sequences(outputs, targets)
    triples = [Example(*triple) for triple in zip(sources, targets, outputs, strict=True)]
    wrong = [example for example in triples if example.output != example.target]
    right = [example for example in triples if example.output == example.target]
    return Scored(
        {
            "task": loaded.recipe.task,
            "split": split,
            "n": found.n,
            "exact_match": found.exact_match,
            "bleu": found.bleu,
            "chrf": found.chrf,
            "signature": found.signature,
        },
        examples=[*wrong[: SHOWN // 2], *right[: SHOWN // 2]],
    )
