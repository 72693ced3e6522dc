"""Word documents, against python-docx, which wrote the file."""

import io
import re
import zipfile
from pathlib import Path

import pytest

from jumok.documents import Document
from jumok.documents.docx import read
from jumok.errors import InputError
from tests.cli.commands import call

# A heading; "겨울은 " + bold "추워요" + ". 여름은", a tab, "더워요."; an empty one; a table of
# two cells; a header. Written by python-docx 1.2.0.
FILE = Path(__file__).with_name("formatted.docx")


def texts(path: Path) -> list[list[tuple[str, bool]]]:
    """The texts of the runs of each paragraph of the body, and whether they are bold."""
    xml = zipfile.ZipFile(path).read("word/document.xml").decode()
    return [
        [
            ("".join(re.findall(r"<w:t(?: [^>]*)?>([^<]*)</w:t>", run)), "<w:b/>" in run)
            for run in re.findall(r"<w:r(?: [^>]*)?>.*?</w:r>", paragraph, re.DOTALL)
        ]
        for paragraph in re.findall(r"<w:p(?: [^>]*)?>.*?</w:p>", xml, re.DOTALL)
    ]


def test_formatting_and_tabs_are_markup() -> None:
    html, _ = read(FILE.read_bytes())
    assert html == (
        "<p>겨울은 추워요.</p>\n"
        '<p>겨울은 <b id="1">추워요</b>. 여름은<img id="3">더워요.</p>\n'
        "<p>봄은 따뜻해요.</p>\n<p>&lt;가을&gt; &amp; 바람</p>\n<p>여름은 더워요.</p>\n"
    )


def test_the_command_keeps_all_but_the_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.docx"
    assert call(capsys, "translate", "note", FILE, "--to", out).code == 0
    before, after = zipfile.ZipFile(FILE), zipfile.ZipFile(out)
    assert after.namelist() == before.namelist()
    changed = [name for name in after.namelist() if after.read(name) != before.read(name)]
    found = texts(out)
    assert found[0] == [("Winter is cold.", False)]
    assert ("cold", True) in found[1]
    assert b"<w:tab/>" in after.read("word/document.xml")
    assert found[2] == [("Spring is warm.", False)]
    assert b"Summer is hot." in after.read("word/header1.xml")
    assert b"Heading1" in after.read("word/document.xml")
    assert changed == ["word/document.xml", "word/header1.xml"]


@pytest.mark.parametrize("tag", [b"<w:br/>", b'<w:br w:type="page"/>', b"<w:cr/>"])
def test_a_line_break_ends_a_text(tag: bytes) -> None:
    """A heading and the line below it in the same paragraph are two texts."""
    data = io.BytesIO()
    with zipfile.ZipFile(FILE) as source, zipfile.ZipFile(data, "w") as changed:
        for name in source.namelist():
            changed.writestr(name, source.read(name).replace(b"<w:tab/>", tag))
    html, write = read(data.getvalue())
    assert [block.text for block in Document.read(html, "html").blocks][1:3] == [
        "겨울은 추워요. 여름은",
        "더워요.",
    ]
    with zipfile.ZipFile(io.BytesIO(write(html))) as written:
        assert tag in written.read("word/document.xml")
    assert read(write(html))[0] == html


def test_an_unchanged_translation_changes_no_text() -> None:
    html, write = read(FILE.read_bytes())
    assert read(write(html))[0] == html


def test_another_name_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = call(capsys, "translate", "note", FILE, "--to", tmp_path / "out.md")
    assert (done.code, done.error) == (2, "cli.translate_to_docx")
    assert list(tmp_path.iterdir()) == []


def damaged() -> bytes:
    """The file with other bytes in its last part, which has no text."""
    data = bytearray(FILE.read_bytes())
    last = zipfile.ZipFile(FILE).infolist()[-1]
    assert not last.filename.endswith("document.xml")
    begin = last.header_offset + 30 + len(last.filename)
    data[begin + 4 : begin + 12] = bytes(8)
    return bytes(data)


@pytest.mark.parametrize("data", [b"", b"PK", b"<w:p/>", damaged()])
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read(data)
    assert caught.value.code == "documents.not_docx"
