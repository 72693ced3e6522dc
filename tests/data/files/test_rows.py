"""Each invalid row is reported with file, line and reason; it stops, or is skipped and counted."""

import gzip
import lzma
from pathlib import Path

import pytest

from jumok.data.files import tables
from jumok.data.files.rows import OnBadRows
from jumok.data.files.tables import read_parallel, read_table
from jumok.errors import InputError
from tests.errors import raises

HEADER = b"id\tdocument\tlabel\n"
GOOD = "1\t좋아요\t1\n".encode()
COLUMNS = {"text": "document", "label": "label"}
NAMES = {"0": "negative", "1": "positive"}

TSV_FAULTS = {
    "missing column": ("2\t글\n".encode(), r"2 cells, expected 3 \(got '2\\t글'\)"),
    "extra cells": ("2\t글\t글\t1\n".encode(), r"4 cells, expected 3 \(got '2\\t글\\t글\\t1'\)"),
    "label out of range": ("2\t글\t7\n".encode(), "unknown label '7', expected one of 0, 1"),
    "label between": ("2\t글\t1.5\n".encode(), "unknown label '1.5', expected one of 0, 1"),
    "no label": ("2\t글\t\n".encode(), "unknown label '', expected one of 0, 1"),
    "lone byte": (b"2\t\xff\t1\n", r"byte 3 is not UTF-8 \(got b'2\\t\\xff\\t1'\)"),
    "overlong": (b"2\t\xc0\x80\t1\n", "byte 3 is not UTF-8"),
    "cut character": (b"2\t\xea\xb0\t1\n", "byte 3 is not UTF-8"),
    "cp949": (
        "2\t재미있다\t1\n".encode("cp949"),
        r"byte 3 is not UTF-8, it may be cp949 \(got [^\n]*\)\n  convert the file with iconv -f",
    ),
    "NUL": (b"2\ta\0b\t1\n", r"a NUL character \(got '2\\ta\\x00b\\t1'\)"),
    "empty text": (b"2\t\t1\n", r"empty text \(got ''\)"),
    "white space": ("2\t \u3000\t1\n".encode(), "empty text"),
    "megabyte line": (
        b"2\t" + b"x" * 2**20 + b"\t1\n",
        r"a line of 1,048,581 bytes, expected at most 1,048,576 \(got b'2\\txxx",
    ),
}


@pytest.mark.parametrize("fault", TSV_FAULTS)
def test_a_bad_row_stops_with_file_line_and_reason(tmp_path: Path, fault: str) -> None:
    line, reason = TSV_FAULTS[fault]
    path = tmp_path / "reviews.tsv"
    path.write_bytes(HEADER + GOOD + line + GOOD)
    with pytest.raises(InputError, match=rf"(?s)^1 row .*reviews\.tsv:3: {reason}") as caught:
        read_table(path, COLUMNS, labels=NAMES)
    assert str(caught.value).startswith(
        "1 row cannot be used; correct it, or remove it from the file:\n"
    )
    with pytest.raises(InputError, match="correct it, or skip it with the setting:"):
        read_table(path, COLUMNS, labels=NAMES, skip_with="the setting")


def test_several_bad_rows_are_them(tmp_path: Path) -> None:
    path = tmp_path / "reviews.tsv"
    path.write_bytes(HEADER + GOOD + 2 * TSV_FAULTS["white space"][0])
    with pytest.raises(
        InputError, match=r"^2 rows .*; correct them, or remove them from the file:"
    ):
        read_table(path, COLUMNS, labels=NAMES)


@pytest.mark.parametrize("fault", TSV_FAULTS)
def test_a_bad_row_is_skipped_and_counted(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "reviews.tsv"
    path.write_bytes(HEADER + GOOD + TSV_FAULTS[fault][0] + GOOD)
    table = read_table(path, COLUMNS, labels=NAMES, on_bad_rows="skip")
    assert list(table.column("text")) == ["좋아요", "좋아요"]
    assert table.bad_rows.count == 1
    assert table.bad_rows.first[0].line == 3
    assert str(table.bad_rows).startswith(f"  {path}:3: ")


@pytest.mark.parametrize("byte", range(0x80, 0x100))
def test_invalid_bytes_are_reported(tmp_path: Path, byte: int) -> None:
    path = tmp_path / "a.tsv"
    stray = bytes([byte])
    path.write_bytes(b"text\n" + b"".join([stray + b"ab\n", b"a" + stray + b"b\n", b"ab" + stray]))
    with pytest.raises(InputError, match=r"(?s)3 rows.*:2: byte 1 .*:3: byte 2 .*:4: byte 3 "):
        read_table(path, ["text"])


def test_the_first_ten_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(HEADER + b"2\n" * 1234)
    with pytest.raises(InputError, match=r"(?s)^1,234 rows .*and 1,224 more$") as caught:
        read_table(path, COLUMNS)
    assert str(caught.value).count("expected 3") == 10


def test_no_remaining_row_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(HEADER + b"2\n")
    with raises(InputError, "file.no_usable_row"):
        read_table(path, COLUMNS, on_bad_rows="skip")


def test_a_line_as_long_as_the_limit_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_LINE_BYTES", 100)
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 100 + b"\n" + b"z" * 101 + b"\n")
    table = read_table(path, ["text"], on_bad_rows="skip")
    assert [len(text) for text in table.column("text")] == [99, 100]
    assert table.bad_rows.first[0].line == 3


