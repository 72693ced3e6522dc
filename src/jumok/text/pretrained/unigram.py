"""SentencePiece models as T5, XLM-R and mBART use them, each with ids of its own.

The `.model` file numbers <unk>, <s>, </s> and then the pieces. T5 keeps these ids and counts 100
<extra_id_N> downwards behind them; fairseq's XLM-R and mBART put <s>, <pad>, </s>, <unk> first, so
that every piece stands one further, then the languages and <mask>.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from jumok.errors import InputError
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.special_tokens import Assembly, Parts, add_pieces, named_pieces, piece_id
from jumok.text.pretrained.tokenizer_config import Settings, Token
from jumok.text.pretrained.tokenizer_json import TokenizerJson, decoded_charsmap
from jumok.text.sentencepiece_proto import ModelFile, PieceType, read_model
from jumok.text.template import Fixed, Slot, double_sep

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
_FIRST = ("bos_token", "pad_token", "eos_token", "unk_token")  # with fairseq's ids 0 to 3

Scored = tuple[str, float]


@dataclass(frozen=True)
class _Source:
    """The pieces with their scores, what the model does to characters, and its special pieces."""

    pieces: Sequence[Scored]
    charsmap: bytes | None
    controls: tuple[Token, ...] | None  # None: they come from a tokenizer.json


def t5(files: TokenizerFiles, settings: Settings, written: TokenizerJson | None) -> Assembly:
    """T5's and mT5's: A </s>."""
    source = _source(files, written, "spiece.model")
    n_extra = settings.count("extra_ids", 100)
    pieces = list(source.pieces)
    if source.controls is not None:
        pieces += [(f"<extra_id_{i}>", 0.0) for i in reversed(range(n_extra))]
    tokenizer = _tokenizer(pieces, 2, source.charsmap, prefix="always")
    given = settings.additional if source.controls is None else source.controls
    additional = _with_sentinels(given or (), n_extra)
    names = add_pieces(tokenizer, settings, named_pieces(settings, _T5), additional)
    eos = Fixed((piece_id(tokenizer, names, "eos_token"),))
    parts = ((Slot(0), eos), (Slot(0), eos, Slot(1), eos))
    return _assembly(tokenizer, settings, names, parts, 2)


def xlm_roberta(
    files: TokenizerFiles, settings: Settings, written: TokenizerJson | None
) -> Assembly:
    """XLM-R's: <s> A </s>, and two of them between A and B."""
    source = _source(files, written, "sentencepiece.bpe.model")
    named = named_pieces(settings, _XLM_R)
    prefix = "always" if settings.flag("add_prefix_space", default=True) else "never"
    tokenizer = _tokenizer(_fairseq(source, named, _FIRST, ()), 3, source.charsmap, prefix=prefix)
    names = add_pieces(tokenizer, settings, named, source.controls)
    bos = piece_id(tokenizer, names, "bos_token")
    eos = piece_id(tokenizer, names, "eos_token")
    return _assembly(tokenizer, settings, names, double_sep(bos, eos), 3)


def mbart(files: TokenizerFiles, settings: Settings, written: TokenizerJson | None) -> Assembly:
    """mBART's: A </s> ko_KR. Characters are taken as they are, as transformers 5 does."""
    source = _source(files, written, "sentencepiece.bpe.model")
    named = _with_greedy_mask(named_pieces(settings, _XLM_R))
    pieces = _fairseq(source, named, _FIRST, _MBART_LANGUAGES)
    tokenizer = _tokenizer(pieces, 3, None, prefix="always")
    own = source.controls if source.controls is not None else settings.additional or ()
    codes = (*_MBART_LANGUAGES, *(token for token in own if token not in _MBART_LANGUAGES))
    names = add_pieces(tokenizer, settings, named, codes)
    eos = Fixed((piece_id(tokenizer, names, "eos_token"),))
    languages = {
        code: ((Slot(0), eos, Fixed((i,))), (Slot(0), Slot(1), eos, Fixed((i,))))
        for code, i in _language_ids(tokenizer, _MBART_LANGUAGES).items()
    }
    return _spoken(tokenizer, settings, names, languages)


