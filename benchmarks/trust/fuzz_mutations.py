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

Files: TypeAlias = Mapping[str, bytes]  # one input: what lies in a folder, or a single file
Change: TypeAlias = Callable[[random.Random, bytes], bytes]

MAX_INPUT_BYTES = 2**16  # bytes; an input that has grown beyond is cut

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


def mutated(chance: random.Random, seeds: Sequence[Files]) -> dict[str, bytes]:
    """One of the seeds with a few changes in its files, of which one may vanish."""
    files = dict(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        name = chance.choice(sorted(files))
        if len(files) > 1 and chance.random() < 0.02:
            del files[name]
            continue
        other = chance.choice(seeds).get(name, files[name])
        change = chance.choice((*_by_name(name), _bits, _pieces, _spliced(other)))
        files[name] = change(chance, files[name])[:MAX_INPUT_BYTES]
    return files


def _by_name(name: str) -> tuple[Change, ...]:
    """The changes that know what such a file holds; they count twice."""
    ending = name.rpartition(".")[2]
    found: Mapping[str, tuple[Change, ...]] = {
        "json": (json_changed, _words),
        "jsonl": (_line_of_json, _words),
        "safetensors": (header_changed, trace_changed),
        "model": (protobuf_changed,),
        "spm": (protobuf_changed,),
    }
    return 2 * found.get(ending, (_words,))


def _bits(chance: random.Random, data: bytes) -> bytes:
    """Bits turned, bytes set."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8)) if changed else 0):
        place = chance.randrange(len(changed))
        changed[place] = chance.choice((changed[place] ^ 1 << chance.randrange(8), 0, 255, 127))
    return bytes(changed)


def _pieces(chance: random.Random, data: bytes) -> bytes:
    """A stretch left out, doubled, cut off, overwritten by a number, or something put in."""
    start = chance.randint(0, len(data))
    end = min(len(data), start + chance.choice((1, 2, 8, 64, 1000)))
    match chance.randrange(6):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:end] + data[start:end] * chance.choice((1, 2, 50)) + data[end:]
        case 2:
            return data[:start]
        case 3:
            number = chance.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, len(data)))
            raw = struct.pack(chance.choice("<>") + "Q", number)[: chance.choice((1, 2, 4, 8))]
            return data[:start] + raw + data[start + len(raw) :]
        case _:
            return data[:start] + chance.choice(NASTY_BYTES) + data[chance.choice((start, end)) :]


def _spliced(other: bytes) -> Change:
    """The beginning of one file and the end of another."""

    def change(chance: random.Random, data: bytes) -> bytes:
        return data[: chance.randint(0, len(data))] + other[chance.randint(0, len(other)) :]

    return change


def _words(chance: random.Random, data: bytes) -> bytes:
    """A word, number or line replaced, dropped, doubled or moved."""
    mark = chance.choice((b"\n", b" ", b"\t", b",", b"=", b'"'))
    parts = data.split(mark)
    place = chance.randrange(len(parts))
    match chance.randrange(4):
        case 0:
            parts[place] = _text(chance.choice(NASTY_TEXTS))
        case 1:
            parts[place] = repr(chance.choice(NASTY_NUMBERS)).encode()
        case 2:
            parts.insert(chance.randrange(len(parts) + 1), parts[place])
        case _:
            del parts[place]
    return mark.join(parts)


def json_changed(chance: random.Random, data: bytes) -> bytes:
    """One value somewhere in a JSON text replaced, dropped, doubled, wrapped or renamed."""
    try:
        tree = _loaded(data)
    except (ValueError, RecursionError):
        return _pieces(chance, data)
    return _text(json.dumps(tree_changed(chance, tree), ensure_ascii=chance.random() < 0.8))


@lru_cache(64)  # most changes begin from the same few files; what is loaded is never written to
def _loaded(data: bytes) -> object:
    return json.loads(data)


def tree_changed(chance: random.Random, tree: object) -> object:
    """The same for what JSON holds; goes down at random."""
    if isinstance(tree, dict) and tree and chance.random() < 0.9:
        key = chance.choice(list(tree))
        match chance.randrange(8):
            case 0:
                return {name: value for name, value in tree.items() if name != key}
            case 1:
                return tree | {chance.choice(NASTY_TEXTS): tree[key]}
            case _:
                return tree | {key: tree_changed(chance, tree[key])}
    if isinstance(tree, list) and tree and chance.random() < 0.9:
        place = chance.randrange(len(tree))
        match chance.randrange(8):
            case 0:
                return tree[:place] + tree[place + 1 :]
            case 1:
                return tree[:place] + [tree[place]] * chance.choice((2, 3, 100)) + tree[place:]
            case _:
                return [*tree[:place], tree_changed(chance, tree[place]), *tree[place + 1 :]]
    return _value(chance, tree)


def _value(chance: random.Random, value: object) -> object:
    if isinstance(value, int | float) and abs(value) < 2**70 and chance.random() < 0.4:
        return value + chance.choice((-1, 1, 0.5))
    wrapped = value
    for _ in range(chance.choice((1, 1, 70))):
        wrapped = chance.choice(([wrapped], {"a": wrapped}))
    kinds: tuple[object, ...] = (None, True, False, [], {}, [[]], wrapped)
    return chance.choice((*kinds, *NASTY_NUMBERS, *NASTY_TEXTS))


def _line_of_json(chance: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    lines[place] = json_changed(chance, lines[place]).replace(b"\n", b" ")
    return b"\n".join(lines)


def header_changed(chance: random.Random, data: bytes) -> bytes:
    """A safetensors file with a changed header, usually with the correct length."""
    length = int.from_bytes(data[:8], "little")
    if length > len(data):
        return _bits(chance, data)
    header = json_changed(chance, data[8 : 8 + length])
    told = len(header) + chance.choice((0, 0, 0, 0, 0, 1, -1, 2**40))
    return max(told, 0).to_bytes(8, "little") + header + data[8 + length :]


def trace_changed(chance: random.Random, data: bytes) -> bytes:
    """A trace whose own header, the JSON in the JSON, says something else."""
    try:
        length, before, inner, behind = _trace_loaded(data)
    except (ValueError, LookupError, TypeError, RecursionError):
        return header_changed(chance, data)
    changed = json.dumps(json.dumps(tree_changed(chance, inner)))
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


def protobuf_changed(chance: random.Random, data: bytes) -> bytes:
    """One field of a message dropped, doubled, moved or changed inside, the lengths right."""
    fields = [*_fields(data)]
    if not fields:
        return _pieces(chance, data)
    place = chance.randrange(len(fields))
    if chance.random() < 0.3:  # the last ones say how the model works
        place = len(fields) - 1 - chance.randrange(min(3, len(fields)))
    number, wire, value = fields[place]
    match chance.randrange(6):
        case 0:
            del fields[place]
        case 1:
            fields.insert(chance.randrange(len(fields)), fields[place])
        case 2:
            fields[place] = (chance.randrange(1, 60), wire, value)
        case _:
            fields[place] = (number, wire, _field_changed(chance, wire, value))
    return b"".join(map(_field, fields))


_Field: TypeAlias = tuple[int, int, bytes]  # number, wire type, raw value without its length


def _field_changed(chance: random.Random, wire: int, value: bytes) -> bytes:
    if wire == 0:
        return _varint(chance.choice((0, 1, 2, 3, 4, 5, 6, 99, 2**31, 2**32 - 1, 2**63, 2**64 - 1)))
    if wire in (1, 5):
        number = chance.choice((0.0, -1.0, 1e38, float("nan"), float("inf"), -float("inf")))
        return struct.pack("<f" if wire == 5 else "<d", number)
    if chance.random() < 0.6 and _fields(value):
        return protobuf_changed(chance, value)
    return chance.choice((_text(chance.choice(NASTY_TEXTS)), _pieces(chance, value), b""))


@lru_cache(64)
def _fields(data: bytes) -> list[_Field]:
    """The fields of a message; empty for what is none."""
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
    """UTF-8, half surrogate pairs too."""
    return text.encode("utf-8", "surrogatepass")
