"""Every known corpus against the real files: how many rows, which labels, and its own trap."""

import collections
import unicodedata
from pathlib import Path

import pytest

from jumok.data.config import DataConfig
from jumok.data.contamination import Contamination, contamination
from jumok.data.corpora.paths import find_file
from jumok.data.corpora.registry import CORPORA
from jumok.data.files.lines import measure_content
from jumok.data.files.tables import DOUBLE_QUOTED_SHA256, read_table
from jumok.data.load import load_splits
from jumok.data.split_rules import hash_bucket
from jumok.data.splits import CLASSIFICATION, PAIRS, REGRESSION, SEQUENCES, TAGGING, TEXTS, Splits
from jumok.errors import DataError, InputError
from tests.errors import raises
from tests.shared_data import shared_data

ROWS = {
    ("ynat", CLASSIFICATION): {"train": 41_654, "dev": 2_000, "test": 2_000},
    ("question_pair", PAIRS): {"train": 6_200, "dev": 688, "test": 688},
    ("kornli", PAIRS): {"train": 6_768, "dev": 732, "test": 3_000},
    ("korsts", REGRESSION): {"train": 5_749, "dev": 1_500, "test": 1_379},
    ("klue-ner", TAGGING): {"train": 4_000, "dev": 500, "test": 500},
    ("chatbot", SEQUENCES): {"train": 9_427, "dev": 1_169, "test": 1_227},
    ("multi30k-en-de", SEQUENCES): {
        "train": 29_000,
        "dev": 1_014,
        "test": 1_000,
        "test_2017_flickr": 1_000,
        "test_2017_mscoco": 461,
    },
    ("koen", SEQUENCES): {
        "train": 55_870 + 3_302 + 17_043,
        "dev": 1_500 + 250 + 1_000,
        "docs_test": 1_500,
        "tatoeba_test": 250,
        "bible_test": 1_000,
        "news_test": 2_000,
        "docs_dev": 1_500,
        "tatoeba_dev": 250,
        "bible_dev": 1_000,
        "news_dev": 1_000,
    },
    ("enko-1961", SEQUENCES): {"train": 11_823},
}


@pytest.fixture(scope="module")
def common_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("common-cache")


