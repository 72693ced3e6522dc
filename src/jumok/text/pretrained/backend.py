"""Text to ids and back by the tokenizers library, as transformers does it or without specials."""

import json
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from tokenizers import Tokenizer

from jumok.errors import TokenizerError
from jumok.text.normalization import check_text
from jumok.text.pretrained.growth import Growth, check_normalized, growth
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.tokenizer_json import charsmap_expansions
from jumok.text.tokenizer import Encoding


class Backend(Protocol):
    """Splits texts into pieces and joins them again."""

    @property
    def kind(self) -> str:
        """The algorithm: "wordpiece", "bpe", "unigram" or "wordlevel"."""

    @property
    def pieces(self) -> Mapping[str, int]:
        """Every piece and its id."""

    @property
    def special(self) -> Mapping[str, int]:
        """The special pieces and their ids, [UNK] included."""

    @property
    def clean_up(self) -> bool:
        """Whether decoding removes spaces before punctuation."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts in which a typed "[MASK]" is ordinary text."""

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that transformers gives: a typed "[MASK]" becomes the special id."""

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids of `encode` with the characters that each covers."""

    def decode(self, rows: Sequence[Sequence[int]], keep_special: bool) -> list[str]:
        """The texts of rows of ids; ids without a piece give no text."""


class TokenizersBackend:
    """A `Backend` made of one tokenizer of the library."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        unk_id: int | None = None,
        clean_up: bool = False,
        split_special: bool = False,
    ) -> None:
        tokenizer.encode_special_tokens = split_special
        self._tokenizer = tokenizer
        self._unk_id = unk_id
        self.clean_up = clean_up and self.kind != "bpe"  # which preserves spaces
        added = tokenizer.get_added_tokens_decoder()
        special = frozenset(i for i, token in added.items() if token.special)
        self._special_ids = special - {unk_id}
        self._unk_piece = None if unk_id is None else tokenizer.id_to_token(unk_id)

    def to_json(self) -> str:
        """The text of a tokenizer.json; the special tokens around texts are not part of it."""
        return str(self._tokenizer.to_str())

    @property
    def kind(self) -> str:
        """The algorithm by the library's name in lower case."""
        return type(self._tokenizer.model).__name__.lower()

    @cached_property
    def pieces(self) -> Mapping[str, int]:
        """Every piece and its id, added ones included."""
        pieces: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return pieces

    @cached_property
    def special(self) -> Mapping[str, int]:
        """The special pieces and their ids, [UNK] included."""
        ids = self._special_ids | {self._unk_id}
        return {piece: i for piece, i in self.pieces.items() if i in ids}

    def normalized(self, text: str) -> str:
        """The text after normalization, before it is split into words."""
        normalizer = self._tokenizer.normalizer
        with library_errors("the tokenizer fails on this text"):
            return text if normalizer is None else str(normalizer.normalize_str(text))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of `encode_hf`, computed again for texts that spell a special piece."""
        rows = _encode(self._tokenizer, list(map(self._check, texts)))
        typed = [i for i, row in enumerate(rows) if self._spells_special(texts[i], row)]
        again = _encode(self._without_special, [texts[i] for i in typed])
        for i, row in zip(typed, again, strict=True):
            rows[i] = row
        return rows

    @cached_property
    def _growth(self) -> Growth:
        """How much the normalizer may lengthen a text."""
        if self._tokenizer.normalizer is None:
            return Growth()
        state = json.loads(self._tokenizer.normalizer.__getstate__())
        return growth(state, charsmap_expansions(state))

    def _check(self, text: str) -> str:
        """The text itself, if it can be encoded and does not become too long."""
        checked = check_encodable(text)
        with library_errors("the tokenizer fails on this text"):
            check_normalized(checked, self._growth, self._tokenizer.normalizer)
        return checked

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that transformers gives, of all texts on all cores."""
        return _encode(self._tokenizer, list(map(self._check, texts)))

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids with the characters that each covers."""
        with library_errors("the tokenizer fails on this text"):
            encoding = self._tokenizer.encode(self._check(text), add_special_tokens=False)
            if self._spells_special(text, encoding.ids):
                encoding = self._without_special.encode(text, add_special_tokens=False)
            return Encoding(encoding.ids, encoding.offsets)

    def decode(self, rows: Sequence[Sequence[int]], keep_special: bool) -> list[str]:
        """The texts of rows of ids."""
        with library_errors("the tokenizer fails on these ids"):
            texts: list[str] = self._tokenizer.decode_batch(
                [list(row) for row in rows], skip_special_tokens=not keep_special
            )
        return [clean_up_spaces(text) for text in texts] if self.clean_up else texts

    def _spells_special(self, text: str, row: Sequence[int]) -> bool:
        """Whether a special id may come from a text that spells its piece.

        [UNK] is given for other texts too; for these it is kept.
        """
        if not self._special_ids.isdisjoint(row):
            return True
        piece = self._unk_piece
        if piece is None or self._unk_id not in row:
            return False
        return piece in text or piece in self.normalized(text)

    @cached_property
    def _without_special(self) -> Tokenizer:
        """A copy of the tokenizer without special pieces, which no text can become.

        It does not search texts for them, and in the model they get random names.
        """
        state = json.loads(self._tokenizer.to_str())
        special = set(self.special)
        suffix = secrets.token_hex(16)
        state["model"] = _renamed(state["model"], special, suffix)
        for token in state["added_tokens"]:
            if token["content"] in special:
                token["content"] += suffix
        state["post_processor"] = None
        with library_errors("the tokenizer cannot be built without its special pieces"):
            tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.encode_special_tokens = True
        return tokenizer


def check_encodable(text: str) -> str:
    r"""The text itself, if it can be encoded as UTF-8; NUL is left to the tokenizer.

    >>> check_encodable("a\0b") == "a\0b"
    True
    """
    if not isinstance(text, str):
        raise TokenizerError(
            "tokenizer.text_not_a_string",
            "a text must be a string, got {text!r}",
            text=str(text)[:80],
        )
    if not text.isascii():
        check_text(text.replace("\0", " "))
    return text


def clean_up_spaces(text: str) -> str:
    """The text without the spaces before English punctuation, as in transformers.

    >>> clean_up_spaces("it 's fine , is n't it ?")
    "it's fine, isn't it?"
    """
    for spaced in (" .", " ?", " !", " ,"):
        text = text.replace(spaced, spaced[1:])
    text = text.replace(" ' ", "'")
    for spaced in (" n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(spaced, spaced[1:])
    return text


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    if not texts:
        return []
    with library_errors("the tokenizer fails on a text"):
        rows = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [row.ids for row in rows]


def _renamed(model: dict[str, Any], special: set[str], suffix: str) -> dict[str, Any]:
    """A model whose special pieces have other names and are the result of no merge."""
    vocab = model["vocab"]
    if model.get("unk_token") in special:
        model["unk_token"] += suffix
    if isinstance(vocab, list):
        model["vocab"] = [[p + suffix if p in special else p, score] for p, score in vocab]
    else:
        model["vocab"] = {p + suffix if p in special else p: i for p, i in vocab.items()}
    if "merges" in model:
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        model["merges"] = [p for p in pairs if special.isdisjoint((*p, "".join(p)))]
    return model
