"""A vocabulary of somebody else's model: its pieces, its special ids and its frames."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from jumok.errors import InputError
from jumok.text.offsets import Span
from jumok.text.pretrained.backend import Cut, Cutter
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.template import Frame, Framed

SPECIAL_NAMES = {
    "[PAD]": "pad_token",
    "[UNK]": "unk_token",
    "[BOS]": "bos_token",
    "[EOS]": "eos_token",
    "[SEP]": "sep_token",
    "[CLS]": "cls_token",
    "[MASK]": "mask_token",
}


@dataclass(frozen=True, eq=False)
class PretrainedTokenizer:
    """A `Tokenizer` read from the tokeniser files of a model, by `load_tokenizer`.

    Two ways lead from a text to ids. `encode` and `encode_batch` keep the promise of every
    vocabulary: no special piece is added and none comes from the text, so that a user who types
    "[MASK]" wrote six characters. `encode_with_special_tokens`, `encode_batch_with_special_tokens`, `encode_hf` and
    `encode_hf_with_offsets` do what transformers' AutoTokenizer does: there a typed "[MASK]" is the
    special piece. For all other texts both give the same ids.
    """

    files: TokenizerFiles
    backend: Cutter
    source_template: Frame  # of what the model reads
    target_template: Frame  # of what it is to write, where that is another language
    special_ids: Mapping[str, int]  # {"[PAD]": 0, ...}: those that the files name
    model_max_length: int | None = None  # None: no file tells
    has_token_type_ids: bool = False  # whether AutoTokenizer gives token_type_ids
    model_vocab_size: int = 0  # of the model: it may have more rows than the vocabulary has pieces
    target_backend: Cutter | None = None  # of what the model writes, where that is another
    target_model_vocab_size: int = 0  # the same for that one
    languages: Mapping[str, Frame] = field(default_factory=dict)
    is_target: bool = False  # of two that cut otherwise, the one of what the model writes
    config_start_id: int | None = None  # what a decoder is given first, as the model's config says
    model_config: Mapping[str, object] = field(default_factory=dict)  # what was read of that config

    @cached_property
    def target(self) -> "PretrainedTokenizer":
        """The vocabulary of what the model writes: of Marian and mBART another, else this one."""
        cutter = self.target_backend or self.backend
        if cutter is self.backend and self.target_template == self.source_template:
            return self
        own = cutter is not self.backend
        return replace(
            self,
            cutter=cutter,
            reading=self.target_template,
            target_cutter=None,
            written=own,
            output_size=self.target_model_vocab_size if own else self.model_vocab_size,
        )

    def with_languages(self, source: str, target: str) -> "PretrainedTokenizer":
        """The same vocabulary for other languages ("ko_KR"), where the frame tells the language."""
        for code in (source, target):
            if code not in self.languages:
                raise InputError(
                    f'the language "{code}"; the tokeniser knows '
                    f"{', '.join(self.languages) or 'none, its frame does not name any'}"
                )
        return replace(self, reading=self.languages[source], writing=self.languages[target])

    @property
    def kind(self) -> str:
        """How it cuts: "wordpiece", "bpe", "unigram", "wordlevel" or "sentencepiece"."""
        return self.backend.kind

    @property
    def fingerprint(self) -> str:
        """The SHA-256 over the tokeniser's files and which of two it is, in hexadecimal."""
        own = self.files.fingerprint
        return hashlib.sha256(f"{own} written".encode()).hexdigest() if self.is_target else own

    @property
    def identity(self) -> str:
        """A checksum of everything that decides which ids a text gets: `facts` choose the class."""
        facts = json.dumps(dict(self.model_config), sort_keys=True)
        return hashlib.sha256(f"{self.fingerprint} {facts}".encode()).hexdigest()

    @property
    def clean_up(self) -> bool:
        """Whether spaces before punctuation are dropped from the texts of ids."""
        return self.backend.clean_up

    @property
    def groups_bytes(self) -> bool:
        """Whether byte pieces side by side are letters together or none of them is."""
        return self.kind != "sentencepiece"  # which finds the letters among them

    def save(self, folder: Path) -> None:
        """Write the very files it was read from into `folder`."""
        self.files.save(folder)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"PretrainedTokenizer({self.kind}, {len(self)} pieces)"

    @property
    def pad_id(self) -> int:
        """The id of [PAD]."""
        return self._special_id("[PAD]")

    @property
    def unk_id(self) -> int:
        """The id of [UNK]."""
        return self._special_id("[UNK]")

    @property
    def bos_id(self) -> int:
        """The id of [BOS]."""
        return self._special_id("[BOS]")

    @property
    def eos_id(self) -> int:
        """The id of [EOS]."""
        return self._special_id("[EOS]")

    @property
    def sep_id(self) -> int:
        """The id of [SEP]."""
        return self._special_id("[SEP]")

    @property
    def cls_id(self) -> int:
        """The id of [CLS]."""
        return self._special_id("[CLS]")

    @property
    def mask_id(self) -> int:
        """The id of [MASK]."""
        return self._special_id("[MASK]")

    def encode(self, text: str) -> list[int]:
        """The ids of a text alone; a typed "[MASK]" is a word like any other."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        return self.backend.plain(_several(texts))

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts as `AutoTokenizer(texts, add_special_tokens=False)` has them."""
        return self.backend.exact(_several(texts))

    def encode_hf_with_offsets(self, text: str) -> Cut:
        """The ids of `encode_hf` and the characters of the text that each stands for."""
        return self.backend.cut(text)

    def spans(self, text: str) -> list[Span]:
        """The characters of the text that each id of `encode` stands for."""
        return self.backend.cut(text, plain=True).spans

    def apply_template(
        self, ids: Sequence[int], pair: Sequence[int] | None = None, max_length: int | None = None
    ) -> Framed:
        """Ids of one text or two with the special pieces around them, as AutoTokenizer has them.

        A row is at most `max_length` long, or `model_max_length` where none is given; of two
        texts the longer one loses pieces first.
        """
        return self.source_template.frame(ids, pair, self._limit(max_length))

    def encode_with_special_tokens(
        self, text: str, pair: str | None = None, max_length: int | None = None
    ) -> Framed:
        """A row as `AutoTokenizer(text, pair, truncation=True, max_length=...)` gives it.

        A typed "[MASK]" becomes the special piece, as it does there.
        """
        return self.encode_batch_with_special_tokens(
            [text], None if pair is None else [pair], max_length
        )[0]

    def encode_batch_with_special_tokens(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        max_length: int | None = None,
    ) -> list[Framed]:
        """Many rows, on all cores; an empty second text is a text too, as in AutoTokenizer's."""
        firsts = self.encode_hf(texts)
        limit = self._limit(max_length)
        if pairs is None:
            return [self.source_template.frame(ids, None, limit) for ids in firsts]
        if len(pairs) != len(texts):
            raise InputError(f"{len(texts)} texts and {len(pairs)} second ones; give as many")
        seconds = self.encode_hf(pairs)
        return [
            self.source_template.frame(ids, pair, limit)
            for ids, pair in zip(firsts, seconds, strict=True)
        ]

    def sample_batch(self, texts: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Refused: an imported vocabulary cuts every text one way."""
        raise InputError(
            f"an imported {self.kind} vocabulary cuts every text one way (alpha {alpha}, seed "
            f"{seed}, {len(texts)} texts); train without sampling or with a vocabulary of jumok's"
        )

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text; what has none appears as the unknown piece."""
        return [self.piece(i) for i in self.encode(text)]

    def piece(self, id: int) -> str:  # noqa: A002  the field's word
        """The piece with this id."""
        if id not in self._names:
            raise InputError(
                f"the vocabulary has no piece with id {id}; ids run to {len(self) - 1}"
            )
        return self._names[id]

    def id(self, piece: str) -> int:
        """The id of this piece; an unknown piece is an InputError, never silently [UNK]."""
        if piece not in self.backend.pieces:
            raise InputError(f"the vocabulary has no piece {piece!r}; ask `pieces(text)` for some")
        return self.backend.pieces[piece]

    def decode(self, ids: Iterable[int], *, keep_special: bool = False) -> str:
        """The text of these ids, special pieces left out unless they are to be kept.

        Ids without a piece that the model can give (its output may be larger than the
        vocabulary) stand for nothing.
        """
        return self.decode_batch([ids], keep_special=keep_special)[0]

    def decode_batch(
        self, batch: Iterable[Iterable[int]], *, keep_special: bool = False
    ) -> list[str]:
        """The texts of many rows of ids."""
        return self.backend.join([self._check(ids) for ids in batch], keep_special)

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return {i: piece for piece, i in self.backend.pieces.items()}

    @cached_property
    def _size(self) -> int:
        return 1 + max(self.backend.pieces.values(), default=-1)

    def _limit(self, max_length: int | None) -> int | None:
        if max_length is not None and max_length < 1:
            raise InputError(f"max_length {max_length}; give at least 1")
        return self.model_max_length if max_length is None else max_length

    def _special_id(self, name: str) -> int:
        if name not in self.special_ids:
            raise InputError(
                f"the tokeniser names no {name} piece; use one that does, or name a "
                f"{SPECIAL_NAMES[name]} in its tokenizer_config.json"
            )
        return self.special_ids[name]

    def _check(self, ids: Iterable[int]) -> list[int]:
        row = [int(i) for i in ids]
        largest = max(len(self), self.model_vocab_size)
        if row and not (min(row) >= 0 and max(row) < largest):
            wrong = next(i for i in row if not 0 <= i < largest)
            raise InputError(
                f"id {wrong} is outside the vocabulary of {largest} ids (0 to {largest - 1}); was "
                "it made by another vocabulary?"
            )
        return row


def _several(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise InputError("one text came where a list of texts was wanted; put it in a list")
    return texts
