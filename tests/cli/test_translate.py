"""jumok translate."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.commands import call

pytestmark = pytest.mark.usefixtures("compiled")

SOURCE = b"# \xea\xb2\xa8\xec\x9a\xb8\xec\x9d\x80 **\xec\xb6\x94\xec\x9b\x8c\xec\x9a\x94**.\r\n\r\n"


def test_a_file_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Line ends are kept, and the file of an unfinished translation is removed."""
    source, out = tmp_path / "a.md", tmp_path / "a.en.md"
    source.write_bytes(SOURCE)
    done = call(capsys, "translate", "note", source, "--to", out)
    assert done.code == 0
    assert out.read_bytes() == b"# Winter is **cold**.\r\n\r\n"
    assert done.out == ""
    assert "sentences: 1, computed: 1, warnings: 0" in done.err
    assert sorted(tmp_path.iterdir()) == [out, source]


def test_stdin_to_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "  겨울은 추워요.\n뷁".encode()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    done = call(capsys, "translate", "note", "-")
    assert done.out.startswith("  Winter is cold.\n")
    assert done.out.count("\n") == 1
    assert "line 2: unknown_characters: 1 character is not in the vocabulary" in done.err


def test_glossary_and_memory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source, terms, memory = (tmp_path / name for name in ("a.txt", "terms.tsv", "memory.tsv"))
    source.write_text("여름은 더워요.\n", encoding="utf-8")
    terms.write_text("# 용어\n여름\tSUMMERTIME\n", encoding="utf-8")
    options = ("--glossary", terms, "--memory", memory)
    assert call(capsys, "translate", "note", source, *options).out == "SUMMERTIME is hot.\n"
    again = call(capsys, "translate", "note", source, *options)
    assert again.out == "SUMMERTIME is hot.\n"
    assert "computed: 0" in again.err
    terms.write_text("겨울\n", encoding="utf-8")
    assert call(capsys, "translate", "note", source, *options).error == "documents.not_two_columns"


@pytest.mark.parametrize(
    ("name", "data", "words", "code"),
    [
        ("a.doc", b"", (), "documents.unknown_suffix"),
        ("a.txt", b"\xff", (), "file.bad_text_line"),
        ("a.txt", "가".encode("utf-16"), (), "file.not_text"),
        ("a.txt", b"", ("--format", "docx"), "extension.unknown_name"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
    data: bytes,
    words: tuple[str, ...],
    code: str,
) -> None:
    (tmp_path / name).write_bytes(data)
    done = call(capsys, "translate", "note", tmp_path / name, *words)
    assert (done.code, done.error) == (2, code)


@pytest.mark.parametrize("to", ["a.txt", ".", "missing/b.txt"])
def test_a_place_that_is_no_new_file_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, to: str
) -> None:
    source = tmp_path / "a.txt"
    source.write_text("겨울은 추워요.\n", encoding="utf-8")
    done = call(capsys, "translate", "note", source, "--to", tmp_path / to)
    assert (done.code, done.error) == (2, "cli.translate_to")
    assert source.read_text(encoding="utf-8") == "겨울은 추워요.\n"


@pytest.mark.parametrize("name", ["no.docx", "no.md", "no"])
def test_a_missing_document_and_a_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    """What is wrong with the document comes before what is wrong with --to."""
    done = call(capsys, "translate", "note", tmp_path / name, "--to", tmp_path / "x.md")
    assert (done.code, done.error) == (3, "storage.failed")
    assert name in done.err
    done = call(capsys, "translate", "note", tmp_path, "--to", tmp_path / "x.md")
    assert (done.code, done.error) == (2, "cli.translate_folder")


@pytest.mark.parametrize(
    ("to", "words", "code"),
    [
        ("b.pdf", (), 2),
        ("b.docx", (), 2),
        ("b.txt", (), 2),
        ("b.html", ("--format", "text"), 2),
        ("b.en", (), 0),
        ("b.txt", ("--format", "wrapped"), 0),
        ("b.md", ("--format", "text"), 0),
    ],
)
def test_the_suffix_of_another_format_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, to: str, words: tuple[str, ...], code: int
) -> None:
    (tmp_path / "a.md").write_bytes(SOURCE)
    done = call(capsys, "translate", "note", tmp_path / "a.md", "--to", tmp_path / to, *words)
    assert done.code == code
    assert (done.error == "cli.translate_to_suffix") == bool(code)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder without new files")
def test_an_error_names_the_file_that_was_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_bytes(SOURCE)
    done = call(capsys, "translate", "note", tmp_path / "a.md", "--to", "/proc/x.md")
    assert (done.code, done.error) == (3, "storage.failed")
    assert "/proc/x.md: cannot be written" in done.err


def test_a_sentence_without_letters_stays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = tmp_path / "a.txt"
    source.write_text("겨울은 추워요. 🙂\n12:30\n", encoding="utf-8")
    assert call(capsys, "translate", "note", source).out == "Winter is cold. 🙂\n12:30\n"
