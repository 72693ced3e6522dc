"""Text of files in UTF-8: decoding with the place of a fault, and what other files are."""

import codecs
import re
from typing import Literal

from jumok.errors import InputError, Message

Fault = Message | Literal[""]  # why a line or a row cannot be used; "" if it can

SAMPLE_BYTES = 2**16  # from which `check_is_text` recognizes a file
_MIN_NULS = 1 / 8  # of the bytes of UTF-16 without a mark: those of ASCII characters
_MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

_SHEET = Message("file.an_excel_file", "an Excel file")
_WORD = Message("file.a_word_document", "a Word document")
_HWP = Message("file.a_hangul_document", "a Hangul document (HWP)")
_PDF = Message("file.a_pdf_file", "a PDF file")
_IMAGE = Message("file.an_image", "an image")
_PARQUET = Message("file.a_parquet_file", "a Parquet file")
_NUMPY = Message("file.a_numpy_file", "a NumPy file")
_PYTORCH = Message("file.a_pytorch_file", "a PyTorch file")
_SAFETENSORS = Message("file.a_safetensors_file", "a safetensors file")
_GGUF = Message("file.a_gguf_file", "a GGUF file")
_BINARY = Message("file.a_binary_file", "a binary file")
_PARTS = {  # of zip files
    b"xl/": _SHEET,
    b"word/": _WORD,
    b"Contents/section": _HWP,
    b"content.xml": Message("file.an_opendocument_file", "an OpenDocument file"),
    b"/data.pkl": _PYTORCH,
    b".npy": _NUMPY,
}
_FIRST_BYTES = {
    b"%PDF-": _PDF,
    b"\x89PNG": _IMAGE,
    b"\xff\xd8\xff": _IMAGE,
    b"GIF8": _IMAGE,
    b"PAR1": _PARQUET,
    b"\x93NUMPY": _NUMPY,
    b"GGUF\x02\x00": _GGUF,
    b"GGUF\x03\x00": _GGUF,
    b"BZh9": Message("file.a_bzip2_file", "a bzip2 file"),
    b"\x28\xb5\x2f\xfd": Message("file.a_zstandard_file", "a Zstandard file"),
    b"\x1f\x8b": Message("file.a_gzip_file", "a gzip file"),
    b"\xfd7zXZ\x00": Message("file.an_xz_file", "an xz file"),
    b"7z\xbc\xaf\x27\x1c": Message("file.a_7z_file", "a 7z file"),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": Message(
        "file.an_old_office_file", "an old Office or Hangul file (.xls, .doc, .hwp)"
    ),
}
_SAVE_TABLE = Message(
    "file.save_as_csv", 'save the sheet as "CSV UTF-8" in the program that opens it'
)
_UNPACK = Message("file.unpack", "unpack it and name a file in it")
_NAME_TEXT = Message("file.name_a_text_file", "name a file of text")
_SAVE_TEXT = Message("file.save_as_text", "save its text as a .txt file in UTF-8")
_ADVICE = {
    _SHEET.code: _SAVE_TABLE,
    _PARQUET.code: Message(
        "file.save_parquet", 'convert it with pandas: read_parquet(FILE).to_json("data.jsonl", '
        'orient="records", lines=True, force_ascii=False)',
    ),
    **{
        kind.code: _NAME_TEXT
        for kind in (_IMAGE, _NUMPY, _PYTORCH, _SAFETENSORS, _GGUF, _BINARY)
    },
    "file.an_old_office_file": Message(
        "file.save_as_either", 'save a sheet as "CSV UTF-8", a text as a .txt file in UTF-8'
    ),
    "file.a_gzip_file": Message("file.name_it_gz", "give it a name that ends with .gz"),
    "file.an_xz_file": Message("file.name_it_xz", "give it a name that ends with .xz"),
    "file.a_7z_file": _UNPACK,
    "file.a_bzip2_file": _UNPACK,
    "file.a_zstandard_file": _UNPACK,
    "file.a_zip_file": Message(
        "file.unpack_or_save", "unpack it, or save what is in it as text in UTF-8"
    ),
}  # fmt: skip


