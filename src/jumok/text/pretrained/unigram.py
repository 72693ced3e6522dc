"""SentencePiece models of T5, DeBERTa, XLM-R and mBART, each with ids of its own.

The `.model` file numbers <unk>, <s>, </s> and then the pieces. T5 keeps these ids and appends 100
<extra_id_N> in descending order; DeBERTa keeps them and appends [MASK]. XLM-R and mBART of fairseq
begin with <s>, <pad>, </s>, <unk>, so that the id of every piece is one higher, and append the
languages and <mask>.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from jumok.errors import TokenizerError, located
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.post_processor import bert_template, roberta_template
from jumok.text.pretrained.special_tokens import (
    BERT_PIECES_WITH_ENDS,
    TokenizerSpec,
    add_pieces,
    named_pieces,
    piece_id,
)
from jumok.text.pretrained.tokenizer_config import Token, TokenizerConfig
from jumok.text.pretrained.tokenizer_json import TokenizerJson, decode_charsmap
from jumok.text.sentencepiece_proto import ModelFile, PieceType, read_model
from jumok.text.template import SpecialToken, Template, TextSlot

_MBART_LANGUAGES = (
    *("ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN"),
    *("hi_IN", "it_IT", "ja_XX", "kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP"),
    *("nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN", "zh_CN"),
)
_MBART50_LANGUAGES = (
    *_MBART_LANGUAGES,
    *("af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE", "km_KH"),
    *("mk_MK", "ml_IN", "mn_MN", "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE"),
    *("ta_IN", "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK", "xh_ZA", "gl_ES", "sl_SI"),
)
_T5: Mapping[str, Token | None] = {
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
}
_MBART50: Mapping[str, Token | None] = {
    **_T5,
    "sep_token": "</s>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
_XLM_R: Mapping[str, Token | None] = {**_MBART50, "bos_token": "<s>"}
_FIRST = ("bos_token", "pad_token", "eos_token", "unk_token")  # ids 0 to 3 in fairseq

ScoredPiece = tuple[str, float]


@dataclass(frozen=True)
class _UnigramModel:
    """The pieces with their scores, the charsmap of the model and its special pieces."""

    pieces: Sequence[ScoredPiece]
    charsmap: bytes | None
    control_tokens: tuple[Token, ...] | None  # None: read from a tokenizer.json


def t5(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> TokenizerSpec:
    """T5 and mT5: A </s>."""
    source = _source(files, tokenizer_json, "spiece.model")
    n_extra = config.count("extra_ids", 100)
    pieces = list(source.pieces)
    if source.control_tokens is not None:
        pieces += [(f"<extra_id_{i}>", 0.0) for i in reversed(range(n_extra))]
    tokenizer = _tokenizer(pieces, 2, source.charsmap, prefix="always")
    given = config.additional if source.control_tokens is None else source.control_tokens
    additional = _with_sentinels(given or (), n_extra)
    names = add_pieces(tokenizer, config, named_pieces(config, _T5), additional)
    eos = SpecialToken((piece_id(tokenizer, names, "eos_token"),))
    template = Template((TextSlot(0), eos), (TextSlot(0), eos, TextSlot(1), eos))
    token_types = config.has_token_type_ids(default=False)
    return TokenizerSpec(tokenizer, names, template, 2, token_types)


def xlm_roberta(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> TokenizerSpec:
    """XLM-R: <s> A </s>, and <s> A </s></s> B </s>."""
    source = _source(files, tokenizer_json, "sentencepiece.bpe.model")
    named = named_pieces(config, _XLM_R)
    prefix = "always" if config.flag("add_prefix_space", default=True) else "never"
    tokenizer = _tokenizer(_fairseq(source, named, _FIRST, ()), 3, source.charsmap, prefix=prefix)
    names = add_pieces(tokenizer, config, named, source.control_tokens)
    bos = piece_id(tokenizer, names, "bos_token")
    eos = piece_id(tokenizer, names, "eos_token")
    token_types = config.has_token_type_ids(default=False)
    return TokenizerSpec(tokenizer, names, roberta_template(bos, eos), 3, token_types)


def deberta(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> TokenizerSpec:
    """DeBERTa v2 and v3: [CLS] A [SEP], with the table of characters in its spm.model.

    transformers 5 replaces that table (NFKC) by NFC: other ids for full-width letters.
    """
    model = read_model_file(files, "spm.model")
    unk_id = model.types.index(PieceType.UNKNOWN)
    pieces = list(zip(model.pieces, model.scores, strict=True))
    tokenizer = _tokenizer(pieces, unk_id, None, prefix="always")
    lower = [normalizers.Lowercase()] if config.flag("do_lower_case") else []
    if model.charsmap:  # the library does not compose Hangul by it
        tokenizer.normalizer = normalizers.Sequence(
            [*lower, normalizers.NFC(), _precompiled(model.charsmap)]
        )
    elif lower:
        tokenizer.normalizer = lower[0]
    if config.flag("split_by_punct"):
        words = pre_tokenizers.Punctuation("isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, tokenizer.pre_tokenizer])
    named = named_pieces(config, BERT_PIECES_WITH_ENDS)
    names = add_pieces(tokenizer, config, named, control_tokens(model))
    ends = (piece_id(tokenizer, names, name) for name in ("cls_token", "sep_token"))
    token_types = config.has_token_type_ids(default=True)
    return TokenizerSpec(tokenizer, names, bert_template(*ends), unk_id, token_types)


def mbart(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> TokenizerSpec:
    """mBART: A </s> ko_KR. Characters are not normalized, as in transformers 5."""
    source = _source(files, tokenizer_json, "sentencepiece.bpe.model")
    named = _with_greedy_mask(named_pieces(config, _XLM_R))
    pieces = _fairseq(source, named, _FIRST, _MBART_LANGUAGES)
    tokenizer = _tokenizer(pieces, 3, None, prefix="always")
    own = source.control_tokens if source.control_tokens is not None else config.additional or ()
    codes = (*_MBART_LANGUAGES, *(token for token in own if token not in _MBART_LANGUAGES))
    names = add_pieces(tokenizer, config, named, codes)
    return _multilingual_spec(tokenizer, config, names, _MBART_LANGUAGES, code_first=False)


def mbart50(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> TokenizerSpec:
    """mBART-50: ko_KR A </s>."""
    source = _source(files, tokenizer_json, "sentencepiece.bpe.model")
    named = _with_greedy_mask(named_pieces(config, _MBART50))
    first = ("cls_token", *_FIRST[1:])
    pieces = _fairseq(source, named, first, _MBART50_LANGUAGES)
    tokenizer = _tokenizer(pieces, 3, None, prefix="always")
    steps: list[normalizers.Normalizer] = [normalizers.Replace(Regex(" {2,}"), " ")]
    if source.charsmap:
        steps.insert(0, _precompiled(source.charsmap))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    own = source.control_tokens if source.control_tokens is not None else config.additional or ()
    names = add_pieces(tokenizer, config, named, (*own, *_MBART50_LANGUAGES))
    return _multilingual_spec(tokenizer, config, names, _MBART50_LANGUAGES, code_first=True)


def read_model_file(files: TokenizerFiles, name: str) -> ModelFile:
    """The SentencePiece model in a file."""
    with located(name):
        return read_model(files.data(name))


def load_processor(
    data: bytes, name: str, config: TokenizerConfig
) -> sentencepiece.SentencePieceProcessor:
    """SentencePiece itself with the model in this file."""
    if config.options.get("sp_model_kwargs"):
        raise TokenizerError(
            "tokenizer.sp_model_kwargs_not_supported",
            "sp_model_kwargs is not supported; leave it out",
        )
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(data)
    except RuntimeError as error:
        raise TokenizerError(
            "tokenizer.sentencepiece_cannot_load",
            "SentencePiece cannot load {name} ({error}); download it again",
            name=name,
            error=error,
        ) from None
    return processor


def control_tokens(model: ModelFile) -> tuple[Token, ...]:
    """The control pieces, which are special, and the user-defined pieces, which are not."""
    return tuple(
        AddedToken(piece, normalized=False, special=type_ is PieceType.CONTROL)
        for piece, type_ in zip(model.pieces, model.types, strict=True)
        if type_ in (PieceType.CONTROL, PieceType.USER_DEFINED)
    )


def _source(
    files: TokenizerFiles, tokenizer_json: TokenizerJson | None, name: str
) -> _UnigramModel:
    if tokenizer_json:
        pieces = [(str(piece), float(score)) for piece, score in tokenizer_json.model["vocab"]]
        charsmap = (
            None if tokenizer_json.charsmap is None else decode_charsmap(tokenizer_json.charsmap)
        )
        return _UnigramModel(pieces, charsmap, None)
    model = read_model_file(files, "tokenizer.model" if "tokenizer.model" in files else name)
    pieces = list(zip(model.pieces, model.scores, strict=True))
    return _UnigramModel(pieces, model.charsmap or None, control_tokens(model))


def _fairseq(
    source: _UnigramModel,
    named: Mapping[str, Token | None],
    first: Sequence[str],
    languages: Sequence[str],
) -> Sequence[ScoredPiece]:
    """The pieces of a `.model` in fairseq's order, which a tokenizer.json has already."""
    if source.control_tokens is None:
        return source.pieces
    return [
        *((str(named[name]), 0.0) for name in first),
        *source.pieces[3:],
        *((code, 0.0) for code in languages),
        (str(named["mask_token"]), 0.0),
    ]


