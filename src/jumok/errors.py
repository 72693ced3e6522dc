"""Exceptions of jumok, each with the exit code of the command line.

Every message is one sentence: what must be, what was given, what to try.
"""


class JumokError(Exception):
    """Base of all expected errors; any other exception that escapes is a bug.

    >>> try:
    ...     raise InputError("steps must be at least 1, got 0")
    ... except JumokError as error:
    ...     error.exit_code
    2
    """

    exit_code = 1


class InputError(JumokError, ValueError):
    """Invalid arguments, recipe, file or row."""

    exit_code = 2


class StorageError(JumokError):
    """A file that cannot be read or written."""

    exit_code = 3


class NonFiniteError(JumokError):
    """A loss, a gradient or an answer is infinite or NaN."""

    exit_code = 4


class CheckpointError(JumokError):
    """No checkpoint can be resumed."""

    exit_code = 5


class ProcessLostError(JumokError):
    """Another process of the same training ended or did not respond in time."""

    exit_code = 6


class Interrupted(JumokError):  # noqa: N818  (it is not an error)
    """A signal ended the work after everything was saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number  # 130 for Ctrl-C, 143 for SIGTERM
