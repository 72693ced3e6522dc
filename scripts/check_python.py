"""Says in one sentence why this Python cannot set the project up, if it cannot.

It must run on any Python, so it uses nothing new.
"""

import sys

NEEDED = (3, 11)


def obstacle():
    """The sentence, or None when all is well."""
    if sys.version_info < NEEDED:
        found = ".".join(str(part) for part in sys.version_info[:3])
        wanted = ".".join(str(part) for part in NEEDED)
        return (
            "This is Python " + found + ", wanted " + wanted + " or newer; "
            "name another one: make PYTHON=python" + wanted
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return (
            "This Python cannot make virtual environments, wanted venv and ensurepip; "
            "install them (on Debian and Ubuntu: apt install python3-venv)"
        )
    return None


if __name__ == "__main__":
    sys.exit(obstacle())