def _with_sentinels(given: tuple[Token, ...], count: int) -> tuple[Token, ...]:
    """T5's extra ids, unless the files list them."""
    listed = sum("<extra_id_" in str(token) for token in given)
    if listed and count and listed != count:
        raise TokenizerError(
            "tokenizer.extra_ids",
            "extra_ids must be the number of <extra_id_N> in the files ({listed}), got {count}",
            listed=listed,
            count=count,
        )
    return given if listed else (*given, *(f"<extra_id_{i}>" for i in range(count)))


def _with_greedy_mask(named: Mapping[str, Token | None]) -> dict[str, Token | None]:
    """The special pieces, with the mask of mBART, which includes the spaces before it."""
    mask = named["mask_token"]
    return {**named, "mask_token": AddedToken(mask, lstrip=True) if isinstance(mask, str) else mask}


def _tokenizer(
    pieces: Sequence[ScoredPiece], unk_id: int, charsmap: bytes | None, *, prefix: str
) -> Tokenizer:
    with library_errors("the vocabulary cannot be used"):
        tokenizer = Tokenizer(models.Unigram(list(pieces), unk_id=unk_id, byte_fallback=False))
    if charsmap:
        tokenizer.normalizer = _precompiled(charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(prepend_scheme=prefix, split=True),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=prefix, split=True)
    return tokenizer


