"""Inputs to compare an exported model on: rows of the dev set, or random ids."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from torch import nn

from jumok.data.table import Table
from jumok.errors import InputError, JumokError
from jumok.export.report import NotMeasured, QuantizationCost
from jumok.models import Decoder, Encoder, EncoderDecoder, LanguageModel
from jumok.models.backbones import backbones
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.windows import add_bos_eos
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.text.ragged import Ragged

N_COMPARED = 100  # rows to compare outputs on
N_MEASURED = 1_000  # rows to score int8 on
MAX_RANDOM_TOKENS = 40  # per row

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Samples:
    """Rows of ids to compare, and dev rows to score."""

    rows: Ragged  # model inputs
    description: str
    dev_table: Table | None
    dev_description: str  # which rows those are, or why there are none

    def cost(
        self,
        before: Callable[[Table], Scores],
        after: Callable[[Table], Scores],
        weights: str = "int8",
    ) -> QuantizationCost | NotMeasured:
        """The cost of smaller weights: scores of the same rows before and after quantization."""
        if self.dev_table is None:
            return NotMeasured(self.dev_description, weights)
        scores = before(self.dev_table), after(self.dev_table)
        return QuantizationCost(self.dev_description, *scores, weights)


def comparison_samples(pipeline: Pipeline) -> Samples:
    """The first rows of the recipe's dev set, or random ids if it cannot be read."""
    try:
        (table,) = evaluation_tables(pipeline.recipe, "dev", pipeline.labels).values()
        head = table.slice(0, N_COMPARED)
        rows = encode_rows(pipeline, head)
    except JumokError as error:
        return random_samples(pipeline, N_COMPARED, str(error))
    scored = table.slice(0, N_MEASURED)
    n = len(table)
    return Samples(rows, describe_rows(len(head), n), scored, describe_rows(len(scored), n))


def describe_rows(n: int, of: int) -> str:
    """A description of the first n rows.

    >>> describe_rows(100, 10_000), describe_rows(30, 30)
    ('the first 100 of 10,000 rows of dev', 'all 30 rows of dev')
    """
    return f"the first {n:,} of {of:,} rows of dev" if n < of else f"all {of:,} rows of dev"


def encode_rows(pipeline: Pipeline, table: Table) -> Ragged:
    """The rows of a table as model inputs; the sources for an encoder-decoder."""
    vocabulary, longest = pipeline.vocabulary, pipeline.recipe.model.max_length
    if isinstance(pipeline.model, EncoderDecoder):
        encode = Seq2SeqEncoder(vocabulary, pipeline.target_vocabulary, longest)
        return encode.sources(table.column("source"))
    if isinstance(pipeline.model, LanguageModel):
        rows = Ragged.from_lists(vocabulary.encode_batch(list(table.column("text"))))
        return add_bos_eos(rows, vocabulary.decoder_start_id, vocabulary.eos_id).truncate(longest)
    return TextEncoder(vocabulary, longest).encode_table(table, pipeline.recipe.data.pieces)


def random_samples(pipeline: Pipeline, n: int, reason: str) -> Samples:
    """Rows of random ids; [EOS] only at the end of sources.

    reason: why there are no dev rows.
    """
    rows = random_rows(pipeline.model, n)
    with suppress(InputError):  # without a vocabulary there is no [EOS]
        if isinstance(pipeline.model, EncoderDecoder | LanguageModel):
            end = pipeline.vocabulary.eos_id
            rows.ids[rows.ids == end] = end - 1 if end else 1
            if isinstance(pipeline.model, EncoderDecoder):
                rows.ids[rows.offsets[1:] - 1] = end
    return Samples(rows, f"{n} rows of random ids", None, reason)


def random_rows(model: nn.Module, n: int) -> Ragged:
    """Rows of 2 to 40 random ids; deterministic for a given vocabulary size and max_length."""
    embedding = backbone_of(model).embedding
    rng = np.random.default_rng(0)
    longest = min(embedding.max_length, MAX_RANDOM_TOKENS)
    lengths = rng.integers(min(2, longest), longest + 1, n)
    ids = rng.integers(0, embedding.tokens.num_embeddings, int(lengths.sum()), dtype=np.int32)
    return Ragged.from_lengths(ids, lengths)


def numeric_scores(scores: Mapping[str, object]) -> Scores:
    """The scores among the results of `jumok evaluate`.

    >>> numeric_scores({"task": "classification", "n": 30, "accuracy": 0.9})
    {'accuracy': 0.9}
    """
    return {name: value for name, value in scores.items() if isinstance(value, float)}


def to_lists(rows: Ragged) -> list[list[int]]:
    """Every row as a list."""
    return [rows[i].tolist() for i in range(len(rows))]


def backbone_of(model: nn.Module) -> Encoder | Decoder:
    """The encoder, or the decoder of a model without one."""
    return next(iter(backbones(model).values()))
