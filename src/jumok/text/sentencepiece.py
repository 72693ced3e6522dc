"""The vocabulary that SentencePiece stands behind: trained here or by anybody else."""

import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import sentencepiece

from jumok.atomic_io import read_regular, write_atomically
from jumok.errors import InputError
from jumok.text.normalization import check_text, normalizer
from jumok.text.sentencepiece_proto import (
    PieceType,
    read_model,
    with_rule,
    with_types,
    without_scores,
)
from jumok.text.subword_regularization import SubwordSampler
from jumok.text.tokenizer import SPECIAL_PIECES

_PAD, _UNK, _BOS, _EOS, _SEP, _CLS, _MASK = SPECIAL_PIECES

# What others call the same pieces. The model's own declaration comes before these.
_ALIASES = {
    _PAD: ("<pad>",),
    _UNK: (),  # known by its type
    _BOS: ("<s>", "<bos>"),
    _EOS: ("</s>", "<eos>"),
    _SEP: ("<sep>",),
    _CLS: ("<cls>",),
    _MASK: ("<mask>",),
}
_DECLARED = {_PAD: "pad", _BOS: "bos", _EOS: "eos"}

_LARGEST_FILE = 1 << 30
_TRAINING_THREADS = 2  # sums are rounded by the number of threads: a fixed one, for the same bytes
_TEXTS_PER_THREAD = 512
_BREAKS = re.compile(r"[\r\n\t]+")


MAX_PIECES = 10_000_000  # SentencePiece counts seeds, a dozen for each piece, in 31 bits


@dataclass(frozen=True)
class VocabularyConfig:
    """How a vocabulary is trained.

    >>> VocabularyConfig(size=4000, normalization="nfkc")
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: normalization "nfkc"; give "nfc" (composed, nothing else changed) or \
"none"
    """

    # unigram: better cuts of Korean; bpe: quicker; char: every character a piece
    kind: Literal["unigram", "bpe", "char"] = "unigram"
    size: int = 8000  # all pieces together, the special ones among them; for char at most so many
    normalization: Literal["nfc", "none"] = "nfc"  # never NFKC, which breaks ㅋㅋ, ㈜ and …
    character_coverage: float = 0.9995  # the rarest characters beyond this share become [UNK]
    byte_fallback: bool = False  # spell the others as UTF-8 bytes: no [UNK], 256 pieces more
    split_digits: bool = False  # every digit a piece: for numbers nobody has seen yet
    max_piece_length: int = 16  # characters
    required_characters: str = "\n\tㅋㅎㅠㅜ…㈜"  # pieces whatever the coverage says

    def __post_init__(self) -> None:
        if self.kind not in ("unigram", "bpe", "char"):
            raise InputError(f'kind "{self.kind}"; give "unigram", "bpe" or "char"')
        if self.kind == "char" and self.byte_fallback:
            raise InputError(
                'byte_fallback came with kind "char", which spells nothing; leave it out or give '
                'kind "bpe"'
            )
        if self.normalization not in ("nfc", "none"):
            raise InputError(
                f'normalization "{self.normalization}"; give "nfc" (composed, nothing else '
                'changed) or "none"'
            )
        if not 0.98 <= self.character_coverage <= 1:  # SentencePiece's own limits
            raise InputError(
                f"character_coverage {self.character_coverage}; give a share of the text from "
                "0.98 to 1, 0.9995 is usual"
            )
        if not 1 <= self.size <= MAX_PIECES or not 1 <= self.max_piece_length <= 512:
            raise InputError(
                f"size {self.size} and max_piece_length {self.max_piece_length}; give at least 1 "
                f"piece and at most {MAX_PIECES:,}, of 1 to 512 characters"
            )


