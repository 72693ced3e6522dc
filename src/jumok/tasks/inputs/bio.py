"""BIO tags: B-X is the beginning of an entity of type X, I-X its continuation, O is outside.

Shapes: T pieces, L tags.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.text.offsets import Span

OUTSIDE = "O"


def check_bio(tags: Sequence[str]) -> None:
    """Raise InputError for tags that are not O, B-TYPE or I-TYPE.

    >>> check_bio(["O", "PS-B"])
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: a tag must be O, B-TYPE or I-TYPE, got 'PS-B'; \
use .logits(...), or correct id2label in config.json
    """
    for tag in tags:
        if tag != OUTSIDE and not (tag[:2] in ("B-", "I-") and tag[2:]):
            raise InputError(
                "input.unknown_tag_form",
                "a tag must be O, B-TYPE or I-TYPE, got {tag!r}; use .logits(...), or correct "
                "id2label in config.json",
                tag=tag[:80],
            )


def allowed_transitions(tags: Sequence[str]) -> NDArray[np.bool_]:
    """Whether the second tag may follow the first, (L, L): I-X only follows B-X and I-X.

    >>> allowed_transitions(["O", "B-PS", "I-PS"]).tolist()
    [[True, True, False], [True, True, True], [True, True, True]]
    """
    return np.array(
        [[not new.startswith("I-") or old[2:] == new[2:] for new in tags] for old in tags]
    )


def viterbi(log_p: NDArray[np.float32], tags: Sequence[str]) -> list[int]:
    """The indices of the valid tag sequence with the largest sum of log_p (T, L).

    The Viterbi algorithm with transitions that are either allowed or not.

    >>> tags = ["O", "B-PS", "I-PS"]
    >>> log_p = np.log(np.array([[0.5, 0.4, 0.1], [0.1, 0.1, 0.8]], np.float32))
    >>> [tags[i] for i in viterbi(log_p, tags)]  # O I-PS is more probable, but not valid
    ['B-PS', 'I-PS']
    """
    if not len(log_p):
        return []
    transitions = np.where(allowed_transitions(tags), 0.0, -np.inf)  # (L, L)
    best = log_p[0] + np.where([tag.startswith("I-") for tag in tags], -np.inf, 0.0)  # (L,)
    backpointers = []
    for row in log_p[1:]:
        scores = best[:, None] + transitions  # (L, L)
        backpointers.append(scores.argmax(0))
        best = scores.max(0) + row
    path = [int(best.argmax())]
    for previous in reversed(backpointers):
        path.append(int(previous[path[-1]]))
    return path[::-1]


def piece_tags(tags: Sequence[str], spans: Sequence[Span]) -> list[str]:
    """The tag of each piece from those of its characters: the first that is not O.

    A piece that crosses the border of two entities, or of an entity and what follows it, belongs
    to the first. A piece without characters is O.

    >>> piece_tags("B-LC I-LC O O O".split(), [(0, 0), (0, 2), (2, 5)])
    ['O', 'B-LC', 'O']
    """
    return [
        next((tag for tag in tags[start:stop] if tag != OUTSIDE), OUTSIDE) for start, stop in spans
    ]


def char_tags(tags: Sequence[str], spans: Sequence[Span], text: str) -> list[str]:
    r"""The tag of each character from those of the pieces; an entity never starts with a space.

    An entity that would start with a piece of spaces only starts with the next piece. Spans may
    have gaps: an entity that continues includes the gap, spaces or characters without a piece. The
    tag of a character with several pieces is that of the first, unless a later one starts an
    entity. Other characters without a piece, such as those beyond the truncated input, are O.

    >>> char_tags(["O", "B-LC", "I-LC"], [(0, 1), (1, 4), (4, 5)], "가 서울역")
    ['O', 'O', 'B-LC', 'I-LC', 'I-LC']
    >>> char_tags(["O", "B-LC", "I-LC"], [(0, 1), (1, 2), (2, 4)], "가 서울")
    ['O', 'O', 'B-LC', 'I-LC']
    >>> char_tags(["B-LC", "I-LC", "I-LC"], [(0, 2), (3, 4), (3, 5)], "제주 공항")
    ['B-LC', 'I-LC', 'I-LC', 'I-LC', 'I-LC']
    >>> char_tags(["B-LC", "I-LC"], [(0, 1), (2, 3)], "서\u200b울")
    ['B-LC', 'I-LC', 'I-LC']
    """
    chars = [OUTSIDE] * len(text)
    postponed = ""  # the type of an entity that a piece of spaces would start
    kind, end = "", 0  # of the entity of the previous piece, if any
    for tag, (start, stop) in zip(tags, spans, strict=True):
        begins = tag.startswith("B-") or (postponed and tag == f"I-{postponed}")
        postponed = ""
        if tag == OUTSIDE:
            kind = ""
            continue
        if begins:
            start += len(text[start:stop]) - len(text[start:stop].lstrip())
            if start == stop:
                postponed, kind = tag[2:], ""
                continue
            tag = f"B-{tag[2:]}"
            chars[start:stop] = [tag, *[f"I-{tag[2:]}"] * (stop - start - 1)][: stop - start]
        else:
            if kind == tag[2:]:
                start = end
            chars[start:stop] = [tag] * (stop - start)
        kind, end = tag[2:], max(start, stop)
    return chars
