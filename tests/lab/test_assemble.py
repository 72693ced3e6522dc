"""Text assembled for pretraining: no duplicates, and no sentence of a dev or test set."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.data.config import DataConfig
from jumok.data.corpora.registry import CORPORA
from jumok.data.files.lines import measure_content
from jumok.data.load import load_splits
from jumok.data.splits import REGRESSION, SEQUENCES
from jumok.errors import InputError
from jumok.lab import assemble_korean as assemble_korean_module
from jumok.lab import assemble_pairs
from jumok.lab.assemble import MIN_SENTENCE_LETTERS, Assembly, HeldOut, sample_sentences
from jumok.lab.assemble_korean import (
    HELD_OUT,
    SOURCES,
    assemble_korean,
    assemble_sentences,
    evaluation_texts,
    held_out_texts,
    repeated_lines,
    source_texts,
)
from jumok.lab.assemble_pairs import Query
from jumok.lab.distillation.vectors import distilled_texts, scored_pairs
from jumok.shipped import resolve_vocabulary
from jumok.tasks.recipe.recipe import load_recipe
from jumok.text.sentencepiece import SentencePieceTokenizer
from tests.errors import raises
from tests.shared_data import shared_data


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("비 오는 날의 서울역은 붐볐다", True),  # the whole held-out sentence
        ("어제였다. 비 오는 날의 '서울역'은 붐볐다... 그래서 걸었다.", True),  # inside a text
        ("비 오는 날의 서울역은", False),  # a part of it
        ("굿", True),  # a short held-out text, whole
        ("배우가 좋다. 굿. 또 볼래", False),  # as a sentence it is too short to count
    ],
)
def test_sentences_that_repeat_a_held_out_one(text: str, repeats: bool) -> None:
    held_out = HeldOut(["비 오는 날의 서울역은 붐볐다. 굿!", "굿"])
    assert bool(held_out.repeated_in(text)) is repeats


def test_short_sentences_do_not_count() -> None:
    short, long = "가" * (MIN_SENTENCE_LETTERS - 1), "나" * MIN_SENTENCE_LETTERS
    held_out = HeldOut([f"{short}. {long}."])
    assert not held_out.repeated_in(f"다. {short}. 라")
    assert held_out.repeated_in(f"다. {long}. 라")


def test_decomposed_text_is_the_same_text() -> None:
    held_out = HeldOut(["한글로 쓴 하나의 긴 문장입니다"])
    decomposed = "\u1112\u1161\u11ab글로 쓴 하나의 긴 문장입니다"
    assert held_out.repeated_in(decomposed)
    assembly = Assembly(HeldOut([]))
    assert list(assembly.keep("both", ["한글", "\u1112\u1161\u11ab글"])) == ["한글"]


def test_duplicates_between_sources_are_left_out() -> None:
    assembly = Assembly(HeldOut([]))
    assert list(assembly.keep("one", ["가 나", "다"])) == ["가 나", "다"]
    assert list(assembly.keep("two", ["다", "가  나", "라"])) == ["라"]
    assert assembly.counts["two"].duplicates == 2


def test_sentences_are_sampled_whatever_their_order() -> None:
    texts = [f"{i}번째 줄입니다. {i}번 문장이 또 있습니다. 짧다." for i in range(50)]
    held_out = HeldOut([f"{i}번 문장이 또 있습니다." for i in range(25)])
    found = sample_sentences(texts, 20, held_out)
    assert found == sample_sentences(reversed(texts), 20, held_out)
    assert len(set(found.values())) == 20
    assert found.items() <= sample_sentences(texts, 40, held_out).items()
    everything = set(sample_sentences(texts, 1_000, held_out).values())
    assert everything == {f"{i}번째 줄입니다." for i in range(50)} | {
        f"{i}번 문장이 또 있습니다." for i in range(25, 50)
    }
    assert sample_sentences(["가" * 121 + "."], 5, held_out) == {}


def test_sentences_of_each_source_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(assemble_korean_module, "SOURCES", SOURCES[:2])
    monkeypatch.setattr(
        assemble_korean_module,
        "source_texts",
        lambda source: [f"{source.name}의 문장 {i}입니다. 다음 문장 {i}입니다." for i in range(9)],
    )
    monkeypatch.setattr(assemble_korean_module, "held_out_texts", lambda: ["다음 문장 3입니다."])
    monkeypatch.setattr(
        assemble_korean_module, "evaluation_texts", lambda: [f"{SOURCES[1].name}의 문장 4입니다."]
    )
    path = tmp_path / "new" / "sentences.txt"
    assembly = assemble_sentences(path, 50)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) == 2 * 9 - 1 + 8  # "다음 문장" in both
    assert not {"다음 문장 3입니다.", f"{SOURCES[1].name}의 문장 4입니다."} & {*lines}
    assert assembly.counts["wikipedia"].kept == 9


def test_lines_of_a_file_that_repeat_a_held_out_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        assemble_korean_module, "held_out_texts", lambda: ["정말로 다음 문장 3번입니다."]
    )
    path = tmp_path / "text.txt"
    path.write_text(
        "처음이다. 정말로 다음 문장 3번입니다!\n정말로 다음 문장 4번입니다.\n", encoding="utf-8"
    )
    assert repeated_lines(path) == ["처음이다. 정말로 다음 문장 3번입니다!"]


def test_every_source_states_its_licence_and_every_evaluation_set_is_held_out() -> None:
    assert all(source.licence and source.origin for source in SOURCES)
    assert len({source.name for source in SOURCES}) == len(SOURCES)
    korean = {name for name in CORPORA if not name.startswith(("multi30k", "enko", "koen-"))}
    not_held_out = {"numbers", "note", "shakespeare", "ko-small"}  # two are generated
    assert {name for name, _, _ in HELD_OUT} == korean - not_held_out


def test_training_pairs_of_ko_static_repeat_no_evaluation_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scored pairs, and the other texts of KorSTS, by another rule than that of `HeldOut`."""
    monkeypatch.setenv("JUMOK_DATA", str(shared_data("klue").parent))
    shared_data("flores")
    recipe = load_recipe("ko-static", ['distillation.texts=""'])
    splits = load_splits(recipe.data, recipe.columns)
    vocabulary = SentencePieceTokenizer.load(resolve_vocabulary("ko-small"))
    pairs = scored_pairs(splits, vocabulary, recipe)
    texts = {vocabulary.decode(row) for rows in (pairs.first, pairs.second) for row in rows}
    texts |= {*distilled_texts(recipe, splits)}
    assert len(pairs.targets) > 5_000
    assert len(texts) > 10_000

    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text)).lower()

    held_out = {letters(text) for text in evaluation_texts()}
    for split in ("dev", "test"):
        held_out |= {letters(text) for c in ("text", "pair") for text in splits[split].column(c)}
    assert len(held_out) > 12_000
    assert not (held_out - {""}) & set(map(letters, texts))


