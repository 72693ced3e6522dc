"""Tokenizers of any other class: tokenizer.json without changes, or tokenizer.model."""

from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers

from jumok.errors import InputError
from jumok.text.pretrained.byte_level_bpe import bos_eos_template
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.post_processor import parse_post_processor
from jumok.text.pretrained.special_tokens import TokenizerSpec, add_pieces, named_pieces
from jumok.text.pretrained.tokenizer_config import Token, TokenizerConfig
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.pretrained.unigram import control_tokens, read_model_file
from jumok.text.sentencepiece_proto import ModelFile

_USUAL = {
    "bos_token": ("<s>", "[BOS]", "<bos>"),
    "eos_token": ("</s>", "[EOS]", "<eos>", "<|endoftext|>"),
    "unk_token": ("<unk>", "[UNK]"),
    "sep_token": ("[SEP]", "<sep>"),
    "pad_token": ("<pad>", "[PAD]"),
    "cls_token": ("[CLS]", "<cls>"),
    "mask_token": ("<mask>", "[MASK]"),
}


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
    """A SentencePiece model without other files; no space is inserted before a text."""
    unk_id = model.declared_ids["unk"]
    with library_errors("tokenizer.model cannot be used"):
        if model.kind == "unigram":
            scored = list(zip(model.pieces, model.scores, strict=True))
            algorithm: models.Model = models.Unigram(scored, unk_id, model.byte_fallback)
        elif model.kind == "bpe":
            vocab = {piece: i for i, piece in enumerate(model.pieces)}
            algorithm = models.BPE(
                vocab,
                _merges(model.pieces),
                unk_token=model.declared["unk"],
                fuse_unk=True,
                byte_fallback=model.byte_fallback,
            )
        else:
            raise InputError(f"tokenizer.model must be a unigram or bpe model, got {model.kind}")
        tokenizer = Tokenizer(algorithm)
        steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", "▁")]
        if model.charsmap:
            steps.insert(0, normalizers.Precompiled(model.charsmap))
    tokenizer.normalizer = normalizers.Sequence(steps)
    spaces = decoders.Replace("▁", " ")
    byte_steps = [decoders.ByteFallback(), decoders.Fuse()] if model.byte_fallback else []
    tokenizer.decoder = decoders.Sequence([spaces, *byte_steps])
    defaults: dict[str, Token | None] = {
        f"{name}_token": model.declared[name]
        for name in ("bos", "eos", "unk")
        if model.declared_ids[name] >= 0
    }
    names = add_pieces(tokenizer, config, named_pieces(config, defaults), control_tokens(model))
    return TokenizerSpec(
        tokenizer,
        names,
        bos_eos_template(tokenizer, names, config, use_flags=True),
        unk_id=unk_id,
        has_token_type_ids=config.has_token_type_ids(default=False),
    )


def _merges(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """The merges of a BPE model: every split of a piece into two pieces, in order of ids."""
    known = set(pieces)
    return [
        (piece[:cut], piece[cut:])
        for piece in pieces
        for cut in range(1, len(piece))
        if piece[:cut] in known and piece[cut:] in known
    ]