class SentencePieceTokenizer:
    """A `Tokenizer` made of one SentencePiece model.

    Spaces are kept as they are, several, leading and trailing ones too, in models trained here;
    so are line breaks and tabs. What does not come back from `decode`: characters without a
    piece (dropped like [UNK], unless byte_fallback spells them), ▁ (U+2581, the mark of a space:
    it comes back as a space) and what NFC recomposes. Models from elsewhere follow their own rule.

    >>> vocabulary = SentencePieceTokenizer.train(
    ...     ["한글을 나누고 다시 잇는다"], VocabularyConfig(size=26)
    ... )
    >>> vocabulary.decode([vocabulary.bos_id, *vocabulary.encode("한글을  잇는다")])
    '한글을  잇는다'
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._model = read_model(data)
        self._special = _special_ids(self._model.pieces, self._model.types, self._model.declared)
        # Some models let a typed "[CLS]" become the special id; as a control piece it cannot.
        typed = {
            i: PieceType.CONTROL
            for i in self._special.values()
            if self._model.types[i] is PieceType.USER_DEFINED
        }
        if typed:
            data = with_types(data, typed)
            self._model = read_model(data)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(data)
        except RuntimeError as error:
            raise InputError(
                f"SentencePiece refuses the model ({error}); give a .model file written by "
                "SentencePiece or `jumok vocab train`"
            ) from None
        self._normalize = normalizer(self._model.normalization)
        self._dropped = frozenset(
            i for i, type_ in enumerate(self._model.types) if type_ in _INVISIBLE
        )
        # A control piece comes before a word of the same name: it is what is asked for.
        words_first = sorted(range(len(self)), key=self._dropped.__contains__)
        self._ids = {self._model.pieces[i]: i for i in words_first}

    @classmethod
    def from_bytes(cls, data: bytes) -> "SentencePieceTokenizer":
        """The vocabulary in the bytes of a `.model` file."""
        return cls(data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SentencePieceTokenizer":
        """The vocabulary in a `.model` file; `InputError` if it is none, `StorageError` unread."""
        data = read_regular(Path(path), _LARGEST_FILE)
        try:
            return cls(data)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def train(
        cls, texts: Iterable[str], config: VocabularyConfig | None = None
    ) -> "SentencePieceTokenizer":
        """Learn a vocabulary from texts; the same texts and config give the same bytes.

        Nothing is written to disk. Lines of a text are learned from apart; empty ones are left out.
        """
        config = config or VocabularyConfig()
        lines = _Lines(texts, config)
        model = io.BytesIO()
        try:
            _train(lines, model, config)
        except (RuntimeError, OSError) as error:
            if lines.failure:  # SentencePiece wraps what the texts themselves raised
                raise lines.failure from None
            if lines.count == 0:
                raise InputError("no text to learn a vocabulary from; give some lines") from None
            raise InputError(_advice(str(error), config)) from None
        data = model.getvalue()
        if config.kind == "char":
            data = without_scores(data)
        return cls(with_rule(data, config.normalization))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the `.model` file, whole or not at all."""
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
        """The fingerprint: the model file decides everything."""
        return self.fingerprint

    @property
    def kind(self) -> str:
        """How it cuts: "unigram", "bpe" or "char"; models from elsewhere may be "word"."""
        return self._model.kind

    @property
    def normalization(self) -> str:
        """The rule's name: "nfc" or "none" if trained here, else the model's own ("nmt_nfkc")."""
        return self._model.normalization

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a piece are spelled as bytes."""
        return self._model.byte_fallback

    @property
    def special_ids(self) -> Mapping[str, int]:
        """The special pieces this vocabulary has, by their names here: {"[PAD]": 0, ...}."""
        return dict(self._special)

    def __len__(self) -> int:
        return len(self._model.pieces)

    def __repr__(self) -> str:
        return (
            f"SentencePieceTokenizer({self.kind}, {len(self)} pieces, "
            f"{self.normalization or 'no'} normalization)"
        )

    @property
    def pad_id(self) -> int:
        """The id of [PAD]."""
        return self._special_id(_PAD)

    @property
    def unk_id(self) -> int:
        """The id of [UNK]."""
        return self._special_id(_UNK)

    @property
    def bos_id(self) -> int:
        """The id of [BOS]."""
        return self._special_id(_BOS)

    @property
    def eos_id(self) -> int:
        """The id of [EOS]."""
        return self._special_id(_EOS)

    @property
    def sep_id(self) -> int:
        """The id of [SEP]."""
        return self._special_id(_SEP)

    @property
    def cls_id(self) -> int:
        """The id of [CLS]."""
        return self._special_id(_CLS)

    @property
    def mask_id(self) -> int:
        """The id of [MASK]."""
        return self._special_id(_MASK)

    def normalize(self, text: str) -> str:
        """The text as it goes to SentencePiece: checked, and composed by the vocabulary's rule."""
        return self._normalize(check_text(text))

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a typed "[CLS]" is five ordinary characters."""
        ids: list[int] = self._processor.encode(self.normalize(text), out_type=int)
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        prepared = self._prepare(texts)
        rows: list[list[int]] = self._processor.encode(
            prepared, out_type=int, num_threads=_threads(len(prepared))
        )
        return rows

    def sample_batch(self, texts: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """The ids of many texts cut at random (`sampling.py` tells how): for training only.

        unigram: alpha 0 takes any cut alike, a large one the best; bpe: alpha is the share of
        merges forgotten. 0.1 is usual for both. The same (texts, alpha, seed) gives the same ids
        in any process, whatever was sampled before.
        """
        return self._sampler.sample(self._processor.normalize(self._prepare(texts)), alpha, seed)

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text; what has none appears as itself.

        >>> vocabulary = SentencePieceTokenizer.train(["가 나 가"], VocabularyConfig(size=18))
        >>> vocabulary.pieces("가 다")
        ['▁', '가', '▁', '다']
        """
        pieces: list[str] = self._processor.encode(self.normalize(text), out_type=str)
        return pieces

    def piece(self, id: int) -> str:  # noqa: A002  the field's word
        """The piece with this id."""
        self._check([id])
        return self._model.pieces[id]

    def id(self, piece: str) -> int:
        """The id of this piece; an unknown piece is an `InputError`, never silently [UNK]."""
        if piece not in self._ids:
            raise InputError(f"the vocabulary has no piece {piece!r}; ask `pieces(text)` for some")
        return self._ids[piece]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; special pieces, [UNK] among them, are left out."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The texts of many rows of ids."""
        rows = [self._check([int(i) for i in ids]) for ids in batch]
        visible = [[i for i in row if i not in self._dropped] for row in rows]
        return [self._processor.decode(row) if row else "" for row in visible]

    @cached_property
    def _sampler(self) -> SubwordSampler:
        return SubwordSampler(self._model)

    def _special_id(self, name: str) -> int:
        if name not in self._special:
            raise InputError(
                f"the vocabulary has no {name} piece; use one that has it "
                "(`jumok vocab train` makes all seven)"
            )
        return self._special[name]

    def _prepare(self, texts: Sequence[str]) -> list[str]:
        if isinstance(texts, str):
            raise InputError("one text came where a list of texts was wanted; put it in a list")
        return [self.normalize(text) for text in texts]

    def _check(self, ids: list[int]) -> list[int]:
        if ids and not (min(ids) >= 0 and max(ids) < len(self)):
            wrong = next(i for i in ids if not 0 <= i < len(self))
            raise InputError(
                f"id {wrong} is outside the vocabulary of {len(self)} pieces (0 to "
                f"{len(self) - 1}); was it made by another vocabulary?"
            )
        return ids


