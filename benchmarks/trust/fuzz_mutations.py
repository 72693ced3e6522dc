"""Small changes to valid files: bits, numbers, words, JSON, protobuf fields, safetensors headers.

A random generator selects all changes: the same seed gives the same bytes. The name of a file
determines its format, so that most changes get past the first check.
"""

import json
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

Files: TypeAlias = Mapping[str, bytes]  # one input: the files of a folder, or a single file
Change: TypeAlias = Callable[[random.Random, bytes], bytes]

MAX_INPUT_BYTES = 2**16  # longer inputs are truncated

NASTY_TEXTS = (
    "", " ", "\0", "\ud800", "\udfff\ud800", "\u202e\u2066", "\ufeff", "\u2028", "\x85", "\r\n",
    "../../etc/passwd", "/dev/zero", "/etc/passwd", "a" * 5000, "각" * 300, "a\u0301" * 400, "NaN",
    "[CLS]", "</s>", "__class__", "{0.__class__}", "%s%n", "<script>", "\x1b[2J", "1" * 5000, "\\",
    "'", '"', "true", "null", "-0", "1e999", "👨‍👩‍👧‍👦", "\U0010ffff", "가\u1100\u1161\u11a8",
)  # fmt: skip
NASTY_NUMBERS = (
    0, -1, 1, 2, 7, 127, 128, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1,
    2**63, 2**64, 10**30, 10**400, -(2**63), 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"),
)  # fmt: skip
NASTY_BYTES = (
    b"\0", b"\xff", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf",
    b"\xff\xfe", b"\n", b"\r", b"\t", b",", b'"', b"[" * 200, b"{" * 200, b"'''", b"=", b"\x1f\x8b",
    b"\xfd7zXZ\0", b"PK\3\4", b"\x80\x04", b"9" * 5000, b"\xff" * 10, b"1e999", b"NaN", b"(a+)+$",
)  # fmt: skip


