"""Texts of several lines, sentences or none, and what an output says of its text."""

import json
import random

import pytest

import jumok
from jumok.tasks.pipeline.generation_pipeline import GenerationPipeline
from jumok.tasks.pipeline.outputs import GeneratedText, to_json
from jumok.tasks.pipeline.segments import split_sentences, split_text
from jumok.tasks.pipeline.text_warnings import unknown_characters

WINTER, SUMMER = "겨울은 추워요.", "여름은 더워요."


@pytest.fixture(scope="module")
def note() -> GenerationPipeline:
    found = jumok.load("note", device="cpu")
    assert isinstance(found, GenerationPipeline)
    return found


def codes(output: object) -> list[str]:
    return [each["code"] for each in json.loads(to_json(output)).get("warnings", [])]  # type: ignore[arg-type]


def output_of(pipeline: GenerationPipeline, text: str, **options: bool) -> GeneratedText:
    (found,) = pipeline.predict([text], **options)
    assert isinstance(found, GeneratedText)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("겨울은 추워요. 여름은 더워요!", ["겨울은 추워요. ", "여름은 더워요!"]),
        ("가격은 3.5점입니다. 정말요?!  네...  그래요",
         ["가격은 3.5점입니다. ", "정말요?!  ", "네...  ", "그래요"]),
        ("Dr. Kim이 왔다. 갔다", ["Dr. Kim이 왔다. ", "갔다"]),
        ("여름은 더워요 겨울은 추워요", ["여름은 더워요 겨울은 추워요"]),
    ],
)  # fmt: skip
def test_sentences_end_with_marks(line: str, expected: list[str]) -> None:
    assert split_sentences(line) == expected


def test_no_character_is_lost() -> None:
    rng = random.Random(3)
    for _ in range(300):
        text = "".join(rng.choices("가나 다.?!\n\r\u2028\t\"'。3A😀\u0301", k=rng.randrange(60)))
        parts = list(split_text(text, split_sentences))
        assert "".join("".join(pair) for pair in parts).split() == text.split()
        assert sum(gap.count("\n") for _, gap in parts) == text.count("\n")


def test_lines_are_translated_one_by_one(note: GenerationPipeline) -> None:
    text = f"{WINTER}\n\n{SUMMER}\r\n   \n"
    assert output_of(note, text).output == "Winter is cold.\n\nSummer is hot.\r\n\n"
    assert codes(output_of(note, text)) == []
    parts: list[str] = []
    streamed = note.stream(text, parts.append)
    assert "".join(parts) == streamed.display == output_of(note, text).output


def test_an_output_of_one_line_is_not_changed(note: GenerationPipeline) -> None:
    (plain,) = note.task.predict(note, [WINTER])
    assert to_json(output_of(note, WINTER)) == to_json(plain)
    assert to_json(output_of(note, WINTER, sentences=True)) == to_json(plain)


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_a_blank_text_is_not_translated(note: GenerationPipeline, text: str) -> None:
    found = output_of(note.with_decoding(["beam=3", "n_best=2"]), text)  # type: ignore[arg-type]
    assert found.output == ""
    assert len(found.n_best or ()) == 2
    assert codes(found) == ["empty_text"]


def test_a_long_text_is_split_into_sentences(note: GenerationPipeline) -> None:
    text = " ".join([WINTER, SUMMER] * 12)
    found = output_of(note, text)
    assert found.output == " ".join(["Winter is cold. Summer is hot."] * 12)
    assert codes(found) == []
    assert output_of(note, f"{WINTER} {SUMMER}", sentences=True).output == (
        "Winter is cold. Summer is hot."
    )


def test_what_is_still_too_long_is_reported(note: GenerationPipeline) -> None:
    found = output_of(note, "겨울은 " * 100 + f"추워요.\n{WINTER}")
    assert "truncated" in codes(found)
    assert "part 1: " in found.warnings[0].message
    assert found.output.endswith("\nWinter is cold.")


def test_candidates_and_tokens_are_joined(note: GenerationPipeline) -> None:
    several = note.with_decoding(["beam=4", "n_best=2"])
    assert isinstance(several, GenerationPipeline)
    parts = [output_of(several, each) for each in (WINTER, SUMMER)]
    found = output_of(several, f"{WINTER}\n{SUMMER}")
    assert found.n_best is not None
    for number, each in enumerate(found.n_best):
        assert each.output == "\n".join(part.n_best[number].output for part in parts)  # type: ignore[index]
    assert found.tokens == parts[0].tokens + parts[1].tokens


def test_unknown_characters_are_counted(note: GenerationPipeline) -> None:
    found = output_of(note, "뷁 씨는 뷁 씨")
    (warning,) = (each for each in found.warnings if each.code == "unknown_characters")
    known = {"씨"} if not any(unknown_characters(["씨"], note.vocabulary)) else set()
    n = sum(c in "뷁씨" and c not in known for c in found.text)
    assert warning.message.startswith(f"{n} characters are")
    assert unknown_characters([WINTER], note.vocabulary) == [0]


@pytest.mark.parametrize(
    "text",
    ["뷁은 추워요.", "", f"{WINTER}\n\n뷁은 추워요.\n{WINTER}", "감기 " * 200, WINTER],
    ids=["unknown", "empty", "lines", "truncated", "none"],
)
def test_a_stream_is_the_same_output(note: GenerationPipeline, text: str) -> None:
    parts: list[str] = []
    streamed, whole = note.stream(text, parts.append), output_of(note, text)
    assert streamed == whole  # warnings included
    assert "".join(parts) == whole.output
    assert bool(codes(whole)) == (text != WINTER)


def test_classifiers_have_warnings() -> None:
    vectors = jumok.load("ko-small", device="cpu")
    assert codes(vectors("오늘 날씨가 정말 [MASK]")) == []
    assert codes(vectors("날씨 " * 1_000 + "[MASK]")) == ["truncated"]


def test_each_call_draws_another_sample(note: GenerationPipeline) -> None:
    sampled = note.with_decoding(["sample=true", "temperature=3"])
    found = [sampled(WINTER) for _ in range(4)]
    assert len({each.output for each in found}) > 1  # type: ignore[attr-defined]
    for each in found:
        seed = json.loads(to_json(each))["seed"]
        again = note.with_decoding(["sample=true", "temperature=3", f"seed={seed}"])
        assert to_json(again(WINTER)) == to_json(again(WINTER)) == to_json(each)


def test_the_reason_of_the_end(note: GenerationPipeline) -> None:
    assert output_of(note, WINTER).finish_reason == "stop"
    cut = note.with_decoding(["max_length=3"])
    found = cut(WINTER)
    assert isinstance(found, GeneratedText)
    assert found.finish_reason == "length"
    assert len(found.tokens) == 3


def test_seed_0_of_a_recipe_that_does_not_sample_is_none(note: GenerationPipeline) -> None:
    """Earlier versions wrote it into every recipe; it would make all samples the same."""
    assert note.recipe.decoding.seed is None
    assert note.with_decoding(["sample=true", "seed=0"]).recipe.decoding.seed == 0


def test_a_sentence_without_letters_stays() -> None:
    """`note` would write a sentence for it."""
    found = jumok.load("note").predict(["겨울은 추워요. 🙂 !!"], sentences=True)
    assert [each.output for each in found] == ["Winter is cold. 🙂 !!"]
