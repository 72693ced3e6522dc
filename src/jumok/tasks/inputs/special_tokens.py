"""Rows with the special tokens of a tokenizer's templates, truncated to the model's length."""

import logging
from collections.abc import Sequence
from functools import cache

from jumok.errors import InputError, Message
from jumok.ranks import is_main_process
from jumok.text.ragged import Ragged
from jumok.text.template import Side, Template
from jumok.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


def build_inputs(
    tokenizer: Tokenizer, rows: Ragged, pairs: Ragged | None, max_length: int
) -> Ragged:
    """The inputs of an encoder from one text or two per row, as [CLS] A or [CLS] A [SEP] B [SEP].

    A warning is logged for the first text that is truncated.
    """
    return _apply(tokenizer.input_template, tokenizer, rows, pairs, max_length)


def build_source(tokenizer: Tokenizer, rows: Ragged, max_length: int) -> Ragged:
    """The sources of an encoder-decoder: pieces [EOS]."""
    return _apply(tokenizer.sequence_template, tokenizer, rows, None, max_length)


def build_target(tokenizer: Tokenizer, rows: Ragged, max_length: int) -> Ragged:
    """[BOS] pieces [EOS]: decoder inputs are all but the last id, labels all but the first."""
    start = Ragged.repeated((tokenizer.decoder_start_id,), len(rows))
    return Ragged.hstack([start, build_source(tokenizer, rows, max_length)])


def length_limit(tokenizer: Tokenizer, max_length: int) -> int:
    """The tokens of a row at most: the limit of the model or of its tokenizer."""
    return min(max_length, tokenizer.model_max_length or max_length)


def _apply(
    template: Template, tokenizer: Tokenizer, rows: Ragged, pairs: Ragged | None, max_length: int
) -> Ragged:
    limit = length_limit(tokenizer, max_length)
    lengths = rows.lengths + (0 if pairs is None else pairs.lengths)
    n_special = template.n_special(paired=pairs is not None)
    if len(rows) and int(lengths.max()) + n_special > limit:
        _warn_truncated(limit, template.side)
    return template.apply(rows, pairs, limit)


@cache  # once per process
def _warn_truncated(limit: int, side: Side) -> None:
    if is_main_process():
        logger.warning(
            Message(
                "input.text_truncated",
                "a text is longer than {value} tokens, special tokens included; such texts are "
                "truncated on the {side}",
                value=f"{limit:,}",
                side=side,
            )
        )


def check_ids(ids: Sequence[int], tokenizer: Tokenizer) -> None:
    """Raise InputError for ids that a tokenizer does not have."""
    if ids and not 0 <= min(ids) <= max(ids) < len(tokenizer):
        raise InputError(
            "pipeline.unknown_token_ids",
            "token ids must be those of the model's own tokenizer, below {n:,}; send texts "
            "(langchain-openai: check_embedding_ctx_length=False)",
            n=len(tokenizer),
        )


def without_special_ids(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """The ids of a text without the special tokens that an encoder reads around it, if any."""
    special = tokenizer.input_template.apply_one((), None, None).ids
    n_before, n_after = tokenizer.input_template.n_before_and_after()
    end = len(ids) - n_after
    around = [*ids[:n_before], *ids[max(end, n_before) :]]
    return list(ids[n_before:end] if around == list(special) else ids)
