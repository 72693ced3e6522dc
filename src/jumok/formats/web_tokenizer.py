"""Vocabularies as the browser's tokenizer reads them (web/src/model/tokenizer.ts)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jumok.errors import Message
from jumok.tasks.inputs.special_tokens import length_limit
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.sentencepiece_proto import PieceType
from jumok.text.template import SpecialToken, Template, TemplatePiece, TextSlot
from jumok.text.tokenizer import Tokenizer

NORMALIZATIONS = {"nfc": "nfc", "none": "none"}  # other rules: "hangul", as `normalizer`


def unsupported_tokenizer(tokenizer: Tokenizer) -> Message | None:
    """Why the browser's tokenizer cannot read this vocabulary; None if it can."""
    if isinstance(tokenizer, PretrainedTokenizer):
        from jumok.formats.web_pretrained import unsupported_pretrained  # with the library

        return unsupported_pretrained(tokenizer)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    if tokenizer.pretokenizes:
        return Message(
            "web.kiwi",
            'the page cannot split texts with Kiwi; train with vocabulary.pretokenizer = "none"',
        )
    model = tokenizer.model_file
    if model.kind not in ("unigram", "bpe", "char"):
        return Message(
            "web.vocabulary_kind",
            "the page needs a vocabulary of kind unigram, bpe or char, got {kind}",
            kind=model.kind,
        )
    if model.kind == "unigram" and PieceType.USER_DEFINED in model.types:
        return Message(
            "web.user_defined",
            "the page reads user-defined pieces in vocabularies of kind bpe and char only",
        )
    if model.charsmap:
        return Message(
            "web.charsmap",
            "the page cannot apply the table of characters of this vocabulary ({normalization}); "
            "train one with vocabulary.normalization",
            normalization=model.normalization,
        )
    return None


def tokenizer_config(
    tokenizer: Tokenizer,
    max_length: int,
    template: Template | None = None,
    *,
    reads_types: bool = False,
) -> dict[str, Any]:
    """The settings of a vocabulary and the special tokens of one text and of two, as JSON.

    They are those of an encoder, or of another `template`; with `reads_types` the model reads to
    which text of a pair a token belongs.
    """
    template = template or tokenizer.input_template
    if isinstance(tokenizer, PretrainedTokenizer):
        from jumok.formats.web_pretrained import pretrained_config  # with the library

        settings = pretrained_config(tokenizer)
    else:
        assert isinstance(tokenizer, SentencePieceTokenizer)
        settings = _sentencepiece_config(tokenizer)
    before, after = _around(template.single)
    texts = [piece.text for piece in template.pair if isinstance(piece, TextSlot)]
    return settings | {
        "before": before,
        "after": after,
        "pair": _around(template.pair) if texts == [0, 1] else None,
        "truncation": template.truncation,
        "separator": tokenizer.sep_id if reads_types else -1,
        "max_length": length_limit(tokenizer, max_length),
        "side": template.side,
    }


def _sentencepiece_config(tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    model = tokenizer.model_file
    return {
        "kind": model.kind,
        "pieces": list(model.pieces),
        "unknown": tokenizer.unk_id,
        "normalization": NORMALIZATIONS.get(model.normalization, "hangul"),
        "byte_fallback": model.byte_fallback,
        "dummy_prefix": model.dummy_prefix,
        "remove_extra_spaces": model.remove_extra_spaces,
        "escape_spaces": model.escape_spaces,
    }


def tokenizer_arrays(tokenizer: Tokenizer, prefix: str = "tokenizer.") -> dict[str, NDArray[Any]]:
    """The scores and the types of the pieces, as tensors whose names begin with `prefix`.

    Imported tokenizers have none but for Unigram.
    """
    if isinstance(tokenizer, PretrainedTokenizer):
        from jumok.formats.web_pretrained import pretrained_arrays  # with the library

        return {prefix + name: array for name, array in pretrained_arrays(tokenizer).items()}
    assert isinstance(tokenizer, SentencePieceTokenizer)
    model = tokenizer.model_file
    return {
        f"{prefix}scores": np.array(model.scores, np.float32),
        f"{prefix}types": np.array(model.types, np.uint8),
    }


def _around(pieces: tuple[TemplatePiece, ...]) -> list[list[int]]:
    """The ids of the special tokens before, between and after the texts of a template."""
    parts: list[list[int]] = [[]]
    for piece in pieces:
        if isinstance(piece, SpecialToken):
            parts[-1] += piece.ids
        else:
            parts.append([])
    return parts
