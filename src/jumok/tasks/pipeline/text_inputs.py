"""The arguments of models that read texts: a text or several, pairs, and their checks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard, TypeVar, cast

from jumok.config_io import check_choice
from jumok.errors import InputError
from jumok.models.config import SentencePooling
from jumok.text.limits import check_text_length
from jumok.text.normalization import check_text

Pair = tuple[str, str]
Text = TypeVar("Text", str, str | Pair)


def as_list(texts: str | Iterable[Text]) -> list[Text]:
    """The texts in a list; raise InputError for what is neither a text nor several.

    >>> as_list("비"), as_list(iter(["비", "눈"]))
    (['비'], ['비', '눈'])
    """
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes | Mapping) or not isinstance(texts, Iterable):
        raise InputError(
            "pipeline.texts_not_a_list",
            "texts must be a str or a list of str, got {ascii}",
            ascii=ascii(texts)[:40],
        )
    return list(texts)


def as_lines(texts: str | Iterable[str | Pair], *, paired: bool) -> list[str]:
    r"""The texts as lines, with a TAB between the texts of a pair.

    Raises InputError for a pair where the model is not `paired`, and for one with a TAB in a text.

    >>> as_lines([("비", "눈"), "비"], paired=True)
    ['비\t눈', '비']
    """
    return [
        _joined(text, index, paired) if _is_pair(text) else text  # type: ignore[misc]  # checked later
        for index, text in enumerate(as_list(texts))
    ]


def _is_pair(text: object) -> TypeGuard[Pair]:
    """Whether a row is a tuple, or a list, of two texts."""
    if not isinstance(text, tuple | list):
        return False
    return len(text) == 2 and all(isinstance(part, str) for part in text)


def _joined(pair: Pair, index: int, paired: bool) -> str:
    if not paired:
        raise InputError(
            "pipeline.reads_one_text",
            "the model reads one text a row, got a pair at index {index}; give a str",
            index=index,
        )
    if any("\t" in text for text in pair):
        raise InputError(
            "pipeline.tab_in_pair",
            "the texts of a pair must have no TAB, got one in the pair at index {index}; "
            "replace it by a space",
            index=index,
        )
    return "\t".join(pair)


def check_texts(texts: Sequence[object], limit: int) -> None:
    """Raise InputError for what is not a text, has a NUL, or is longer than `limit` bytes."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                "pipeline.text_not_str",
                "texts must be str, got {text} at index {index}; convert it, or replace a missing "
                'value by ""',
                text=f"{text!r:.40}",
                index=index,
            )
        check_text_length(text, limit)
        check_text(text)


def check_pooling(name: str) -> SentencePooling:
    """The pooling of this name; InputError for another one.

    >>> check_pooling("mean")
    'mean'
    """
    check_choice("pooling", name, SentencePooling)
    return cast(SentencePooling, name)


def chosen_normalization(normalize: bool | None, normalize_embeddings: bool | None) -> bool | None:
    """The one of both names of `encode` that is given, None for neither; InputError for both.

    >>> chosen_normalization(None, False)
    False
    """
    if normalize is not None and normalize_embeddings is not None:
        raise InputError(
            "pipeline.normalize_twice",
            "normalize and normalize_embeddings are the same; give one of them",
        )
    return normalize_embeddings if normalize is None else normalize
