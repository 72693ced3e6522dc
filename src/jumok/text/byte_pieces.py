"""Pieces that stand for bytes: in GPT-2's letters, one a byte, or as SentencePiece's <0xEC>."""

import codecs
import re


def _byte_letters() -> dict[str, int]:
    """A byte that prints stands for itself, the others are the letters from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): b for n, b in enumerate(others)}


BYTE_ALPHABET = _byte_letters()
"""The bytes by the letters of byte-level BPE (Radford et al. 2019)."""

_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_piece_value(piece: str) -> bytes | None:
    r"""The byte of a piece that SentencePiece had no letters for; None for any other piece.

    >>> byte_piece_value("<0xEC>"), byte_piece_value("안")
    (b'\xec', None)
    """
    found = _BYTE.fullmatch(piece)
    return bytes.fromhex(found[1]) if found else None


def piece_bytes(piece: str) -> bytes | None:
    r"""The bytes that GPT-2's letters stand for; None where a letter is none of them.

    >>> bytes_of("Ġhi"), bytes_of("ìķĪ").decode(), bytes_of("안")
    (b' hi', '안', None)
    """
    if not BYTE_ALPHABET.keys() >= set(piece):
        return None
    return bytes(BYTE_ALPHABET[letter] for letter in piece)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_utf8_fragment(data: bytes) -> bool:
    r"""Whether bytes are UTF-8, their first and their last letter perhaps cut.

    >>> is_utf8_fragment("안녕".encode()[1:-1]), is_utf8_fragment("grüße".encode("latin-1"))
    (True, False)
    """
    begun = re.sub(rb"\A[\x80-\xbf]{1,3}", b"", data)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begun)
    except UnicodeDecodeError:
        return False
    return True


def decode_with_positions(data: bytes) -> tuple[str, list[int]]:
    r"""The text that bytes spell, and of each byte the place of its character.

    Bytes of no letter become U+FFFD.

    >>> spelled("a안".encode() + b"\xec!")
    ('a안�!', [0, 1, 1, 1, 2, 3])
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, places = "", []
    for byte in data:
        text += decoder.decode(bytes([byte]))
        waiting = bool(decoder.getstate()[0])  # its letter is not yet whole
        places.append(len(text) - (not waiting))
    return text + decoder.decode(b"", final=True), places