ARCHIVES = {".gz": gzip.compress, ".xz": lzma.compress}
LINES = "".join(f"{n}번째 줄\n" for n in range(20_000)).encode()


@pytest.mark.parametrize("ending", ARCHIVES)
@pytest.mark.parametrize("share", [0.3, 0.99])
def test_a_truncated_archive_names_the_place(tmp_path: Path, ending: str, share: float) -> None:
    packed = ARCHIVES[ending](LINES)
    path = tmp_path / f"lines.txt{ending}"
    path.write_bytes(packed[: int(len(packed) * share)])
    table = read_table(path, ["text"], on_bad_rows="skip")
    assert list(table.column("text")) == LINES.decode().splitlines()[: len(table)]
    assert table.bad_rows.first[0].line == len(table) + 1
    reason = rf"lines\.txt{ending}:{len(table) + 1}: the {ending} file is truncated here"
    with pytest.raises(InputError, match=reason):
        read_table(path, ["text"])


@pytest.mark.parametrize("ending", ARCHIVES)
def test_damage_inside_an_archive(tmp_path: Path, ending: str) -> None:
    packed = bytearray(ARCHIVES[ending](LINES))
    packed[len(packed) // 2 : len(packed) // 2 + 200] = bytes(200)
    path = tmp_path / f"lines.txt{ending}"
    path.write_bytes(packed)
    with pytest.raises(InputError, match=rf"lines\.txt{ending}:\d+: the {ending} file is damaged"):
        read_table(path, ["text"])


@pytest.mark.parametrize("ending", ARCHIVES)
def test_an_expansion_bomb_is_stopped(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"bomb.txt{ending}"
    path.write_bytes(ARCHIVES[ending](b"x" * 999 + b"\n" + (b"x" * 999 + b"\n") * 20_000))
    with pytest.raises(InputError, match=rf"bomb\.txt{ending}:\d+: decompresses to more than 200"):
        read_table(path, ["text"])


CSV_FAULTS = {
    "missing cell": ("2,글\n".encode(), "2 cells, expected 3"),
    "text after a quote": ('2,"글"글,1\n'.encode(), "not CSV: "),
    "not UTF-8": (b'2,"a\xffb",1\n', r"byte 5 is not UTF-8|byte 4 is not UTF-8"),
    "NUL": (b"2,a\0b,1\n", "a NUL character"),
    "CR": (b"2,a\rb,1\n", "not CSV: "),
    "long line": (b"2," + b"x" * 2**20 + b",1\n", "a line of 1,048,581 bytes"),
}


@pytest.mark.parametrize("fault", CSV_FAULTS)
def test_errors_of_csv(tmp_path: Path, fault: str) -> None:
    line, reason = CSV_FAULTS[fault]
    path = tmp_path / "a.csv"
    path.write_bytes('id,document,label\n1,"두\n줄",1\n'.encode() + line + "3,글,0\n".encode())
    with pytest.raises(InputError, match=rf"(?s)^1 row .*a\.csv:4: ({reason})"):
        read_table(path, COLUMNS)
    table = read_table(path, COLUMNS, on_bad_rows="skip")
    assert list(table.column("text")) == ["두\n줄", "글"]


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,document,label\n1,"' + b"abc,1\n" * 50_000)
    with pytest.raises(InputError, match=r"(?s)^50,000 rows .*a\.csv:2: a cell of more than 131"):
        read_table(path, COLUMNS)


BROKEN_CELLS = {  # lines after the header, the bad ones, the texts of the others
    "closed by the next quote": (b'"a,1\nb,1\nc,"x",0\nd,1\n', [2, 3, 4], ["d"]),
    "never closed": (b'd,1\n"a,1\nb,1\nc,0\n', [3, 4, 5], ["d"]),
    "longer than a cell may be": (
        b'"' + b"a" * 140_000 + b'\nb,1\nc",0\nd,1\n',
        [2, 3, 4],
        ["d"],
    ),
    "too long, on one line": (b'"' + b"a" * 140_000 + b'",0\nd,1\n', [2], ["d"]),
    "a line of it is lost": (
        b'd,1\n"a\n' + b"x" * 2**21 + b'\nb,1\nc",0\ne,1\n',
        [3, 4, 5, 6, 7],
        ["d"],
    ),
}


@pytest.mark.parametrize("cell", BROKEN_CELLS)
def test_every_line_of_an_invalid_multiline_row_is_bad(tmp_path: Path, cell: str) -> None:
    """None is lost uncounted, and of the inside of a cell no row is made."""
    content, bad, texts = BROKEN_CELLS[cell]
    path = tmp_path / "a.csv"
    path.write_bytes(b"document,label\n" + content)
    table = read_table(path, COLUMNS, on_bad_rows="skip")
    assert list(table.column("text")) == texts
    assert [row.line for row in table.bad_rows.first] == bad
    assert table.bad_rows.count == len(bad)


JSON_FAULTS = {
    "broken": ('{"document": ', "not JSON: "),
    "no object": ("[1, 2]", r"not a JSON object \(got '\[1, 2\]'\)"),
    "twins": ('{"label": 0, "document": "글", "label": 1}', "the key 'label' is not unique"),
    "missing key": ('{"document": "글"}', r"no key 'label' \(got 'document'\)"),
    "surrogate": (
        r'{"document": "\ud800", "label": 1}',
        "document has a lone surrogate",
    ),
    "NUL": (r'{"document": "\u0000", "label": 1}', "document has a NUL character"),
    "not a number": ('{"document": NaN, "label": 1}', r"document is not a text \(got 'nan'\)"),
    "truth": ('{"document": "글", "label": true}', "unknown label 'True', expected one of 0, 1"),
    "nothing": ('{"document": "글", "label": null}', "label is not a text"),
    "deep": ("[" * 100_000, "not JSON: "),
    "long number": ('{"document": "글", "label": ' + "9" * 5_000 + "}", "not JSON: "),
    "empty text": ('{"document": "", "label": 1}', "empty text"),
    "label": ('{"document": "글", "label": 2}', "unknown label '2'"),
}


@pytest.mark.parametrize("fault", JSON_FAULTS)
def test_errors_of_json_lines(tmp_path: Path, fault: str) -> None:
    line, reason = JSON_FAULTS[fault]
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"document": "글", "label": 1}}\n{line}\n', encoding="utf-8")
    with pytest.raises(InputError, match=rf"(?s)^1 row .*a\.jsonl:2: {reason}"):
        read_table(path, COLUMNS, labels=NAMES)


