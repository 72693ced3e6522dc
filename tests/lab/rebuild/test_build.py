"""Building corpora: sentences of catalogues, splits without leaks, known results only."""

import hashlib
from pathlib import Path

import pytest

from jumok.cli import main
from jumok.data.corpora.registry import CORPORA, corpus_by_name
from jumok.errors import InputError
from jumok.lab.rebuild.gettext import is_good_pair, paragraph_pairs
from jumok.lab.rebuild.headlines import build_headlines
from jumok.lab.rebuild.held_out_split import split_pairs
from jumok.lab.rebuild.rebuild import BUILDS, build_corpus
from jumok.lab.rebuild.reviews import build_reviews, left_out_positions
from jumok.lab.rebuild.sources import Source
from tests.errors import raises

CATALOGUE = r"""
msgid ""
msgstr "Language: ko\n"

#: library/functions.rst:10
msgid ""
"Return the :func:`len` of *x*.  See :ref:`the list <lists>` and ``a::b`` "
"for more."
msgstr "*x* 의 :func:`len` 을 돌려줍니다.  자세한 내용은 :ref:`목록 <lists>` 과 ``a::b`` 를 보세요."

#, fuzzy
msgid "Not sure."
msgstr "확실하지 않음."

msgid "Not translated."
msgstr ""

#~ msgid "Gone."
#~ msgstr "사라짐."
"""


def test_paragraphs_become_sentences_without_markup() -> None:
    assert list(paragraph_pairs(CATALOGUE)) == [
        ("x 의 len 을 돌려줍니다.", "Return the len of x."),
        ("자세한 내용은 목록 과 a::b 를 보세요.", "See the list and a::b for more."),
    ]


def test_a_paragraph_with_other_code_stays_whole() -> None:
    text = CATALOGUE.replace(":func:`len` 을", ":func:`max` 을")
    ((korean, english),) = paragraph_pairs(text)
    assert korean.count(".") == english.count(".") == 2


def test_pairs_that_are_not_sentences() -> None:
    assert is_good_pair("비가 오는 날입니다.", "It is a rainy day.")
    for korean, english in [
        ("비", "Rain it"),  # too short
        ("It rains today.", "It rains today."),  # not translated
        ("비가 오는 `날` 입니다.", "It is a rainy day."),  # markup
        ("비", "It is a very long sentence about rain in town."),  # too different
    ]:
        assert not is_good_pair(korean, english)


def test_held_out_sentences_are_not_in_train() -> None:
    """Neither a copy with another digit nor a sentence of nearly the same words."""
    rows = [(f"r{i}", f"문장 {chr(0xAC00 + i)}", f"word{chr(97 + i)} alone") for i in range(20)]
    copies = [(f"c{i}", f"{row[1]}!", f"{row[2]} {i}") for i, row in enumerate(rows[:5])]
    parts = split_pairs([*rows, *copies], dev=3, test=4)
    assert (len(parts["dev"]), len(parts["test"])) == (3, 4)
    held_out = {row[0] for part in ("dev", "test") for row in parts[part]}
    assert not held_out & {f"{name}{i}" for name in "rc" for i in range(5)}


def test_train_loses_sentences_like_held_out_ones() -> None:
    same = "the same seven words in every one"
    rows = [(f"r{i}", f"문장 {chr(0xAC00 + i)}", f"{same} {chr(97 + i)}") for i in range(6)]
    parts = split_pairs(rows, dev=1, test=0)
    assert len(parts["dev"]) == 1
    assert parts["train"] == []


def test_headlines_are_split_by_their_hash() -> None:
    lines = [f'{i},"뉴스 {chr(0xAC00 + i)}  제목",{i % 7}' for i in range(5_000)]
    content = "\ufeffindex,title,topic_idx\n" + "\n".join(lines) + '\n5000,"뉴스 가 제목!",1\n'

    def read(source: Source) -> dict[str, bytes]:
        return {source.under[0]: content.encode()}

    built = dict(build_headlines(read))
    rows = {name: text.decode().splitlines()[1:] for name, text in built.items()}
    assert {name: len(found) for name, found in rows.items()} == {
        "train.tsv": 1_001,
        "dev.tsv": 2_000,
        "test.tsv": 2_000,
    }
    assert {row.split("\t")[0] for row in rows["train.tsv"]} >= {"0", "5000"}  # equal letters
    assert dict(build_headlines(read)) == built


def test_reviews_without_labelled_and_repeated_ones() -> None:
    def read(source: Source) -> dict[str, bytes]:
        reviews = (
            (1, 10, "굿"),
            (2, 1, "별로"),
            (3, 7, "그냥  그래"),
            (4, 7, "그냥 그래"),
            (5, 6, " "),
        )
        parts = (
            f'{{"review_id": "{n}", "rating": "{r}", "review": "{text}"}}' for n, r, text in reviews
        )
        return {"raw/1.json": f"[{','.join(parts)}]".encode()}

    assert list(build_reviews(read)) == [("unlabelled.txt", "그냥 그래\n".encode())]


def test_positions_of_left_out_reviews() -> None:
    found = left_out_positions()
    assert found == sorted(set(found))
    assert (len(found), found[:3], found[-1]) == (9_999, [63, 77, 140], 495_631)


def test_only_the_known_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILDS, "ynat", lambda read: iter([("dev.tsv", b"other")]))  # type: ignore[misc]
    found = hashlib.sha256(b"other").hexdigest()[:12]
    with pytest.raises(InputError, match=f"must have the sha256 45a9b090c81e, got {found} from"):
        list(build_corpus(corpus_by_name("ynat"), folder=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_corpora_with_an_address_are_not_built() -> None:
    with raises(InputError, "data.only_built"):
        list(build_corpus(corpus_by_name("nsmc")))


def test_every_built_corpus_has_a_builder() -> None:
    built = {each.name for each in CORPORA.values() if each.built}
    assert built == {"nsmc-text", "ynat", "koen", "enko", "koen-1961", "enko-1961"}
    assert {each.folder(each.files[0]) for each in CORPORA.values() if each.built} == set(BUILDS)


def test_the_command_names_a_missing_clone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["data", "build", "ynat", "--from", str(tmp_path)])
    assert ended.value.code == 2
    assert "daconNewsTopicClassification" in capsys.readouterr().err
