"""Tokenizers made of a SentencePiece model, trained by jumok or elsewhere."""

import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import sentencepiece

from jumok.atomic_io import read_regular, write_atomically
from jumok.config_io import check_choices, check_range
from jumok.errors import Message, TokenizerError, located
from jumok.text.limits import MAX_TEXT_BYTES
from jumok.text.morphemes import RULE, kiwi_version, split_morphemes
from jumok.text.normalization import check_text, normalizer
from jumok.text.offsets import SPACE, WORD_STARTS, offsets
from jumok.text.sentencepiece_proto import (
    ModelFile,
    PieceType,
    clear_scores,
    read_model,
    set_normalizer_name,
    set_types,
)
from jumok.text.template import Side, SpecialToken, Template, TemplatePiece, TextSlot
from jumok.text.tokenizer import SPECIAL_PIECES, Encoding, SpecialIds, check_ids, check_texts
from jumok.threads import compute_threads

if TYPE_CHECKING:
    from jumok.text.subword_regularization import SubwordSampler

_PAD, _UNK, _BOS, _EOS, _SEP, _CLS, _MASK = SPECIAL_PIECES

# Names of the same pieces in other models; a model's own declaration has precedence.
_ALIASES = {
    _PAD: ("<pad>",),
    _UNK: (),  # found by its type
    _BOS: ("<s>", "<bos>"),
    _EOS: ("</s>", "<eos>"),
    _SEP: ("<sep>",),
    _CLS: ("<cls>",),
    _MASK: ("<mask>",),
}
_DECLARED = {_PAD: "pad", _BOS: "bos", _EOS: "eos"}

_MAX_FILE_BYTES = 1 << 30
_TRAINING_THREADS = 2  # float sums depend on the number of threads: fixed, for the same bytes
_TEXTS_PER_THREAD = 512
_TEXTS_OF_A_THREAD = 32  # a list of fewer is slower than one text after the other
_TEXTS_PER_BATCH = 4_096
_LINE_BREAKS = re.compile(r"[\r\n\t]+")

DEFAULT_SIZE = 8000  # of a vocabulary; fewer where the texts have fewer pieces
MAX_PIECES = 10_000_000  # SentencePiece counts seeds, a dozen for each piece, in 31 bits


@dataclass(frozen=True)
class VocabularyConfig:
    """How a vocabulary is trained.

    >>> VocabularyConfig(size=4000, normalization="nfkc")
    Traceback (most recent call last):
        ...
    jumok.errors.ConfigError: normalization must be "nfc" or "none", got "nfkc"; did you mean nfc?
    """

    # unigram: better segmentation of Korean; bpe: faster; char: every character is a piece
    kind: Literal["unigram", "bpe", "char"] = "unigram"
    # all pieces, special ones included; by default, and for single characters, the maximum
    size: int = DEFAULT_SIZE
    normalization: Literal["nfc", "none"] = "nfc"  # never NFKC, which breaks ㅋㅋ, ㈜ and …
    character_coverage: float = 0.9995  # characters rarer than this fraction become [UNK]
    byte_fallback: bool = False  # spell the others as UTF-8 bytes: no [UNK], 256 more pieces
    split_digits: bool = False  # every digit is a piece: for numbers not seen in training
    max_piece_length: int = 16  # characters
    required_characters: str = "\n\tㅋㅎㅠㅜ…㈜"  # always pieces, whatever their frequency
    pretokenizer: Literal["none", "kiwi"] = "none"  # kiwi: spaces between morphemes, not undone

    def __post_init__(self) -> None:
        check_choices(self)
        if self.kind == "char" and self.byte_fallback:
            raise TokenizerError(
                "text.byte_fallback_of_characters",
                'byte_fallback must be false with kind "char", which has no byte pieces; set it '
                'to false or kind to "bpe"',
            )
        if self.pretokenizer == "kiwi" and (self.kind == "char" or self.normalization != "nfc"):
            raise TokenizerError(
                "text.kiwi_with_other_kind",
                'pretokenizer "kiwi" needs kind "unigram" or "bpe" and normalization "nfc", got '
                '"{kind}" and "{normalization}"; set it to "none" otherwise',
                kind=self.kind,
                normalization=self.normalization,
            )
        # SentencePiece's own limits
        check_range("character_coverage", self.character_coverage, "[0.98, 1]", "; 0.9995 is usual")
        check_range("size", self.size, f"[1, {MAX_PIECES}]")
        check_range("max_piece_length", self.max_piece_length, "[1, 512]")

    @property
    def rule(self) -> str:
        """The normalization rule in the model file: "nfc", "none" or "nfc+kiwi"."""
        return RULE if self.pretokenizer == "kiwi" else self.normalization


