"""Pieces that represent bytes: letters of byte-level BPE, or <0xEC> of SentencePiece."""

import codecs
import re


def _byte_alphabet() -> dict[str, int]:
    """Printable bytes are their own letters, the others the letters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): b for n, b in enumerate(others)}


BYTE_ALPHABET = _byte_alphabet()
"""The byte of each letter of byte-level BPE (Radford et al. 2019)."""

_BYTE_PIECE = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_piece_value(piece: str) -> bytes | None:
    r"""The byte of a byte piece of SentencePiece; None for any other piece.

    >>> byte_piece_value("<0xEC>"), byte_piece_value("안")
    (b'\xec', None)
    """
    found = _BYTE_PIECE.fullmatch(piece)
    return bytes.fromhex(found[1]) if found else None


def piece_bytes(piece: str) -> bytes | None:
    r"""The bytes of a piece of byte-level BPE; None if it has a letter outside its alphabet.

    >>> piece_bytes("Ġhi"), piece_bytes("ìķĪ").decode(), piece_bytes("안")
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
    r"""Whether bytes are UTF-8, except that the first and the last character may be incomplete.

    >>> is_utf8_fragment("안녕".encode()[1:-1]), is_utf8_fragment("grüße".encode("latin-1"))
    (True, False)
    """
    complete_start = re.sub(rb"\A[\x80-\xbf]{1,3}", b"", data)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(complete_start)
    except UnicodeDecodeError:
        return False
    return True


def decode_with_positions(data: bytes) -> tuple[str, list[int]]:
    r"""The text of bytes, and for each byte the position of its character.

    Invalid bytes become U+FFFD.

    >>> decode_with_positions("a안".encode() + b"\xec!")
    ('a안�!', [0, 1, 1, 1, 2, 3])
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, positions = "", []
    for byte in data:
        text += decoder.decode(bytes([byte]))
        incomplete = bool(decoder.getstate()[0])  # its character has more bytes
        positions.append(len(text) - (not incomplete))
    return text + decoder.decode(b"", final=True), positions