def _precompiled(charsmap: bytes) -> normalizers.Normalizer:
    with library_errors("the table of character replacements cannot be used"):
        return normalizers.Precompiled(charsmap)


def _multilingual_spec(
    tokenizer: Tokenizer,
    config: TokenizerConfig,
    names: Mapping[str, str],
    codes: Sequence[str],
    *,
    code_first: bool,
) -> TokenizerSpec:
    """A spec whose template contains the source language, en_XX by default."""
    eos = SpecialToken((piece_id(tokenizer, names, "eos_token"),))
    languages = {}
    for code in codes:
        i = tokenizer.token_to_id(code)
        if i is not None:
            start = (SpecialToken((i,)),) if code_first else ()
            end = (eos,) if code_first else (eos, SpecialToken((i,)))
            languages[code] = Template(
                (*start, TextSlot(0), *end), (*start, TextSlot(0), TextSlot(1), *end)
            )
    source = config.text("src_lang") or "en_XX"
    if source not in languages:
        raise TokenizerError(
            "tokenizer.src_lang",
            'src_lang must be one of {languages}, got "{source}"',
            languages=", ".join(languages),
            source=source,
        )
    return TokenizerSpec(
        tokenizer,
        names,
        languages[source],
        unk_id=3,
        has_token_type_ids=config.has_token_type_ids(default=False),
        languages=languages,
    )
