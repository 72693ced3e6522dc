"""Recipes' data: known corpora with their traps, and one's own files."""

import collections
import json
import lzma
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from jumok.data.config import DataConfig
from jumok.data.contamination import contamination
from jumok.data.files.formats import Format
from jumok.data.files.labels import label_cells
from jumok.data.files.tables import read_table
from jumok.data.load import load_splits
from jumok.data.splits import CLASSIFICATION, PAIRS, REGRESSION, SEQUENCES, TAGGING, TEXTS, Splits
from jumok.data.table import Table
from jumok.data.table_files import evaluation_table
from jumok.errors import InputError, StorageError
from tests.errors import raises
from tests.shared_data import shared_data

COLUMNS = {"text": "document", "label": "label"}
NSMC = DataConfig(corpus="nsmc")


@pytest.fixture(scope="module")
def common_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("common-cache")


@pytest.fixture
def nsmc(cache_home: Path, common_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the official files; they are parsed once for all tests here."""
    folder = shared_data("nsmc")
    monkeypatch.setenv("JUMOK_DATA", str(folder.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(common_cache))
    return folder


@pytest.mark.slow
def test_nsmc_splits(nsmc: Path) -> None:
    splits = load_splits(NSMC)
    assert splits.labels == ("negative", "positive")
    assert {name: len(table) for name, table in splits.tables.items()} == {
        "train": 140_000 - 4,  # four of the five empty reviews; the fifth is in the dev rows
        "dev": 10_000,
        "test": 50_000,
    }
    assert "" not in set(splits.train.column("text"))
    assert list(splits.test.column("text")).count("") == 3
    assert collections.Counter(splits.test.column("label")) == {
        "negative": 24_827,
        "positive": 25_173,
    }
    everything = read_table(nsmc / "ratings_train.txt.xz", COLUMNS, format="tsv")
    assert list(splits.dev.column("text")) == everything.column("text")[-10_000:]


def test_only_the_official_files_are_unquoted(nsmc: Path, tmp_path: Path) -> None:
    content = lzma.decompress((nsmc / "ratings_test.txt.xz").read_bytes())
    (tmp_path / "official").write_bytes(content)
    official = read_table(tmp_path / "official", COLUMNS, format="tsv")
    assert list(official.column("text")).count("") == 3
    assert not any(text.startswith('"""') for text in official.column("text"))
    (tmp_path / "other").write_bytes(content + "1\t또 하나\t1\n".encode())
    with pytest.raises(InputError, match=r"(?s)^3 rows .*other:5748: empty text"):
        read_table(tmp_path / "other", COLUMNS, format="tsv")
    other = read_table(tmp_path / "other", COLUMNS, format="tsv", on_bad_rows="skip")
    assert sum(text.startswith('"""') for text in other.column("text")) == 233


def test_a_changed_corpus_is_refused(cache_home: Path) -> None:
    folder = cache_home / "jumok" / "data" / "nsmc"
    folder.mkdir(parents=True)
    write(folder / "ratings_test.txt", "id\tdocument\tlabel\n1\t좋다\t1\n")
    with raises(InputError, "data.not_official_file"):
        load_splits(NSMC, only=["test"])


@pytest.mark.slow
def test_rows_can_be_limited(nsmc: Path) -> None:
    few = DataConfig(corpus="nsmc", train_rows=100, dev_rows=50, test_rows=30)
    splits = load_splits(few)
    assert [len(table) for table in splits.tables.values()] == [100, 50, 30]


def test_a_missing_corpus_says_how_to_get_it() -> None:
    with raises(InputError, "corpus.missing"):
        load_splits(NSMC)


def test_numbers_are_generated() -> None:
    config = DataConfig(corpus="numbers", train_rows=20, dev_rows=5, test_rows=4, seed=3)
    splits = load_splits(config, SEQUENCES)
    assert {name: len(table) for name, table in splits.tables.items()} == {
        "train": 20,
        "dev": 5,
        "test": 4,
        "test_patterns": 4,
        "test_sentences": 4,
    }
    again = load_splits(config, SEQUENCES, only=["test"])
    assert list(again.test.column("source")) == list(splits.test.column("source"))
    with raises(InputError, "data.no_such_split"):
        _ = again.train


def test_a_corpus_of_another_kind_is_refused() -> None:
    with raises(InputError, "data.corpus_without_columns"):
        load_splits(DataConfig(corpus="numbers"), CLASSIFICATION)


def write(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    rows = "".join(f"{n}번 글\t{'싫다' if n % 3 else '좋다'}\n" for n in range(30))
    write(tmp_path / "train.tsv", f"글\t평\n{rows}")
    write(tmp_path / "test.tsv", "글\t평\n새 글\t좋다\n")
    return tmp_path


def test_own_files(own: Path) -> None:
    config = DataConfig(
        train=str(own / "train.tsv"), test=str(own / "test.tsv"), text="글", label="평"
    )
    splits = load_splits(config)
    assert splits.labels == ("싫다", "좋다")
    assert [len(splits[name]) for name in ("train", "dev", "test")] == [27, 3, 1]
    assert sorted(splits.dev.column("label")) == ["싫다", "싫다", "좋다"]
    assert list(load_splits(config, only=["dev"]).dev.column("text")) == list(
        splits.dev.column("text")
    )
    last = load_splits(replace(config, dev_split="last"))
    assert list(last.dev.column("text")) == ["27번 글", "28번 글", "29번 글"]
    assert list(load_splits(config, only=["test"]).tables) == ["test"]


def test_a_label_only_the_test_has_is_refused_before_training(own: Path) -> None:
    test = write(own / "test.tsv", "글\t평\n새 글\t그저\n")
    config = DataConfig(train=str(own / "train.tsv"), test=test, text="글", label="평")
    with pytest.raises(InputError, match=r"test\.tsv:2: unknown label '그저', expected one of"):
        load_splits(config)


def test_a_text_on_one_line_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "한 줄로 된 긴 글입니다.\n")
    with raises(InputError, "data.one_line"):
        load_splits(DataConfig(train=path), TEXTS)
    assert len(load_splits(DataConfig(train=path, format="text"), TEXTS).dev) == 1


def test_labels_with_commas_are_quoted_in_messages(own: Path) -> None:
    labels = ("생활, 문화", "정치")
    config = DataConfig(train=str(own / "train.tsv"), text="글", label="평", labels=labels)
    with pytest.raises(InputError, match="expected one of '생활, 문화', 정치"):
        load_splits(config)


def test_labels_that_are_numbers_keep_their_order(tmp_path: Path) -> None:
    rows = "".join(f"글\t{n}\n" for n in (10, 2, 1, 10))
    train = write(tmp_path / "train.tsv", f"text\tlabel\n{rows}")
    assert load_splits(DataConfig(train=train)).labels == ("1", "2", "10")
    assert label_cells(("1", "2", "10")) == {"1": "1", "2": "2", "10": "10"}


def test_one_label_is_not_enough(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "text\tlabel\n가\t1\n나\t1\n")
    with raises(InputError, "data.one_label"):
        load_splits(DataConfig(train=train))


def test_own_parallel_files(tmp_path: Path) -> None:
    source = write(tmp_path / "a.ko", "하나\n둘\n셋\n")
    target = write(tmp_path / "a.en", "one\ntwo\nthree\n")
    splits = load_splits(
        DataConfig(train=(source, target), dev_rows=1, dev_split="last"), SEQUENCES
    )
    assert list(splits.train.column("target")) == ["one", "two"]
    assert list(splits.dev.column("source")) == ["셋"]
    with raises(InputError, "data.too_many_dev_rows"):
        load_splits(DataConfig(train=(source, target), dev_rows=3, dev_split="last"), SEQUENCES)


def test_labels_in_a_file_of_their_own(tmp_path: Path) -> None:
    """Parallel files are checked as one file is: before training, by the names that are known."""
    texts, labels = (
        write(tmp_path / "a.txt", "가\n나\n다\n"),
        write(tmp_path / "b.txt", "0\n1\n0\n"),
    )
    config = DataConfig(
        train=(texts, labels), dev_rows=1, dev_split="last", labels=("나쁨", "좋음")
    )
    assert list(load_splits(config).train.column("label")) == ["나쁨", "좋음"]
    test = write(tmp_path / "c.txt", "라\n"), write(tmp_path / "d.txt", "2\n")
    with pytest.raises(InputError, match=r"d\.txt:1: unknown label '2', expected one of 0, 1"):
        load_splits(DataConfig(train=(texts, labels), test=test, dev_rows=1, dev_split="last"))


@pytest.mark.parametrize(
    ("names", "format_"), [(("a.tsv", "b.tsv"), None), (("a.txt", "b.txt"), "tsv")]
)
def test_tables_are_not_read_side_by_side(
    tmp_path: Path, names: tuple[str, str], format_: Format | None
) -> None:
    files = tuple(write(tmp_path / name, "text\tlabel\n가\t0\n나\t1\n") for name in names)
    with raises(InputError, "data.several_files_not_plain"):
        load_splits(DataConfig(train=files, format=format_))
    lines = load_splits(
        DataConfig(train=files, format="lines", dev_rows=1, dev_split="last"), SEQUENCES
    )
    assert lines.train.column("source")[0] == "text\tlabel"


def test_the_train_file_is_not_needed_where_the_labels_are_known(own: Path) -> None:
    (own / "train.tsv").unlink()
    config = DataConfig(
        train=str(own / "train.tsv"),
        test=str(own / "test.tsv"),
        text="글",
        label="평",
        labels=("싫다", "좋다"),
    )
    assert list(load_splits(config, only=["test"]).test.column("label")) == ["좋다"]


def test_the_notes_files_of_pieces(tmp_path: Path) -> None:
    lines = [{"doc": ["▁좋", "다"], "label": 1}, {"doc": ["▁싫다"], "label": 0}] * 10
    train = write(tmp_path / "ratings_train.jsonl", "".join(json.dumps(r) + "\n" for r in lines))
    config = DataConfig(train=train, pieces=True, labels=("negative", "positive"))
    splits = load_splits(config)
    assert splits.train.pieces("text")[0] == ["▁좋", "다"]
    assert splits.train.column("label")[0] == "positive"


def test_bad_rows_stop_or_are_skipped(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "text\tlabel\n가\t0\n나\t1\n다\n라\t0\n")
    with pytest.raises(InputError, match=r"train\.tsv:4: 1 cell, expected 2"):
        load_splits(DataConfig(train=train))
    splits = load_splits(DataConfig(train=train, on_bad_rows="skip", dev_rows=1))
    assert (len(splits.train), splits.train.bad_rows.count) == (2, 1)
    assert splits.dev.bad_rows.count == 0  # it is a part of train, where they are counted


@pytest.mark.parametrize("name", ["data.tsv", "data.txt", "data"])
def test_an_evaluated_file_is_tsv_with_the_columns_of_the_recipe(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "label\tid\tdocument\n1\t7\t좋다\nnegative\t8\t싫다\n")
    table = evaluation_table(path, NSMC, CLASSIFICATION, ("negative", "positive"))
    assert list(table.column("text")) == ["좋다", "싫다"]
    assert list(table.column("label")) == ["positive", "negative"]


def test_the_evaluated_official_test_file_has_all_rows(nsmc: Path) -> None:
    path = nsmc / "ratings_test.txt.xz"
    assert len(evaluation_table(path, NSMC, CLASSIFICATION, ("negative", "positive"))) == 50_000


def test_invalid_data_settings() -> None:
    with raises(InputError, "corpus.unknown_corpus"):
        DataConfig(corpus="nscm")
    with raises(InputError, "data.corpus_and_files"):
        DataConfig(corpus="nsmc", train="a.tsv")
    with raises(InputError, "config.out_of_range"):
        DataConfig(train_rows=-1)
    with raises(InputError, "data.recipe_no_data"):
        load_splits(DataConfig())


def test_own_pairs_and_scores(tmp_path: Path) -> None:
    rows = "".join(f"{n}번 글\t그 {n}번\t{n / 2}\n" for n in range(10))
    train = write(tmp_path / "train.tsv", f"하나\t둘\t점수\n{rows}")
    config = DataConfig(
        train=train, text="하나", pair="둘", score="점수", dev_rows=2, dev_split="last"
    )
    splits = load_splits(config, REGRESSION)
    assert list(splits.dev.numbers("score")) == [4.0, 4.5]
    assert list(splits.dev.column("pair")) == ["그 8번", "그 9번"]
    pairs = DataConfig(train=train, text="하나", pair="둘", label="점수", labels=("0.0", "0.5"))
    with pytest.raises(InputError, match=r"train\.tsv:4: unknown label '1\.0'"):
        load_splits(pairs, PAIRS)


@pytest.mark.parametrize("cell", ["많이", "", "nan", "inf", "1,5", "4_5"])
def test_a_score_is_a_number(tmp_path: Path, cell: str) -> None:
    train = write(tmp_path / "train.tsv", f"text\tpair\tscore\n가\t나\t{cell}\n가\t나\t1\n")
    with pytest.raises(InputError, match=rf"train\.tsv:2: score '{cell}' is not a number"):
        load_splits(DataConfig(train=train), REGRESSION)


def test_own_tagged_sentences(tmp_path: Path) -> None:
    rows = "서울 가\tB-LC I-LC O O\n" * 3 + "철수\tB-PS I-PS\n"
    train = write(tmp_path / "train.tsv", f"text\ttags\n{rows}")
    splits = load_splits(DataConfig(train=train, dev_rows=1, dev_split="last"), TAGGING)
    assert splits.labels == ("O", "B-LC", "I-LC", "B-PS", "I-PS")
    assert splits.dev.column("tags")[0].split(" ") == ["B-PS", "I-PS"]
    test = write(tmp_path / "test.tsv", "text\ttags\n밤\tB-TI\n")
    with pytest.raises(InputError, match=r"test\.tsv:2: unknown tag 'B-TI', expected one of O,"):
        load_splits(DataConfig(train=train, test=test, dev_rows=1, dev_split="last"), TAGGING)


def test_decomposed_tags(tmp_path: Path) -> None:
    apart = unicodedata.normalize("NFD", "B-곳")
    rows = f"밤\tB-곳\n낮\t{apart}\n강\tO\n"
    train = write(tmp_path / "train.tsv", f"text\ttags\n{rows}")
    splits = load_splits(DataConfig(train=train, dev_rows=1, dev_split="last"), TAGGING)
    assert splits.labels == ("O", "B-곳")
    assert list(splits.train.column("tags")) == ["B-곳", "B-곳"]
    known = load_splits(
        DataConfig(train=train, dev_rows=1, dev_split="last", labels=("O", apart)), TAGGING
    )
    assert known.labels == ("O", "B-곳")


def test_a_tag_is_needed(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "text\ttags\n밤\tO\n낮\tO\n")
    with raises(InputError, "data.no_entities"):
        load_splits(DataConfig(train=train), TAGGING)


@pytest.mark.parametrize(
    ("tags", "fault"),
    [
        ("B-LC I-LC O", "3 tags for 4 characters"),
        ("B-LC I-LC  O", "tag '', expected O, B-X or I-X"),
        ("B-LC I-LC O X", "tag 'X', expected O, B-X or I-X"),
        ("", "tag '', expected O, B-X or I-X"),
    ],
)
def test_invalid_tags(tmp_path: Path, tags: str, fault: str) -> None:
    train = write(tmp_path / "train.tsv", f"text\ttags\n서울 가\t{tags}\n가\tO\n")
    with pytest.raises(InputError, match=rf"train\.tsv:2: {fault}"):
        load_splits(DataConfig(train=train), TAGGING)


def test_a_file_that_is_one_text(tmp_path: Path) -> None:
    text = "".join(f"{n}번 줄\n" for n in range(100)) + "\n끝"
    train = write(tmp_path / "novel.txt", text)
    config = DataConfig(train=train, format="text")
    splits = load_splits(config, TEXTS)
    (begin,), (end,) = splits.train.column("text"), splits.dev.column("text")
    assert begin + end == text + "\n"  # every line ends in one, the last too
    assert len(begin) == len(text + "\n") * 9 // 10
    assert list(evaluation_table(train, config, TEXTS).column("text")) == [text + "\n"]


def test_evaluated_texts_are_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "more.txt", "첫 줄\n둘째\t줄\n")
    config = DataConfig(corpus="nsmc-text")
    assert list(evaluation_table(path, config, TEXTS).column("text")) == ["첫 줄", "둘째\t줄"]


