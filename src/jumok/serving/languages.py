"""The languages of served translators: from names, and those of a text from its letters."""

import re
from collections import Counter
from collections.abc import Sequence

LANGUAGES = {
    "de": "German",
    "en": "English",
    "fr": "French",
    "ja": "Japanese",
    "ko": "Korean",
    "zh": "Chinese",
}
_PAIR = re.compile(rf"({'|'.join(LANGUAGES)})-?({'|'.join(LANGUAGES)})")
# Frequent words of languages with Latin letters.
_WORDS = {
    "de": "der die das und ist nicht ich wir sie ein eine den mit zu von für auf im es",
    "en": "the and is not you we they a an of to in for with on it this that are was",
    "fr": "le la les et est pas je nous vous un une des de du pour dans avec sur il",
}
_WORD_SETS = {code: frozenset(words.split()) for code, words in _WORDS.items()}
_SCRIPTS = {
    "hangul": re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]"),
    "kana": re.compile("[\u3041-\u30ff]"),
    "han": re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"),
    "latin": re.compile("[A-Za-z\u00c0-\u024f]"),
}
_LETTER = re.compile(r"[^\W\d_]")


def language_pair(name: str) -> tuple[str, str] | None:
    """The languages in the name of a model.

    >>> language_pair("koen"), language_pair("multi30k-en-de"), language_pair("reading")
    (('ko', 'en'), ('en', 'de'), None)
    """
    match = re.search(rf"(?<![a-z]){_PAIR.pattern}(?![a-z])", name.lower())
    return None if match is None else (match[1], match[2])


def detect_languages(text: str, codes: Sequence[str]) -> list[tuple[str, float]]:
    """Which of these languages a text is in, the most probable first, with 0 to 100 for each.

    A script is the share of the letters; languages of one script differ by kana and by
    frequent words. Languages with 0 are left out, unless all have it.

    >>> detect_languages("겨울은 추워요", ["en", "ko"])
    [('ko', 100.0)]
    >>> detect_languages("Das ist the end", ["de", "en"])
    [('de', 60.0), ('en', 40.0)]
    >>> detect_languages("123", ["ko", "en"])
    [('ko', 0.0)]
    """
    n_letters = max(len(_LETTER.findall(text)), 1)
    counts = {script: len(pattern.findall(text)) for script, pattern in _SCRIPTS.items()}
    shares = {"ko": counts["hangul"], "ja": 0, "zh": counts["han"]}
    if counts["kana"] or "zh" not in codes:
        shares |= {"ja": counts["kana"] + counts["han"], "zh": 0}
    weights = _latin_weights(text, [code for code in codes if code in _WORD_SETS])
    found = [
        (code, min(shares.get(code, counts["latin"] * weights.get(code, 0.0)) / n_letters, 1.0))
        for code in codes
    ]
    found.sort(key=lambda pair: -pair[1])
    percent = [(code, round(100 * share, 2)) for code, share in found]
    return [pair for pair in percent if pair[1]] or percent[:1]


def _latin_weights(text: str, codes: Sequence[str]) -> dict[str, float]:
    """The share of each language among those with Latin letters, from its frequent words."""
    words = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    scores = {code: 1 + sum(words[word] for word in _WORD_SETS[code]) for code in codes}
    return {code: score / sum(scores.values()) for code, score in scores.items()}
