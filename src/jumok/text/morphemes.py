"""Spaces between the morphemes of Korean texts by Kiwi, before SentencePiece splits them.

A morpheme then begins a piece as a word does: 학교에서는 is read as 학교 에서 는. The characters
stay: a contraction such as 했, of 하 and 었, is not taken apart. The spaces are not undone by
decoding. Kiwi is the package kiwipiepy (extra `[kiwi]`); another version of it may split otherwise.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jumok.extras import naming_extras

RULE = "nfc+kiwi"  # the normalization rule in the model file of such a vocabulary
MAX_CACHED_TEXTS = 2**18  # texts are read again in every epoch of subword sampling

_split: dict[str, str] = {}


def split_morphemes(texts: Sequence[str]) -> list[str]:
    """Each text with a space before every morpheme that follows another one directly.

    Raises InputError when kiwipiepy is not installed.

        split_morphemes(["학교에서는 놀았어요"])  # ["학교 에서 는 놀 았 어요"]
    """
    new = [text for text in dict.fromkeys(texts) if text not in _split]
    if new:
        if len(_split) + len(new) > MAX_CACHED_TEXTS:
            _split.clear()
            new = list(dict.fromkeys(texts))
        for text, morphemes in zip(new, _kiwi().tokenize(new), strict=True):
            _split[text] = _with_spaces(text, [morpheme.start for morpheme in morphemes])
    return [_split[text] for text in texts]


def kiwi_version() -> str:
    """The version of Kiwi and of its model. Raises InputError when it is not installed."""
    _kiwi()
    from importlib.metadata import version  # 10 ms, which other vocabularies do without

    return f"{version('kiwipiepy')}-{version('kiwipiepy_model')}"


def _with_spaces(text: str, starts: Sequence[int]) -> str:
    """The text with a space before each of these characters, unless there is one.

    >>> _with_spaces("했어요 정말", [0, 0, 1, 4])
    '했 어요 정말'
    """
    inside = sorted({start for start in starts if start and not text[start - 1].isspace()})
    parts = [text[a:b] for a, b in zip([0, *inside], [*inside, None], strict=True)]
    return " ".join(parts)


@cache
def _kiwi() -> Any:
    with naming_extras('vocabulary.pretokenizer "kiwi"'):
        from kiwipiepy import Kiwi
    return Kiwi()