@pytest.mark.slow
def test_extra_corpora_are_learned_from_as_well(tmp_path: Path) -> None:
    spoken = load_splits(DataConfig(corpus="numbers"), SEQUENCES, only=["train"]).train
    first, second = list(dict.fromkeys(spoken.column("source")))[:2]
    train = write(tmp_path / "train.tsv", f"source\ttarget\n{first}\t틀린 글\n{second}\t다른 글\n")
    config = DataConfig(train=train, dev_rows=1, extra=("numbers",))
    splits = load_splits(config, SEQUENCES)
    (held_out,) = splits.dev.column("source")
    (kept,) = {first, second} - {held_out}
    again = spoken.column("source")[:].count(held_out)
    assert len(splits.train) == 1 + len(spoken) - again  # what is in dev is not learned
    assert splits.train.column("source")[0] == kept
    assert held_out not in set(splits.train.column("source"))
    assert splits.dev.column("target")[0] == ("틀린 글" if held_out == first else "다른 글")
    with pytest.raises(InputError, match=r"no corpus is named 'numbres'; did you mean numbers"):
        DataConfig(train=train, extra=("numbres",))
    with raises(InputError, "data.corpus_without_columns"):
        load_splits(DataConfig(train=train, text="source", label="target", extra=("numbers",)))


