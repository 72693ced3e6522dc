"""BIO tags: transitions, Viterbi decoding, and tags of pieces and characters."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jumok.evaluation.entities import entities
from jumok.tasks.inputs import bio

TAGS = ("O", "B-LC", "I-LC", "B-PS", "I-PS")


def valid(tags: tuple[str, ...]) -> bool:
    return all(
        not new.startswith("I-") or (old in (f"B-{new[2:]}", new))
        for old, new in itertools.pairwise(("O", *tags))
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_viterbi_against_exhaustive_search(seed: int, length: int) -> None:
    """Against an exhaustive search."""
    log_p = np.random.default_rng(seed).normal(size=(length, len(TAGS))).astype(np.float32)
    rows = [row for row in itertools.product(TAGS, repeat=length) if valid(row)]

    def total(row: tuple[str, ...]) -> float:
        return sum(float(log_p[place, TAGS.index(tag)]) for place, tag in enumerate(row))

    found = tuple(TAGS[number] for number in bio.viterbi(log_p, TAGS))
    assert valid(found)
    assert np.isclose(total(found), max(map(total, rows)), rtol=0, atol=1e-5)  # float32 sums


def test_viterbi_of_no_pieces() -> None:
    assert bio.viterbi(np.empty((0, len(TAGS)), np.float32), TAGS) == []


@given(st.lists(st.sampled_from(TAGS), max_size=12).map(tuple).filter(valid))
def test_character_pieces_are_lossless(tags: tuple[str, ...]) -> None:
    spans = [(place, place + 1) for place in range(len(tags))]
    pieces = bio.piece_tags(tags, spans)
    assert bio.char_tags(pieces, spans, "가" * len(tags)) == list(tags)


def test_a_piece_across_a_border_belongs_to_the_entity() -> None:
    tags = ["B-PS", "I-PS", "O", "O", "B-LC", "O"]  # 철수가 서에
    spans = [(0, 3), (3, 6)]
    assert bio.piece_tags(tags, spans) == ["B-PS", "B-LC"]
    laid = bio.char_tags(["B-PS", "B-LC"], spans, "철수가 서에")
    assert laid == ["B-PS", "I-PS", "I-PS", "O", "B-LC", "I-LC"]


def test_an_entity_of_several_words_includes_its_space() -> None:
    text, spans = "뉴욕 타임스는", [(0, 2), (2, 6), (6, 7)]
    tags = ["B-OG", "I-OG", "I-OG", "I-OG", "I-OG", "I-OG", "O"]
    pieces = bio.piece_tags(tags, spans)
    assert pieces == ["B-OG", "I-OG", "O"]
    assert bio.char_tags(pieces, spans, text) == tags
    assert len(entities(tags)) == 1


def test_a_piece_of_spaces_starts_no_entity() -> None:
    assert bio.char_tags(["B-PS", "I-PS"], [(0, 2), (2, 3)], "  가") == ["O", "O", "B-PS"]


def test_an_entity_does_not_start_with_a_space() -> None:
    spans = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    tags = ["O", "B-LC", "I-LC", "I-LC", "O"]
    assert bio.char_tags(tags, spans, "가 서울에") == ["O", "O", "B-LC", "I-LC", "O"]
    tags = ["O", "B-LC", "B-PS", "I-PS", "O"]  # something else begins there
    assert bio.char_tags(tags, spans, "가 서울에") == ["O", "O", "B-PS", "I-PS", "O"]
    tags = ["O", "B-LC", "O", "O", "O"]  # nothing but the space
    assert bio.char_tags(tags, spans, "가 서울에") == ["O"] * 5
