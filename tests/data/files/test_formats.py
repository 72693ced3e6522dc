"""Tagged sentences, JSON arrays and whole texts: what is read, and what is refused where."""

from pathlib import Path

import pytest

from jumok.data.files.formats import Format
from jumok.data.files.tables import read_table
from jumok.data.table import Table
from jumok.errors import InputError
from tests.errors import raises

BIO = (
    "## a comment on the file\n"
    "## another\n"
    "## s-1\t<서울:LC> #1!\n"
    "서\tB-LC\n울\tI-LC\n \tO\n#\tO\n1\tO\n!\tO\n"
    "\n\n"
    "가\tO\n"
    "\n"
    "## s-3\n"
    "나\tB-PS\n"
)
COLUMNS = ("id", "text", "tags")


def read(
    folder: Path,
    content: str,
    columns: tuple[str, ...],
    kind: Format | None = None,
    name: str = "a.txt",
) -> Table:
    (folder / name).write_text(content, encoding="utf-8")
    return read_table(folder / name, columns, format=kind)


def test_tagged_sentences(tmp_path: Path) -> None:
    table = read(tmp_path, BIO, COLUMNS, "bio")
    assert list(zip(*map(table.column, COLUMNS), strict=True)) == [
        ("s-1", "서울 #1!", "B-LC I-LC O O O O"),
        ("2", "가", "O"),
        ("s-3", "나", "B-PS"),
    ]
    inside = "## a\n가\tO\n## b\n나\tO\n"
    assert list(read(tmp_path, inside, ("text",), "bio").column("text")) == ["가나"]
    assert list(read(tmp_path, BIO + "\n## end\n", ("tags",), "bio").column("tags"))[-1] == "B-PS"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("가나\tO\n", r"a\.txt:1: not a character with a tag O, B-X or I-X \(got '가나\\tO'\)"),
        ("가\tO\n나\n", r"a\.txt:2: not a character with a tag .* \(got '나'\)"),
        ("가\tO\n나\tPS\n", r"a\.txt:2: not a character with a tag .* \(got '나\\tPS'\)"),
        ("가\tO\n\t\tO\n", r"a\.txt:2: not a character"),
        ("가\tO\n나\t\n", r"a\.txt:2: not a character"),
        ("## a\n\n가\tO\tO\n", r"a\.txt:3: not a character"),
        ("", "file.no_usable_row"),
    ],
)
def test_sentences_that_are_not_tagged(tmp_path: Path, content: str, fault: str) -> None:
    with raises(InputError, fault):
        read(tmp_path, content, ("text", "tags"), "bio")


def test_a_bad_sentence_alone_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.bio").write_bytes(
        "가\tO\n\n나\tO\n".encode() + b"\xff\tO\n\n" + "다\tO".encode()
    )
    table = read_table(
        tmp_path / "a.bio", ("text", "tags"), format="bio", on_bad_rows="skip", labels=("O",)
    )
    assert list(table.column("text")) == ["가", "다"]
    assert str(table.bad_rows) == (f"  {tmp_path}/a.bio:4: byte 1 is not UTF-8 (got b'\\xff\\tO')")


def test_columns_that_tagged_sentences_lack(tmp_path: Path) -> None:
    with raises(InputError, "file.no_column_header"):
        read(tmp_path, BIO, ("text", "label"), "bio")


def test_a_json_array(tmp_path: Path) -> None:
    content = '[\n {"text": "가\\n나", "label": 1, "more": [1]},\n {"text": "다", "label": "0"}\n]'
    table = read(tmp_path, content, ("text", "label"), name="a.json")
    assert list(table.column("text")) == ["가\n나", "다"]
    assert list(table.column("label")) == ["1", "0"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", r"a\.json: not JSON: .*correct the file"),
        ("[{", r"a\.json: not JSON: .*correct the file"),
        ('{"text": "가"}', "file.not_json_array"),
        ('["가"]', r"a\.json:1: not a JSON object \(got \"'가'\"\)"),
        ('[{"text": "가"}, {"txt": "나"}]', r"a\.json:2: no key 'text' \(got 'txt'\)"),
        (
            '[{"text": "가"}, {"text": "", "text": "나"}]',
            r"a\.json:2: the key 'text' is not",
        ),
        ('[{"text": {}}]', r"a\.json:1: text is not a text \(got '{}'\)"),
        ('[{"text": "\\ud800"}]', r"a\.json:1: text has a lone surrogate"),
    ],
)
def test_invalid_json(tmp_path: Path, content: str, fault: str) -> None:
    with raises(InputError, fault):
        read(tmp_path, content, ("text",), name="a.json")


def test_json_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes('[\n{"text": "가"}]'.encode("cp949"))
    with pytest.raises(InputError, match=r"a\.json:2: byte 11 is not UTF-8"):
        read_table(tmp_path / "a.json", ("text",))


def test_one_text(tmp_path: Path) -> None:
    table = read(tmp_path, "\ufeff첫 줄\r\n\n둘째 줄", ("text",), "text")
    assert list(table.column("text")) == ["첫 줄\n\n둘째 줄\n"]
    with raises(InputError, "file.text_file_has_no_columns"):
        read(tmp_path, "가", ("text", "label"), "text")


def test_one_text_with_a_bad_line_is_bad(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\nb\n\xff\n")
    with pytest.raises(InputError, match=r"a\.txt:3: byte 1 is not UTF-8"):
        read_table(tmp_path / "a.txt", ("text",), format="text")


def test_json_lines_in_a_file_named_json(tmp_path: Path) -> None:
    """As of many corpora; a bad row has its line."""
    good = '{"text": "좋아요", "label": "1"}\n'
    table = read(tmp_path, good + good, ("text", "label"), name="a.json")
    assert list(table.column("text")) == ["좋아요"] * 2
    with pytest.raises(InputError, match=r"a\.json:2: not JSON"):
        read(tmp_path, good + "{\n" + good, ("text", "label"), name="a.json")


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ('"text"\t"label"\n"좋아요"\t"1"\n', "the header"),
        ('text\tlabel\n"좋아요"\t1\n"싫어요"\t0\n', "every cell of column 'text'"),
    ],
)
def test_a_quoted_tsv_is_refused(tmp_path: Path, content: str, where: str) -> None:
    """Written by pandas or Excel with the quotes of CSV, which would be learned with the text."""
    sentence = rf"a\.tsv: cells of TSV must not be quoted, got {where} in double quotes; save "
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, content, ("text", "label"), name="a.tsv")


def test_some_quoted_cells_are_texts(tmp_path: Path) -> None:
    content = 'text\tlabel\n"명작"\t1\n좋아요\t1\n'
    table = read(tmp_path, content, ("text", "label"), name="a.tsv")
    assert list(table.column("text")) == ['"명작"', "좋아요"]
    table = read(tmp_path, 'text\tlabel\n"명작"\t1\n', ("text", "label"), name="a.tsv")
    assert list(table.column("text")) == ['"명작"']


def test_a_header_with_spaces_around_its_names(tmp_path: Path) -> None:
    table = read(tmp_path, " text \tlabel\n좋아요\t1\n", ("text", "label"), name="a.tsv")
    assert list(table.column("text")) == ["좋아요"]
