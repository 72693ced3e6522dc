"""The glossary and the titles of lessons in the page are those of the documentation."""

import json

import pytest

from web.scripts.terms import LESSONS, TERMS, terms, titles


def test_the_page_has_the_terms_of_the_glossary() -> None:
    assert json.loads(TERMS.read_text(encoding="utf-8")) == terms(), "run: web/scripts/terms.py"
    assert json.loads(LESSONS.read_text(encoding="utf-8")) == titles(), "run: web/scripts/terms.py"


@pytest.mark.parametrize("english", ["attention", "query, key, value", "logit lens"])
def test_a_term_has_both_languages(english: str) -> None:
    [term] = [each for each in terms() if each["term"]["en"] == english]
    assert all(text.strip() for part in term.values() for text in part.values())
