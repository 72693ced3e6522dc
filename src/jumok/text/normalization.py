"""Normalization of a text before it is tokenized: NFC, never NFKC.

NFKC would change ㅋ (U+314B, typed for laughter) to ᄏ (U+110F, a leading consonant), ㈜ to (주)
and … to three dots; NFC changes only the encoding of a character, not the character.
"""

import re
from collections.abc import Callable

from jumok.errors import TokenizerError
from jumok.unicode_forms import normalize

# A syllable of two or three code points: a leading consonant or a syllable, then the others.
_DECOMPOSED_HANGUL = re.compile("[\u1100-\u1112\uac00-\ud7a3][\u1161-\u1175\u11a8-\u11c2]+")


def nfc(text: str) -> str:
    """The text in Unicode's composed form (NFC).

    >>> nfc("\u1112\u1161\u11ab\u1100\u1173\u11af ㅋㅋ ㈜ …")
    '한글 ㅋㅋ ㈜ …'
    """
    return normalize("NFC", text)


def compose_hangul(text: str) -> str:
    """The text with decomposed Hangul syllables composed and nothing else changed.

    >>> compose_hangul("\u1112\u1161\u11ab\u1100\u1173\u11af cafe\u0301") == "한글 cafe\u0301"
    True
    """
    return _DECOMPOSED_HANGUL.sub(lambda match: nfc(match[0]), text)


def identity(text: str) -> str:
    """The text itself.

    >>> identity("cafe\u0301") == "cafe\u0301"
    True
    """
    return text


def normalizer(rule: str) -> Callable[[str], str]:
    """The normalization of texts for a model file with this rule.

    "nfc" and "none" are the rules of vocabularies trained by jumok, and "nfc+kiwi", which is nfc
    before the spaces of `morphemes`. Any other rule is applied by
    SentencePiece; before it, decomposed Hangul (file names and copies from macOS) is composed,
    because such models contain syllables only.
    """
    return {"nfc": nfc, "nfc+kiwi": nfc, "none": identity}.get(rule, compose_hangul)


def check_text(text: str) -> str:
    r"""The text itself, if it can be encoded as UTF-8 and has no NUL.

    >>> check_text("한글\0")
    Traceback (most recent call last):
        ...
    jumok.errors.TokenizerError: a text must not contain U+0000 (NUL), got one as character 3; remove it
    """  # noqa: E501
    if "\0" in text:
        position = text.index("\0") + 1
        raise TokenizerError(
            "text.nul",
            "a text must not contain U+0000 (NUL), got one as character {position}; remove it",
            position=position,
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise TokenizerError(
            "text.lone_surrogate",
            "a text must not contain a lone surrogate, got U+{code:04X} as character {start}; "
            "decode the text again from its source or remove it",
            code=code,
            start=error.start + 1,
        ) from None
    return text
