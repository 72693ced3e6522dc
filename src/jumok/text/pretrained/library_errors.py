"""Errors of the tokenizers library as one sentence, panics included; unsafe patterns rejected.

A panic of the library is not an Exception in Python (it derives from BaseException). A regular
expression in a file may take exponential time on a text made for it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from jumok.errors import InputError, TokenizerError

_PANIC = "PanicException"


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Raise an InputError for any exception or panic of the tokenizers library.

    >>> from tokenizers import models
    >>> with library_errors("tokenizer.json cannot be used"):
    ...     models.WordPiece.read_file("none.txt")
    Traceback (most recent call last):
    jumok.errors.TokenizerError: tokenizer.json cannot be used (Error while reading \
WordPiece file: No such file or directory (os error 2)); download the file again
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise _input_error(what, error) from None
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise _input_error(what, error) from None


MAX_REPETITIONS = 2  # in a row: the time is that power of the length of a text


def check_pattern(pattern: str) -> None:
    r"""Reject a regular expression whose time may be cubic or exponential in the text.

    A repeated group must have no repetition and no alternative, a row of parts two repetitions.

    `(a+)+` and `(a|b)*` try every way to divide a text between the two: 30 characters take
    minutes, as do 10,000 for `a*a*a*b`. Ordinary tokenizers have two repetitions in a row.

    >>> check_pattern(r"'s|'t| ?[(+*]+|\s+(?!\S)|(?:\p{L}+)?")
    >>> check_pattern("(?:a+)+$")
    Traceback (most recent call last):
    jumok.errors.TokenizerError: the regular expression '(?:a+)+$' may take exponential time; remove it
    """  # noqa: E501
    open_groups = [False]  # for each open group: whether it has a repetition or an alternative
    last = False  # the same for the group that has just been closed
    most, rows = 0, [[0]]  # for each open group: the repetitions in each of its alternatives
    for part in _TOKENS.findall(pattern):
        if part == "(":
            open_groups.append(False)
            rows.append([0])
        elif part == ")":
            last = open_groups.pop() if len(open_groups) > 1 else False
            open_groups[-1] |= last
            inner = max(rows.pop()) if len(rows) > 1 else 0
            rows[-1][-1] += inner
            most = max(most, rows[-1][-1])
            continue
        elif part == "|":
            open_groups[-1] |= len(open_groups) > 1
            rows[-1].append(0)
        elif _UNBOUNDED.fullmatch(part):
            if last:
                raise TokenizerError(
                    "tokenizer.slow_regular_expression",
                    "the regular expression {pattern!r} may take exponential time; remove it",
                    pattern=pattern[:200],
                )
            open_groups[-1] = True
            rows[-1][-1] += 1
        most = max(most, rows[-1][-1])
        last = False
    if most > MAX_REPETITIONS:
        raise TokenizerError(
            "tokenizer.too_many_repetitions",
            "the regular expression {pattern!r} must have at most {max_repetitions} repetitions "
            "in a row, got {most}, which may take cubic time; remove it",
            pattern=pattern[:200],
            max_repetitions=MAX_REPETITIONS,
            most=most,
        )


# A class in brackets and an escaped character are one token each, without operators.
_TOKENS = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]|\{\d*,?\d*\}|.", re.S)
_UNBOUNDED = re.compile(r"[+*]|\{\d*,\}|\{\d{3,}\}|\{\d*,\d{3,}\}")


def _input_error(what: str, error: BaseException) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return TokenizerError(
        "tokenizer.download_the_file",
        "{what} ({reason}); download the file again",
        what=what,
        reason=reason,
    )
