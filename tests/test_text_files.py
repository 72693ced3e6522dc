"""Files that are no text in UTF-8: every reader names the file, what it is, and its line."""

import bz2
import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from jumok.cli.options import read_template
from jumok.cli.stdin import PipeLines, read_lines
from jumok.config_io import read_toml
from jumok.data.files.tables import read_table
from jumok.documents.glossary import Glossary
from jumok.documents.memory import Memory
from jumok.errors import InputError
from jumok.tasks.pipeline.vector_index import _read_texts
from jumok.text_files import check_is_text, decode_text

TABLE = "text\tlabel\n" + "".join(f"가을은 좋아요 {i}\tA\n" for i in range(20))


def office(*names: str) -> bytes:
    """A zip file with parts of these names."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            file.writestr(name, "x" * 500)
    return data.getvalue()


OTHER = {
    "UTF-16 with a mark": (TABLE.encode("utf-16"), "UTF-16"),
    "UTF-16 of Unix": (b"\xfe\xff" + TABLE.encode("utf-16-be"), "UTF-16"),
    "UTF-16 without a mark": (TABLE.encode("utf-16-le"), "UTF-16LE"),
    "UTF-32": (TABLE.encode("utf-32"), "UTF-32"),
    "xlsx": (office("[Content_Types].xml", "xl/workbook.xml"), "file.an_excel_file"),
    "docx": (office("[Content_Types].xml", "word/document.xml"), "file.a_word_document"),
    "hwpx": (office("mimetype", "Contents/section0.xml"), "file.a_hangul_document"),
    "ods": (office("mimetype", "content.xml"), "file.an_opendocument_file"),
    "zip": (office("a.tsv"), "file.a_zip_file"),
    "gzip": (gzip.compress(TABLE.encode()), "file.a_gzip_file"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "file.a_pdf_file"),
    "PNG": (b"\x89PNG\r\n\x1a\n\0\0\0\r", "file.an_image"),
    "npy": (b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'shape': (3,), }  \n", "file.a_numpy_file"),
    "npz": (office("vectors.npy"), "file.a_numpy_file"),
    "PyTorch": (office("model/data.pkl"), "file.a_pytorch_file"),
    "safetensors": (save({"a": np.zeros(3, np.float32)}), "file.a_safetensors_file"),
    "GGUF": (b"GGUF\x03\0\0\0" + bytes(16), "file.a_gguf_file"),
    "bzip2": (bz2.compress(TABLE.encode()), "file.a_bzip2_file"),
    "Zstandard": (b"\x28\xb5\x2f\xfd\x24\x10a", "file.a_zstandard_file"),
    "numbers": (np.arange(-9, 9).astype("<f8").tobytes(), "file.a_binary_file"),
    "xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "file.an_old_office_file"),
}


def read_stdin(path: Path) -> object:
    with path.open("rb") as file:
        return list(read_lines(PipeLines(file.fileno())))


READERS: dict[str, Callable[[Path], object]] = {
    ".tsv": lambda path: read_table(path, ("text", "label")),
    ".csv": lambda path: read_table(path, ("text", "label")),
    ".jsonl": lambda path: read_table(path, ("text", "label")),
    ".json": lambda path: read_table(path, ("text", "label")),
    ".txt": _read_texts,
    ".stdin": read_stdin,
    ".toml": read_toml,
    ".terms": Glossary.read,
    ".memory": Memory.open,
    ".jinja": read_template,
    ".md": lambda path: decode_text(path, path.read_bytes()),
}


@pytest.mark.parametrize("kind", OTHER)
@pytest.mark.parametrize("suffix", READERS)
def test_another_file_than_text(tmp_path: Path, suffix: str, kind: str) -> None:
    path = tmp_path / f"a{suffix}"
    data, name = OTHER[kind]
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        READERS[suffix](path)
    assert caught.value.code == "file.not_text"
    found = caught.value.message.values
    assert str(found["path"]) == ("stdin" if suffix == ".stdin" else str(path))
    if suffix == ".stdin" and kind in ("xlsx", "docx", "hwpx", "ods", "npz", "PyTorch"):
        name = "file.a_zip_file"  # its first line is read alone
    assert name in (found["kind"], getattr(found["kind"], "code", ""))
    assert "cp949" not in str(caught.value)


@pytest.mark.parametrize("end", [b"\xb5\xc8\xad\n", b"\0\n", b"\xff\n"])
@pytest.mark.parametrize("suffix", READERS)
def test_a_line_that_is_no_text(tmp_path: Path, suffix: str, end: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(TABLE.encode() + end)
    with pytest.raises(InputError) as caught:
        READERS[suffix](path)
    place = "stdin:22" if suffix == ".stdin" else f"{path}:"
    assert place in str(caught.value)
    if suffix not in (".tsv", ".csv", ".jsonl"):  # whose rows before have faults of their own
        assert ":22" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [TABLE, "\ufeff" + TABLE, "PK\n", "a\0b", "가\0\n나\0", "", "ÿþ", "각나" * 300, "GGUF", "BZh"],
)
def test_text_is_not_taken_for_another_file(text: str) -> None:
    check_is_text("a.txt", text.encode())


@pytest.mark.parametrize(
    "data", [b"\x93NUMPY", b"\x93a\x94b\0", "é à".encode("latin-1"), "좋다\0".encode("cp949")]
)
@pytest.mark.parametrize("suffix", [".txt", ".stdin", ".md"])
def test_other_bytes_are_not_taken_for_cp949(tmp_path: Path, suffix: str, data: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(TABLE.encode() + data + b"\n")
    with pytest.raises(InputError) as caught:
        READERS[suffix](path)
    assert caught.value.code in ("file.bad_text_line", "pipeline.bad_line")
    assert ":22: byte 1 is not UTF-8" in str(caught.value)
    assert "cp949" not in str(caught.value)


def test_a_glossary_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_bytes("\ufeff층\tlayer\r\n".encode())
    assert Glossary.read(tmp_path / "terms.tsv").terms == {"층": "layer"}
