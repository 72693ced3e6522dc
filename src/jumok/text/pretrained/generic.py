"""Tokenizers of any other class: tokenizer.json without changes, or tokenizer.model."""

from collections.abc import Mapping, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from jumok.errors import TokenizerError
from jumok.text.pretrained.byte_level_bpe import bos_eos_template
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.post_processor import parse_post_processor
from jumok.text.pretrained.special_tokens import TokenizerSpec, add_pieces, named_pieces
from jumok.text.pretrained.tokenizer_config import Token, TokenizerConfig
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.pretrained.unigram import control_tokens, read_model_file
from jumok.text.sentencepiece_proto import ModelFile, PieceType
from jumok.text.tokenizer import alternatives

_USUAL = {
    "bos_token": ("<s>", "[BOS]", "<bos>"),
    "eos_token": ("</s>", "[EOS]", "<eos>", "<|endoftext|>"),
    "unk_token": ("<unk>", "[UNK]"),
    "sep_token": ("[SEP]", "<sep>"),
    "pad_token": ("<pad>", "[PAD]"),
    "cls_token": ("[CLS]", "<cls>"),
    "mask_token": ("<mask>", "[MASK]"),
}

MAX_CHANGED = 1_000  # each is two passes over a text
_PRIVATE_USE = 0xF0000  # the first character of plane 15


