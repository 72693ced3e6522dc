"""Weights for display: of syllables or words, without special tokens, times value norms.

The same definitions as in the page (web/src/trace), in numpy. Q and K are groups of adjacent
pieces:

    aggregate    Ã[Q, K] = mean over i in Q of Σ over j in K of A[i, j]; rows keep their sums
    values       A[i, j] · ‖v_j W_O‖ (Kobayashi et al. 2020)
    renormalise  the columns of special tokens are 0, each row is divided by the rest of its sum

Shapes: H heads, T queries, S keys in pieces; R rows, C columns of groups.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from jumok.interpret.options import MEASURES, SPECIALS, UNITS, Measure, Specials, Unit, check_choice
from jumok.interpret.schema import Tokens

Floats = NDArray[np.float32]

_JOINER = "\u200d"  # joins emoji to one grapheme
_INNER_JAMO = range(0x1160, 0x1200)  # vowels and final consonants of decomposed syllables


@dataclass(frozen=True)
class DisplayOptions:
    """How weights are displayed.

    >>> DisplayOptions(unit="word", specials="renormalise").measure
    'weights'

    Raises InputError for an option that does not exist.
    """

    unit: Unit = "piece"
    specials: Specials = "plain"  # dim: the same numbers, drawn faintly
    measure: Measure = "weights"

    def __post_init__(self) -> None:
        for name, known in (("unit", UNITS), ("specials", SPECIALS), ("measure", MEASURES)):
            check_choice(name, getattr(self, name), known)


def display_weights(
    weights: Floats, norms: Floats | None, queries: Tokens, keys: Tokens, options: DisplayOptions
) -> Floats:
    """Weights (H, T, S) for display, (H, R, C); `norms` (H, S) are required for the measure values.

    Rows and columns are the `token_groups` of the queries and of the keys.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> weights, tokens = trace.weights("encoder", layer=0), trace.info.tokens("source")
    >>> shown = display_weights(weights, None, tokens, tokens, DisplayOptions(unit="word"))
    >>> weights.shape, shown.shape  # 겨울은, 추워요. and [EOS]
    ((2, 7, 7), (2, 3, 3))
    """
    if options.measure == "values":
        assert norms is not None
        weights = weights * norms[:, None, :]
    rows, columns = token_groups(queries, options.unit), token_groups(keys, options.unit)
    weights = aggregate(weights, rows, columns)
    if options.specials == "renormalise":
        weights = renormalize(weights, [bool(keys.special[pieces[0]]) for pieces in columns])
    return weights


def token_groups(tokens: Tokens, unit: Unit) -> list[range]:
    """The groups of pieces, in order; a special token or padding is its own group.

    >>> pieces = dict(text="안녕 하세요", pieces=("▁안", "녕", "▁하세요", "</s>"), ids=(3, 4, 5, 1),
    ...     spans=((0, 1), (1, 2), (3, 6), (6, 6)), special=(0, 0, 0, 1), real=(1, 1, 1, 1))
    >>> token_groups(Tokens(**pieces, words=(0, 0, 1, -1)), "word")
    [range(0, 2), range(2, 3), range(3, 4)]
    """
    group_of = {"piece": _pieces, "syllable": _syllables, "word": _words}[unit](tokens)
    starts = [i for i, n in enumerate(group_of) if i == 0 or n != group_of[i - 1]]
    return [range(*ends) for ends in pairwise([*starts, len(tokens)])]


def aggregate(weights: Floats, queries: Sequence[range], keys: Sequence[range]) -> Floats:
    """The sum over the keys of a group, the mean over its queries: (..., T, S) -> (..., R, C).

    >>> weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]], np.float32)
    >>> aggregate(weights, [range(0, 2)], [range(0, 1), range(1, 3)]).tolist()
    [[0.25, 0.75]]
    """
    sizes = np.array([len(pieces) for pieces in queries])
    if len(queries) == weights.shape[-2] and len(keys) == weights.shape[-1]:
        return weights
    exact = weights.astype(np.float64)
    exact = np.add.reduceat(exact, [pieces.start for pieces in keys], axis=-1)
    exact = np.add.reduceat(exact, [pieces.start for pieces in queries], axis=-2)
    means: Floats = (exact / sizes[:, None]).astype(np.float32)
    return means


def renormalize(weights: Floats, special: Sequence[bool]) -> Floats:
    """Weights with special columns set to 0 and rows that sum to 1 again; empty rows stay 0.

    >>> weights = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], np.float32)
    >>> renormalize(weights, [True, False, False]).tolist()
    [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0]]
    """
    kept = np.where(np.array(special), np.float32(0.0), weights)
    mass = kept.sum(-1, keepdims=True)
    fractions: Floats = np.divide(kept, mass, out=np.zeros_like(kept), where=mass > 0)
    return fractions


def _pieces(tokens: Tokens) -> list[int]:
    return list(range(len(tokens)))


def _words(tokens: Tokens) -> list[int]:
    """The index of the eojeol of each piece; a unique negative number for pieces without one."""
    return [
        -1 - i if word < 0 or special else word
        for i, (word, special) in enumerate(zip(tokens.words, tokens.special, strict=True))
    ]


def _syllables(tokens: Tokens) -> list[int]:
    """A number for each piece, equal within a grapheme (three bytes of 안, three jamo of 한)."""
    starts = _starts(tokens.text)
    numbers: list[int] = []
    group, reached = -1, -1  # reached: the end of the previous piece
    for (begin, end), special in zip(tokens.spans, tokens.special, strict=True):
        has_text = end > begin and not special
        joined = has_text and (begin < reached or (begin == reached and begin not in starts))
        group += not joined
        reached = max(end, reached if joined else -1) if has_text else -1
        numbers.append(group)
    return numbers


def _starts(text: str) -> set[int]:
    """The start indices of the graphemes of a text."""
    starts = set()
    for i, character in enumerate(text):
        before = text[i - 1] if i else ""
        inner = ord(character) in _INNER_JAMO and before and _is_jamo(before)
        added = unicodedata.category(character) in ("Mn", "Me", "Mc") or character == _JOINER
        if not (i and (inner or added or before == _JOINER)):
            starts.add(i)
    return starts


def _is_jamo(character: str) -> bool:
    """Whether a character is a conjoining jamo."""
    return 0x1100 <= ord(character) < 0x1200
