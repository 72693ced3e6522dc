"""Entities by hand: right only from end to end and in kind, as strict IOB2 has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.evaluation import score_tags
from jumok.evaluation.entities import Entity, Found, entities

TAGS = ("O", "B-PS", "I-PS", "B-LC", "I-LC")
sentences = st.lists(st.lists(st.sampled_from(TAGS), max_size=12), max_size=6)


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O O", []),
        ("B-PS I-PS I-PS", [("PS", 0, 3)]),
        ("B-PS B-PS", [("PS", 0, 1), ("PS", 1, 2)]),
        ("B-PS I-LC", [("PS", 0, 1)]),  # another kind does not go on
        ("I-PS I-PS O", []),  # nothing began
        ("B-PS O I-PS", [("PS", 0, 1)]),
        ("O B-LC I-LC B-PS", [("LC", 1, 3), ("PS", 3, 4)]),
        ("B-I-X I-I-X", [("I-X", 0, 2)]),
        ("", []),
    ],
)
def test_what_an_entity_is(tags: str, found: list[tuple[str, int, int]]) -> None:
    assert entities(tags.split()) == {Entity(*entity) for entity in found}


def test_by_hand() -> None:
    """3 wanted people, 2 wanted places; one person cut short, one place taken for a person."""
    wanted = [["B-PS", "I-PS", "O", "B-LC"], ["B-PS", "I-PS", "O", "B-LC", "I-LC"], ["B-PS"]]
    guessed = [["B-PS", "I-PS", "O", "B-PS"], ["B-PS", "O", "O", "B-LC", "I-LC"], ["B-PS"]]
    scores = score_tags(wanted, guessed)
    assert scores.n == 3
    assert scores.kinds == {
        "LC": Found(wanted=2, guessed=1, right=1),
        "PS": Found(wanted=3, guessed=4, right=2),
    }
    assert scores.all == Found(5, 5, 3)
    assert scores.f1 == scores.all.precision == scores.all.recall == 0.6
    assert scores.macro_f1 == pytest.approx((2 / 3 + 4 / 7) / 2)


@given(sentences)
def test_bounds_and_symmetry(wanted: list[list[str]]) -> None:
    any_entity = any(map(entities, wanted))
    assert score_tags(wanted, wanted).f1 == (1.0 if any_entity else 0.0)
    nothing = [["O"] * len(tags) for tags in wanted]
    assert score_tags(wanted, nothing).f1 == 0.0
    assert score_tags(wanted, nothing).all.recall == 0.0
    turned = [tags[::-1] for tags in wanted]
    assert score_tags(wanted, turned).all.precision == score_tags(turned, wanted).all.recall


def test_sentences_that_do_not_pair() -> None:
    with pytest.raises(ValueError, match="1 sentences wanted, 0 guessed; pair them"):
        score_tags([["O"]], [])
    with pytest.raises(ValueError, match="sentence 2: 2 tags wanted, 1 guessed"):
        score_tags([["O"], ["O", "O"]], [["O"], ["O"]])
