"""What a model is asked about: texts, or ids drawn at random, short and as long as it holds."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from jumok.checks.target import Sample
from jumok.data.splits import SEQUENCES
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.models import EncoderDecoder, EncoderDecoderClassifier, LanguageModel
from jumok.tasks.inputs.masking import special_ids
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.inputs.special_tokens import decoder_start_id
from jumok.tasks.inputs.text_encoder import (
    TextEncoder,
    TextInputs,
    token_type_ids,
    uses_token_types,
)
from jumok.tasks.pipeline.causal_generation import prompt_ids
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.text.ragged import Ids

LONGEST = 512  # tokens of a drawn text: more cost time and tell nothing new
N_TEXTS = 4
AMONG = 100  # rows the texts are chosen from
CHARACTERS = 2_000  # of a text; some corpora are one text alone


def some_texts(loaded: Pipeline) -> list[str]:
    """A few development texts of a run, short and long ones; a TAB parts the texts of a pair.

    Raises InputError when the data are not here.
    """
    columns = loaded.task.columns(loaded.recipe)
    table = evaluation_tables(loaded.recipe, "dev", loaded.labels)["dev"]
    lines = sorted(_lines(table, columns, loaded), key=len)
    places = np.linspace(0, len(lines) - 1, N_TEXTS).round().astype(int)
    return list(dict.fromkeys(lines[place] for place in places))


def samples_of(loaded: Pipeline, lines: Sequence[str]) -> list[Sample]:
    """The lines as the model's task reads them. Raises InputError without a vocabulary.

    Behind a TAB stands the second text of a pair, or what is written for a source; without it
    the model writes that itself.
    """
    model, vocabulary = loaded.model, loaded.vocabulary
    longest = loaded.recipe.model.max_length
    if isinstance(model, LanguageModel):
        return [Sample(torch.tensor(prompt_ids(loaded, line)[:longest])) for line in lines]
    if isinstance(model, EncoderDecoder):
        encode = Seq2SeqEncoder(vocabulary, loaded.target_vocabulary, longest)
        sources, _, targets = zip(*(line.partition("\t") for line in lines), strict=True)
        written = [t or _written(loaded, s) for s, t in zip(sources, targets, strict=True)]
        read, begun = encode.sources(sources), encode.targets(written)
        return [Sample(_ids(read[i]), target=_ids(begun[i][:-1])) for i in range(len(lines))]
    rows = TextEncoder(vocabulary, longest).encode_lines(lines, loaded.recipe.paired)
    ids = [_ids(rows[i]) for i in range(len(rows))]
    segments: list[Tensor | None] = [None] * len(ids)
    config = loaded.recipe.model
    if uses_token_types(vocabulary, config.n_segments, config.pooling):
        segments = [token_type_ids(row[None], vocabulary.sep_id)[0] for row in ids]
    decodes = isinstance(model, EncoderDecoderClassifier)
    begin = torch.tensor([decoder_start_id(vocabulary)]) if decodes else None
    return [Sample(row, marks, begin) for row, marks in zip(ids, segments, strict=True)]


def draw_samples(loaded: Pipeline, seed: int = 0) -> list[Sample]:
    """Ids drawn at random, no special ones: one token, a few, many, as many as the model holds."""
    config = loaded.recipe.model
    most = min(config.max_length, LONGEST)
    lengths = sorted({1, min(3, most), (most + 3) // 4, most})
    read = _ordinary(loaded, config.vocabulary_size)
    written = _ordinary(loaded, config.output_size)
    chance = torch.Generator().manual_seed(seed)

    def some(ids: Tensor, n: int) -> Tensor:
        return ids[torch.randint(len(ids), (n,), generator=chance)]

    samples = []
    for place, n in enumerate(lengths):
        target = None
        if isinstance(loaded.model, EncoderDecoder):
            target = some(written, lengths[place - 1])  # of another length than the source
        elif isinstance(loaded.model, EncoderDecoderClassifier):
            target = read[:1]  # the same for all, as [BOS] is
        segments = (torch.arange(n) >= (n + 1) // 2).long() if config.n_segments > 1 else None
        samples.append(Sample(some(read, n), segments, target))
    return samples


def _ordinary(loaded: Pipeline, size: int) -> Tensor:
    """The ids that are no special pieces.

    Without a vocabulary nobody says which these are: then the middle half of all, for every
    vocabulary has them at its beginning or at its end.
    """
    try:
        special = list(special_ids(loaded.target_vocabulary)) + list(special_ids(loaded.vocabulary))
    except InputError:
        return torch.arange(size // 4, max(size - size // 4, size // 4 + 1))
    ordinary = torch.ones(size, dtype=torch.bool)
    ordinary[[i for i in special if i < size]] = False
    return ordinary.nonzero()[:, 0]


def _lines(table: Table, columns: Sequence[str], loaded: Pipeline) -> list[str]:
    """The first rows as lines: a text, two texts, or a source and its target."""
    rows = table.slice(0, AMONG)
    if columns == SEQUENCES:
        cells = zip(*(rows.column(name) for name in SEQUENCES), strict=True)
        return ["\t".join(pair) for pair in cells]
    texts = TextInputs.from_table(rows, loaded.recipe.data.pieces)
    if texts.pairs is not None:
        return ["\t".join(pair) for pair in zip(texts.texts, texts.pairs, strict=True)]
    return [text[:CHARACTERS] for text in texts.texts]


def _written(loaded: Pipeline, source: str) -> str:
    answer = loaded(source)
    assert isinstance(answer, GeneratedText)  # an encoder-decoder writes
    return answer.output


def _ids(row: Ids) -> Tensor:
    return torch.from_numpy(row.astype(np.int64))
