"""What stands around the texts a model reads and writes.

As jumok has it, or as the files of an imported tokeniser say.
"""

import numpy as np

from jumok.data.ragged import Ragged
from jumok.errors import InputError
from jumok.text.pretrained import PretrainedVocabulary
from jumok.text.vocabulary import Vocabulary


def framed_texts(
    vocabulary: Vocabulary, rows: Ragged, pairs: Ragged | None, max_length: int
) -> Ragged:
    """[CLS] before every row, [SEP] after both rows of a pair, as many ids as the model holds.

    With room for 5 ids a pair of 4 and 3 keeps 3 and 2, one of 7 and 1 keeps 4 and 1. An imported
    tokeniser frames and cuts by its own files.
    """
    if isinstance(vocabulary, PretrainedVocabulary):
        return _by_their_files(vocabulary, rows, pairs, max_length)
    begin = _column(vocabulary.cls_id, len(rows))
    if pairs is None:
        return Ragged.beside([begin, rows.shortened(max_length - 1)])
    room = max(max_length - 3, 0)
    first = np.minimum(rows.lengths, np.maximum(room - pairs.lengths, room - room // 2))
    end = _column(vocabulary.sep_id, len(rows))
    return Ragged.beside([begin, rows.shortened(first), end, pairs.shortened(room - first), end])


def framed_sources(vocabulary: Vocabulary, rows: Ragged, max_length: int) -> Ragged:
    """pieces [EOS], cut at the model's length."""
    if isinstance(vocabulary, PretrainedVocabulary):
        return _by_their_files(vocabulary, rows, None, max_length)
    end = _column(vocabulary.eos_id, len(rows))
    return Ragged.beside([rows.shortened(max_length - 1), end])


def framed_targets(vocabulary: Vocabulary, rows: Ragged, max_length: int) -> Ragged:
    """[BOS] pieces [EOS], cut at the model's length; input and output are one token apart."""
    begin = _column(target_begin(vocabulary), len(rows))
    if isinstance(vocabulary, PretrainedVocabulary):
        return Ragged.beside([begin, _by_their_files(vocabulary, rows, None, max_length)])
    end = _column(vocabulary.eos_id, len(rows))
    return Ragged.beside([begin, rows.shortened(max_length - 1), end])


def target_begin(vocabulary: Vocabulary) -> int:
    """The id a decoder is given first: [BOS], or what an imported model's config says."""
    if isinstance(vocabulary, PretrainedVocabulary) and vocabulary.start_id is not None:
        return vocabulary.start_id
    return vocabulary.bos_id


def filler(vocabulary: Vocabulary) -> int:
    """The id that fills short rows: [PAD], or of a vocabulary without one any id, never seen."""
    try:
        return vocabulary.pad_id
    except InputError:
        return 0


def model_size(vocabulary: Vocabulary) -> int:
    """How many rows the tables of a model have for this vocabulary; some have rows to spare."""
    if isinstance(vocabulary, PretrainedVocabulary):
        return max(len(vocabulary), vocabulary.output_size)
    return len(vocabulary)


def around(vocabulary: Vocabulary) -> tuple[int, int]:
    """How many ids stand before and behind the pieces of a text alone."""
    if isinstance(vocabulary, PretrainedVocabulary):
        row = vocabulary.frame([-1]).ids
        return row.index(-1), len(row) - 1 - row.index(-1)
    return 1, 0


def _by_their_files(
    vocabulary: PretrainedVocabulary, rows: Ragged, pairs: Ragged | None, max_length: int
) -> Ragged:
    """Rows as the tokeniser's files frame them, no longer than they and the model allow."""
    limit = min(max_length, vocabulary.model_max_length or max_length)
    return Ragged.from_lists(
        [
            vocabulary.frame(
                rows[i].tolist(), None if pairs is None else pairs[i].tolist(), limit
            ).ids
            for i in range(len(rows))
        ]
    )


def _column(id_: int, n: int) -> Ragged:
    """The same id in each of n rows."""
    return Ragged.from_lengths(np.full(n, id_, dtype=np.int32), np.ones(n, dtype=np.int64))
