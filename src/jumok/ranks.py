"""The place of this process among those that torchrun started, from its environment."""

import os


def is_main_process() -> bool:
    """Whether this process writes files and prints: rank 0, or the only process.

    >>> is_main_process()
    True
    """
    return os.environ.get("RANK", "0") == "0"
