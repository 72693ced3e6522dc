"""Texts to ids and back through the tokenizers library, exactly or as plain words only."""

import json
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from tokenizers import Tokenizer

from jumok.errors import InputError
from jumok.text.normalization import check_text
from jumok.text.offsets import Span
from jumok.text.pretrained.library_errors import library_errors


class Cut(NamedTuple):
    """The ids of a text and the characters that each stands for."""

    ids: list[int]
    spans: list[Span]


class Cutter(Protocol):
    """What cuts texts into pieces and joins them again."""

    @property
    def kind(self) -> str:
        """How it cuts: "wordpiece", "bpe", "unigram" or "wordlevel"."""

    @property
    def pieces(self) -> Mapping[str, int]:
        """Every piece and its id."""

    @property
    def clean_up(self) -> bool:
        """Whether spaces before punctuation are dropped from the texts of ids."""

    def exact(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that transformers gives: a typed "[MASK]" becomes the special id."""

    def plain(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids when a typed "[MASK]" is a word like any other."""

    def cut(self, text: str, *, plain: bool = False) -> Cut:
        """The exact ids with the characters they stand for; `plain`: those of plain words."""

    def join(self, rows: Sequence[Sequence[int]], keep_special: bool) -> list[str]:
        """The texts of rows of ids; ids without a piece give nothing."""


class LibraryCutter:
    """A `Cutter` made of one tokenizer of the library."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        unknown: int | None = None,
        clean_up: bool = False,
        split_special: bool = False,
    ) -> None:
        tokenizer.encode_special_tokens = split_special
        self._tokenizer = tokenizer
        self._unknown = unknown
        self.clean_up = clean_up and self.kind != "bpe"  # which keeps its own spaces
        added = tokenizer.get_added_tokens_decoder()
        special = frozenset(i for i, token in added.items() if token.special)
        self._nobody_types = special - {unknown}
        self._unknown_piece = None if unknown is None else tokenizer.id_to_token(unknown)

    @property
    def kind(self) -> str:
        """How it cuts, by the library's name for it in small letters."""
        return type(self._tokenizer.model).__name__.lower()

    @cached_property
    def pieces(self) -> Mapping[str, int]:
        """Every piece and its id, added ones too."""
        pieces: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return pieces

    def normalized(self, text: str) -> str:
        """The text as it is before it is cut into words."""
        normalizer = self._tokenizer.normalizer
        with library_errors("the tokeniser fails at this text"):
            return text if normalizer is None else str(normalizer.normalize_str(text))

    def exact(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that transformers gives, of all texts on all cores."""
        return _ids(self._tokenizer, texts)

    def plain(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts as plain words: cut again only where somebody typed a special piece."""
        rows = _ids(self._tokenizer, texts)
        typed = [i for i, row in enumerate(rows) if self._is_typed(texts[i], row)]
        for i, row in zip(typed, _ids(self._plain, [texts[i] for i in typed]), strict=True):
            rows[i] = row
        return rows

    def cut(self, text: str, *, plain: bool = False) -> Cut:
        """The ids with the characters they stand for."""
        with library_errors("the tokeniser fails at this text"):
            encoding = self._tokenizer.encode(checked_text(text), add_special_tokens=False)
            if plain and self._is_typed(text, encoding.ids):
                encoding = self._plain.encode(text, add_special_tokens=False)
            return Cut(encoding.ids, encoding.offsets)

    def join(self, rows: Sequence[Sequence[int]], keep_special: bool) -> list[str]:
        """The texts of rows of ids."""
        with library_errors("the tokeniser fails at these ids"):
            texts: list[str] = self._tokenizer.decode_batch(
                [list(row) for row in rows], skip_special_tokens=not keep_special
            )
        return [cleaned(text) for text in texts] if self.clean_up else texts

    def _is_typed(self, text: str, row: Sequence[int]) -> bool:
        """Whether a special id may have come of a text that spells its piece.

        The unknown one comes of other texts too: there it stays.
        """
        if not self._nobody_types.isdisjoint(row):
            return True
        piece = self._unknown_piece
        if piece is None or self._unknown not in row:
            return False
        return piece in text or piece in self.normalized(text)

    @cached_property
    def _plain(self) -> Tokenizer:
        """The same tokenizer, to which special pieces are unknown: no text becomes one.

        They are not looked for in texts, and inside the model they get names nobody can type.
        """
        state = json.loads(self._tokenizer.to_str())
        secret_ids = self._nobody_types | {self._unknown}
        special = {piece for piece, i in self.pieces.items() if i in secret_ids}
        secret = secrets.token_hex(16)
        state["model"] = _renamed(state["model"], special, secret)
        for token in state["added_tokens"]:
            if token["content"] in special:
                token["content"] += secret
        state["post_processor"] = None
        with library_errors("the tokeniser cannot leave its special pieces out"):
            tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.encode_special_tokens = True
        return tokenizer


def checked_text(text: str) -> str:
    r"""The text itself, if it can be written as UTF-8; NUL is the tokeniser's affair.

    >>> checked_text("a\0b") == "a\0b"
    True
    """
    if not isinstance(text, str):
        raise InputError(f"{str(text)[:80]!r} is no text; give a text")
    if not text.isascii():
        check_text(text.replace("\0", " "))
    return text


def cleaned(text: str) -> str:
    """The text without the spaces that English words were parted by, as transformers does it.

    >>> cleaned("it 's fine , is n't it ?")
    "it's fine, isn't it?"
    """
    for parted in (" .", " ?", " !", " ,"):
        text = text.replace(parted, parted[1:])
    text = text.replace(" ' ", "'")
    for parted in (" n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(parted, parted[1:])
    return text


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    if not texts:
        return []
    given = [checked_text(text) for text in texts]
    with library_errors("the tokeniser fails at a text"):
        rows = tokenizer.encode_batch_fast(given, add_special_tokens=False)
    return [row.ids for row in rows]


def _renamed(model: dict[str, Any], special: set[str], secret: str) -> dict[str, Any]:
    """A model whose special pieces have a secret name and come of no merge."""
    vocab = model["vocab"]
    if model.get("unk_token") in special:
        model["unk_token"] += secret
    if isinstance(vocab, list):
        model["vocab"] = [[p + secret if p in special else p, score] for p, score in vocab]
    else:
        model["vocab"] = {p + secret if p in special else p: i for p, i in vocab.items()}
    if "merges" in model:
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        model["merges"] = [p for p in pairs if special.isdisjoint((*p, "".join(p)))]
    return model
