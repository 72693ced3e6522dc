"""What every vocabulary can do: strings to ids and back, whatever library stands behind it."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from jumok.errors import InputError

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[BOS]", "[EOS]", "[SEP]", "[CLS]", "[MASK]")


class Tokenizer(Protocol):
    """Strings to ids and back.

    Ids of special pieces are always asked from the vocabulary: one has its [PAD] at 0, another
    at 3. Asking for one it lacks is an `InputError` that names the piece.
    """

    def __len__(self) -> int:
        """The number of pieces; ids run from 0 to one less."""

    @property
    def pad_id(self) -> int:
        """The id of [PAD], which fills short rows and is never attended to."""

    @property
    def unk_id(self) -> int:
        """The id of [UNK], which stands for whatever the vocabulary cannot spell."""

    @property
    def bos_id(self) -> int:
        """The id of [BOS], which begins a text."""

    @property
    def eos_id(self) -> int:
        """The id of [EOS], which ends a text."""

    @property
    def sep_id(self) -> int:
        """The id of [SEP], which parts two texts."""

    @property
    def cls_id(self) -> int:
        """The id of [CLS], whose hidden state stands for the whole text."""

    @property
    def mask_id(self) -> int:
        """The id of [MASK], the blank to be filled in."""

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the model file, in hexadecimal."""

    @property
    def identity(self) -> str:
        """A checksum of everything that decides which ids a text gets."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text; no special pieces are added, none can come from the text itself."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, faster than one by one."""

    def sample_batch(self, texts: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """The ids of many texts cut at random: a function of (texts, alpha, seed) and no more."""

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text as strings."""

    def piece(self, id: int) -> str:  # noqa: A002  the field's word
        """The piece with this id."""

    def id(self, piece: str) -> int:
        """The id of this piece; an unknown piece is an error, never silently [UNK]."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, special pieces left out."""

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The texts of many rows of ids."""


def unk_id(vocabulary: Tokenizer) -> int:
    """The id of [UNK]; -1 for a vocabulary that spells everything and names none."""
    try:
        return vocabulary.unk_id
    except InputError:
        return -1


def piece_or_empty(vocabulary: Tokenizer, id: int) -> str:  # noqa: A002  the field's word
    """The piece with this id; empty for one that a model knows and its vocabulary does not."""
    try:
        return vocabulary.piece(int(id))
    except InputError:
        return ""
