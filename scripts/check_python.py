"""Checks that this Python can create the virtual environment; prints the reason if it cannot.

It runs on any Python, so it uses no recent syntax.
"""

import sys

NEEDED = (3, 11)


def unsupported_reason():
    """The reason, or None."""
    if sys.version_info < NEEDED:
        found = ".".join(str(part) for part in sys.version_info[:3])
        wanted = ".".join(str(part) for part in NEEDED)
        return (
            "Python must be " + wanted + " or newer, got " + found + "; "
            "choose another one: make PYTHON=python" + wanted
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return (
            "Python must have the modules venv and ensurepip; "
            "install them (on Debian and Ubuntu: apt install python3-venv)"
        )
    return None


if __name__ == "__main__":
    sys.exit(unsupported_reason())
