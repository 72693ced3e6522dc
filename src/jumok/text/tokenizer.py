"""The protocol of all tokenizers: text to ids and back, special tokens and their templates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from jumok.errors import InputError, TokenizerError
from jumok.text.offsets import Span
from jumok.text.template import Side, Template

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[BOS]", "[EOS]", "[SEP]", "[CLS]", "[MASK]")


class Encoding(NamedTuple):
    """The ids of a text, and for each id the characters of the text that it covers."""

    ids: list[int]
    offsets: list[Span]


class SpecialIds(Protocol):
    """The ids of the special pieces; an `InputError` names the one that a tokenizer lacks."""

    def special_id(self, name: str) -> int:
        """The id of this special piece, such as "[PAD]"."""

    @property
    def pad_id(self) -> int:
        """The id of [PAD], which pads short rows and is never attended to."""
        return self.special_id("[PAD]")

    @property
    def unk_id(self) -> int:
        """The id of [UNK], for whatever the vocabulary cannot spell."""
        return self.special_id("[UNK]")

    @property
    def bos_id(self) -> int:
        """The id of [BOS], the beginning of a text."""
        return self.special_id("[BOS]")

    @property
    def eos_id(self) -> int:
        """The id of [EOS], the end of a text."""
        return self.special_id("[EOS]")

    @property
    def sep_id(self) -> int:
        """The id of [SEP], which separates two texts."""
        return self.special_id("[SEP]")

    @property
    def cls_id(self) -> int:
        """The id of [CLS], whose hidden state represents the whole text."""
        return self.special_id("[CLS]")

    @property
    def mask_id(self) -> int:
        """The id of [MASK], a masked position."""
        return self.special_id("[MASK]")


class Tokenizer(SpecialIds, Protocol):
    """Text to ids and back.

    Ids of special pieces are always read from the tokenizer: one has its [PAD] at 0, another at 3.
    """

    def __len__(self) -> int:
        """The number of pieces; ids run from 0 to one less."""

    @property
    def kind(self) -> str:
        """The algorithm: "unigram", "bpe", "char", "wordpiece" and so on."""

    @property
    def special_ids(self) -> Mapping[str, int]:
        """The special pieces that the tokenizer has, {"[PAD]": 0, ...}."""

    @property
    def padding_id(self) -> int:
        """The id that pads short rows: [PAD], or 0 where there is none (it is masked anyway)."""

    @property
    def decoder_start_id(self) -> int:
        """The first id that a decoder reads: [BOS], or the one in an imported model's config."""

    @property
    def n_embeddings(self) -> int:
        """The number of rows of the model's embedding: the pieces, and rows without a piece."""

    @property
    def input_template(self) -> Template:
        """Special tokens around the texts of an encoder: [CLS] A, or [CLS] A [SEP] B [SEP]."""

    @property
    def sequence_template(self) -> Template:
        """Special tokens around a source, or a target after `decoder_start_id`: A [EOS]."""

    @property
    def truncation_side(self) -> Side:
        """The side on which texts that are too long are truncated."""

    @property
    def model_max_length(self) -> int | None:
        """The longest row that the tokenizer's files allow, special tokens included."""

    @property
    def has_token_type_ids(self) -> bool:
        """Whether the model reads which of two texts a token belongs to."""

    @property
    def max_text_bytes(self) -> int:
        """The longest text in bytes of UTF-8 that is tokenized in bounded memory."""

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the model file, in hexadecimal."""

    @property
    def identity(self) -> str:
        """A checksum of everything that decides which ids a text gets."""

    @property
    def clean_up(self) -> bool:
        """Whether decoding removes spaces before punctuation."""

    @property
    def groups_bytes(self) -> bool:
        """Whether consecutive byte pieces are decoded together: all of them or none."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text; no special piece is added, and none can come from the text itself."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, faster than one by one."""

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids of `encode` with their characters; InputError if these cannot be determined."""

    def sample_batch(self, texts: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """The ids of randomly segmented texts: a pure function of (texts, alpha, seed)."""

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text as strings."""

    def piece(self, id: int) -> str:  # noqa: A002  the field's word
        """The piece with this id."""

    def id(self, piece: str) -> int:
        """The id of this piece; an unknown piece is an error, never silently [UNK]."""

    def starts_word(self, id: int) -> bool:  # noqa: A002  as above
        """Whether a piece starts a word: it begins with a space, or lacks the ## of WordPiece."""

    def surface(self, id: int) -> str:  # noqa: A002  as above
        """The text of one piece without the space before it."""

    def word_starts_after(self, text: str) -> bool:
        """Whether a piece that follows this text starts a word: the text ends at a word boundary.

        After an empty text it does if the tokenizer puts a space before a text.
        """

    @property
    def has_space_pieces(self) -> bool:
        """Whether the space before a word is a piece of its own (tokenizers of characters)."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, special pieces left out."""

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The texts of many rows of ids."""


def unk_id(tokenizer: Tokenizer) -> int:
    """The id of [UNK]; -1 for a tokenizer without one, which spells every text."""
    return tokenizer.special_ids.get("[UNK]", -1)


def piece_or_empty(tokenizer: Tokenizer, id: int) -> str:  # noqa: A002  the field's word
    """The piece with this id; empty for an id of the model that has no piece."""
    try:
        return tokenizer.piece(int(id))
    except InputError:
        return ""


def alternatives(pieces: Iterable[str]) -> str:
    """A pattern of these pieces, longest first; of none it matches nothing."""
    return "|".join(map(re.escape, sorted(pieces, key=len, reverse=True))) or "(?!)"


def check_texts(texts: Sequence[str]) -> Sequence[str]:
    """The texts; InputError for one string."""
    if isinstance(texts, str):
        raise TokenizerError(
            "tokenizer.one_string",
            "texts must be a list of strings, got one string; put it in a list",
        )
    return texts


def check_ids(ids: Iterable[int], n_ids: int) -> list[int]:
    """The ids as a list; InputError for one that is not from 0 to `n_ids` - 1."""
    row = [int(i) for i in ids]
    if row and not (min(row) >= 0 and max(row) < n_ids):
        raise TokenizerError(
            "tokenizer.id_range",
            "ids must be from 0 to {last} in a vocabulary of {n_ids} ids, got {wrong}; was it made "
            "by another vocabulary?",
            last=n_ids - 1,
            n_ids=n_ids,
            wrong=next(i for i in row if not 0 <= i < n_ids),
        )
    return row
