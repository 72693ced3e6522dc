"""What a pipeline accepts as texts."""

from pathlib import Path

import pytest

import jumok
from jumok.errors import InputError
from tests.errors import raises


def test_a_missing_value_among_texts(review_run: Path) -> None:
    """A column of pandas has NaN for an empty cell."""
    model = jumok.load(review_run)
    for value, shown in ((float("nan"), "nan"), (None, "None"), (b"x", "b'x'"), (3, "3")):
        with pytest.raises(InputError, match=rf"texts must be str, got {shown} at index 1; conv"):
            model(["좋아요", value])  # type: ignore[list-item]


@pytest.mark.parametrize("texts", [None, float("nan"), b"text", {"text": "좋아요"}])
def test_values_that_are_not_texts(review_run: Path, texts: object) -> None:
    with raises(InputError, "pipeline.texts_not_a_list"):
        jumok.load(review_run)(texts)  # type: ignore[call-overload]


def test_any_sequence_of_texts(review_run: Path) -> None:
    model = jumok.load(review_run)
    assert model(("좋아요",)) == model(iter(["좋아요"])) == [model("좋아요")]  # type: ignore[call-overload]
