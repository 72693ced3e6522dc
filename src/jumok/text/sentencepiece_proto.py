"""The content of a SentencePiece `.model` file, which is one protobuf message.

The protobuf library parses it with the part of sentencepiece_model.proto that jumok uses; all other
fields are preserved as unknown fields. The module that sentencepiece ships for this is not used: it
requires the protobuf release that generated it, and many packages require an older one.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from jumok.errors import TokenizerError
from jumok.text.limits import check_pieces
from jumok.text.precompiled_charsmap import max_expansion

_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}  # TrainerSpec.ModelType
_SPECIAL = ("pad", "bos", "eos", "unk")

_PACKAGE = "sentencepiece"
# field: number, type, default. Strings are read as bytes, so that invalid UTF-8 is an error.
_MESSAGES = {
    "SentencePiece": {
        "piece": (1, "bytes", ""),
        "score": (2, "float", "0"),
        "type": (3, "int32", "1"),
    },
    "TrainerSpec": {
        "model_type": (3, "int32", "1"),
        "vocab_size": (4, "int32", "8000"),
        "byte_fallback": (35, "bool", "false"),
        "unk_id": (40, "int32", "0"),
        "bos_id": (41, "int32", "1"),
        "eos_id": (42, "int32", "2"),
        "pad_id": (43, "int32", "-1"),
        "unk_piece": (45, "bytes", "<unk>"),
        "bos_piece": (46, "bytes", "<s>"),
        "eos_piece": (47, "bytes", "</s>"),
        "pad_piece": (48, "bytes", "<pad>"),
    },
    "NormalizerSpec": {
        "name": (1, "bytes", ""),
        "precompiled_charsmap": (2, "bytes", ""),
        "add_dummy_prefix": (3, "bool", "true"),
        "remove_extra_whitespaces": (4, "bool", "true"),
        "escape_whitespaces": (5, "bool", "true"),
    },
    "ModelProto": {
        "pieces": (1, "repeated SentencePiece", ""),
        "trainer_spec": (2, "TrainerSpec", ""),
        "normalizer_spec": (3, "NormalizerSpec", ""),
        "denormalizer_spec": (5, "NormalizerSpec", ""),
    },
}


class PieceType(IntEnum):
    """The type of a piece (ModelProto.SentencePiece.Type)."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # an id without text: it cannot be typed
    USER_DEFINED = 4  # never split when it is typed
    UNUSED = 5
    BYTE = 6


_TYPES = {int(each): each for each in PieceType}  # an enum's own lookup takes ten times as long
_TEXT_TYPES = {PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.UNUSED}  # found in texts


