"""The report on own files: labels, repeated rows, lines and encodings, similar labels."""

import gzip
from pathlib import Path

from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.report import DataReport, Lengths, data_report
from jumok.data.splits import MULTI_LABEL, TAGGING, Splits
from jumok.data.table import Table


def write(path: Path, *rows: str, header: str = "text\tlabel") -> str:
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return str(path)


def report(config: DataConfig, columns: tuple[str, ...] = ("text", "label")) -> DataReport:
    return data_report(load_splits(config, columns), config)


def test_counts_of_each_split_and_between_them(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "가\t1", "가\t1", "가\t2", "", "나\t2", "다\t3", "\t1")
    dev = write(tmp_path / "dev.tsv", "가\t2", "라\t1", "마\t9")
    found = report(DataConfig(train=train, dev=dev, on_bad_rows="skip", labels=("1", "2", "3")))
    first, second = found.splits["train"], found.splits["dev"]
    assert (first.rows, first.labels) == (5, {"1": 2, "2": 2, "3": 1})
    assert (first.repeated, first.contradictory, first.blank, first.bad) == (2, 1, 1, 1)
    assert (second.rows, second.repeated, second.blank, second.bad) == (2, 0, 0, 1)
    assert (found.overlap["dev"].inputs, found.overlap["dev"].whole_rows) == (1, 1)
    assert found.missing == {"dev": ("3",)}
    assert [str(message) for message in found.messages()] == [
        "train: 5 rows, UTF-8, 2 repeated, 1 of them with another label, 1 blank line, "
        "1 unusable. 1 2, 2 2, 3 1",
        "dev: 2 rows, UTF-8, 0 repeated, 0 blank lines, 1 unusable, 1 also in train. 1 1, 2 1",
        "dev has no row of the label 3",
    ]


def test_labels_that_differ_in_case_or_spaces_are_named(tmp_path: Path) -> None:
    """Booleans of files that several programs have written: four classes instead of two."""
    train = write(
        tmp_path / "a.tsv", "가\tTrue", "나\tTRUE", "다\tFalse", "라\tIT 과학", "마\tIT과학"
    )
    found = report(DataConfig(train=train, dev=train))
    assert found.similar == (("IT 과학", "IT과학"), ("TRUE", "True"))
    assert "'TRUE', 'True'" in str(list(found.messages())[-1])


def test_labels_of_multi_label_rows_and_tags_are_counted_singly(tmp_path: Path) -> None:
    several = write(tmp_path / "several.tsv", "가\t연기|음악", "나\t음악", "다\t")
    found = report(DataConfig(train=several, dev=several), MULTI_LABEL)
    assert found.splits["train"].labels == {"음악": 2, "연기": 1}
    tags = write(tmp_path / "tags.tsv", "서울\tB-LC I-LC", "그\tO", header="text\ttags")
    found = report(DataConfig(train=tags, dev=tags), TAGGING)
    assert found.splits["dev"].labels == {"LC": 1}  # rows


def test_the_encoding_of_each_file(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.tsv", "가\t1", "나\t2")
    marked = tmp_path / "marked.tsv.gz"
    marked.write_bytes(gzip.compress(b"\xef\xbb\xbf" + Path(plain).read_bytes()))
    found = report(DataConfig(train=plain, dev=marked.name, folder=str(tmp_path)))
    assert found.splits["train"].encodings == ("UTF-8",)
    assert found.splits["dev"].encodings == ("UTF-8 with BOM",)
    own = report(DataConfig(train=plain, dev_rows=1))
    assert own.splits["dev"].encodings == ()  # its rows are of train


def test_lengths_and_rows_of_pieces() -> None:
    table = Table.from_columns({"text": [["▁가"], ["▁가"], ["▁나"]], "label": ["1", "1", "2"]})
    splits = Splits({"train": table, "dev": table.slice(0, 1)})
    found = data_report(splits, lengths=Lengths(16, {"train": 2, "dev": 0}))
    assert (found.splits["train"].repeated, found.overlap["dev"].inputs) == (1, 1)
    first, *_ = map(str, found.messages())
    assert first == "train: 3 rows, 1 repeated, 2 (66.7%) longer than 16 tokens. 1 2, 2 1"