@pytest.mark.slow
def test_pairs_of_the_reranker_repeat_no_evaluation_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """FLORES, KLUE, KorSTS, and the questions of the chatbot's dev and test split."""
    monkeypatch.setenv("JUMOK_DATA", str(shared_data("klue").parent))
    shared_data("flores")
    monkeypatch.setattr(assemble_pairs, "_with_negatives", all_pairs)  # negatives are of these
    path = tmp_path / "pairs.tsv"
    assemble_pairs.assemble_pairs(path)
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    assert len(rows) > 15_000

    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text)).lower()

    evaluation = {letters(text) for text in evaluation_texts()}
    korsts = load_splits(DataConfig(corpus="korsts"), REGRESSION)
    chatbot = load_splits(DataConfig(corpus="chatbot"), SEQUENCES)
    for split in ("dev", "test"):
        evaluation |= {letters(t) for c in ("text", "pair") for t in korsts[split].column(c)}
    asked = {letters(t) for split in ("dev", "test") for t in chatbot[split].column("source")}
    assert not (evaluation - {""}) & {letters(cell) for row in rows for cell in row[:2]}
    assert not asked & {letters(query) for query, _, _ in rows}


def all_pairs(queries: dict[str, Query], rng: object) -> Iterator[tuple[str, str, int]]:
    """Every text of every query."""
    for query, each in queries.items():
        for text in (*each.texts, *each.others):
            yield query, text, int(text in each.texts)


def test_negatives_are_found_by_the_search() -> None:
    """Close texts and a random one follow the text of each query; its own texts are never 0."""
    close = [f"배송은 {n}일 걸립니다" for n in range(2, 9)]
    queries = {
        "배송은 며칠 걸리나요?": Query(
            {"배송은 2일 걸립니다", "배송은 3일 걸립니다"}, {"모릅니다"}
        ),
        **{f"질문 {n}": Query({text}) for n, text in enumerate([*close[2:], "비가 옵니다"])},
    }
    rows = list(assemble_pairs._with_negatives(queries, random.Random(0)))
    own = [(text, score) for query, text, score in rows if query.startswith("배송")]
    assert own[0][1] == 1
    assert own[0][0] in queries["배송은 며칠 걸리나요?"].texts
    assert own[1] == ("모릅니다", 0)
    assert {text for text, _ in own[2:]}.isdisjoint(queries["배송은 며칠 걸리나요?"].texts)
    assert sum(text in close for text, _ in own[2:6]) >= 3


def test_a_missing_source_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUMOK_DATA", str(tmp_path))
    with raises(InputError, "data.source_missing"):
        list(source_texts(SOURCES[0]))
    (tmp_path / "korean").mkdir()
    (tmp_path / "korean" / "wiki-1.txt").write_bytes("좋다\n".encode() + b"\xff" * (2**20 + 2))
    with pytest.raises(InputError, match=r"wiki-1.txt:2: a line of .* restore the file"):
        list(source_texts(SOURCES[0]))


@pytest.mark.slow
def test_ko_small_equals_the_sentences_of_its_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The pinned bytes again, and no held-out text by another rule than that of the assembly."""
    monkeypatch.setenv("JUMOK_DATA", str(shared_data("korean").parent))
    path = tmp_path / "a" / "new" / "folder" / "ko-small.txt"
    assemble_korean(path)
    assert measure_content(path).sha256 == CORPORA["ko-small"].files[0].sha256

    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text)).lower()

    lines = set(map(letters, path.read_text(encoding="utf-8").splitlines()))
    assert not lines & {letters(text) for text in held_out_texts() if letters(text)}
