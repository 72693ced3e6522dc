"""What is held out of training: one number in ten, and a diagonal of templates of each family.

A number expression belongs to train, dev or test by a hash of its kind and value, independent of
its unit. Values with one digit other than zero (3, 20, 70,000; never a phone number) are the words
that compose all others and always belong to train. All numbers of a sentence are of the same split;
dev and test use the templates of train, test_patterns the numbers of train.
"""

from dataclasses import dataclass
from hashlib import sha256

from jumok.data.numbers.expressions import Expression
from jumok.data.numbers.templates import FAMILIES, SentenceTemplate

_N_PARTS = 20  # one in 20 to dev, one to test, the rest to train
_DIAGONAL = 7  # one template in about 7 is held out, never two adjacent ones


def number_split(expression: Expression) -> str:
    """The split of a number expression: train, dev or test.

    >>> from jumok.data.numbers.expressions import counter
    >>> [number_split(counter(number, "개")) for number in (20, 21, 22, 28)]
    ['train', 'dev', 'train', 'test']
    """
    if sum(character in "123456789" for character in expression.value) < 2:
        return "train"
    digest = sha256(f"{expression.kind} {expression.value}".encode()).digest()
    part = int.from_bytes(digest[:8], "big") % _N_PARTS
    return {0: "dev", 1: "test"}.get(part, "train")


def _templates(*, held_out: bool) -> dict[str, tuple[SentenceTemplate, ...]]:
    """The templates of each kind on (or off) the diagonals of their families."""
    by_kind: dict[str, list[SentenceTemplate]] = {}
    for number, family in enumerate(FAMILIES):
        for row, templates in enumerate(family.templates()):
            for column, template in enumerate(templates):
                if ((number + row + column) % _DIAGONAL == 0) == held_out:
                    by_kind.setdefault(family.kind, []).append(template)
    return {kind: tuple(templates) for kind, templates in by_kind.items()}


@dataclass(frozen=True)
class Split:
    """The templates of a split by kind, and the split of its numbers."""

    templates: dict[str, tuple[SentenceTemplate, ...]]
    numbers: str


_IN_TRAINING = _templates(held_out=False)

SPLITS = {
    "train": Split(_IN_TRAINING, "train"),
    "dev": Split(_IN_TRAINING, "dev"),
    "test": Split(_IN_TRAINING, "test"),
    "test_patterns": Split(_templates(held_out=True), "train"),
}
