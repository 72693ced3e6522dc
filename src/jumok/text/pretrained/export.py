"""Export a vocabulary trained by jumok as the tokenizer.json of transformers, with the same ids.

Two things differ there: a typed "[MASK]" becomes the special piece, and a typed "<0x41>" the byte
in a unigram vocabulary with byte_fallback.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from jumok.errors import TokenizerError
from jumok.text.offsets import SPACE
from jumok.text.pretrained.tokenizer import SPECIAL_NAMES
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.sentencepiece_proto import ModelFile, PieceType, read_model


@dataclass(frozen=True)
class TemplateStrings:
    """The special pieces around one text and around two; $A and $B are the texts."""

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
    token_types: bool,
) -> Mapping[str, bytes]:
    """The bytes of tokenizer.json and tokenizer_config.json, by name.

    `token_types`: whether the model reads token_type_ids. Raises InputError for SentencePiece
    models with another normalization than jumok's.
    """
    model = read_model(vocabulary.to_bytes())
    tokenizer = Tokenizer(_model(model))
    rule = {"nfc": [normalizers.NFC()], "none": []}.get(model.normalization)
    if rule is None or model.kind == "word":
        raise TokenizerError(
            "tokenizer.not_exported",
            "only vocabularies trained by jumok can be exported as tokenizer.json, got kind "
            "{kind} with normalization {normalization!r}",
            kind=model.kind,
            normalization=model.normalization,
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
            *(["token_type_ids"] if token_types else []),
        ],
        **{SPECIAL_NAMES[name]: name for name in special},
    }
    text = json.dumps(config, ensure_ascii=False, indent=2)
    return {
        "tokenizer.json": tokenizer.to_str(pretty=True).encode(),
        "tokenizer_config.json": text.encode(),
    }


def _model(model: ModelFile) -> models.Model:
    """The pieces and the algorithm."""
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
    """The merges, best first: SentencePiece stores only their results."""
    found = [
        (-model.scores[i], ids[piece[:cut]], ids[piece[cut:]], piece[:cut], piece[cut:])
        for i, piece in enumerate(model.pieces)
        if model.types[i] is PieceType.NORMAL
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    return [(first, second) for *_, first, second in sorted(found)]