def mbart50(files: TokenizerFiles, settings: Settings, written: TokenizerJson | None) -> Assembly:
    """mBART-50's: ko_KR A </s>."""
    source = _source(files, written, "sentencepiece.bpe.model")
    named = _with_greedy_mask(named_pieces(settings, _MBART50))
    first = ("cls_token", *_FIRST[1:])
    pieces = _fairseq(source, named, first, _MBART50_LANGUAGES)
    tokenizer = _tokenizer(pieces, 3, None, prefix="always")
    steps: list[normalizers.Normalizer] = [normalizers.Replace(Regex(" {2,}"), " ")]
    if source.charsmap:
        steps.insert(0, _precompiled(source.charsmap))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    own = source.controls if source.controls is not None else settings.additional or ()
    names = add_pieces(tokenizer, settings, named, (*own, *_MBART50_LANGUAGES))
    eos = Fixed((piece_id(tokenizer, names, "eos_token"),))
    languages = {
        code: ((Fixed((i,)), Slot(0), eos), (Fixed((i,)), Slot(0), Slot(1), eos))
        for code, i in _language_ids(tokenizer, _MBART50_LANGUAGES).items()
    }
    return _spoken(tokenizer, settings, names, languages)


def model_of(files: TokenizerFiles, name: str) -> ModelFile:
    """The SentencePiece model in a file."""
    try:
        return read_model(files.bytes_of(name))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def control_tokens(model: ModelFile) -> tuple[Token, ...]:
    """The pieces of a model that are never cut: control pieces are special, the user's are not."""
    return tuple(
        AddedToken(piece, normalized=False, special=type_ is PieceType.CONTROL)
        for piece, type_ in zip(model.pieces, model.types, strict=True)
        if type_ in (PieceType.CONTROL, PieceType.USER_DEFINED)
    )


def _source(files: TokenizerFiles, written: TokenizerJson | None, name: str) -> _Source:
    if written:
        pieces = [(str(piece), float(score)) for piece, score in written.model["vocab"]]
        charsmap = None if written.charsmap is None else decoded_charsmap(written.charsmap)
        return _Source(pieces, charsmap, None)
    model = model_of(files, "tokenizer.model" if "tokenizer.model" in files else name)
    pieces = list(zip(model.pieces, model.scores, strict=True))
    return _Source(pieces, model.charsmap or None, control_tokens(model))


def _fairseq(
    source: _Source,
    named: Mapping[str, Token | None],
    first: Sequence[str],
    languages: Sequence[str],
) -> Sequence[Scored]:
    """The pieces of a `.model` in fairseq's order; those of a tokenizer.json have it already."""
    if source.controls is None:
        return source.pieces
    return [
        *((str(named[name]), 0.0) for name in first),
        *source.pieces[3:],
        *((code, 0.0) for code in languages),
        (str(named["mask_token"]), 0.0),
    ]


def _with_sentinels(given: tuple[Token, ...], count: int) -> tuple[Token, ...]:
    """T5's extra ids, where the files do not list them themselves."""
    listed = sum("<extra_id_" in str(token) for token in given)
    if listed and count and listed != count:
        raise InputError(
            f"extra_ids is {count}, but {listed} <extra_id_N> are listed; let the two agree"
        )
    return given if listed else (*given, *(f"<extra_id_{i}>" for i in range(count)))


def _with_greedy_mask(named: Mapping[str, Token | None]) -> dict[str, Token | None]:
    """The special pieces, with a mask that takes the spaces before it, as mBART's does."""
    mask = named["mask_token"]
    return {**named, "mask_token": AddedToken(mask, lstrip=True) if isinstance(mask, str) else mask}


def _tokenizer(
    pieces: Sequence[Scored], unknown: int, charsmap: bytes | None, *, prefix: str
) -> Tokenizer:
    with library_errors("the vocabulary cannot be used"):
        tokenizer = Tokenizer(models.Unigram(list(pieces), unk_id=unknown, byte_fallback=False))
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


def _assembly(
    tokenizer: Tokenizer, settings: Settings, names: Mapping[str, str], parts: Parts, unknown: int
) -> Assembly:
    segments = settings.has_token_type_ids(default=False)
    return Assembly(tokenizer, names, parts, unknown=unknown, has_token_type_ids=segments)


def _spoken(
    tokenizer: Tokenizer,
    settings: Settings,
    names: Mapping[str, str],
    languages: Mapping[str, Parts],
) -> Assembly:
    """An assembly whose frame names the language of its texts; en_XX where none is told."""
    source = settings.text("src_lang") or "en_XX"
    if source not in languages:
        raise InputError(
            f'src_lang is "{source}", which the model does not speak; give one of '
            f"{', '.join(languages)}"
        )
    return Assembly(
        tokenizer,
        names,
        languages[source],
        unknown=3,
        has_token_type_ids=settings.has_token_type_ids(default=False),
        languages=languages,
    )


def _language_ids(tokenizer: Tokenizer, codes: Sequence[str]) -> dict[str, int]:
    ids = {code: tokenizer.token_to_id(code) for code in codes}
    return {code: i for code, i in ids.items() if i is not None}
