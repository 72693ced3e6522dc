"""Entities by hand: right only from end to end and in kind, as strict IOB2 has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.evaluation import entity_metrics
from jumok.evaluation.entities import EntityCounts, EntitySpan, entities

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
    assert entities(tags.split()) == {EntitySpan(*entity) for entity in found}


def test_by_hand() -> None:
    """3 wanted people, 2 wanted places; one person cut short, one place taken for a person."""
    references = [["B-PS", "I-PS", "O", "B-LC"], ["B-PS", "I-PS", "O", "B-LC", "I-LC"], ["B-PS"]]
    guessed = [["B-PS", "I-PS", "O", "B-PS"], ["B-PS", "O", "O", "B-LC", "I-LC"], ["B-PS"]]
    scores = entity_metrics(references, guessed)
    assert scores.n == 3
    assert scores.by_kind == {
        "LC": EntityCounts(expected=2, predicted=1, correct=1),
        "PS": EntityCounts(expected=3, predicted=4, correct=2),
    }
    assert scores.overall == EntityCounts(5, 5, 3)
    assert scores.f1 == scores.overall.precision == scores.overall.recall == 0.6
    assert scores.macro_f1 == pytest.approx((2 / 3 + 4 / 7) / 2)


@given(sentences)
def test_bounds_and_symmetry(references: list[list[str]]) -> None:
    any_entity = any(map(entities, references))
    assert entity_metrics(references, references).f1 == (1.0 if any_entity else 0.0)
    nothing = [["O"] * len(tags) for tags in references]
    assert entity_metrics(references, nothing).f1 == 0.0
    assert entity_metrics(references, nothing).overall.recall == 0.0
    turned = [tags[::-1] for tags in references]
    assert (
        entity_metrics(references, turned).overall.precision
        == entity_metrics(turned, references).overall.recall
    )


def test_numbers_of_sentences_must_be_equal() -> None:
    with pytest.raises(ValueError, match="for 1 sentences, got 0"):
        entity_metrics([["O"]], [])
    with pytest.raises(ValueError, match="sentence 2: there must be 2 predicted tags, got 1"):
        entity_metrics([["O"], ["O", "O"]], [["O"], ["O"]])
