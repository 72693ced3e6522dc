"""Texts to the ids that a model of transformers reads, by its own tokeniser."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.interpret.hf_trace.tokens import HFEncoding, HFTokenizer
from jumok.interpret.hf_trace.trace import trace_transformers
from jumok.interpret.trace import Trace


def trace_texts(
    model: nn.Module,
    tokenizer: HFTokenizer,
    texts: Sequence[str],
    targets: Sequence[str] | None = None,
) -> Trace:
    """The trace of a model of transformers that reads texts, a pair parted by a TAB.

    An encoder-decoder is given targets, one a text; the trace holds what it reads of them: what
    begins a target, and all of it but the end. Raises InputError where targets are missing, and
    for several texts where the tokeniser has nothing to pad them with.
    """
    config: Any = model.config
    rewrites = bool(getattr(config, "is_encoder_decoder", False))
    if rewrites != (targets is not None):
        raise InputError(
            f"a {type(model).__name__} "
            + ("needs a target for each text" if rewrites else "takes no target; leave it out")
        )
    if len(texts) > 1 and tokenizer.pad_token_id is None:
        raise InputError(
            f"{len(texts)} texts came and the tokeniser has no padding; give one at a time, or set "
            "tokenizer.pad_token"
        )
    pairs = [text.partition("\t") for text in texts]
    framed = [_lists(tokenizer(first, second if tab else None)) for first, tab, second in pairs]
    read = _padded(framed, tokenizer)
    given: dict[str, Tensor] = {}
    if targets is not None:
        start = config.decoder_start_token_id
        rows = [tokenizer(text_target=target)["input_ids"] for target in targets]
        begun = _padded([{"input_ids": [start, *row[:-1]]} for row in rows], tokenizer)
        given = {f"decoder_{name}": ids for name, ids in begun.items()}
    if getattr(config, "type_vocab_size", 1) < 2 or rewrites:
        read.pop("token_type_ids", None)
    return trace_transformers(model, **read, **given, tokenizer=tokenizer, text=texts)


def _lists(found: HFEncoding) -> dict[str, list[int]]:
    return {name: list(found[name]) for name in ("input_ids", "token_type_ids") if name in found}


def _padded(rows: Sequence[Mapping[str, list[int]]], tokenizer: HFTokenizer) -> dict[str, Tensor]:
    """Rows of ids in one table, padded on the right, and which of them are real."""
    width = max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": 0}
    found = {
        name: torch.tensor([[*row[name], *[filler] * (width - len(row[name]))] for row in rows])
        for name, filler in fill.items()
        if name in rows[0]
    }
    lengths = torch.tensor([[len(row["input_ids"])] for row in rows])
    return found | {"attention_mask": (torch.arange(width) < lengths).long()}