def mutated(rng: random.Random, seeds: Sequence[Files]) -> dict[str, bytes]:
    """One of the seeds with a few mutations of its files; one file may be removed."""
    files = dict(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        name = rng.choice(sorted(files))
        if len(files) > 1 and rng.random() < 0.02:
            del files[name]
            continue
        other = rng.choice(seeds).get(name, files[name])
        change = rng.choice((*_by_name(name), _bits, _pieces, _spliced(other)))
        files[name] = change(rng, files[name])[:MAX_INPUT_BYTES]
    return files


def _by_name(name: str) -> tuple[Change, ...]:
    """The mutations for this file format; they have twice the probability."""
    ending = name.rpartition(".")[2]
    found: Mapping[str, tuple[Change, ...]] = {
        "json": (json_changed, _words),
        "jsonl": (_line_of_json, _words),
        "safetensors": (header_changed, trace_changed),
        "model": (protobuf_changed,),
        "spm": (protobuf_changed,),
    }
    return 2 * found.get(ending, (_words,))


def _bits(rng: random.Random, data: bytes) -> bytes:
    """Flip bits, set bytes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8)) if changed else 0):
        place = rng.randrange(len(changed))
        changed[place] = rng.choice((changed[place] ^ 1 << rng.randrange(8), 0, 255, 127))
    return bytes(changed)


def _pieces(rng: random.Random, data: bytes) -> bytes:
    """Remove, double, truncate, overwrite or insert a range of bytes."""
    start = rng.randint(0, len(data))
    end = min(len(data), start + rng.choice((1, 2, 8, 64, 1000)))
    match rng.randrange(6):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:end] + data[start:end] * rng.choice((1, 2, 50)) + data[end:]
        case 2:
            return data[:start]
        case 3:
            number = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, len(data)))
            raw = struct.pack(rng.choice("<>") + "Q", number)[: rng.choice((1, 2, 4, 8))]
            return data[:start] + raw + data[start + len(raw) :]
        case _:
            return data[:start] + rng.choice(NASTY_BYTES) + data[rng.choice((start, end)) :]


def _spliced(other: bytes) -> Change:
    """Join the beginning of one file and the end of another."""

    def change(rng: random.Random, data: bytes) -> bytes:
        return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]

    return change


def _words(rng: random.Random, data: bytes) -> bytes:
    """A word, number or line replaced, dropped, doubled or moved."""
    mark = rng.choice((b"\n", b" ", b"\t", b",", b"=", b'"'))
    parts = data.split(mark)
    place = rng.randrange(len(parts))
    match rng.randrange(4):
        case 0:
            parts[place] = _text(rng.choice(NASTY_TEXTS))
        case 1:
            parts[place] = repr(rng.choice(NASTY_NUMBERS)).encode()
        case 2:
            parts.insert(rng.randrange(len(parts) + 1), parts[place])
        case _:
            del parts[place]
    return mark.join(parts)


def json_changed(rng: random.Random, data: bytes) -> bytes:
    """One value somewhere in a JSON text replaced, dropped, doubled, wrapped or renamed."""
    try:
        tree = _loaded(data)
    except (ValueError, RecursionError):
        return _pieces(rng, data)
    return _text(json.dumps(tree_changed(rng, tree), ensure_ascii=rng.random() < 0.8))


@lru_cache(64)  # few different files; the result is never modified
def _loaded(data: bytes) -> object:
    return json.loads(data)


def tree_changed(rng: random.Random, tree: object) -> object:
    """Mutate a random value inside a JSON tree."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        key = rng.choice(list(tree))
        match rng.randrange(8):
            case 0:
                return {name: value for name, value in tree.items() if name != key}
            case 1:
                return tree | {rng.choice(NASTY_TEXTS): tree[key]}
            case _:
                return tree | {key: tree_changed(rng, tree[key])}
    if isinstance(tree, list) and tree and rng.random() < 0.9:
        place = rng.randrange(len(tree))
        match rng.randrange(8):
            case 0:
                return tree[:place] + tree[place + 1 :]
            case 1:
                return tree[:place] + [tree[place]] * rng.choice((2, 3, 100)) + tree[place:]
            case _:
                return [*tree[:place], tree_changed(rng, tree[place]), *tree[place + 1 :]]
    return _value(rng, tree)


def _value(rng: random.Random, value: object) -> object:
    if isinstance(value, int | float) and abs(value) < 2**70 and rng.random() < 0.4:
        return value + rng.choice((-1, 1, 0.5))
    wrapped = value
    for _ in range(rng.choice((1, 1, 70))):
        wrapped = rng.choice(([wrapped], {"a": wrapped}))
    kinds: tuple[object, ...] = (None, True, False, [], {}, [[]], wrapped)
    return rng.choice((*kinds, *NASTY_NUMBERS, *NASTY_TEXTS))


def _line_of_json(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    lines[place] = json_changed(rng, lines[place]).replace(b"\n", b" ")
    return b"\n".join(lines)


def header_changed(rng: random.Random, data: bytes) -> bytes:
    """A safetensors file with a changed header, usually with the correct length."""
    length = int.from_bytes(data[:8], "little")
    if length > len(data):
        return _bits(rng, data)
    header = json_changed(rng, data[8 : 8 + length])
    told = len(header) + rng.choice((0, 0, 0, 0, 0, 1, -1, 2**40))
    return max(told, 0).to_bytes(8, "little") + header + data[8 + length :]


def trace_changed(rng: random.Random, data: bytes) -> bytes:
    """Mutate the trace's header, which is JSON inside the JSON header."""
    try:
        length, before, inner, behind = _trace_loaded(data)
    except (ValueError, LookupError, TypeError, RecursionError):
        return header_changed(rng, data)
    changed = json.dumps(json.dumps(tree_changed(rng, inner)))
    raw = (before + changed + behind).encode()
    return len(raw).to_bytes(8, "little") + raw + data[8 + length :]


_HERE = "the trace stands here"


@lru_cache(64)
def _trace_loaded(data: bytes) -> tuple[int, str, object, str]:
    """The length of a trace's header, its JSON before the JSON in it, that one, and the rest."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    inner = json.loads(header["__metadata__"]["trace"])
    header["__metadata__"]["trace"] = _HERE
    before, _, behind = json.dumps(header).partition(json.dumps(_HERE))
    return length, before, inner, behind


def protobuf_changed(rng: random.Random, data: bytes) -> bytes:
    """Drop, double, move or mutate one field of a protobuf message; lengths stay correct."""
    fields = [*_fields(data)]
    if not fields:
        return _pieces(rng, data)
    place = rng.randrange(len(fields))
    if rng.random() < 0.3:  # the last fields configure the model
        place = len(fields) - 1 - rng.randrange(min(3, len(fields)))
    number, wire, value = fields[place]
    match rng.randrange(6):
        case 0:
            del fields[place]
        case 1:
            fields.insert(rng.randrange(len(fields)), fields[place])
        case 2:
            fields[place] = (rng.randrange(1, 60), wire, value)
        case _:
            fields[place] = (number, wire, _field_changed(rng, wire, value))
    return b"".join(map(_field, fields))


_Field: TypeAlias = tuple[int, int, bytes]  # number, wire type, raw value without its length


def _field_changed(rng: random.Random, wire: int, value: bytes) -> bytes:
    if wire == 0:
        return _varint(rng.choice((0, 1, 2, 3, 4, 5, 6, 99, 2**31, 2**32 - 1, 2**63, 2**64 - 1)))
    if wire in (1, 5):
        number = rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf"), -float("inf")))
        return struct.pack("<f" if wire == 5 else "<d", number)
    if rng.random() < 0.6 and _fields(value):
        return protobuf_changed(rng, value)
    return rng.choice((_text(rng.choice(NASTY_TEXTS)), _pieces(rng, value), b""))


@lru_cache(64)
def _fields(data: bytes) -> list[_Field]:
    """The fields of a message; empty if it is invalid."""
    fields: list[_Field] = []
    place = 0
    try:
        while place < len(data):
            tag, place = _read_varint(data, place)
            end = place
            match tag & 7:
                case 0:
                    _, end = _read_varint(data, place)
                case 1:
                    end += 8
                case 5:
                    end += 4
                case 2:
                    size, place = _read_varint(data, place)
                    end = place + size
                case _:
                    return []
            if end > len(data):
                return []
            fields.append((tag >> 3, tag & 7, data[place:end]))
            place = end
    except IndexError:
        return []
    return fields


def _field(field: _Field) -> bytes:
    number, wire, value = field
    size = _varint(len(value)) if wire == 2 else b""
    return _varint(number << 3 | wire) + size + value


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while data[place] & 0x80:
        value |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return value | data[place] << shift, place + 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _text(text: str) -> bytes:
    """UTF-8 that allows lone surrogates."""
    return text.encode("utf-8", "surrogatepass")
