"""Normalization forms equal those of unicodedata, in linear time."""

import random
import time
import unicodedata
from typing import get_args

import pytest

from jumok.unicode_forms import Form, normalize

FORMS = get_args(Form)
CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
MARKS = [c for c in CHARACTERS if unicodedata.combining(c)]
DECOMPOSABLE = [c for c in CHARACTERS if unicodedata.decomposition(c)]


@pytest.mark.parametrize("form", FORMS)
def test_every_text_has_the_form_of_unicodedata(form: Form) -> None:
    draw = random.Random(form)
    for n_marks in (0, 1, 5, 31, 32, 33, 200):
        for _ in range(60):
            words = [
                draw.choice(DECOMPOSABLE) + "".join(draw.choices(MARKS, k=n_marks)),
                "".join(draw.choices(DECOMPOSABLE, k=draw.randrange(60))),
                "".join(draw.choices("가각각ㅋae\u0f73\u0344\uff9e", k=draw.randrange(60))),
            ]
            text = "".join(draw.choices(words, k=6))
            assert normalize(form, text) == unicodedata.normalize(form, text)


def test_plain_texts_are_not_examined_character_by_character() -> None:
    text = unicodedata.normalize("NFD", "한글 Text 漢字 ㅋㅋ ") * 30_000
    started = time.process_time()
    assert normalize("NFC", text) == unicodedata.normalize("NFC", text)
    assert time.process_time() - started < 0.5
