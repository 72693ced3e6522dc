"""Labels: readable pieces for all kinds of vocabularies."""

import pytest

from jumok.interpret.schema import Tokens
from jumok.viewer.labels import MAX_LABEL_CHARS, display_pieces, labels, row_index, visible_text
from tests.viewer.figure_traces import READ, tokens


def row(text: str, pieces: list[str], spans: list[tuple[int, int]]) -> Tokens:
    """Pieces of a text, none of them special."""
    n = len(pieces)
    return Tokens(
        text=text,
        pieces=tuple(pieces),
        ids=tuple(range(n)),
        spans=tuple(spans),
        special=(0,) * n,
        real=(1,) * n,
        words=(0,) * n,
    )


def test_gpt2_bytes_are_decoded() -> None:
    """ "안녕 hi" of GPT-2: 안 in one piece, 녕 in two, the blank as Ġ."""
    pieces = ["ìķĪ", "ëħ", "ķ", "Ġhi"]
    assert display_pieces(row("안녕 hi", pieces, [(0, 1), (1, 2), (1, 2), (3, 5)])) == (
        "안",
        "녕1/2",
        "녕2/2",
        "▁hi",
    )


def test_bytes_without_a_character_are_numbers() -> None:
    assert display_pieces(row("", ["<0xEC>", "<0x41>"], [(0, 0), (0, 0)])) == ("<EC>", "A")


@pytest.mark.parametrize("pieces", [["▁Å", "Ł"], ["한", "글"], ["café"]])
def test_other_alphabets_are_unchanged(pieces: list[str]) -> None:
    text = "".join(pieces).replace("▁", "")
    assert display_pieces(row(text, pieces, [(0, 1)] * len(pieces))) == tuple(pieces)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Grüße", ["Gr", "##üße"]),
        ("Café", ["caf", "##é"]),  # é alone could be the first byte of three
        ("ÜBER UNS", ["über", "uns"]),
    ],
)
def test_characters_that_are_not_bytes(text: str, pieces: list[str]) -> None:
    assert display_pieces(row(text, pieces, [(0, 2), (2, len(text))])) == tuple(pieces)


def test_letters_that_are_cut_are_bytes_still() -> None:
    """A trace ends where the model is full, and begins anywhere when that goes on."""
    assert display_pieces(row("안녕 hi", ["ķĪ", "ëħ"], [(0, 1), (1, 2)])) == ("안…", "녕…")
    assert display_pieces(row("##안", ["##", "ìķĪ"], [(0, 2), (2, 3)])) == ("##", "안")
    replaced = row("\ufffd!", ["ìĠ", "!"], [(0, 1), (1, 2)])  # a model wrote the half of a letter
    assert display_pieces(replaced) == ("<EC> ", "!")


def test_a_special_token_is_not_decoded() -> None:
    from dataclasses import replace

    tagged = replace(row("é", ["[CLS]", "Ã©"], [(0, 0), (0, 1)]), special=(1, 0))
    assert display_pieces(tagged) == ("[CLS]", "é")


def test_what_cannot_be_seen_has_a_name() -> None:
    assert visible_text("a\u202eb\u200b") == "a[U+202E]b[U+200B]"
    assert visible_text("\ud800\x00\u3164") == "[U+D800][U+0000][U+3164]"
    assert visible_text("\n\t") == "\\n\\t"
    assert visible_text("▁") == visible_text("Ġ") == "␣" != visible_text("·")
    assert visible_text("") == "∅"


def test_long_pieces_are_cut() -> None:
    assert visible_text("가" * 10_000) == "가" * MAX_LABEL_CHARS + "…"


def test_word_labels_are_the_text() -> None:
    found = labels(tokens(READ, padding=2), "word")
    assert [label.text for label in found] == ["[CLS]", "이", "영화는", "재미있어요ㅋㅋ", "[EOS]"]
    assert [label.special for label in found] == [True, False, False, False, True]
    assert row_index(found, 3) == 2
    assert row_index(found, 9) is None  # padding