def test_parallel_files_of_unequal_length_report_both_counts(tmp_path: Path) -> None:
    (tmp_path / "a.ko").write_text("하나\n둘\n셋\n", encoding="utf-8")
    (tmp_path / "a.en").write_text("one\ntwo\n", encoding="utf-8")
    with raises(InputError, "file.unequal_line_counts"):
        read_parallel([tmp_path / "a.ko", tmp_path / "a.en"], on_bad_rows="skip")


def test_errors_of_parallel_files_name_the_right_file(tmp_path: Path) -> None:
    (tmp_path / "a.ko").write_bytes("하나\n둘\n셋\n".encode())
    (tmp_path / "a.en").write_bytes(b"one\n\nth\xffree\n")
    with pytest.raises(
        InputError, match=r"(?s)2 rows.*a\.en:2: empty target.*a\.en:3: byte 3 is not UTF-8"
    ):
        read_parallel([tmp_path / "a.ko", tmp_path / "a.en"])
    (tmp_path / "b.en.gz").write_bytes(gzip.compress(b"one\ntwo\nthree\n")[:-6])
    with pytest.raises(InputError, match=r"b\.en\.gz:4: the \.gz file is truncated here"):
        read_parallel([tmp_path / "a.ko", tmp_path / "b.en.gz"])


def test_a_huge_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * (32 * 2**20 - 1) + b"\nok\n")
    table = read_table(path, ["text"], on_bad_rows="skip")
    assert list(table.column("text")) == ["ok"]
    assert "a line of 33,554,432 bytes" in str(table.bad_rows.first[0].fault)


@pytest.mark.parametrize("on_bad_rows", ["stop", "skip"])
def test_a_file_in_cp949_has_one_sentence(tmp_path: Path, on_bad_rows: OnBadRows) -> None:
    path = tmp_path / "reviews.tsv"
    path.write_bytes(HEADER + b"".join(f"{i}\t좋아요\t1\n".encode("cp949") for i in range(20)))
    with raises(InputError, "file.encoding_seems_cp949") as caught:
        read_table(path, COLUMNS, labels=NAMES, on_bad_rows=on_bad_rows)
    command = f"iconv -f cp949 -t utf-8 {path} > {tmp_path / 'reviews-utf8.tsv'}"
    assert str(caught.value) == (
        f"{path} must be UTF-8, got an encoding that seems to be cp949; convert the file with "
        f"{command}"
    )
