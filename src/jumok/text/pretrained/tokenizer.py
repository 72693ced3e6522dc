"""The tokenizer of an imported model: its pieces, its special ids and its templates."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from jumok.config_io import check_range
from jumok.errors import TokenizerError
from jumok.text.limits import MAX_PRETRAINED_TEXT_BYTES
from jumok.text.offsets import WORD_STARTS
from jumok.text.pretrained.backend import Backend
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.wordpiece import INSIDE_WORD, is_word_boundary
from jumok.text.template import Side, Template, TemplateOutput
from jumok.text.tokenizer import Encoding, SpecialIds, check_ids, check_texts

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
class PretrainedTokenizer(SpecialIds):
    """A `Tokenizer` of the tokenizer files of a model, made by `load_tokenizer`.

    There are two ways from a text to ids. `encode`, `encode_batch` and `encode_with_offsets` are
    those of every tokenizer: no special piece is added and none comes from the text, so that a
    typed "[MASK]" is six characters. `encode_hf`,
    `encode_with_special_tokens` and `encode_batch_with_special_tokens` do what AutoTokenizer of
    transformers does, where a typed "[MASK]" is the special piece. For all other texts both ways
    give the same ids.
    """

    files: TokenizerFiles
    backend: Backend
    source_template: Template  # of the texts that the model reads
    target_template: Template  # of the texts that it generates, if in another language
    special_ids: Mapping[str, int]  # {"[PAD]": 0, ...}: those in the files
    model_max_length: int | None = None  # None: no file gives a limit
    has_token_type_ids: bool = False  # whether AutoTokenizer returns token_type_ids
    model_vocab_size: int = 0  # of the model, which may have more embeddings than pieces
    target_backend: Backend | None = None  # of the texts that the model generates, if different
    target_model_vocab_size: int = 0
    is_target: bool = False  # whether it is the second of two different tokenizers
    config_start_id: int | None = None  # decoder_start_token_id of the model's config
    model_config: Mapping[str, object] = field(default_factory=dict)  # the keys that were used

    @cached_property
    def target(self) -> "PretrainedTokenizer":
        """The tokenizer of generated texts: another one for Marian and mBART, else this one."""
        backend = self.target_backend or self.backend
        if backend is self.backend and self.target_template == self.source_template:
            return self
        separate = backend is not self.backend
        return replace(
            self,
            backend=backend,
            source_template=self.target_template,
            target_backend=None,
            is_target=separate,
            model_vocab_size=self.target_model_vocab_size if separate else self.model_vocab_size,
        )

    @property
    def special_pieces(self) -> Mapping[str, int]:
        """The special pieces and their ids, those without a name of their own included."""
        return self.backend.special

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """The special pieces by the names of transformers: {"bos_token": "<s>", ...}."""
        return {SPECIAL_NAMES[name]: self.piece(i) for name, i in self.special_ids.items()}

    @property
    def kind(self) -> str:
        """The algorithm: "wordpiece", "bpe", "unigram", "wordlevel" or "sentencepiece"."""
        return self.backend.kind

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the tokenizer's files and of which of two it is, in hexadecimal."""
        files = self.files.fingerprint
        return hashlib.sha256(f"{files} written".encode()).hexdigest() if self.is_target else files

    @property
    def identity(self) -> str:
        """A checksum of everything that decides which ids a text gets, the class included."""
        config = json.dumps(dict(self.model_config), sort_keys=True)
        return hashlib.sha256(f"{self.fingerprint} {config}".encode()).hexdigest()

    @property
    def clean_up(self) -> bool:
        """Whether decoding removes spaces before punctuation."""
        return self.backend.clean_up

    @property
    def groups_bytes(self) -> bool:
        """Whether consecutive byte pieces are decoded together: all of them or none."""
        return self.kind != "sentencepiece"  # which decodes the valid ones among them

    def save(self, folder: Path) -> None:
        """Save the files it was read from, unchanged, into `folder`."""
        self.files.save(folder)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"PretrainedTokenizer({self.kind}, {len(self)} pieces)"

    @property
    def padding_id(self) -> int:
        """The id of [PAD]; 0 without one."""
        return self.special_ids.get("[PAD]", 0)

    @property
    def decoder_start_id(self) -> int:
        """The id in the model's config; [BOS] without one."""
        return self.bos_id if self.config_start_id is None else self.config_start_id

    @property
    def n_embeddings(self) -> int:
        """The model's vocabulary size, or the number of pieces if that is larger."""
        return max(len(self), self.model_vocab_size)

    @property
    def input_template(self) -> Template:
        """The template of the files."""
        return self.source_template

    @property
    def sequence_template(self) -> Template:
        """The template of the files."""
        return self.source_template

    @property
    def truncation_side(self) -> Side:
        """The side in the files."""
        return self.source_template.side

    @property
    def max_text_bytes(self) -> int:
        """128 KiB: the tokenizers library needs 320 times the bytes of a text."""
        return MAX_PRETRAINED_TEXT_BYTES

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a typed "[MASK]" is ordinary text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        return self.backend.encode(check_texts(texts))

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids of `encode` with the characters that each covers."""
        return self.backend.encode_with_offsets(text)

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts as `AutoTokenizer(texts, add_special_tokens=False)` gives them."""
        return self.backend.encode_hf(check_texts(texts))

    def apply_template(
        self, ids: Sequence[int], pair: Sequence[int] | None = None, max_length: int | None = None
    ) -> TemplateOutput:
        """Ids of one text or two with special tokens, as AutoTokenizer adds them.

        A row has at most `max_length` ids, by default `model_max_length`; of two texts the longer
        one is truncated first.
        """
        return self.source_template.apply_one(ids, pair, self._limit(max_length))

    def encode_with_special_tokens(
        self, text: str, pair: str | None = None, max_length: int | None = None
    ) -> TemplateOutput:
        """A row as `AutoTokenizer(text, pair, truncation=True, max_length=...)` gives it.

        A typed "[MASK]" becomes the special piece, as in AutoTokenizer.
        """
        pairs = None if pair is None else [pair]
        return self.encode_batch_with_special_tokens([text], pairs, max_length)[0]

    def encode_batch_with_special_tokens(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        max_length: int | None = None,
    ) -> list[TemplateOutput]:
        """Many rows, on all cores; an empty second text counts as a text, as in AutoTokenizer."""
        if pairs is not None and len(pairs) != len(texts):
            raise TokenizerError(
                "tokenizer.number_of_pairs",
                "pairs must have as many texts as texts ({n_texts}), got {n_pairs}",
                n_texts=len(texts),
                n_pairs=len(pairs),
            )
        firsts = self.encode_hf(texts)
        seconds = [None] * len(texts) if pairs is None else self.encode_hf(pairs)
        return [
            self.apply_template(ids, pair, max_length)
            for ids, pair in zip(firsts, seconds, strict=True)
        ]

    def sample_batch(self, texts: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Raises InputError: an imported tokenizer has one segmentation of every text."""
        raise TokenizerError(
            "tokenizer.one_segmentation",
            "an imported {kind} tokenizer has one segmentation of every text and cannot sample; "
            "train without subword sampling or with a vocabulary of jumok",
            kind=self.kind,
        )

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text; characters without a piece appear as the unknown piece."""
        return [self.piece(i) for i in self.encode(text)]

    def piece(self, id: int) -> str:  # noqa: A002  the field's word
        """The piece with this id."""
        if id not in self._pieces:
            raise TokenizerError(
                "tokenizer.no_such_id",
                "the vocabulary has no piece with id {id}; ids run to {n_self}",
                id=id,
                n_self=len(self) - 1,
            )
        return self._pieces[id]

    def id(self, piece: str) -> int:
        """The id of this piece; an unknown piece is an InputError, never silently [UNK]."""
        if piece not in self.backend.pieces:
            raise TokenizerError(
                "tokenizer.no_such_piece",
                "the vocabulary has no piece {piece!r}; see `pieces(text)`",
                piece=piece,
            )
        return self.backend.pieces[piece]

    def starts_word(self, id: int) -> bool:  # noqa: A002  as above
        """Whether a piece starts with a space, or in WordPiece lacks ##."""
        if self.kind == "wordpiece":
            return not self.piece(id).startswith(INSIDE_WORD)
        return self.piece(id).startswith(WORD_STARTS)

    def surface(self, id: int) -> str:  # noqa: A002  as above
        """The text of one piece without the space before it."""
        if self.kind == "wordpiece":
            return self.piece(id).removeprefix(INSIDE_WORD)
        return self.decode([id]).strip()

    def word_starts_after(self, text: str) -> bool:
        """Whether the text ends at a word boundary; after an empty text, whether a word starts.

        Byte-level BPE splits before spaces; WordPiece at white space, punctuation and Chinese
        characters; the other kinds at all white space.
        """
        if not text:
            ids = self.encode("a")
            return not ids or self.starts_word(ids[0])
        if self.kind == "bpe":
            return text.endswith(" ")
        last = text[-1]
        return last.isspace() or (self.kind == "wordpiece" and is_word_boundary(last))

    @property
    def has_space_pieces(self) -> bool:
        """No imported tokenizer is treated as one of characters."""
        return False

    def decode(self, ids: Iterable[int], *, keep_special: bool = False) -> str:
        """The text of these ids, special pieces left out unless `keep_special`.

        Ids of the model that have no piece (its output may be larger than the vocabulary) give no
        text.
        """
        return self.decode_batch([ids], keep_special=keep_special)[0]

    def decode_batch(
        self, batch: Iterable[Iterable[int]], *, keep_special: bool = False
    ) -> list[str]:
        """The texts of many rows of ids."""
        return self.backend.decode(
            [check_ids(ids, self.n_embeddings) for ids in batch], keep_special
        )

    @cached_property
    def _pieces(self) -> Mapping[int, str]:
        return {i: piece for piece, i in self.backend.pieces.items()}

    @cached_property
    def _size(self) -> int:
        return 1 + max(self.backend.pieces.values(), default=-1)

    def _limit(self, max_length: int | None) -> int | None:
        if max_length is None:
            return self.model_max_length
        check_range("max_length", max_length, "[1, inf)")
        return max_length

    def special_id(self, name: str) -> int:
        """The id of this special piece."""
        if name not in self.special_ids:
            raise TokenizerError(
                "tokenizer.no_special_piece",
                "the tokenizer has no {name} piece; use one that has it, or add a "
                "{special_names} to its tokenizer_config.json",
                name=name,
                special_names=SPECIAL_NAMES[name],
            )
        return self.special_ids[name]
