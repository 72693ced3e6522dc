"""Names and terms out of the parentheses of Korean articles."""

import pytest

from jumok.lab.terms import in_sentence, is_name, read_terms


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "미국의 조지 워싱턴(George Washington)은 대통령이다.",
            [("조지 워싱턴", "George Washington")],
        ),
        ("이는 전기장(electric field)을 만든다.", [("전기장", "electric field")]),
        ("수도는 아테네 (Athens)이다.", [("아테네", "Athens")]),
        ("그는 하인리히 4세(Heinrich der Vierte)의 아들이다.", []),  # not English
        ("미국 연방수사국(FBI)이 밝혔다.", []),  # an abbreviation: where the term begins is unknown
        ("그가 말했다는(said)", []),  # not a noun
        ("물(水)은 액체(液體)이다.", []),
    ],
)
def test_terms(line: str, expected: list[tuple[str, str]]) -> None:
    assert list(read_terms([line])) == expected


def test_the_most_frequent_english_is_taken() -> None:
    lines = ["대포(gun)와", "대포(cannon)와", "대포(cannon)를"]
    assert list(read_terms(lines)) == [("대포", "cannon")]


def test_sentences_have_the_particle_of_the_name() -> None:
    assert is_name("the Republic of Korea")
    assert not is_name("gun")
    assert in_sentence("서울", "Seoul", 2)[0].startswith("서울은 ")
    assert in_sentence("아테네", "Athens", 2)[0].startswith("아테네는 ")
    assert in_sentence("아테네", "Athens", 3) == ("아테네의 역사", "The history of Athens")
