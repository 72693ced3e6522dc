"""The `post_processor` of a tokenizer.json as a template of special tokens."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from jumok.errors import TokenizerError
from jumok.text.template import SpecialToken, Template, TemplatePiece, TextSlot

MAX_TEMPLATE_PARTS = 64


def parse_post_processor(state: Mapping[str, Any] | None) -> Template:
    """The template of a post_processor; InputError if it is unknown or contradicts itself."""
    _check_length(state)
    match state:
        case None | {"type": "ByteLevel"}:  # which changes offsets only
            return Template()
        case {"type": "Sequence", "processors": list(inner)}:
            templates = [one for one in inner if one != state and one.get("type") != "ByteLevel"]
            if len(templates) > 1:
                raise TokenizerError(
                    "tokenizer.several_post_processors",
                    "the post_processor must add special tokens once, got several processors "
                    "that do; use a tokenizer with one of them",
                )
            return parse_post_processor(templates[0] if templates else None)
        case {"type": "BertProcessing", "cls": [_, int(cls)], "sep": [_, int(sep)]}:
            return bert_template(cls, sep)
        case {"type": "RobertaProcessing", "cls": [_, int(cls)], "sep": [_, int(sep)]}:
            return roberta_template(cls, sep)
        case {"type": "TemplateProcessing", "single": list(single), "pair": list(pair)}:
            tokens = state.get("special_tokens")
            known = tokens if isinstance(tokens, dict) else {}
            return Template(_pieces(single, known, (0,)), _pieces(pair, known, (0, 1)))
    raise TokenizerError(
        "tokenizer.unknown_post_processor",
        "the post_processor must be BertProcessing, RobertaProcessing, TemplateProcessing or "
        "ByteLevel, got {dumps}; use a tokenizer with one of these",
        dumps=json.dumps(state)[:80],
    )


def _check_length(state: Mapping[str, Any] | None) -> None:
    """Raise InputError for a template that adds hundreds of ids to every text."""
    parts = [] if state is None else [*state.values()]
    tokens = {} if state is None else state.get("special_tokens")
    for token in tokens.values() if isinstance(tokens, dict) else ():
        parts.append(token.get("ids") if isinstance(token, dict) else None)
    longest = max((len(part) for part in parts if isinstance(part, list)), default=0)
    if longest > MAX_TEMPLATE_PARTS:
        raise TokenizerError(
            "tokenizer.too_many_special_tokens",
            "the post_processor must add at most {max_template_parts} special tokens, got "
            "{longest:,}; download the file again",
            max_template_parts=MAX_TEMPLATE_PARTS,
            longest=longest,
        )


def bert_template(cls: int, sep: int) -> Template:
    """BERT: [CLS] A [SEP], and [CLS] A [SEP] B [SEP] with two token types."""
    single = (SpecialToken((cls,)), TextSlot(0), SpecialToken((sep,)))
    return Template(single, (*single, TextSlot(1, 1), SpecialToken((sep,), 1)))


def roberta_template(cls: int, sep: int) -> Template:
    """RoBERTa and XLM-R: <s> A </s>, and <s> A </s></s> B </s>, all of one token type."""
    before, after = SpecialToken((cls,)), SpecialToken((sep,))
    return Template(
        (before, TextSlot(0), after), (before, TextSlot(0), after, after, TextSlot(1), after)
    )


def _pieces(
    parts: Iterable[object], known: Mapping[str, Any], texts: tuple[int, ...]
) -> tuple[TemplatePiece, ...]:
    found: list[TemplatePiece] = []
    for part in parts:
        match part:
            case {"Sequence": {"id": "A" | "B" as name, "type_id": int(token_type)}}:
                found.append(TextSlot(0 if name == "A" else 1, token_type))
            case {"SpecialToken": {"id": str(name), "type_id": int(token_type)}} if name in known:
                ids = known[name].get("ids") if isinstance(known[name], dict) else None
                if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
                    raise TokenizerError(
                        "tokenizer.post_processor_without_ids",
                        "the post_processor has no ids for {name!r}; add them",
                        name=name,
                    )
                found.append(SpecialToken(tuple(ids), token_type))
            case _:
                raise TokenizerError(
                    "tokenizer.post_processor_unknown_part",
                    "the post_processor has an unknown part {dumps}; download the file again",
                    dumps=json.dumps(part)[:80],
                )
    if found and tuple(sorted(p.text for p in found if isinstance(p, TextSlot))) != texts:
        raise TokenizerError(
            "tokenizer.post_processor_repeats_text",
            "the post_processor must contain each text once; download the file again",
        )
    return tuple(found)