_INVISIBLE = frozenset({PieceType.CONTROL, PieceType.UNKNOWN})


class _Lines:
    """The lines of many texts, normalised; how many there were and what broke them off."""

    def __init__(self, texts: Iterable[str], config: VocabularyConfig) -> None:
        self._texts = texts
        self._normalize = normalizer(config.normalization)
        self.count = 0
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for text in self._texts:
                for line in _BREAKS.split(self._normalize(check_text(text))):
                    if line.strip():
                        self.count += 1
                        yield line
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
        split_digits=config.split_digits,
        max_sentencepiece_length=config.max_piece_length,
        required_chars=config.required_characters,
        normalization_rule_name="identity",  # the rule of the config was applied before
        remove_extra_whitespaces=False,  # so that decode gives them back
        add_dummy_prefix=config.kind != "char",  # words look alike in any place; characters do
        control_symbols=[_SEP, _CLS, _MASK],
        pad_piece=_PAD,
        unk_piece=_UNK,
        bos_piece=_BOS,
        eos_piece=_EOS,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        # Twelve candidates for each piece and quicker pruning: less than half the time of
        # SentencePiece's own million candidates, and no more tokens.
        seed_sentencepiece_size=max(100_000, 12 * config.size),
        shrinking_factor=0.6,
        max_sentence_length=1 << 30,  # bytes; longer lines would be left out unsaid
        num_threads=_TRAINING_THREADS,
        minloglevel=2,
    )


def _advice(message: str, config: VocabularyConfig) -> str:
    """SentencePiece's complaint in one sentence with what to do."""
    most = re.search(r"value <= (\d+)", message)
    if most:
        return (
            f"size {config.size} is more than these texts give; set size to {most[1]} or less, "
            "or give more text"
        )
    least = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if least:
        return (
            f"size {config.size} does not hold the special pieces and every character; set size "
            f"to {least[1]} or more, or lower character_coverage"
        )
    return f"SentencePiece cannot train this vocabulary ({message}); change the config"


def _special_ids(
    pieces: Sequence[str], types: Sequence[PieceType], declared: Mapping[str, str]
) -> dict[str, int]:
    """Which id is which special piece, by our name, the model's declaration or a usual name."""
    able = {PieceType.CONTROL, PieceType.USER_DEFINED}
    ids = {piece: i for i, piece in enumerate(pieces) if types[i] in able}
    found: dict[str, int] = {}
    for name in SPECIAL_PIECES:
        declaration = [declared[_DECLARED[name]]] if name in _DECLARED else []
        known = [ids[each] for each in (name, *declaration, *_ALIASES[name]) if each in ids]
        if name == _UNK:
            known = [i for i, type_ in enumerate(types) if type_ is PieceType.UNKNOWN]
        if known:
            found[name] = known[0]
    return found


def _threads(n_texts: int) -> int:
    return max(1, min(os.cpu_count() or 1, n_texts // _TEXTS_PER_THREAD))