def test_an_extra_with_other_labels_is_refused(nsmc: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "text\tlabel\n가\t좋다\n나\t싫다\n다\t좋다\n")
    config = DataConfig(train=train, dev_rows=1, extra=("nsmc",))
    with raises(InputError, "data.extra_corpus_labels"):
        load_splits(config)


def test_a_corpus_of_which_one_file_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMOK_DATA", str(tmp_path))
    with raises(InputError, "corpus.missing"):
        load_splits(DataConfig(corpus="enko"), SEQUENCES)


# Letters stored apart, as files from macOS hold them


def test_labels_differ_by_their_composed_letters_only(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    apart = unicodedata.normalize("NFD", "긍정")
    path.write_text(f"text\tlabel\n가\t긍정\n나\t{apart}\n다\t부정\n라\t부정 \n", "utf-8")
    splits = load_splits(DataConfig(train=str(path), dev=str(path)))
    assert splits.labels == ("긍정", "부정")
    assert list(splits.dev.column("label")) == ["긍정", "긍정", "부정", "부정"]


def test_a_text_is_held_out_in_either_form() -> None:
    text = unicodedata.normalize("NFD", "재미있다")
    train = Table.from_columns({"text": ["재미있다", "별로다"], "label": ["1", "0"]})
    assert list(train.without("text", [text]).column("text")) == ["별로다"]
    test = Table.from_columns({"text": [text], "label": ["1"]})
    found = contamination(Splits({"train": train, "test": test}))["test"]
    assert (found.inputs, found.whole_rows) == (1, 1)


# Files to be scored, in the format of the recipe


def test_decomposed_headers(tmp_path: Path) -> None:
    header = unicodedata.normalize("NFD", "리뷰")
    (tmp_path / "own.tsv").write_text(f"{header}\tlabel\n가\t0\n나\t1\n다\t0\n", "utf-8")
    splits = load_splits(
        DataConfig(train=str(tmp_path / "own.tsv"), text="리뷰", dev_rows=1, dev_split="last")
    )
    assert list(splits.train.column("text")) == ["가", "나"]


@pytest.mark.parametrize("labels", [("x", "x"), ("x",), ("가", unicodedata.normalize("NFD", "가"))])
def test_labels_are_two_or_more_names(labels: tuple[str, ...]) -> None:
    with raises(InputError, "data.too_few_labels"):
        DataConfig(labels=labels)


def test_a_corpus_has_its_own_format() -> None:
    with raises(InputError, "data.format_with_corpus"):
        DataConfig(corpus="nsmc", format="csv")


def test_a_missing_file_names_the_searched_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=f"own.tsv cannot be read .* relative to {tmp_path}"):
        load_splits(DataConfig(train="own.tsv"))


