"""Tags as BIO: B-X begins a thing of type X, I-X goes on with it, O is outside of all.

Shapes: T pieces, L tags.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.text.offsets import Span

OUTSIDE = "O"


def check_bio(tags: Sequence[str]) -> None:
    """Raises InputError for tags that do not tell where things begin and of which type they are.

    >>> refuse_other_tags(["O", "PS-B"])
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: the tag 'PS-B' came, and names are read from O, B-TYPE and I-TYPE; \
ask .logits(...), or correct id2label in config.json
    """
    for tag in tags:
        if tag != OUTSIDE and not (tag[:2] in ("B-", "I-") and tag[2:]):
            raise InputError(
                f"the tag {tag[:80]!r} came, and names are read from O, B-TYPE and I-TYPE; ask "
                ".logits(...), or correct id2label in config.json"
            )


def allowed_transitions(tags: Sequence[str]) -> NDArray[np.bool_]:
    """Whether the second tag may follow the first, (L, L): I-X follows B-X and I-X alone.

    >>> may_follow(["O", "B-PS", "I-PS"]).tolist()
    [[True, True, False], [True, True, True], [True, True, True]]
    """
    return np.array(
        [[not new.startswith("I-") or old[2:] == new[2:] for new in tags] for old in tags]
    )


def viterbi(log_p: NDArray[np.float32], tags: Sequence[str]) -> list[int]:
    """The numbers of the tags, one a piece, with the largest sum of log_p (T, L) that are valid.

    Viterbi's algorithm; what may not follow what is all it knows of transitions.

    >>> tags = ["O", "B-PS", "I-PS"]
    >>> log_p = np.log(np.array([[0.5, 0.4, 0.1], [0.1, 0.1, 0.8]], np.float32))
    >>> [tags[i] for i in likeliest(log_p, tags)]  # O I-PS is likelier, and means nothing
    ['B-PS', 'I-PS']
    """
    if not len(log_p):
        return []
    forbidden = np.where(allowed_transitions(tags), 0.0, -np.inf)  # (L, L)
    best = log_p[0] + np.where([tag.startswith("I-") for tag in tags], -np.inf, 0.0)  # (L,)
    came_from = []
    for row in log_p[1:]:
        ways = best[:, None] + forbidden  # (L, L)
        came_from.append(ways.argmax(0))
        best = ways.max(0) + row
    path = [int(best.argmax())]
    for origins in reversed(came_from):
        path.append(int(origins[path[-1]]))
    return path[::-1]


def piece_tags(tags: Sequence[str], spans: Sequence[Span]) -> list[str]:
    """The tag of each piece, from those of the characters: the first in it that is not O.

    What two things share, or a thing and what follows it, goes to the first: pieces that straddle
    a border lose it. A piece of no characters is O.

    >>> of_pieces("B-LC I-LC O O O".split(), [(0, 0), (0, 2), (2, 5)])
    ['O', 'B-LC', 'O']
    """
    return [
        next((tag for tag in tags[start:stop] if tag != OUTSIDE), OUTSIDE) for start, stop in spans
    ]


def char_tags(tags: Sequence[str], spans: Sequence[Span], text: str) -> list[str]:
    r"""The tag of each character, from those of the pieces; a space begins nothing.

    A thing that a piece of spaces alone would begin begins with the next piece. Spans need not lie
    end to end: what goes on takes along what lies between, spaces or signs that no piece stands
    for. Of a character that several pieces share the first of them tells the tag, if no later one
    begins a thing. Other characters of no piece, beyond what the model has read, are O.

    >>> of_characters(["O", "B-LC", "I-LC"], [(0, 1), (1, 4), (4, 5)], "가 서울역")
    ['O', 'O', 'B-LC', 'I-LC', 'I-LC']
    >>> of_characters(["O", "B-LC", "I-LC"], [(0, 1), (1, 2), (2, 4)], "가 서울")
    ['O', 'O', 'B-LC', 'I-LC']
    >>> of_characters(["B-LC", "I-LC", "I-LC"], [(0, 2), (3, 4), (3, 5)], "제주 공항")
    ['B-LC', 'I-LC', 'I-LC', 'I-LC', 'I-LC']
    >>> of_characters(["B-LC", "I-LC"], [(0, 1), (2, 3)], "서\u200b울")
    ['B-LC', 'I-LC', 'I-LC']
    """
    found = [OUTSIDE] * len(text)
    postponed = ""  # the kind of thing that a piece of spaces would have begun
    kind, end = "", 0  # of the thing that the piece before belongs to, if any
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
            found[start:stop] = [tag, *[f"I-{tag[2:]}"] * (stop - start - 1)][: stop - start]
        else:
            if kind == tag[2:]:
                start = end
            found[start:stop] = [tag] * (stop - start)
        kind, end = tag[2:], max(start, stop)
    return found
