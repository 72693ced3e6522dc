"""What a SentencePiece `.model` file says of itself, read without protobuf.

The file is one protobuf message (sentencepiece_model.proto). Five things about it are used here:
a message is a row of fields, each a number, a type and a value; a scalar that comes twice counts
the last time; a message that comes twice is merged; and so a change is a few bytes appended.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from jumok.errors import InputError
from jumok.text.precompiled_charsmap import max_expansion

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of ModelProto
_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


class PieceType(IntEnum):
    """What a piece is for (ModelProto.SentencePiece.Type)."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # an id without text: nothing a user types becomes one
    USER_DEFINED = 4  # always cut out whole when a user types it
    UNUSED = 5
    BYTE = 6


_SPELLED = {PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.UNUSED}  # found in texts


@dataclass(frozen=True)
class ModelFile:
    """The parts of a SentencePiece model that jumok asks for.

    `declared` are the names the model itself gives to its "pad", "bos", "eos" and "unk" pieces,
    `declared_ids` their ids (-1: it has none). `charsmap` is its table of replaced characters, in
    a form of SentencePiece's own; empty where characters stay as they are.
    """

    kind: str
    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[PieceType, ...]
    normalization: str
    byte_fallback: bool
    declared: Mapping[str, str]
    declared_ids: Mapping[str, int]
    charsmap: bytes


@dataclass(frozen=True)
class _Field:
    number: int
    value: int | bytes
    start: int
    end: int


def read_model(data: bytes) -> ModelFile:
    """Read the bytes of a `.model` file; anything else is an `InputError`."""
    try:
        return _read_model(data)
    except (IndexError, ValueError, struct.error) as error:
        raise InputError(
            f"these {len(data)} bytes are no SentencePiece model ({error}); "
            "give a .model file written by SentencePiece or `jumok vocab train`"
        ) from None


def set_types(data: bytes, changes: Mapping[int, PieceType]) -> bytes:
    """The same model with other types for the pieces of these ids."""
    parts: list[bytes] = []
    index = 0
    for field in _fields(data):
        raw = data[field.start : field.end]
        if field.number == _PIECES and isinstance(field.value, bytes):
            if index in changes:
                raw = _message(_PIECES, field.value + bytes([3 << 3 | _VARINT, changes[index]]))
            index += 1
        parts.append(raw)
    return b"".join(parts)


def clear_scores(data: bytes) -> bytes:
    """The same model with 0 for the score of every piece: characters are cut without scores.

    SentencePiece writes log(0) for a character that must have a piece and never came.
    """
    zero = bytes([2 << 3 | _FIXED32, 0, 0, 0, 0])
    return b"".join(
        _message(_PIECES, field.value + zero)
        if field.number == _PIECES and isinstance(field.value, bytes)
        else data[field.start : field.end]
        for field in _fields(data)
    )


def set_normalizer_name(data: bytes, name: str) -> bytes:
    """The same model with this name for its normalisation rule."""
    return data + _message(_NORMALIZER, _message(1, name.encode()))


def _read_model(data: bytes) -> ModelFile:
    pieces, scores, types = [], [], []
    trainer = normalizer = b""
    for field in _fields(data):
        match field:
            case _Field(number=1, value=bytes(value)):
                parts = _last(value)
                pieces.append(_text(parts, 1))
                scores.append(_float(parts, 2))
                types.append(PieceType(_int(parts, 3, PieceType.NORMAL)))
            case _Field(number=2, value=bytes(value)):
                trainer += value
            case _Field(number=3, value=bytes(value)):
                normalizer += value
    _check_pieces(pieces, scores, types)
    spec, rule = _last(trainer), _last(normalizer)
    charsmap = _bytes(rule, 2)
    if charsmap:
        max_expansion(charsmap)
    return ModelFile(
        kind=_kind(_int(spec, 3, 1)),
        pieces=tuple(pieces),
        scores=tuple(scores),
        types=tuple(types),
        normalization=_text(rule, 1),
        byte_fallback=bool(_int(spec, 35, 0)),
        declared={
            "pad": _text(spec, 48, "<pad>"),
            "bos": _text(spec, 46, "<s>"),
            "eos": _text(spec, 47, "</s>"),
            "unk": _text(spec, 45, "<unk>"),
        },
        declared_ids={
            "unk": _signed(spec, 40, 0),
            "bos": _signed(spec, 41, 1),
            "eos": _signed(spec, 42, 2),
            "pad": _signed(spec, 43, -1),
        },
        charsmap=charsmap,
    )


def _kind(number: int) -> str:
    if number not in _KINDS:
        raise ValueError(f"a model of the unknown kind {number}")
    return _KINDS[number]


def _check_pieces(
    pieces: Iterable[str], scores: Iterable[float], types: Iterable[PieceType]
) -> None:
    """Refuse what SentencePiece itself would not, or only by crashing.

    A word and a control piece may have the same name: a corpus can be full of the word "[CLS]".
    """
    seen: set[tuple[str, bool]] = set()
    for place, (piece, score, type_) in enumerate(zip(pieces, scores, types, strict=True)):
        key = (piece, type_ in _SPELLED)
        if not piece or "\0" in piece:
            raise ValueError(f"piece {place} is empty or holds NUL")
        if key in seen:
            raise ValueError(f"piece {piece!r} comes twice")
        if not math.isfinite(score):
            raise ValueError(f"the score of piece {piece!r} is {score}")
        seen.add(key)
    if not seen:
        raise ValueError("no pieces in it")


def _fields(data: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire in (_FIXED32, _FIXED64, _BYTES):
            size, at = _varint(data, at) if wire == _BYTES else (4 if wire == _FIXED32 else 8, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {wire} at byte {start}")
        if at > len(data) or number == 0:
            raise ValueError(f"cut short or broken at byte {start}")
        yield _Field(number, value, start, at)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at + shift // 7]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + shift // 7 + 1
    raise ValueError(f"a number without end at byte {at}")


def _message(number: int, payload: bytes) -> bytes:
    """A field of bytes: tag, length, payload."""
    size, length = bytearray(), len(payload)
    while length >= 0x80:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    size.append(length)
    return bytes([number << 3 | _BYTES]) + bytes(size) + payload


def _last(data: bytes) -> dict[int, int | bytes]:
    """The last value of each field, which is the one that counts."""
    return {field.number: field.value for field in _fields(data)}


def _text(fields: Mapping[int, int | bytes], number: int, default: str = "") -> str:
    return _bytes(fields, number, default.encode()).decode()


def _bytes(fields: Mapping[int, int | bytes], number: int, default: bytes = b"") -> bytes:
    value = fields.get(number, default)
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} is a number, not a text")
    return value


def _int(fields: Mapping[int, int | bytes], number: int, default: int) -> int:
    value = fields.get(number, default)
    if not isinstance(value, int):
        raise ValueError(f"field {number} is bytes, not a number")
    return value


def _signed(fields: Mapping[int, int | bytes], number: int, default: int) -> int:
    """A number that may be negative: protobuf writes -1 as 2^64 - 1."""
    value = _int(fields, number, default)
    return value - (1 << 64) if value >= 1 << 63 else value


def _float(fields: Mapping[int, int | bytes], number: int) -> float:
    value = fields.get(number, bytes(4))
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} is no float")
    return float(struct.unpack("<f", value)[0])
