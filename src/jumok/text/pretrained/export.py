"""A vocabulary trained here as the tokenizer.json that transformers opens, with the same ids.

What differs there: a user who types "[MASK]" has typed the special piece, and one who types
"<0x41>" the byte, where a unigram vocabulary has bytes for what has no piece.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from jumok.errors import InputError
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.sentencepiece_proto import ModelFile, PieceType, read_model

SPACE = "▁"
NAMES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "bos_token": "[BOS]",
    "eos_token": "[EOS]",
    "sep_token": "[SEP]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}


@dataclass(frozen=True)
class TemplateStrings:
    """What stands around one text and around two, as pieces; $A and $B are the texts."""

    single: Sequence[str]
    pair: Sequence[str]


CLASSIFICATION_TEMPLATE = TemplateStrings(
    ("[CLS]", "$A"), ("[CLS]", "$A", "[SEP]", "$B:1", "[SEP]:1")
)
SEQUENCE_TEMPLATE = TemplateStrings(("$A", "[EOS]"), ("$A", "$B", "[EOS]"))
CAUSAL_LM_TEMPLATE = TemplateStrings(("[BOS]", "$A"), ("[BOS]", "$A", "$B"))


def tokenizer_files(
    vocabulary: SentencePieceTokenizer,
    template: TemplateStrings,
    max_length: int,
    *,
    segments: bool,
) -> Mapping[str, bytes]:
    """tokenizer.json and tokenizer_config.json, by their names.

    `segments`: whether the model is told which of two texts a piece is of. Raises InputError for
    models of SentencePiece that were not trained here: their rules are their own.
    """
    model = read_model(vocabulary.to_bytes())
    tokenizer = Tokenizer(_model(model))
    rule = {"nfc": [normalizers.NFC()], "none": []}.get(model.normalization)
    if rule is None or model.kind == "word":
        raise InputError(
            f"the vocabulary is of the kind {model.kind} and normalised by "
            f"{model.normalization!r}; only vocabularies trained by jumok can be written as a "
            "tokenizer.json"
        )
    before = [] if model.kind == "char" else [normalizers.Prepend(SPACE)]
    tokenizer.normalizer = normalizers.Sequence([*rule, *before, normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            *([decoders.ByteFallback()] if model.byte_fallback else []),
            decoders.Fuse(),
            *([] if model.kind == "char" else [decoders.Strip(" ", 1, 0)]),
        ]
    )
    special = vocabulary.special_ids
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in special]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=list(template.single), pair=list(template.pair), special_tokens=list(special.items())
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "model_input_names": [
            *("input_ids", "attention_mask"),
            *(["token_type_ids"] if segments else []),
        ],
        **{name: piece for name, piece in NAMES.items() if piece in special},
    }
    text = json.dumps(config, ensure_ascii=False, indent=2)
    return {
        "tokenizer.json": tokenizer.to_str(pretty=True).encode(),
        "tokenizer_config.json": text.encode(),
    }


def _model(model: ModelFile) -> models.Model:
    """The pieces and how a text is cut into them."""
    unknown = model.types.index(PieceType.UNKNOWN)
    if model.kind == "bpe":
        ids = {piece: i for i, piece in enumerate(model.pieces)}
        return models.BPE(
            ids,
            _merges(model, ids),
            unk_token=model.pieces[unknown],
            fuse_unk=True,
            byte_fallback=model.byte_fallback,
        )
    scored = list(zip(model.pieces, model.scores, strict=True))
    return models.Unigram(scored, unknown, model.byte_fallback)


def _merges(model: ModelFile, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Which pieces make which others, the best first: SentencePiece keeps the results alone."""
    found = [
        (-model.scores[i], ids[piece[:cut]], ids[piece[cut:]], piece[:cut], piece[cut:])
        for i, piece in enumerate(model.pieces)
        if model.types[i] is PieceType.NORMAL
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    return [(first, second) for *_, first, second in sorted(found)]
