"""What a power cut may leave of a file that was not forced to disk."""

from benchmarks.trust.powerloss import Node, may_be


def cut(content: bytes) -> list[bytes]:
    """The states of a file: cut off, with zeros in place of its end or of its beginning."""
    states = may_be(Node(folder=False, asked=content))
    return [state for state in states if isinstance(state, bytes)]
