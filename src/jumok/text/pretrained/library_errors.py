"""Errors of the tokenizers library as one sentence, panics included; unsafe patterns rejected.

A panic of the library is not an Exception in Python (it derives from BaseException). A regular
expression in a file may take exponential time on a text made for it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from jumok.errors import InputError

_PANIC = "PanicException"


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Raise an InputError for any exception or panic of the tokenizers library.

    >>> from tokenizers import models
    >>> with library_errors("tokenizer.json cannot be used"):
    ...     models.WordPiece.read_file("none.txt")
    Traceback (most recent call last):
    jumok.errors.InputError: tokenizer.json cannot be used (Error while reading \
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


def check_pattern(pattern: str) -> None:
    r"""Reject a regular expression in which a repeated group has a repetition or an alternative.

    `(a+)+` and `(a|b)*` try every way to divide a text between the two: 30 characters take
    minutes. Ordinary tokenizers use consecutive repetitions and optional groups only.

    >>> check_pattern(r"'s|'t| ?[(+*]+|\s+(?!\S)|(?:\p{L}+)?")
    >>> check_pattern("(?:a+)+$")
    Traceback (most recent call last):
    jumok.errors.InputError: the regular expression '(?:a+)+$' may take exponential time; remove it
    """
    open_groups = [False]  # for each open group: whether it has a repetition or an alternative
    last = False  # the same for the group that has just been closed
    for part in _TOKENS.findall(pattern):
        if part == "(":
            open_groups.append(False)
        elif part == ")":
            last = open_groups.pop() if len(open_groups) > 1 else False
            open_groups[-1] |= last
            continue
        elif part == "|":
            open_groups[-1] |= len(open_groups) > 1
        elif _UNBOUNDED.fullmatch(part):
            if last:
                raise InputError(
                    f"the regular expression {pattern[:200]!r} may take exponential time; remove it"
                )
            open_groups[-1] = True
        last = False


# A class in brackets and an escaped character are one token each, without operators.
_TOKENS = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]|\{\d*,?\d*\}|.", re.S)
_UNBOUNDED = re.compile(r"[+*]|\{\d*,\}|\{\d{3,}\}|\{\d*,\d{3,}\}")


def _input_error(what: str, error: BaseException) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(f"{what} ({reason}); download the file again")