def generic(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> TokenizerSpec:
    """The tokenizer of a folder whose class has no rules of its own in transformers."""
    if tokenizer_json is None:
        return _from_model(read_model_file(files, "tokenizer.model"), config)
    tokenizer = tokenizer_json.build()
    named = named_pieces(config, {"pad_token": tokenizer_json.option("padding", "pad_token")})
    names = add_pieces(tokenizer, config, named)
    if tokenizer_json.processor is None:
        template = bos_eos_template(tokenizer, names, config, use_flags=False)
    else:
        template = parse_post_processor(tokenizer_json.processor)
    return TokenizerSpec(
        tokenizer,
        names or _usual(tokenizer),
        template,
        unk_id=_unk_id(tokenizer, tokenizer_json.model),
        has_token_type_ids=config.has_token_type_ids(default=False),
    )


def _usual(tokenizer: Tokenizer) -> dict[str, str]:
    """The added special pieces with common names, for files that name none."""
    added = tokenizer.get_added_tokens_decoder().values()
    special = {token.content for token in added if token.special}
    found = {name: [p for p in usual if p in special] for name, usual in _USUAL.items()}
    return {name: pieces[0] for name, pieces in found.items() if pieces}


def _unk_id(tokenizer: Tokenizer, model: Mapping[str, object]) -> int | None:
    unk_id = model.get("unk_id")
    if isinstance(unk_id, int):
        return unk_id
    piece = model.get("unk_token")
    found: int | None = tokenizer.token_to_id(piece) if isinstance(piece, str) else None
    return found


def _from_model(model: ModelFile, config: TokenizerConfig) -> TokenizerSpec:
    """A SentencePiece model without other files: the ids that SentencePiece itself gives.

    transformers gives the same since 5.24; before, it inserted no space before a text. It still
    applies the table of characters to user-defined pieces, which the model was trained without.
    """
    unk_id = model.declared_ids["unk"]
    own = [p for p, t in zip(model.pieces, model.types, strict=True) if t is PieceType.USER_DEFINED]
    with library_errors("tokenizer.model cannot be used"):
        if model.kind == "unigram":
            scored = list(zip(model.pieces, model.scores, strict=True))
            algorithm: models.Model = models.Unigram(scored, unk_id, model.byte_fallback)
        elif model.kind == "bpe":
            algorithm = models.BPE(
                {piece: i for i, piece in enumerate(model.pieces)},
                _merges(model),
                unk_token=model.declared["unk"],
                fuse_unk=True,
                byte_fallback=model.byte_fallback,
                ignore_merges=bool(own),  # they have no merges
            )
        else:
            raise TokenizerError(
                "tokenizer.unknown_model_kind",
                "tokenizer.model must be a unigram or bpe model, got {kind}",
                kind=model.kind,
            )
        tokenizer = Tokenizer(algorithm)
        # each part between special pieces has a space of its own, unless "legacy" is false
        legacy = "legacy" not in config.options or config.optional_flag("legacy")
        prefix = "always" if legacy else "first"
        tokenizer.normalizer = _spaces(model, own, prefix == "always")
    parts: list[pre_tokenizers.PreTokenizer] = []
    if model.dummy_prefix:
        parts.append(pre_tokenizers.Metaspace("▁", prepend_scheme=prefix, split=False))
    if own:
        parts.append(pre_tokenizers.Split(Regex(alternatives(own)), "isolated"))
    if parts:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    tokenizer.decoder = _decoder(model)
    defaults: dict[str, Token | None] = {
        f"{name}_token": model.declared[name]
        for name in ("bos", "eos", "unk")
        if model.declared_ids[name] >= 0
    }
    control = [token for token in control_tokens(model) if str(token) not in own]
    names = add_pieces(tokenizer, config, named_pieces(config, defaults), control)
    return TokenizerSpec(
        tokenizer,
        names,
        bos_eos_template(tokenizer, names, config, use_flags=True),
        unk_id=unk_id,
        has_token_type_ids=config.has_token_type_ids(default=False),
    )


def _spaces(model: ModelFile, own: Sequence[str], prefix_always: bool) -> normalizers.Normalizer:
    """SentencePiece's treatment of characters and spaces, in its order."""
    steps: list[normalizers.Normalizer] = []
    if model.charsmap:
        table = normalizers.Precompiled(model.charsmap)
        changed = [piece for piece in own if table.normalize_str(piece) != piece]
        marks = _marks(model, changed)
        steps += [normalizers.Replace(piece, mark) for piece, mark in marks.items()]
        steps.append(table)
        steps += [normalizers.Replace(mark, piece) for piece, mark in marks.items()]
    if model.remove_extra_spaces:
        steps.append(normalizers.Replace(Regex(r"\A +| +\z"), ""))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    if model.escape_spaces:
        steps.append(normalizers.Replace(" ", "▁"))
    if model.dummy_prefix and prefix_always:  # Metaspace inserts none where a text begins with it
        steps.append(normalizers.Replace(Regex(r"\A▁"), "▁▁"))
    return normalizers.Sequence(steps)


def _marks(model: ModelFile, own: Sequence[str]) -> dict[str, str]:
    """A character of private use for each piece that its own table of characters would change.

    It replaces the piece, the longest first, while the table is applied.
    """
    if not own:
        return {}
    if len(own) > MAX_CHANGED:
        raise TokenizerError(
            "tokenizer.too_many_changed_pieces",
            "tokenizer.model must have at most {max_changed} user-defined pieces that its table "
            "of characters changes, got {n_own:,}, the first {own!r:.40}; use a model trained "
            "with identity normalization",
            max_changed=MAX_CHANGED,
            n_own=len(own),
            own=own[0],
        )
    used = set("".join(model.pieces))
    free = (chr(code) for code in range(_PRIVATE_USE, _PRIVATE_USE + 0xFFFE))
    longest = sorted(own, key=len, reverse=True)
    return dict(zip(longest, (mark for mark in free if mark not in used), strict=False))


def _decoder(model: ModelFile) -> decoders.Decoder:
    steps: list[decoders.Decoder] = [decoders.Replace("▁", " ")]
    if model.byte_fallback:
        steps.append(decoders.ByteFallback())
    if model.byte_fallback or model.dummy_prefix:
        steps.append(decoders.Fuse())
    if model.dummy_prefix:
        steps.append(decoders.Strip(" ", left=1))
    return decoders.Sequence(steps)


def _merges(model: ModelFile) -> list[tuple[str, str]]:
    """The merges of a BPE model: every split of a piece into two, the highest score first."""
    rows = zip(model.pieces, model.scores, model.types, strict=True)
    scores = {piece: score for piece, score, type_ in rows if type_ is PieceType.NORMAL}
    return [
        (piece[:cut], piece[cut:])
        for piece in sorted(scores, key=lambda piece: -scores[piece])  # stable: then by id
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]