@dataclass(frozen=True)
class ModelFile:
    """The parts of a SentencePiece model that jumok uses.

    `declared` are the model's own names of its "pad", "bos", "eos" and "unk" pieces,
    `declared_ids` their ids (-1: none). `charsmap` is its precompiled table of character
    replacements, empty if there are none. `dummy_prefix` adds a
    space before a text, `remove_extra_spaces` removes those at its ends and all but one in a
    row, and `escape_spaces` writes spaces as "▁".
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
    dummy_prefix: bool
    remove_extra_spaces: bool
    escape_spaces: bool


def read_model(data: bytes) -> ModelFile:
    """Read the bytes of a `.model` file; InputError if they are not a SentencePiece model."""
    try:
        return _read(data)
    except (DecodeError, ValueError, KeyError) as error:  # KeyError: of an unknown type
        raise TokenizerError(
            "text.not_a_sentencepiece_model",
            "these {n_data} bytes are not a SentencePiece model ({error}); give a .model file "
            "written by SentencePiece or `jumok vocab train`",
            n_data=len(data),
            error=error,
        ) from None


def set_types(data: bytes, types: Mapping[int, PieceType]) -> bytes:
    """A copy of the model file in `data` with other types for the pieces with these ids."""
    model = _parse(data)
    for i, type_ in types.items():
        model.pieces[i].type = type_
    return bytes(model.SerializeToString())


def add_pieces(data: bytes, pieces: Iterable[tuple[str, float]], type_: PieceType) -> bytes:
    """A copy of the model file in `data` with further pieces of one type, each with its score."""
    model = _parse(data)
    for piece, score in pieces:
        model.pieces.add(piece=piece.encode(), score=score, type=type_)
    model.trainer_spec.vocab_size = len(model.pieces)
    return bytes(model.SerializeToString())


def bpe_model(
    pieces: Sequence[str],
    scores: Sequence[float],
    types: Sequence[PieceType],
    special: Mapping[str, tuple[int, str]],
    *,
    dummy_prefix: bool,
    remove_extra_spaces: bool,
) -> bytes:
    """A BPE model with these pieces and no table of characters.

    `special` are the ids and pieces of "pad", "bos", "eos" and "unk"; without one there is none.
    `read_model` checks the pieces.
    """
    model = _model_class()()
    for piece, score, type_ in zip(pieces, scores, types, strict=True):
        model.pieces.add(piece=piece.encode(), score=score, type=type_)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type, trainer.vocab_size = 2, len(pieces)
    trainer.byte_fallback = PieceType.BYTE in types
    for name in _SPECIAL:
        i, piece = special.get(name, (-1, ""))
        setattr(trainer, f"{name}_id", i)
        if i >= 0:
            setattr(trainer, f"{name}_piece", piece.encode())
    normalizer.name = b"identity"
    normalizer.add_dummy_prefix = dummy_prefix
    normalizer.remove_extra_whitespaces = remove_extra_spaces
    return bytes(model.SerializeToString())


def clear_scores(data: bytes) -> bytes:
    """A copy of the model file in `data` with score 0 for every piece.

    Models of characters do not use scores. SentencePiece writes log(0) for a required character
    that is not in the texts.
    """
    model = _parse(data)
    for piece in model.pieces:
        piece.score = 0.0
    return bytes(model.SerializeToString())


def set_normalizer_name(data: bytes, name: str) -> bytes:
    """A copy of the model file in `data` with another name of its normalization rule."""
    model = _model_class()()
    model.normalizer_spec.name = name.encode()
    return data + bytes(model.SerializeToString())  # concatenated messages are merged


@cache
def _model_class() -> Any:
    """The class of ModelProto with the fields of `_MESSAGES`."""
    file = FileDescriptorProto(name="jumok/sentencepiece_model.proto", package=_PACKAGE)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, default) in fields.items():
            *repeated, kind = kind.split(" ")
            label = "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL"
            if kind in _MESSAGES:
                options = {"type_name": f".{_PACKAGE}.{kind}", "type": "TYPE_MESSAGE"}
            else:
                options = {"default_value": default, "type": f"TYPE_{kind.upper()}"}
            message.field.add(name=field, number=number, label=label, **options)
    pool = DescriptorPool()  # its own: other packages register the original file in the default one
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ModelProto"))


def _parse(data: bytes) -> Any:
    model = _model_class()()
    model.ParseFromString(data)
    return model


def _read(data: bytes) -> ModelFile:
    model = _parse(data)
    pieces = tuple([piece.piece.decode() for piece in model.pieces])
    scores = tuple([piece.score for piece in model.pieces])
    types = tuple([_TYPES[piece.type] for piece in model.pieces])
    _check_pieces(pieces, scores, types)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    if trainer.model_type not in _KINDS:
        raise ValueError(f"unknown model type {trainer.model_type}")
    for spec in (normalizer, model.denormalizer_spec):
        if spec.precompiled_charsmap:
            max_expansion(spec.precompiled_charsmap)
    return ModelFile(
        kind=_KINDS[trainer.model_type],
        pieces=pieces,
        scores=scores,
        types=types,
        normalization=normalizer.name.decode(),
        byte_fallback=trainer.byte_fallback,
        declared={name: getattr(trainer, f"{name}_piece").decode() for name in _SPECIAL},
        declared_ids={name: getattr(trainer, f"{name}_id") for name in _SPECIAL},
        charsmap=normalizer.precompiled_charsmap,
        dummy_prefix=normalizer.add_dummy_prefix,
        remove_extra_spaces=normalizer.remove_extra_whitespaces,
        escape_spaces=normalizer.escape_whitespaces,
    )


def _check_pieces(
    pieces: Sequence[str], scores: Sequence[float], types: Sequence[PieceType]
) -> None:
    """Reject models that SentencePiece accepts or crashes on.

    A word and a control piece may have the same name: the word "[CLS]" may be frequent in a corpus.
    """
    whole = len(set(pieces)) == len(pieces) and all(pieces) and "\0" not in "".join(pieces)
    if not whole or not all(map(math.isfinite, scores)):
        keys = list(zip(pieces, map(_TEXT_TYPES.__contains__, types), strict=True))
        _raise_first_fault(keys, scores)
    if not pieces:
        raise ValueError("it has no pieces")
    check_pieces(pieces)


def _raise_first_fault(keys: Sequence[tuple[str, bool]], scores: Sequence[float]) -> None:
    """Raise ValueError for the first piece that is unusable."""
    seen: set[tuple[str, bool]] = set()
    for i, (key, score) in enumerate(zip(keys, scores, strict=True)):
        piece = key[0]
        if not piece or "\0" in piece:
            raise ValueError(f"piece {i} is empty or contains NUL")
        if key in seen:
            raise ValueError(f"piece {piece!r} is not unique")
        if not math.isfinite(score):
            raise ValueError(f"the score of piece {piece!r} is {score}")
        seen.add(key)