@pytest.fixture
def shared(cache_home: Path, common_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all corpora; each is parsed once for all tests here."""
    folder = shared_data()
    monkeypatch.setenv("JUMOK_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(common_cache))
    return folder


def counts(splits: Splits) -> dict[str, int]:
    return {name: len(table) for name, table in splits.tables.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "columns"), ROWS)
def test_rows_of_each_split(shared: Path, name: str, columns: tuple[str, ...]) -> None:
    splits = load_splits(DataConfig(corpus=name), columns)
    assert counts(splits) == ROWS[name, columns]
    for table in splits.tables.values():
        assert table.column_names == columns
        assert table.bad_rows.count == 0


ASSEMBLED = ("shakespeare", "ko-small", "koen-small", "enko-small")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # `jumok data assemble` makes the last three; tests/lab compares their bytes
    [n for n, corpus in CORPORA.items() if corpus.files and n not in ASSEMBLED],
)
def test_the_files_have_the_known_checksums(shared: Path, name: str) -> None:
    corpus = CORPORA[name]
    for file in corpus.files:
        path = find_file([shared / corpus.folder(file)], file.name)
        assert path is not None
        found = measure_content(path)
        assert (found.sha256, found.size) == (file.sha256, file.size)
        assert file.compressed_size in (0, path.stat().st_size)


@pytest.mark.slow
def test_no_input_is_in_train_too(shared: Path) -> None:
    """But for what is known: one of Multi30k's val, three pairs of KorSTS, eight questions."""
    known = {
        "multi30k-en-de": {"dev": Contamination(1_014, 1, 0)},
        "korsts": {"dev": Contamination(1_500, 3, 1)},
        "question_pair": {"test": Contamination(688, 8, 8)},
    }
    for name, columns in ROWS:
        found = contamination(load_splits(DataConfig(corpus=name), columns))
        shared_rows = {split: rows for split, rows in found.items() if rows.inputs}
        assert shared_rows == known.get(name, {}), name


def test_multi30k_val_has_one_french_pair_of_train(shared: Path) -> None:
    found = contamination(load_splits(DataConfig(corpus="multi30k-en-fr"), SEQUENCES))
    assert found["dev"] == Contamination(1_014, 1, 1)
    assert sum(rows.inputs for rows in found.values()) == 1


@pytest.mark.slow
def test_nsmc_test_rows_that_are_in_train(shared: Path) -> None:
    splits = load_splits(DataConfig(corpus="nsmc"))
    assert contamination(splits)["test"] == Contamination(50_000, 1_534, 1_465)
    official = {*splits.train.column("text"), *splits.dev.column("text")}
    again = [text for text in splits.test.column("text") if text in official]
    assert (len(again), len(set(again))) == (1_571, 797)  # as counted when the data were gathered


@pytest.mark.slow
def test_ynat_topics_have_names(shared: Path) -> None:
    splits = load_splits(DataConfig(corpus="ynat"))
    assert splits.labels == ("IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치")
    train = collections.Counter(splits.train.column("label"))
    assert [train[name] for name in splits.labels] == [4397, 5657, 6726, 5406, 6977, 6359, 6132]


def test_question_pairs_say_0_for_the_same(shared: Path) -> None:
    """The column is called is_duplicate, and the file begins with a byte order mark."""
    splits = load_splits(DataConfig(corpus="question_pair"), PAIRS)
    rows = zip(*(splits.test.column(name) for name in PAIRS), strict=True)
    alike = {text: label for text, pair, label in rows if text == pair}
    assert set(alike.values()) <= {"same"}
    test = dict(
        zip(splits.test.column("text"), splits.test.column("label"), strict=True)
    )  # two rows read by a person
    assert test["2년 만난 기념일이야"] == "same"
    assert test["21살의 사랑에 대해"] == "different"
    assert all(hash_bucket(text) < 900 for text in splits.train.column("text"))
    assert all(hash_bucket(text) >= 900 for text in splits.dev.column("text"))


def test_kornli_keeps_a_premise_together(shared: Path) -> None:
    splits = load_splits(DataConfig(corpus="kornli"), PAIRS)
    assert not set(splits.train.column("text")) & set(splits.dev.column("text"))
    assert collections.Counter(splits.test.column("label")) == dict.fromkeys(splits.labels, 1_000)
    quoted = [text for text in splits.train.column("text") if '"' in text]
    assert quoted  # quotes are letters like any other


def test_a_recipe_may_name_further_columns_of_a_corpus(shared: Path) -> None:
    config = DataConfig(corpus="chatbot", pair="A")
    table = load_splits(config, ("text", "pair"), only=["dev"]).dev
    dialogue = load_splits(DataConfig(corpus="chatbot"), SEQUENCES, only=["dev"]).dev
    assert list(table.column("pair")) == list(dialogue.column("target"))
    with raises(InputError, "data.corpus_without_columns"):
        load_splits(DataConfig(corpus="chatbot"), ("text", "pair"))


def test_korsts_scores_are_numbers(shared: Path) -> None:
    splits = load_splits(DataConfig(corpus="korsts"), REGRESSION)
    scores = splits.train.numbers("score")
    assert scores[:3] == [5.0, 3.8, 3.8]
    for table in splits.tables.values():
        assert 0 == min(table.numbers("score")) < max(table.numbers("score")) == 5
    with raises(InputError, "data.column_type"):
        splits.train.column("score")
    with raises(InputError, "data.column_type"):
        splits.train.numbers("text")


def test_klue_ner_tags_each_character(shared: Path) -> None:
    splits = load_splits(DataConfig(corpus="klue-ner"), TAGGING)
    assert splits.labels[:3] == ("O", "B-DT", "I-DT")
    tags: collections.Counter[str] = collections.Counter()
    for table in splits.tables.values():
        for text, cell in zip(table.column("text"), table.column("tags"), strict=True):
            row = cell.split(" ")
            assert len(row) == len(text) == len(unicodedata.normalize("NFC", text))
            tags.update(row)
    assert tags.total() == 285_929
    assert (tags["B-PS"], tags["I-TI"], tags["O"]) == (4_418, 2_003, 232_636)
    assert set(tags) == set(splits.labels)


def test_the_first_klue_sentence(shared: Path) -> None:
    splits = load_splits(DataConfig(corpus="klue-ner"), TAGGING)
    rows = {
        text: tags
        for table in splits.tables.values()
        for text, tags in zip(table.column("text"), table.column("tags"), strict=True)
    }
    (text,) = [text for text in rows if text.startswith("경찰은 또 성매매 알선")]
    assert rows[text].startswith("B-OG I-OG O O O O O")


def test_the_chatbot_has_answers_and_topics(shared: Path) -> None:
    answers = load_splits(DataConfig(corpus="chatbot"), SEQUENCES)
    topics = load_splits(DataConfig(corpus="chatbot"), CLASSIFICATION)
    total = collections.Counter(
        label for table in topics.tables.values() for label in table.column("label")
    )
    assert total == {"daily": 5_290, "parting": 3_570, "love": 2_962 + 1}  # one cell is "2   "
    for name in answers.tables:
        assert list(answers[name].column("source")) == list(topics[name].column("text"))
    assert len({text for t in answers.tables.values() for text in t.column("source")}) == 11_662
    renamed = DataConfig(corpus="chatbot", labels=("일상", "이별", "사랑"))
    assert set(load_splits(renamed).train.column("label")) == {"일상", "이별", "사랑"}


@pytest.mark.slow
def test_koen_and_enko_are_the_same_pairs_reversed(shared: Path) -> None:
    koen = load_splits(DataConfig(corpus="koen"), SEQUENCES)
    enko = load_splits(DataConfig(corpus="enko"), SEQUENCES)
    for name in koen.tables:
        assert list(koen[name].column("source")) == list(enko[name].column("target"))
    assert koen.tests == ("docs_test", "tatoeba_test", "bible_test", "news_test")
    assert list(koen.dev.column("target")) == [
        *koen["docs_dev"].column("target"),
        *koen["tatoeba_dev"].column("target"),
        *koen["bible_dev"].column("target"),
    ]
    with pytest.raises(InputError, match=r"no 'test' split; choose one of train, dev, docs_test"):
        _ = koen.test


@pytest.mark.slow
def test_verses_of_1961_as_an_extra(shared: Path) -> None:
    config = DataConfig(corpus="koen", extra=("koen-1961",))
    splits = load_splits(config, SEQUENCES, only=["train"])
    assert counts(splits) == {"train": 76_215 + 11_823}
    limited = DataConfig(corpus="koen", extra=("koen-1961",), train_rows=10)
    assert len(load_splits(limited, SEQUENCES, only=["train"]).train) == 10


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_held_out_sentence_is_in_train(shared: Path) -> None:
    """Neither by the unlabelled lines nor together with the official training reviews."""
    splits = load_splits(DataConfig(corpus="nsmc-text", extra=("nsmc",)), TEXTS)
    assert counts(splits) == {"train": 617_101, "dev": 2_505, "test": 2_406}
    nsmc = load_splits(DataConfig(corpus="nsmc"))
    train = {" ".join(text.split()) for text in splits.train.column("text")}
    for table in (splits.dev, splits.test, nsmc.dev, nsmc.test):
        assert not train & {" ".join(text.split()) for text in table.column("text")}
    alone = load_splits(DataConfig(corpus="nsmc-text"), TEXTS)
    assert counts(alone) == {"train": 480_588, "dev": 2_505, "test": 2_406}
    lines = read_table(find_file([shared / "nsmc"], "unlabelled.txt"), TEXTS).column("text")
    dev = {" ".join(text.split()) for text in nsmc.dev.column("text")}
    assert 485_646 - sum(counts(alone).values()) == 147
    assert sum(text in dev for text in lines) == 147 + 2  # two are held out themselves


def test_novels_are_one_text_cut_at_nine_tenths(shared: Path) -> None:
    splits = load_splits(DataConfig(corpus="novels"), TEXTS)
    (train,), (dev,) = splits.train.column("text"), splits.dev.column("text")
    assert len(train) == int(0.9 * len(train + dev))
    assert (len(train + dev), len((train + dev).encode())) == (705_250, 1_691_616)
    assert "\n\n" in train  # between novels
    assert (train + dev).endswith("\n")


def test_the_double_quoted_files_are_those_of_nsmc() -> None:
    assert {file.sha256 for file in CORPORA["nsmc"].files} == DOUBLE_QUOTED_SHA256


@pytest.mark.slow
def test_flores_is_for_evaluation_only(shared: Path) -> None:
    """It has no training split, so that neither a recipe nor `data.extra` trains on it."""
    for name in ("koen-flores", "enko-flores"):
        splits = load_splits(DataConfig(corpus=name), SEQUENCES)
        assert counts(splits) == {"dev": 997, "test": 1_012}
        with raises(DataError, "data.no_such_split"):
            _ = splits.train
    extra = DataConfig(corpus="koen", extra=("koen-flores",))
    with raises(DataError, "data.no_such_split"):
        load_splits(extra, SEQUENCES)


@pytest.mark.slow
def test_no_sentence_of_flores_is_in_a_training_split(shared: Path) -> None:
    flores = load_splits(DataConfig(corpus="koen-flores"), SEQUENCES)
    held_out = {
        normal_form(text)
        for table in flores.tables.values()
        for column in SEQUENCES
        for text in table.column(column)
    }
    assert len(held_out) > 2 * (997 + 1_012) - 10  # a few are equal
    for name in ("koen", "koen-1961"):
        train = load_splits(DataConfig(corpus=name), SEQUENCES, only=["train"]).train
        for column in SEQUENCES:
            assert not held_out.intersection(map(normal_form, train.column(column)))
    small = find_file([shared / "ko-small"], "ko-small.txt")
    if small is not None:
        assert not held_out.intersection(map(normal_form, read_table(small, TEXTS).column("text")))


def normal_form(text: str) -> str:
    """The letters and digits, without case: what decides that two sentences are equal."""
    return "".join(filter(str.isalnum, text.lower()))
