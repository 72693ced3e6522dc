r"""Regular expressions in the syntax of Python's `re`, matched against the whole text.

| syntax                         | meaning                                                  |
|--------------------------------|----------------------------------------------------------|
| `가` `\.` `\n` `\uac00`        | a character                                              |
| `.` `\d` `\w` `\s` `\D` ...    | any but a line break; Unicode's digits, letters, spaces  |
| `[가-힣_]` `[^0-9]`            | one of these; one of all others                          |
| `(...)` `(?:...)` `a|b`        | a group; this or that                                    |
| `?` `*` `+` `{3}` `{2,}` `{,5}`| repetition; a ? after it (non-greedy) changes nothing    |

Not supported: backreferences, which no finite automaton matches, lookaround and anchors (^, $, \b),
and flags.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache

from jumok.decoding.constraints.automaton import (
    Alternation,
    Automaton,
    Characters,
    Concatenation,
    Ranges,
    Repetition,
    Term,
    compile_automaton,
)
from jumok.errors import DecodingError, InputError

_MAX_CODE_POINT = 0x10FFFF
_MAX_DEPTH = 50  # of nested groups

_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "s": str.isspace,
    "w": lambda character: character.isalnum() or character == "_",
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_CODES = {"x": 2, "u": 4, "U": 8}  # hexadecimal digits
_COUNTS = re.compile(
    r"\{(\d{0,6})(?:(,)(\d{0,6}))?\}", re.ASCII
)  # six digits: larger counts exceed MAX_STATES
_GROUP = re.compile(r"\((\?:|\?P<\w+>|(?!\?))")


def compile_regex(pattern: str) -> Automaton:
    r"""The automaton that accepts the texts that `re.fullmatch(pattern, ...)` matches.

    Raises InputError for an invalid, unsupported or too large expression.

    >>> price = compile_regex(r"\d{1,3}(,\d{3})*원")
    >>> price.matches("15,000원"), price.matches("15,00원")
    (True, False)
    """
    return compile_automaton(parse(pattern))


def parse(pattern: str) -> Term:
    """The expression as a term.

    >>> parse("a*")
    Repetition(part=Characters(ranges=((97, 97),)), min_count=0, max_count=None)
    """
    return _Parser(pattern).whole()


class _Parser:
    """A recursive descent parser: alternations of sequences of repeated atoms."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> Term:
        term = self._alternation()
        if self._next:
            raise self._error("a ) without its (", r"remove it or write \)")
        return term

    @property
    def _next(self) -> str:
        """The next character, "" at the end."""
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        taken = self._next
        self._at += 1
        return taken

    def _accept(self, expected: str) -> bool:
        """Whether `expected` comes next; then it is consumed."""
        found = self._pattern.startswith(expected, self._at)
        self._at += len(expected) if found else 0
        return found

    def _error(self, problem: str, advice: str) -> InputError:
        return DecodingError(
            "constraint.bad_regular_expression",
            "the regular expression {pattern!r} has {problem} before character {at}; {advice}",
            pattern=self._pattern,
            problem=problem,
            at=self._at + 1,
            advice=advice,
        )

    def _alternation(self) -> Term:
        parts = [self._sequence()]
        while self._accept("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _sequence(self) -> Term:
        parts = []
        while self._next not in ("", "|", ")"):
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _repeated(self) -> Term:
        part = self._atom()
        counts = self._counts()
        if counts is None:
            return part
        self._accept("?")  # non-greedy: the same texts match
        if self._next in ("*", "+", "?", "{"):
            raise self._error("a repetition of a repetition", "put the first in a group (?:...)")
        minimum, maximum = counts
        if maximum is not None and maximum < minimum:
            raise self._error(
                f"a repetition of {minimum} to {maximum} times", "give the less first"
            )
        return Repetition(part, minimum, maximum)

    def _counts(self) -> tuple[int, int | None] | None:
        """The minimum and maximum of a repetition; None if none comes next."""
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(sign):
                return counts
        if self._next != "{":
            return None
        found = _COUNTS.match(self._pattern, self._at)
        if found is None or found[0] == "{}":
            raise self._error(
                "a { without a count such as {2,5}",
                r"write \{ for the character, and at most six digits in a count",
            )
        self._at = found.end()
        minimum, comma, maximum = found.groups()
        if not comma:
            return int(minimum), int(minimum)
        return int(minimum or 0), int(maximum) if maximum else None

    def _atom(self) -> Term:
        if self._next == "(":
            return self._group()
        character = self._take()
        match character:
            case "[":
                return Characters(self._class())
            case "\\":
                return Characters(self._escape())
            case ".":
                return Characters(_others(_one("\n")))
            case "*" | "+" | "?" | "{":
                raise self._error(f"a {character} with nothing to repeat", f"write \\{character}")
            case "^" | "$":
                raise self._error(
                    f"the anchor {character}",
                    f"leave it out, the whole text always matches (\\{character} is the character)",
                )
        return Characters(_one(character))

    def _group(self) -> Term:
        found = _GROUP.match(self._pattern, self._at)
        if found is None:
            raise self._error("a group that is not supported", "give (...) or (?:...)")
        self._at = found.end()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"more than {_MAX_DEPTH} groups inside each other", "nest fewer")
        term = self._alternation()
        self._depth -= 1
        if not self._accept(")"):
            raise self._error("a ( without its )", r"close it or write \(")
        return term

    def _class(self) -> Ranges:
        """The ranges in brackets; a ] that comes first is the character itself."""
        negated = self._accept("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self._next != "]":
            first = False
            start = self._member()
            if self._next == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                end = self._member()
                if len(start) != 1 or len(end) != 1 or not start[0][0] <= end[0][1]:
                    raise self._error("an empty range", "give the lower character first")
                start = ((start[0][0], end[0][1]),)
            ranges += start
        self._at += 1
        return _others(_merged(ranges)) if negated else _merged(ranges)

    def _member(self) -> Ranges:
        character = self._take()
        if not character:
            raise self._error("a [ without its ]", r"close it or write \[")
        return self._escape() if character == "\\" else _one(character)

    def _escape(self) -> Ranges:
        r"""The ranges of an escape, after the backslash."""
        letter = self._take()
        if letter.lower() in _CLASSES:
            ranges = _class_of(letter.lower())
            return ranges if letter.islower() else _others(ranges)
        if letter in _CONTROLS:
            return _one(_CONTROLS[letter])
        if letter in _CODES:
            digits = self._pattern[self._at : self._at + _CODES[letter]]
            if not re.fullmatch(f"[0-9A-Fa-f]{{{_CODES[letter]}}}", digits):
                raise self._error(f"a \\{letter}", f"give {_CODES[letter]} hexadecimal digits")
            self._at += len(digits)
            if int(digits, 16) > _MAX_CODE_POINT:
                raise self._error(f"the character {digits}", f"the largest is {_MAX_CODE_POINT:X}")
            return ((int(digits, 16),) * 2,)
        if not letter or (letter.isascii() and letter.isalnum()):
            raise self._error(f"a \\{letter}", r"use \d \w \s, characters or their codes")
        return _one(letter)


def _one(character: str) -> Ranges:
    return ((ord(character), ord(character)),)


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The characters of all ranges as disjoint ranges, in order."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return tuple(merged)


def _others(ranges: Ranges) -> Ranges:
    """All other characters, of disjoint ranges in order."""
    firsts = [0, *(last + 1 for _, last in ranges)]
    lasts = [*(first - 1 for first, _ in ranges), _MAX_CODE_POINT]
    return tuple((a, b) for a, b in zip(firsts, lasts, strict=True) if a <= b)


@cache
def _class_of(letter: str) -> Ranges:
    """The characters of a class; every code point is tested, once."""
    belongs = _CLASSES[letter]
    return _merged((code, code) for code in range(_MAX_CODE_POINT + 1) if belongs(chr(code)))
