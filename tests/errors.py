"""Exceptions of jumok are told apart by class and code."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jumok.errors import JumokError


@contextmanager
def raises(
    error: type[Exception] | tuple[type[Exception], ...], code: str
) -> Iterator[pytest.ExceptionInfo[JumokError]]:
    """The block must raise an exception of this class with this code."""
    with pytest.raises(error) as caught:
        yield caught  # type: ignore[misc]
    assert isinstance(caught.value, JumokError), caught.value
    assert caught.value.code == code, str(caught.value)