class SentencePieceTokenizer(SpecialIds):
    """A `Tokenizer` made of one SentencePiece model.

    Models trained by jumok preserve spaces (repeated, leading and trailing ones too), line breaks
    and tabs. `decode` does not restore characters without a piece (dropped like [UNK], unless
    byte_fallback spells them), ▁ (U+2581, the mark of a space, becomes a space) and what NFC
    composes. Models from elsewhere follow their own normalization.

    >>> vocabulary = SentencePieceTokenizer.train(
    ...     ["한글을 나누고 다시 잇는다"], VocabularyConfig(size=26)
    ... )
    >>> vocabulary.decode([vocabulary.bos_id, *vocabulary.encode("한글을  잇는다")])
    '한글을  잇는다'

    Raises InputError for a file that SentencePiece cannot read, and for ids that it has not.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._model = read_model(data)
        self._special = _special_ids(self._model.pieces, self._model.types, self._model.declared)
        # In some models a typed "[CLS]" becomes the special id; a control piece cannot be typed.
        typed = {
            i: PieceType.CONTROL
            for i in self._special.values()
            if self._model.types[i] is PieceType.USER_DEFINED
        }
        if typed:
            data = set_types(data, typed)
            self._model = read_model(data)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(data)
        except RuntimeError as error:
            raise TokenizerError(
                "text.sentencepiece_cannot_load",
                "SentencePiece cannot load the model ({error}); give a .model file written by "
                "SentencePiece or `jumok vocab train`",
                error=error,
            ) from None
        self._normalize = normalizer(self._model.normalization)
        self._dropped = frozenset(
            i for i, type_ in enumerate(self._model.types) if type_ in _INVISIBLE
        )
        # `id` returns a control piece rather than a word of the same name.
        words_first = sorted(range(len(self)), key=self._dropped.__contains__)
        self._ids = {self._model.pieces[i]: i for i in words_first}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SentencePieceTokenizer":
        """The tokenizer in a `.model` file; InputError if invalid, StorageError if unreadable."""
        data = read_regular(Path(path), _MAX_FILE_BYTES)
        with located(path):
            return cls(data)

    @classmethod
    def train(
        cls, texts: Iterable[str], config: VocabularyConfig | None = None, key: str = "size"
    ) -> "SentencePieceTokenizer":
        """Train a vocabulary on texts; the same texts and config give the same bytes.

        Nothing is written to disk. Each line of a text is a separate example; empty lines are
        skipped. Raises InputError for texts that have fewer pieces than `config.size`, which the
        message calls `key`; with the default size the vocabulary is smaller.
        """
        config = config or VocabularyConfig()
        lines = _Lines(texts, config)
        model = io.BytesIO()
        try:
            _train(lines, model, config)
        except (RuntimeError, OSError) as error:
            if lines.failure:  # SentencePiece wraps exceptions of the iterator
                raise lines.failure from None
            if lines.count == 0:
                raise TokenizerError(
                    "text.no_training_text", "no text to train a vocabulary on; give some lines"
                ) from None
            raise TokenizerError(_explain(str(error), config, key)) from None
        data = model.getvalue()
        if config.kind == "char":
            data = clear_scores(data)
        return cls(set_normalizer_name(data, config.rule))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the `.model` file atomically."""
        write_atomically(Path(path), self._data)

    def to_bytes(self) -> bytes:
        """The bytes of the `.model` file."""
        return self._data

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the model file, in hexadecimal."""
        return hashlib.sha256(self._data).hexdigest()

    @property
    def identity(self) -> str:
        """The fingerprint of the model file, and the version of Kiwi if it splits the texts."""
        return f"{self.fingerprint} {kiwi_version()}" if self.pretokenizes else self.fingerprint

    @property
    def model_file(self) -> ModelFile:
        """The parts of the model file, with typed special pieces as control pieces."""
        return self._model

    @property
    def kind(self) -> str:
        """The algorithm: "unigram", "bpe" or "char"; models from elsewhere may be "word"."""
        return self._model.kind

    @property
    def normalization(self) -> str:
        """The rule: "nfc", "none" or "nfc+kiwi" if trained by jumok, else the model's own."""
        return self._model.normalization

    @property
    def pretokenizes(self) -> bool:
        """Whether Kiwi puts spaces between morphemes first; decoding does not undo them."""
        return self._model.normalization == RULE

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a piece are encoded as bytes."""
        return self._model.byte_fallback

    @property
    def special_ids(self) -> Mapping[str, int]:
        """The special pieces of this vocabulary by jumok's names, {"[PAD]": 0, ...}."""
        return dict(self._special)

    def __len__(self) -> int:
        return len(self._model.pieces)

    def __repr__(self) -> str:
        return (
            f"SentencePieceTokenizer({self.kind}, {len(self)} pieces, "
            f"{self.normalization or 'no'} normalization)"
        )

    @property
    def padding_id(self) -> int:
        """The id of [PAD]; 0 without one."""
        return self._special.get(_PAD, 0)

    @property
    def decoder_start_id(self) -> int:
        """The id of [BOS]."""
        return self.bos_id

    @property
    def n_embeddings(self) -> int:
        """The number of pieces."""
        return len(self)

    @property
    def input_template(self) -> Template:
        """[CLS] A, or [CLS] A [SEP] B [SEP]."""
        cls = SpecialToken((self.cls_id,))
        pair: tuple[TemplatePiece, ...] = ()
        if _SEP in self._special:
            sep = SpecialToken((self.sep_id,))
            pair = (cls, TextSlot(0), sep, TextSlot(1, 1), SpecialToken((self.sep_id,), 1))
        return Template((cls, TextSlot(0)), pair, truncation="first_keeps_more")

    @property
    def sequence_template(self) -> Template:
        """A [EOS]."""
        return Template((TextSlot(0), SpecialToken((self.eos_id,))), ())

    @property
    def truncation_side(self) -> Side:
        """Texts lose their ends."""
        return "right"

    @property
    def model_max_length(self) -> None:
        """A SentencePiece model has no limit."""
        return None

    @property
    def has_token_type_ids(self) -> bool:
        """Models of jumok read token types."""
        return True

    @property
    def max_text_bytes(self) -> int:
        """1 MiB."""
        return MAX_TEXT_BYTES

    @property
    def clean_up(self) -> bool:
        """SentencePiece preserves spaces."""
        return False

    @property
    def groups_bytes(self) -> bool:
        """SentencePiece decodes the valid ones among consecutive byte pieces."""
        return False

    def normalize(self, text: str) -> str:
        """The text that SentencePiece reads: checked, and composed by the vocabulary's rule."""
        if not isinstance(text, str):  # a list of texts, as other tokenizers accept it
            raise TokenizerError(
                "tokenizer.not_a_text",
                "encode and pieces take one text, got {kind}; use encode_batch for several",
                kind=type(text).__name__,
            )
        return self._prepare([text])[0]

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a typed "[CLS]" is five ordinary characters."""
        ids: list[int] = self._processor.encode(self.normalize(text), out_type=int)
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        prepared, threads = self._prepare(texts), _threads(len(texts))
        if len(texts) < _TEXTS_OF_A_THREAD:  # SentencePiece starts one for any list
            return [self._processor.encode(text, out_type=int) for text in prepared]
        rows: list[list[int]] = self._processor.encode(prepared, out_type=int, num_threads=threads)
        return rows

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids with their characters; InputError if the vocabulary rewrites the text."""
        return Encoding(self.encode(text), offsets(text, self.pieces(text)))

    def sample_batch(self, texts: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """The ids of randomly segmented texts, for training (see `subword_regularization`).

        unigram: with alpha 0 all segmentations are equally likely, with a large alpha the best one
        is; bpe: alpha is the dropout rate of merges. 0.1 is usual for both. The same (texts,
        alpha, seed) gives the same ids in every process.
        """
        return self._sampler.sample(self._processor.normalize(self._prepare(texts)), alpha, seed)

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text; characters without a piece appear as themselves.

        >>> vocabulary = SentencePieceTokenizer.train(["가 나 가"], VocabularyConfig(size=18))
        >>> vocabulary.pieces("가 다")
        ['▁', '가', '▁', '다']
        """
        pieces: list[str] = self._processor.encode(self.normalize(text), out_type=str)
        return pieces

    def piece(self, id: int) -> str:  # noqa: A002  the field's word
        """The piece with this id."""
        pieces = self._model.pieces
        if not 0 <= id < len(pieces):
            check_ids([id], len(pieces))
        return pieces[id]

    def id(self, piece: str) -> int:
        """The id of this piece; an unknown piece is an `InputError`, never silently [UNK]."""
        if piece not in self._ids:
            raise TokenizerError(
                "tokenizer.no_such_piece",
                "the vocabulary has no piece {piece!r}; see `pieces(text)`",
                piece=piece,
            )
        return self._ids[piece]

    def starts_word(self, id: int) -> bool:  # noqa: A002  as above
        """Whether a piece starts with a space."""
        return self.piece(id).startswith(WORD_STARTS)

    def surface(self, id: int) -> str:  # noqa: A002  as above
        """The piece without the space before it."""
        return self.piece(id).removeprefix(SPACE)

    def word_starts_after(self, text: str) -> bool:
        """Whether the text ends with a space; after an empty text, whether one is inserted."""
        if text:
            return text.endswith(" ")
        ids = self.encode("a")
        return not ids or self.starts_word(ids[0])

    @property
    def has_space_pieces(self) -> bool:
        """Whether it is a vocabulary of characters."""
        return self.kind == "char"

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; special pieces, [UNK] among them, are left out."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The texts of many rows of ids."""
        rows = [check_ids(ids, len(self)) for ids in batch]
        visible = [[i for i in row if i not in self._dropped] for row in rows]
        return [self._processor.decode(row) if row else "" for row in visible]

    @cached_property
    def _sampler(self) -> "SubwordSampler":
        from jumok.text.subword_regularization import SubwordSampler

        return SubwordSampler(self._model)

    def special_id(self, name: str) -> int:
        """The id of this special piece."""
        if name not in self._special:
            raise TokenizerError(
                "text.no_special_piece",
                "the vocabulary has no {name} piece; use one that has it (`jumok vocab train` "
                "adds all seven)",
                name=name,
            )
        return self._special[name]

    def _prepare(self, texts: Sequence[str]) -> list[str]:
        composed = [self._normalize(check_text(text)) for text in check_texts(texts)]
        return split_morphemes(composed) if self.pretokenizes else composed


_INVISIBLE = frozenset({PieceType.CONTROL, PieceType.UNKNOWN})


class _Lines:
    """The normalized lines of many texts, their count and the exception that ended them."""

    def __init__(self, texts: Iterable[str], config: VocabularyConfig) -> None:
        self._texts = texts
        self._normalize = normalizer(config.normalization)
        self._pretokenizes = config.pretokenizer == "kiwi"
        self.count = 0
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            source = iter(self._texts)
            while texts := list(islice(source, _TEXTS_PER_BATCH)):
                lines = [
                    line
                    for text in texts
                    for line in _LINE_BREAKS.split(self._normalize(check_text(text)))
                    if line.strip()
                ]
                self.count += len(lines)
                yield from split_morphemes(lines) if self._pretokenizes else lines
        except BaseException as error:
            self.failure = error
            raise


def _train(lines: Iterable[str], model: io.BytesIO, config: VocabularyConfig) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=config.kind,
        vocab_size=config.size,
        character_coverage=config.character_coverage,
        byte_fallback=config.byte_fallback,
        # Pieces of one character are those that there are: size is a limit then, as for "char".
        hard_vocab_limit=config.max_piece_length > 1 and config.size != DEFAULT_SIZE,
        split_digits=config.split_digits,
        max_sentencepiece_length=config.max_piece_length,
        required_chars=config.required_characters,
        normalization_rule_name="identity",  # the rule of the config is applied before
        remove_extra_whitespaces=False,  # so that decode restores them
        add_dummy_prefix=config.kind != "char",  # a word gets the same piece at any position
        control_symbols=[_SEP, _CLS, _MASK],
        pad_piece=_PAD,
        unk_piece=_UNK,
        bos_piece=_BOS,
        eos_piece=_EOS,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        # Twelve candidates for each piece and faster pruning: less than half the time of
        # SentencePiece's default of a million candidates, and as few tokens.
        seed_sentencepiece_size=max(100_000, 12 * config.size),
        shrinking_factor=0.6,
        max_sentence_length=1 << 30,  # bytes; longer lines would be skipped silently
        num_threads=_TRAINING_THREADS,
        minloglevel=2,
    )


