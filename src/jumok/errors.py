"""What can go wrong, each with the exit code the command line answers with.

Every message is one sentence: what came, what was wanted, what to do.
"""


class JumokError(Exception):
    """Something jumok refuses to go on with; anything else that escapes is a bug."""

    exit_code = 1


class InputError(JumokError, ValueError):
    """Wrong words, a recipe, file or row that does not fit."""

    exit_code = 2


class StorageError(JumokError):
    """A file that cannot be read or written."""

    exit_code = 3


class NonFiniteError(JumokError):
    """A loss or gradient became infinite or not a number."""

    exit_code = 4


class CheckpointError(JumokError):
    """There is no checkpoint that could be resumed."""

    exit_code = 5


class ProcessLostError(JumokError):
    """Another process of the same training ended, or did not answer in time."""

    exit_code = 6


class Interrupted(JumokError):  # noqa: N818  (it is no error)
    """A signal ended the work after everything was committed."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number  # 130 for Ctrl-C, 143 for SIGTERM
