"""The same rows from every format, whatever the line ends, marks and compression."""

import gzip
import json
import lzma
from pathlib import Path

import pytest

from jumok.data.files.tables import format_of, read_parallel, read_table
from jumok.data.table import Table
from jumok.errors import InputError, StorageError
from tests.errors import raises

ROWS = [
    ("이 영화 정말 재미있어요", "1"),
    ('그는 "명작"이라 했다, 글쎄', "0"),
    ("ㅋㅋ ㅠㅠ ㈜…", "1"),
]
COLUMNS = {"text": "document", "label": "label"}
NAMES = {"0": "negative", "1": "positive"}


def rows_of(table: Table) -> list[tuple[str, str]]:
    return list(zip(table.column("text"), table.column("label"), strict=True))


def tsv(rows: list[tuple[str, str]], end: str = "\n") -> str:
    return "".join(
        "\t".join(row) + end
        for row in [("id", "document", "label"), *[("7", text, label) for text, label in rows]]
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_marks_change_nothing(
    tmp_path: Path, end: str, mark: str, last: bool
) -> None:
    text = mark + tsv(ROWS, end)
    path = tmp_path / "a.tsv"
    path.write_bytes((text if last else text.removesuffix(end)).encode())
    assert rows_of(read_table(path, COLUMNS)) == ROWS


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_compression_changes_nothing(tmp_path: Path, ending: str) -> None:
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[ending]
    path = tmp_path / f"a.tsv{ending}"
    path.write_bytes(pack(tsv(ROWS).encode()))
    plain = tmp_path / "plain.tsv"
    plain.write_text(tsv(ROWS), encoding="utf-8")
    table = read_table(path, COLUMNS)
    assert rows_of(table) == ROWS
    assert table.sha256 == read_table(plain, COLUMNS).sha256


def test_several_gzip_members_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    text = tsv(ROWS).encode()
    path.write_bytes(gzip.compress(text[:50]) + gzip.compress(text[50:]))
    assert rows_of(read_table(path, COLUMNS)) == ROWS


def test_tsv_quotes_mean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"연 따옴표\t0\n"""셋"""\t1\n', encoding="utf-8")
    assert rows_of(read_table(path, ("text", "label"))) == [('"연 따옴표', "0"), ('"""셋"""', "1")]


def test_csv_quotes_and_cells_over_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        'label,document\r\n0,"쉼표, 그리고 ""따옴표"""\r\n1,"두\r\n줄"\r\n', encoding="utf-8-sig"
    )
    assert rows_of(read_table(path, COLUMNS)) == [('쉼표, 그리고 "따옴표"', "0"), ("두\n줄", "1")]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"document": text, "label": int(label), "more": [1]} for text, label in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    table = read_table(path, COLUMNS, labels=NAMES)
    assert rows_of(table) == [(text, NAMES[label]) for text, label in ROWS]


def test_plain_lines_keep_everything_but_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "novel.txt"
    path.write_bytes("가\u2028나\u0085다\n\t한\ufeff글\u200d\x1f\r\n".encode())
    assert list(read_table(path, ["text"]).column("text")) == [
        "가\u2028나\u0085다",
        "\t한\ufeff글\u200d\x1f",
    ]


def test_parallel_files(tmp_path: Path) -> None:
    (tmp_path / "train.ko").write_text("안녕\n잘 가\n", encoding="utf-8")
    (tmp_path / "train.en.gz").write_bytes(gzip.compress(b"hello\nbye"))
    table = read_parallel([tmp_path / "train.ko", tmp_path / "train.en.gz"])
    assert table.column_names == ("source", "target")
    assert list(table.column("source")) == ["안녕", "잘 가"]
    assert list(table.column("target")) == ["hello", "bye"]


def test_columns_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(tsv(ROWS), encoding="utf-8")
    table = read_table(path, COLUMNS)
    column = table.column("text")
    assert len(table) == len(column) == 3
    assert column[-1] == ROWS[2][0]
    assert column[1:] == [text for text, _ in ROWS[1:]]
    assert rows_of(table.slice(1)) == ROWS[1:]
    assert rows_of(table.slice(0, 2)) == ROWS[:2]
    assert "3 rows" in repr(column)
    with pytest.raises(IndexError):
        column[3]
    with raises(InputError, "data.no_column"):
        table.column("txet")


def test_rows_without_text_are_left_out_on_request() -> None:
    table = Table.from_columns({"text": ["가", " \u3000", ""], "label": ["0", "1", "0"]})
    assert rows_of(table.without_empty("text")) == [("가", "0")]
    lists = Table.from_columns({"text": [["가"], []]})
    assert list(lists.without_empty("text").pieces("text")) == [["가"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "file.empty"),
        ("document\tlabel\n", "file.no_usable_row"),
        ("document\tlabels\n글\t1\n", "file.no_column_header"),
        ("글\t1\n글\t0\n", "file.no_column_header"),
        (
            "document\tlabel\tlabel\n글\t1\t1\n",
            "file.column_twice",
        ),
        (
            "\t".join(f"c{i}" for i in range(100_000)) + "\n글\n",
            r"a\.tsv:1: a header must have at most 10,000 columns, got 100,000; name the format",
        ),
        ("\t" * 1_000_000 + "\n글\n", "a header must have at most 10,000 columns, got 1,000,001"),
        ("document\tlabel\r글\t1\r", "file.carriage_return_in_line"),
    ],
)
def test_invalid_headers(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(content.encode())
    with raises(InputError, message):
        read_table(path, COLUMNS)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(tsv(ROWS).encode(encoding))
    with pytest.raises(InputError, match=f"got {encoding.upper()}; convert the file"):
        read_table(path, COLUMNS)


def test_invalid_csv_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"")
    with raises(InputError, "file.empty"):
        read_table(path, COLUMNS)
    path.write_bytes(b"a," * 10_000 + b"b\n")
    with pytest.raises(InputError, match="a header must have at most 10,000 columns, got 10,001"):
        read_table(path, COLUMNS)
    path.write_bytes(b'"a"b,c\n')
    with pytest.raises(InputError, match=r"a\.csv:1: not CSV: .*correct the header"):
        read_table(path, COLUMNS)


def test_paths_that_are_not_files(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"none\.tsv cannot be read \(No such file"):
        read_table(tmp_path / "none.tsv", COLUMNS)
    with raises(InputError, "file.not_a_file"):
        read_table(tmp_path, COLUMNS, format="tsv")
    with raises(InputError, "file.not_a_file"):
        read_table("/dev/zero", COLUMNS, format="tsv")


def test_an_unknown_suffix_needs_a_format(tmp_path: Path) -> None:
    with raises(InputError, "file.unknown_suffix"):
        format_of(tmp_path / "ratings.dat")
    (tmp_path / "a.txt").write_text("글\n", encoding="utf-8")
    with raises(InputError, "file.plain_lines_have_one_column"):
        read_table(tmp_path / "a.txt", COLUMNS)
    with raises(InputError, "file.pieces_need_json"):
        read_table(tmp_path / "a.txt", ["text"], lists=["text"])
    with raises(InputError, "file.file_count"):
        read_parallel([tmp_path / "a.txt"])
