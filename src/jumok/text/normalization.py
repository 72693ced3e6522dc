"""What happens to a text before a vocabulary sees it: checked, then composed to NFC, never NFKC.

NFKC would turn ㅋ (U+314B, what people type when they laugh) into ᄏ (U+110F, half a syllable),
㈜ into (주) and … into three dots; NFC changes only how a character is stored, not which it is.
"""

import re
import unicodedata
from collections.abc import Callable

from jumok.errors import InputError

# A syllable written in two or three parts: a leading consonant or a whole syllable, then its rest.
_DECOMPOSED_HANGUL = re.compile("[\u1100-\u1112\uac00-\ud7a3][\u1161-\u1175\u11a8-\u11c2]+")


def nfc(text: str) -> str:
    """The text in Unicode's composed form (NFC).

    >>> nfc("\u1112\u1161\u11ab\u1100\u1173\u11af ㅋㅋ ㈜ …")
    '한글 ㅋㅋ ㈜ …'
    """
    return unicodedata.normalize("NFC", text)


def compose_hangul(text: str) -> str:
    """The text with decomposed Hangul syllables put together and nothing else changed.

    >>> compose_hangul("\u1112\u1161\u11ab\u1100\u1173\u11af cafe\u0301") == "한글 cafe\u0301"
    True
    """
    return _DECOMPOSED_HANGUL.sub(lambda match: nfc(match[0]), text)


def identity(text: str) -> str:
    """The text itself.

    >>> unchanged("cafe\u0301") == "cafe\u0301"
    True
    """
    return text


def normalizer(rule: str) -> Callable[[str], str]:
    """What is done to a text for a vocabulary whose model file names this rule.

    "nfc" and "none" are the rules of vocabularies trained here. Any other name belongs to a model
    from elsewhere, whose own rule is applied by SentencePiece; before it, decomposed Hangul
    (file names and copies from macOS) is put together, because such models know syllables only.
    """
    return {"nfc": nfc, "none": identity}.get(rule, compose_hangul)


def check_text(text: str) -> str:
    r"""The text itself, if it can be stored as UTF-8 and holds no NUL.

    >>> checked("한글\0")
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: the text holds U+0000 (NUL) as character 3; remove it
    """
    if "\0" in text:
        place = text.index("\0") + 1
        raise InputError(f"the text holds U+0000 (NUL) as character {place}; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise InputError(
            f"the text holds U+{code:04X}, half of a surrogate pair, as character "
            f"{error.start + 1}; decode the text anew from its source or remove it"
        ) from None
    return text
