"""What training never sees: one number in ten, and the carriers on a diagonal of each frame.

A number expression belongs to train, dev or test by a hash of its kind and value, whatever unit
it is said with. Values with one digit other than zero (3, 20, 70,000, a phone number never) are
the words that all others are made of, so they always belong to train.
All numbers of a sentence come from the same side; dev and test use the carriers of train,
test_patterns the numbers of train.
"""

from dataclasses import dataclass
from hashlib import sha256

from jumok.data.numbers.expressions import Expression
from jumok.data.numbers.grammar import FRAMES
from jumok.data.numbers.templates import Carrier

_SHARES = 20  # one in 20 to dev, one to test, the rest to train
_DIAGONAL = 7  # one carrier in about 7 is held out, never two beside each other


def side(expression: Expression) -> str:
    """The split that may say this number: train, dev or test.

    >>> from jumok.data.numbers.expressions import counter
    >>> [side(counter(number, "개")) for number in (20, 21, 22, 28)]
    ['train', 'dev', 'train', 'test']
    """
    if sum(character in "123456789" for character in expression.value) < 2:
        return "train"
    digest = sha256(f"{expression.kind} {expression.value}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") % _SHARES
    return {0: "dev", 1: "test"}.get(share, "train")


def _carriers(*, held_out: bool) -> dict[str, tuple[Carrier, ...]]:
    """The carriers of each kind that stand on (or off) the diagonals of their frames."""
    by_kind: dict[str, list[Carrier]] = {}
    for number, frame in enumerate(FRAMES):
        for row, carriers in enumerate(frame.carriers()):
            for column, carrier in enumerate(carriers):
                if ((number + row + column) % _DIAGONAL == 0) == held_out:
                    by_kind.setdefault(frame.kind, []).append(carrier)
    return {kind: tuple(carriers) for kind, carriers in by_kind.items()}


@dataclass(frozen=True)
class Split:
    """The carriers of a split by kind, and the side its numbers come from."""

    carriers: dict[str, tuple[Carrier, ...]]
    side: str


_SEEN = _carriers(held_out=False)

SPLITS = {
    "train": Split(_SEEN, "train"),
    "dev": Split(_SEEN, "dev"),
    "test": Split(_SEEN, "test"),
    "test_patterns": Split(_carriers(held_out=True), "train"),
}
