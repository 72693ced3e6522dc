"""SentencePiece vocabularies as the browser's tokenizer reads them (web/src/model/tokenizer.ts)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jumok.errors import Message
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.sentencepiece_proto import PieceType
from jumok.text.template import SpecialToken, Template, TemplatePiece, TextSlot
from jumok.text.tokenizer import Tokenizer

NORMALIZATIONS = {"nfc": "nfc", "none": "none"}  # other rules: "hangul", as `normalizer`


def unsupported_tokenizer(tokenizer: Tokenizer) -> Message | None:
    """Why the browser's tokenizer cannot read this vocabulary; None if it can."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return Message(
            "web.imported_tokenizer",
            "the page needs a SentencePiece vocabulary, got an imported tokenizer of another kind",
        )
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
    tokenizer: SentencePieceTokenizer, max_length: int, template: Template | None = None
) -> dict[str, Any]:
    """The settings of a vocabulary and the special tokens of a single text, as JSON.

    They are those of an encoder, or of another `template`.
    """
    model, template = tokenizer.model_file, template or tokenizer.input_template
    at = next(i for i, piece in enumerate(template.single) if isinstance(piece, TextSlot))
    return {
        "kind": model.kind,
        "pieces": list(model.pieces),
        "unknown": tokenizer.unk_id,
        "normalization": NORMALIZATIONS.get(model.normalization, "hangul"),
        "byte_fallback": model.byte_fallback,
        "dummy_prefix": model.dummy_prefix,
        "remove_extra_spaces": model.remove_extra_spaces,
        "escape_spaces": model.escape_spaces,
        "before": _ids(template.single[:at]),
        "after": _ids(template.single[at + 1 :]),
        "max_length": max_length,
        "side": template.side,
    }


def tokenizer_arrays(
    tokenizer: SentencePieceTokenizer, prefix: str = "tokenizer."
) -> dict[str, NDArray[Any]]:
    """The scores and the types of the pieces, as tensors whose names begin with `prefix`."""
    model = tokenizer.model_file
    return {
        f"{prefix}scores": np.array(model.scores, np.float32),
        f"{prefix}types": np.array(model.types, np.uint8),
    }


def _ids(pieces: tuple[TemplatePiece, ...]) -> list[int]:
    return [i for piece in pieces if isinstance(piece, SpecialToken) for i in piece.ids]
