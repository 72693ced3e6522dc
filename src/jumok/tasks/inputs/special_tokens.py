"""What stands around the texts a model reads and writes.

As jumok has it, or as the files of an imported tokeniser say.
"""

import logging
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.processes import is_main_process
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


def build_inputs(
    vocabulary: Tokenizer, rows: Ragged, pairs: Ragged | None, max_length: int
) -> Ragged:
    """[CLS] before every row, [SEP] after both rows of a pair, as many ids as the model holds.

    With room for 5 ids a pair of 4 and 3 keeps 3 and 2, one of 7 and 1 keeps 4 and 1. An imported
    tokeniser frames and cuts by its own files. The first text that is cut is told, once.
    """
    if isinstance(vocabulary, PretrainedTokenizer):
        return _by_their_files(vocabulary, rows, pairs, max_length)
    begin = _column(vocabulary.cls_id, len(rows))
    if pairs is None:
        _warn_truncated(rows.lengths + 1, max_length)
        return Ragged.hstack([begin, rows.truncate(max_length - 1)])
    _warn_truncated(rows.lengths + pairs.lengths + 3, max_length)
    room = max(max_length - 3, 0)
    first = np.minimum(rows.lengths, np.maximum(room - pairs.lengths, room - room // 2))
    end = _column(vocabulary.sep_id, len(rows))
    return Ragged.hstack([begin, rows.truncate(first), end, pairs.truncate(room - first), end])


def build_source(vocabulary: Tokenizer, rows: Ragged, max_length: int) -> Ragged:
    """pieces [EOS], cut at the model's length."""
    if isinstance(vocabulary, PretrainedTokenizer):
        return _by_their_files(vocabulary, rows, None, max_length)
    _warn_truncated(rows.lengths + 1, max_length)
    end = _column(vocabulary.eos_id, len(rows))
    return Ragged.hstack([rows.truncate(max_length - 1), end])


def build_target(vocabulary: Tokenizer, rows: Ragged, max_length: int) -> Ragged:
    """[BOS] pieces [EOS], cut at the model's length; input and output are one token apart."""
    begin = _column(decoder_start_id(vocabulary), len(rows))
    if isinstance(vocabulary, PretrainedTokenizer):
        return Ragged.hstack([begin, _by_their_files(vocabulary, rows, None, max_length)])
    _warn_truncated(rows.lengths + 1, max_length)
    end = _column(vocabulary.eos_id, len(rows))
    return Ragged.hstack([begin, rows.truncate(max_length - 1), end])


def decoder_start_id(vocabulary: Tokenizer) -> int:
    """The id a decoder is given first: [BOS], or what an imported model's config says."""
    if isinstance(vocabulary, PretrainedTokenizer) and vocabulary.config_start_id is not None:
        return vocabulary.config_start_id
    return vocabulary.bos_id


def pad_id_or_zero(vocabulary: Tokenizer) -> int:
    """The id that fills short rows: [PAD], or of a vocabulary without one any id, never seen."""
    try:
        return vocabulary.pad_id
    except InputError:
        return 0


def embedding_rows(vocabulary: Tokenizer) -> int:
    """How many rows the tables of a model have for this vocabulary; some have rows to spare."""
    if isinstance(vocabulary, PretrainedTokenizer):
        return max(len(vocabulary), vocabulary.model_vocab_size)
    return len(vocabulary)


def n_special(vocabulary: Tokenizer) -> tuple[int, int]:
    """How many ids stand before and behind the pieces of a text alone."""
    if isinstance(vocabulary, PretrainedTokenizer):
        row = vocabulary.apply_template([-1]).ids
        return row.index(-1), len(row) - 1 - row.index(-1)
    return 1, 0


def truncation_side(vocabulary: Tokenizer) -> Literal["left", "right"]:
    """Where a text that is too long loses pieces: its end, unless an imported tokeniser differs."""
    return (
        vocabulary.source_template.side if isinstance(vocabulary, PretrainedTokenizer) else "right"
    )


def _by_their_files(
    vocabulary: PretrainedTokenizer, rows: Ragged, pairs: Ragged | None, max_length: int
) -> Ragged:
    """Rows as the tokeniser's files frame them, no longer than they and the model allow."""
    limit = min(max_length, vocabulary.model_max_length or max_length)
    around_them = len(vocabulary.apply_template([], None if pairs is None else []).ids)
    lengths = rows.lengths + (0 if pairs is None else pairs.lengths) + around_them
    _warn_truncated(lengths, limit, truncation_side(vocabulary))
    return Ragged.from_lists(
        [
            vocabulary.apply_template(
                rows[i].tolist(), None if pairs is None else pairs[i].tolist(), limit
            ).ids
            for i in range(len(rows))
        ]
    )


def _warn_truncated(
    lengths: NDArray[np.int64], limit: int, side: Literal["left", "right"] = "right"
) -> None:
    """Say, once in the life of a process, that texts are cut, as their `lengths` are too many."""
    if len(lengths) and int(lengths.max()) > limit:
        _warn_once(limit, side)


@cache
def _warn_once(limit: int, side: Literal["left", "right"]) -> None:
    if is_main_process():
        logger.warning(
            "a text is longer than the %s tokens the model reads, frame included: of such texts "
            "the %s is read, the rest is not",
            f"{limit:,}",
            "beginning" if side == "right" else "end",
        )


def _column(id_: int, n: int) -> Ragged:
    """The same id in each of n rows."""
    return Ragged.from_lengths(np.full(n, id_, dtype=np.int32), np.ones(n, dtype=np.int64))
