"""How far two models' answers are apart, and how often they come to the same decision."""

from torch import Tensor

from jumok.checks.target import Answers
from jumok.errors import JumokError
from jumok.export.difference import difference


def distance(answers: Answers, wanted: Answers) -> float:
    """max |a - b| / max(1, max |b|) over all numbers of all answers.

    NaN when one of them is NaN or infinite. Raises JumokError for answers of other shapes.

    >>> import torch
    >>> distance([torch.tensor([2.0, 4.0])], [torch.tensor([2.0, 5.0])])
    0.2
    """
    for a, b in _pairs(answers, wanted):
        if a.shape != b.shape:
            raise JumokError(
                f"answers of the shapes {tuple(a.shape)} and {tuple(b.shape)} came for one text; "
                "the two ask different things"
            )
    return difference(_pairs(answers, wanted))


def agreement(answers: Answers, wanted: Answers) -> tuple[int, int] | None:
    """In how many of how many decisions the largest output is the same.

    None where there is nothing to decide: with one output alone.

    >>> import torch
    >>> agreement([torch.eye(2)], [torch.tensor([[1.0, 0.0], [1.0, 0.0]])])
    (1, 2)
    """
    if not wanted or wanted[0].shape[-1] < 2:
        return None
    same = [a.argmax(-1) == b.argmax(-1) for a, b in _pairs(answers, wanted)]
    return sum(int(s.sum()) for s in same), sum(s.numel() for s in same)


def _pairs(answers: Answers, wanted: Answers) -> list[tuple[Tensor, Tensor]]:
    return list(zip(answers, wanted, strict=True))
