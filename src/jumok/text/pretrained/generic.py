"""Tokenisers whose file says everything: tokenizer.json as it stands, or tokenizer.model."""

from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers

from jumok.errors import InputError
from jumok.text.pretrained.byte_level_bpe import bos_eos
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.special_tokens import Assembly, add_pieces, named_pieces
from jumok.text.pretrained.tokenizer_config import Settings, Token
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.pretrained.unigram import control_tokens, model_of
from jumok.text.sentencepiece_proto import ModelFile
from jumok.text.template import processor_parts

_USUAL = {
    "bos_token": ("<s>", "[BOS]", "<bos>"),
    "eos_token": ("</s>", "[EOS]", "<eos>", "<|endoftext|>"),
    "unk_token": ("<unk>", "[UNK]"),
    "sep_token": ("[SEP]", "<sep>"),
    "pad_token": ("<pad>", "[PAD]"),
    "cls_token": ("[CLS]", "<cls>"),
    "mask_token": ("<mask>", "[MASK]"),
}


def as_written(
    files: TokenizerFiles, settings: Settings, written: TokenizerJson | None
) -> Assembly:
    """The tokeniser of a folder whose files name no kind that transformers would build anew."""
    if written is None:
        return _from_model(model_of(files, "tokenizer.model"), settings)
    tokenizer = written.build()
    named = named_pieces(settings, {"pad_token": written.told("padding", "pad_token")})
    names = add_pieces(tokenizer, settings, named)
    if written.processor is None:
        parts = bos_eos(tokenizer, names, settings, told=False)
    else:
        parts = processor_parts(written.processor)
    return Assembly(
        tokenizer,
        names or _usual(tokenizer),
        parts,
        unknown=_unknown(tokenizer, written.model),
        has_token_type_ids=settings.has_token_type_ids(default=False),
    )


def _usual(tokenizer: Tokenizer) -> dict[str, str]:
    """Where no file names a special piece: the added ones with usual names."""
    added = tokenizer.get_added_tokens_decoder().values()
    special = {token.content for token in added if token.special}
    found = {name: [p for p in usual if p in special] for name, usual in _USUAL.items()}
    return {name: pieces[0] for name, pieces in found.items() if pieces}


def _unknown(tokenizer: Tokenizer, model: Mapping[str, object]) -> int | None:
    unknown = model.get("unk_id")
    if isinstance(unknown, int):
        return unknown
    piece = model.get("unk_token")
    found: int | None = tokenizer.token_to_id(piece) if isinstance(piece, str) else None
    return found


def _from_model(model: ModelFile, settings: Settings) -> Assembly:
    """A SentencePiece model by itself; no space is put before a text."""
    unknown = model.declared_ids["unk"]
    with library_errors("tokenizer.model cannot be used"):
        if model.kind == "unigram":
            scored = list(zip(model.pieces, model.scores, strict=True))
            cutter: models.Model = models.Unigram(scored, unknown, model.byte_fallback)
        elif model.kind == "bpe":
            vocab = {piece: i for i, piece in enumerate(model.pieces)}
            cutter = models.BPE(
                vocab,
                _merges(model.pieces),
                unk_token=model.declared["unk"],
                fuse_unk=True,
                byte_fallback=model.byte_fallback,
            )
        else:
            raise InputError(
                f"tokenizer.model is a {model.kind} model; give a unigram or bpe model"
            )
        tokenizer = Tokenizer(cutter)
        steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", "▁")]
        if model.charsmap:
            steps.insert(0, normalizers.Precompiled(model.charsmap))
    tokenizer.normalizer = normalizers.Sequence(steps)
    spaces = decoders.Replace("▁", " ")
    bytes_too = [decoders.ByteFallback(), decoders.Fuse()] if model.byte_fallback else []
    tokenizer.decoder = decoders.Sequence([spaces, *bytes_too])
    defaults: dict[str, Token | None] = {
        f"{name}_token": model.declared[name]
        for name in ("bos", "eos", "unk")
        if model.declared_ids[name] >= 0
    }
    names = add_pieces(tokenizer, settings, named_pieces(settings, defaults), control_tokens(model))
    return Assembly(
        tokenizer,
        names,
        bos_eos(tokenizer, names, settings, told=True),
        unknown=unknown,
        has_token_type_ids=settings.has_token_type_ids(default=False),
    )


def _merges(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """The merges behind the pieces of a BPE model: each piece of two others, in order of ids."""
    known = set(pieces)
    return [
        (piece[:cut], piece[cut:])
        for piece in pieces
        for cut in range(1, len(piece))
        if piece[:cut] in known and piece[cut:] in known
    ]
