"""Check the class and the code of exceptions of jumok."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jumok.errors import JumokError

_CODE = re.compile(r"[a-z]+\.[a-z0-9_]+")


@contextmanager
def raises(
    error: type[Exception] | tuple[type[Exception], ...], expected: str
) -> Iterator[pytest.ExceptionInfo[JumokError]]:
    """The block must raise an exception of this class with the code `expected`.

    Where a message contains a reason without a code, such as the fault of a row, `expected` is a
    pattern of the message.
    """
    with pytest.raises(error) as caught:
        yield caught  # type: ignore[misc]
    assert isinstance(caught.value, JumokError), caught.value
    if _CODE.fullmatch(expected):
        assert caught.value.code == expected, f"{caught.value.code}: {caught.value}"
    else:
        assert re.search(expected, str(caught.value)), str(caught.value)
