"""What the tokenizers library does when a file or a text is wrong, turned into one sentence.

Its panics are no Exception in Python (they derive from BaseException), and a regular expression
in a file may take for ever on a text made for it; the first are caught here, the second refused.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from jumok.errors import InputError

_PANIC = "PanicException"


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Turn whatever the tokenizers library raises inside, panics too, into an InputError.

    >>> from tokenizers import models
    >>> with library_errors("tokenizer.json: the library refuses it"):
    ...     models.WordPiece.read_file("none.txt")
    Traceback (most recent call last):
    jumok.errors.InputError: tokenizer.json: the library refuses it (Error while reading \
WordPiece file: No such file or directory (os error 2)); get the file again from its source
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise _refusal(what, error) from None
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise _refusal(what, error) from None


def check_pattern(pattern: str) -> None:
    r"""Refuse a regular expression in which a repetition repeats a repetition or a choice.

    `(a+)+` and `(a|b)*` try every way to share a text out between the two: 30 characters take
    minutes. Repetitions side by side, and optional groups, are what honest tokenisers use.

    >>> check_pattern(r"'s|'t| ?[(+*]+|\s+(?!\S)|(?:\p{L}+)?")
    >>> check_pattern("(?:a+)+$")
    Traceback (most recent call last):
    jumok.errors.InputError: the regular expression '(?:a+)+$' may take for ever; leave it out
    """
    open_groups = [False]  # for each group that is open: does something repeat, or offer a choice?
    last = False  # the same of the group that was closed just now
    for sign in _TOKENS.findall(pattern):
        if sign == "(":
            open_groups.append(False)
        elif sign == ")":
            last = open_groups.pop() if len(open_groups) > 1 else False
            open_groups[-1] |= last
            continue
        elif sign == "|":
            open_groups[-1] |= len(open_groups) > 1
        elif _UNBOUNDED.fullmatch(sign):
            if last:
                raise InputError(
                    f"the regular expression {pattern[:200]!r} may take for ever; leave it out"
                )
            open_groups[-1] = True
        last = False


# A class in brackets and an escaped character are one token each: nothing inside is a sign.
_TOKENS = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]|\{\d*,?\d*\}|.", re.S)
_UNBOUNDED = re.compile(r"[+*]|\{\d*,\}|\{\d{3,}\}|\{\d*,\d{3,}\}")


def _refusal(what: str, error: BaseException) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(f"{what} ({reason}); get the file again from its source")
