"""The pairs of the translators: what jumok writes itself, and no sentence of a dev or test set."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from jumok.data.config import DataConfig
from jumok.data.corpora.korean_english import PairSource
from jumok.data.corpora.registry import CORPORA
from jumok.data.files.lines import measure_content
from jumok.data.files.tables import read_table
from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES
from jumok.lab.assemble import HeldOut
from jumok.lab.assemble_translation import (
    EVERYDAY,
    OWN_FILES,
    _copies_into_korean,
    assemble_translation,
    evaluation_sentences,
    vary,
)
from jumok.lab.everyday.grammar import Verb, generate, phrases
from tests.cli.commands import call
from tests.shared_data import shared_data


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        (Verb.of("먹", "먹어"), "먹었 먹을 먹습니다 먹는다 먹은 먹으"),
        (Verb.of("가", "가"), "갔 갈 갑니다 간다 간 가"),
        (Verb.of("만들", "만들어"), "만들었 만들 만듭니다 만든다 만든 만드"),
        (Verb.of("듣", "들어", "들으"), "들었 들을 듣습니다 듣는다 들은 들으"),
        (Verb.of("돕", "도와", "도우"), "도왔 도울 돕습니다 돕는다 도운 도우"),
    ],
)
def test_forms_of_verbs(verb: Verb, forms: str) -> None:
    found = (verb.past, verb.future, verb.formal, verb.written, verb.did, verb.open_myeon)
    assert " ".join(found) == forms


def test_generated_sentences_are_whole() -> None:
    pairs = generate(3_000, 1)
    assert len(set(pairs)) == 3_000
    assert pairs == generate(3_000, 1)
    for korean, english in pairs:
        assert korean == " ".join(korean.split())
        assert english == " ".join(english.split())
        assert korean[-1] in ".?!"
        assert english[-1] in ".?!"
        assert not set("*{}:") & set(korean + english)
        assert english[0].isupper()


def test_every_phrase_has_both_languages() -> None:
    for phrase in phrases():
        assert phrase.object
        assert all((phrase.base, phrase.past, phrase.participle))
        assert phrase.third.split()[0].endswith("s")
        assert phrase.ing.split()[0].endswith("ing")


@pytest.mark.parametrize("file", OWN_FILES.values())
def test_own_pairs_are_distinct(file: str) -> None:
    table = read_table(EVERYDAY / file, {"source": "ko", "target": "en"})
    korean, english = table.column("source"), table.column("target")
    assert len(set(korean)) == len(korean) > 600
    assert all(re.search("[가-힣]", text) for text in korean)
    assert not any(re.search("[가-힣]", text) for text in english)


def test_variants_keep_the_letters_and_the_english() -> None:
    pair = ("오늘은 집에 일찍 가요.", "I'm going home early today.")
    variants = {vary(pair, random.Random(seed)) for seed in range(200)}
    assert {english for _, english in variants} == {pair[1]}
    letters = {"".join(filter(str.isalpha, korean)).rstrip("ㅎㅋ") for korean, _ in variants}
    assert letters == {"오늘은집에일찍가요"}
    assert len(variants) > 5


def test_an_unknown_corpus_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "data", "assemble", "nsmc").error == "data.not_assembled"
    for option in (["--sentences", 9], ["--pairs"]):
        done = call(capsys, "data", "assemble", "enko-small", *option)
        assert done.error == "data.options_of_ko_small"


def test_targets_in_korean_are_polite_where_there_is_a_choice() -> None:
    pairs = [("창문 좀 열어줘", "Open the window."), ("창문 열어 주세요", "Open the window.")]
    requests = PairSource("requests", "", "", "", copies=3, varies=True, levels=True)
    found = list(_copies_into_korean(requests, pairs, random.Random(0)))
    assert {korean for korean, _ in found} == {"창문 열어 주세요."}
    assert len(found) == 3
    plain = list(_copies_into_korean(replace(requests, levels=False), pairs, random.Random(0)))
    assert [korean for korean, _ in plain].count("창문 좀 열어줘.") == 1
    assert len(plain) == 4
    copied = PairSource("copied", "", "", "")
    texts = ["This is a whole sentence of it.", "a.py", "Adobe", "https://a.com/Edit"]
    found = list(_copies_into_korean(copied, [(text, text) for text in texts], random.Random(0)))
    assert [english for _, english in found] == ["a.py", "https://a.com/Edit"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["koen-small", "enko-small"])
def test_the_files_repeat_nothing_held_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMOK_DATA", str(shared_data("koen-open").parent))
    corpus = CORPORA[name]
    assemble_translation(tmp_path / corpus.name, corpus)
    for file in corpus.files[:2]:
        found = measure_content(tmp_path / corpus.name / file.name)
        assert (found.sha256, found.size) == (file.sha256, file.size)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "jumok" / "data").mkdir(parents=True, exist_ok=True)
    (tmp_path / corpus.name).rename(tmp_path / "jumok" / "data" / corpus.name)
    splits = load_splits(DataConfig(corpus=corpus.name), SEQUENCES)
    dev = HeldOut([*splits.dev.column("source"), *splits.dev.column("target")])
    known = HeldOut(evaluation_sentences())
    known.keys |= dev.keys
    assert not any(
        known.repeated_in(text) for name in SEQUENCES for text in set(splits.train.column(name))
    )