def _explain(message: str, config: VocabularyConfig, key: str) -> Message:
    """An error message of SentencePiece in one sentence with what to try."""
    most = re.search(r"value <= (\d+)", message)
    if most:
        return Message(
            "text.vocabulary_too_large",
            "{key} must be at most {most} for these texts, got {size}; set it to {most} or less, "
            "or give more text",
            key=key,
            most=most[1],
            size=config.size,
        )
    least = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if least:
        return Message(
            "text.vocabulary_too_small",
            "{key} must be at least {least}, the special pieces and every character, got {size}; "
            "set it to {least} or more, or lower character_coverage",
            key=key,
            least=least[1],
            size=config.size,
        )
    return Message(
        "text.vocabulary_not_trained",
        "SentencePiece cannot train this vocabulary ({message}); change the config",
        message=message,
    )


def _special_ids(
    pieces: Sequence[str], types: Sequence[PieceType], declared: Mapping[str, str]
) -> dict[str, int]:
    """The ids of special pieces, by jumok's name, the model's declaration or an alias."""
    special = (PieceType.CONTROL, PieceType.USER_DEFINED)  # members: hashing 32,000 takes 6 ms
    ids = {piece: i for i, piece in enumerate(pieces) if types[i] in special}
    found: dict[str, int] = {}
    for name in SPECIAL_PIECES:
        declaration = [declared[_DECLARED[name]]] if name in _DECLARED else []
        known = [ids[alias] for alias in (name, *declaration, *_ALIASES[name]) if alias in ids]
        if name == _UNK:
            known = [i for i, type_ in enumerate(types) if type_ is PieceType.UNKNOWN]
        if known:
            found[name] = known[0]
    return found


def _threads(n_texts: int) -> int:
    wanted = n_texts // _TEXTS_PER_THREAD
    return min(compute_threads(), wanted) if wanted > 1 else 1
