"""What an export is tried on: rows of the development set, or random ids where there is none."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from torch import nn

from jumok.data.table import Table
from jumok.errors import InputError, JumokError
from jumok.export.report import Cost, Unmeasured
from jumok.models import Decoder, Encoder, EncoderDecoder, LanguageModel
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.inputs.special_tokens import decoder_start_id
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.windows import add_bos_eos
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.text.ragged import Ragged

COMPARED = 100  # rows whose numbers are compared
MEASURED = 1_000  # rows that int8 is scored on
LONGEST_RANDOM = 40  # random ids in a row

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Samples:
    """Rows of ids to compare, and rows of the development set to score."""

    rows: Ragged  # as the model reads them
    shown: str  # what they are
    development: Table | None
    measured: str  # which part of the development set that is, or why there is none

    def cost(
        self, before: Callable[[Table], Scores], after: Callable[[Table], Scores]
    ) -> Cost | Unmeasured:
        """What int8 costs: the scores of the same rows without it and with it."""
        if self.development is None:
            return Unmeasured(self.measured)
        return Cost(self.measured, before(self.development), after(self.development))


def samples_of(loaded: Pipeline) -> Samples:
    """The first rows of the recipe's development set; random ids when that cannot be read."""
    try:
        (table,) = evaluation_tables(loaded.recipe, "dev", loaded.labels).values()
        head = table.slice(0, COMPARED)
        rows = read(loaded, head)
    except JumokError as error:
        return random_samples(loaded, COMPARED, str(error))
    measured = table.slice(0, MEASURED)
    return Samples(rows, part(len(head), len(table)), measured, part(len(measured), len(table)))


def part(n: int, of: int) -> str:
    """Which rows were looked at.

    >>> part(100, 10_000), part(30, 30)
    ('the first 100 of 10,000 rows of dev', 'all 30 rows of dev')
    """
    return f"the first {n:,} of {of:,} rows of dev" if n < of else f"all {of:,} rows of dev"


def read(loaded: Pipeline, table: Table) -> Ragged:
    """The rows of a table as the model reads them; of an encoder-decoder the sources."""
    vocabulary, longest = loaded.vocabulary, loaded.recipe.model.max_length
    if isinstance(loaded.model, EncoderDecoder):
        encode = Seq2SeqEncoder(vocabulary, loaded.target_vocabulary, longest)
        return encode.sources(table.column("source"))
    if isinstance(loaded.model, LanguageModel):
        rows = Ragged.from_lists(vocabulary.encode_batch(list(table.column("text"))))
        return add_bos_eos(rows, decoder_start_id(vocabulary), vocabulary.eos_id).truncate(longest)
    return TextEncoder(vocabulary, longest).encode_table(table, loaded.recipe.data.pieces)


def random_samples(loaded: Pipeline, n: int, reason: str) -> Samples:
    """Rows of random ids, the end at the end of a source and nowhere else.

    The reason tells why there is nothing better.
    """
    rows = random_rows(loaded.model, n)
    with suppress(InputError):  # without a vocabulary nothing tells of an end
        if isinstance(loaded.model, EncoderDecoder | LanguageModel):
            end = loaded.vocabulary.eos_id
            rows.ids[rows.ids == end] = end - 1 if end else 1
            if isinstance(loaded.model, EncoderDecoder):
                rows.ids[rows.offsets[1:] - 1] = end
    return Samples(rows, f"{n} rows of random ids", None, reason)


def random_rows(model: nn.Module, n: int) -> Ragged:
    """Rows of 2 to 40 ids, always the same ones for models of the same measures."""
    embedding = tower_of(model).embedding
    rng = np.random.default_rng(0)
    longest = min(embedding.max_length, LONGEST_RANDOM)
    lengths = rng.integers(min(2, longest), longest + 1, n)
    ids = rng.integers(0, embedding.tokens.num_embeddings, int(lengths.sum()), dtype=np.int32)
    return Ragged.from_lengths(ids, lengths)


def numbers_of(scores: Mapping[str, object]) -> Scores:
    """Of what `jumok evaluate` answers the scores themselves.

    >>> numbers_of({"task": "classification", "n": 30, "accuracy": 0.9})
    {'accuracy': 0.9}
    """
    return {name: value for name, value in scores.items() if isinstance(value, float)}


def lists(rows: Ragged) -> list[list[int]]:
    """Every row as a list of its own."""
    return [rows[i].tolist() for i in range(len(rows))]


def tower_of(model: nn.Module) -> Encoder | Decoder:
    """The tower that reads: a decoder where there is no encoder."""
    reader = getattr(model, "encoder", None) or getattr(model, "decoder", model)
    assert isinstance(reader, Encoder | Decoder)
    return reader