def quote(text: str | bytes, limit: int = 60) -> str:
    """Text for a message: quoted, on one line, truncated."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}..."


def is_cp949(content: bytes) -> bool:
    r"""Whether bytes that are not UTF-8 are mostly Hangul in cp949, apart from ASCII.

    Only the syllables of EUC-KR count, which nearly all texts consist of: many pairs of other
    bytes are one of the 8,822 syllables that cp949 adds.

    >>> is_cp949("좋다".encode("cp949")), is_cp949(b"\xff\xfe"), is_cp949(b"\x93NUMPY")
    (True, False, False)
    """
    if b"\0" in content:
        return False
    try:
        text = content.decode("cp949")
    except UnicodeDecodeError:
        return False
    letters = [letter for letter in text if not letter.isascii()]
    hangul = [letter for letter in letters if "가" <= letter <= "힣"]
    n_common = sum(len(letter.encode("euc-kr")) == 2 for letter in hangul)  # others have 8 bytes
    return 2 * n_common > len(letters)


def convert_advice(encoding: str = "cp949") -> Message:
    """What to do with a file in another encoding."""
    return Message(
        "file.convert_cp949",
        "convert the file with {command}",
        command=f"iconv -f {encoding} -t utf-8",
    )


def decode_line(content: bytes) -> tuple[str, Fault]:
    r"""The text of a line, and the fault if it cannot be used.

    >>> decode_line("좋다".encode())
    ('좋다', '')
    >>> print(decode_line("좋다".encode("cp949"))[1])
    byte 1 is not UTF-8, it may be cp949 (got b'\xc1\xc1\xb4\xd9')
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        around = bytes(content[max(0, error.start - 8) : error.start + 8])
        position = error.start + 1
        if is_cp949(content):
            return "", Message(
                "file.byte_of_cp949",
                "byte {position} is not UTF-8, it may be cp949 (got {around})",
                position=position,
                around=repr(around),
            )
        return "", Message(
            "file.byte_not_utf8",
            "byte {position} is not UTF-8 (got {around})",
            position=position,
            around=repr(around),
        )
    if "\0" in text:
        return "", Message("file.nul_in_line", "a NUL character (got {text})", text=quote(text))
    return text, ""


def may_be_cp949(fault: Fault) -> bool:
    """Whether a line cannot be used because it seems to be cp949."""
    return isinstance(fault, Message) and fault.code == "file.byte_of_cp949"


def advice_on(fault: Fault, otherwise: Message) -> Message:
    """The end of a message on a line that must be correct."""
    return convert_advice() if may_be_cp949(fault) else otherwise


def decode_text(path: object, data: bytes) -> str:
    """The characters of a file, a byte order mark included.

    Raises InputError for another file than text, and with the line that is not UTF-8 or has a NUL.
    """
    check_is_text(path, data[:SAMPLE_BYTES])
    text, at = "", data.find(b"\0")
    try:
        text = data.decode()
    except UnicodeDecodeError as caught:
        at = caught.start
    if at < 0:
        return text
    begin = data.rfind(b"\n", 0, at) + 1
    fault = decode_line(data[begin:].partition(b"\n")[0])[1]
    raise InputError(
        "file.bad_text_line",
        "{path}:{number}: {fault}; {advice}",
        path=path,
        number=data.count(b"\n", 0, at) + 1,
        fault=fault,
        advice=advice_on(fault, Message("file.correct_line", "correct the line")),
    )


def check_is_text(path: object, start: bytes) -> None:
    """Raise InputError if the first bytes of a file are not those of text in UTF-8."""
    found = _kind(start) or _encoding(start) or (_BINARY if _is_binary(start) else None)
    if found:
        advice = convert_advice(found) if isinstance(found, str) else _ADVICE.get(found.code)
        raise InputError(
            "file.not_text",
            "{path} must be text in UTF-8, got {kind}; {advice}",
            path=path,
            kind=found,
            advice=advice or _SAVE_TEXT,
        )


def _encoding(start: bytes) -> str:
    r"""UTF-16 or UTF-32 by a byte order mark or by NUL at every second byte, else "".

    >>> _encoding("좋다 a".encode("utf-16")), _encoding(b"a\0b\0"), _encoding(b"\0a\0b")
    ('UTF-16', 'UTF-16LE', 'UTF-16BE')
    """
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    nuls = [start[:512:2].count(0), start[1:512:2].count(0)]
    if max(nuls) >= max(2, _MIN_NULS * len(start[:512]), 3 * min(nuls)):  # U+AC00 has one too
        return "UTF-16BE" if nuls[0] > nuls[1] else "UTF-16LE"
    return ""


def _is_binary(start: bytes) -> bool:
    r"""Whether the first line has a NUL and is not UTF-8; one of both may be a fault of a text.

    >>> _is_binary(b"\x01\0\xff"), _is_binary(b"a\0b\n\xff")
    (True, False)
    """
    line = start.partition(b"\n")[0]
    try:
        codecs.utf_8_decode(line, "strict", False)  # the end of `start` may be in a character
    except UnicodeDecodeError:
        return b"\0" in line
    return False


def _kind(start: bytes) -> Message | None:
    """What a file is that is not text; None if it may be text."""
    for first, kind in _FIRST_BYTES.items():
        if start.startswith(first):
            return kind
    if re.match(rb"(?s).{5}\0{3}\{\s*\"", start):  # the size of the header, and its JSON
        return _SAFETENSORS
    if not re.match(rb"PK(\x03\x04|\x05\x06)", start):
        return None
    for name, kind in _PARTS.items():
        if name in start:
            return kind
    return Message("file.a_zip_file", "a zip or Office file")