@pytest.mark.parametrize("name", ["texts", "texts/*.txt", "texts/**/*.txt"])
def test_a_folder_of_texts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "texts" / "b.txt", "다\n\n라\n")
    write(tmp_path / "texts" / "a.txt", "가\n나\n")
    write(tmp_path / "texts" / "notes.md", "마\n")
    if "**" in name or name == "texts":
        write(tmp_path / "texts" / "c" / "c.txt", "바\n")
    config = DataConfig(train="texts", dev="texts/a.txt", folder=str(tmp_path))
    splits = load_splits(replace(config, train=name), TEXTS)
    expected = ["가", "나", "다", "라", *(["바"] if name != "texts/*.txt" else [])]
    assert list(splits.train.column("text")) == expected
    assert splits.train.bad_rows.blank == 1
    assert splits.train.sha256 not in ("", splits.dev.sha256)
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    relative = replace(config, train=name, folder="").of_run(tmp_path / "run")
    monkeypatch.chdir("/")
    table = evaluation_table(tmp_path / name, config, TEXTS)
    assert list(table.column("text")) == expected
    again = load_splits(relative.relocated(tmp_path / "run"), TEXTS)
    assert list(again.train.column("text")) == expected


def test_whole_texts_of_a_folder(tmp_path: Path) -> None:
    for n in range(10):
        write(tmp_path / "texts" / f"{n}.txt", f"문서 {n}\n둘째 줄\n")
    splits = load_splits(DataConfig(train=str(tmp_path / "texts"), format="text"), TEXTS)
    assert len(splits.train) == 9
    assert len(splits.dev) == 1


def test_folders_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with raises(InputError, "data.no_such_files"):
        load_splits(DataConfig(train=str(tmp_path / "empty")), TEXTS)
    with raises(InputError, "data.no_such_files"):
        load_splits(DataConfig(train=str(tmp_path / "*.txt")), TEXTS)
    write(tmp_path / "texts" / "a.txt", "가\n")
    with raises(InputError, "data.several_files_one_column"):
        load_splits(DataConfig(train=str(tmp_path / "texts")), CLASSIFICATION)
