"""Answers are computed from finite numbers: NaN and infinity never become a label or a token."""

from typing import TYPE_CHECKING

from jumok.errors import NonFiniteError

if TYPE_CHECKING:  # an answer of the kernel is checked without torch
    from torch import Tensor


def check_logits(values: "Tensor") -> None:
    """Raise NonFiniteError if one of these logits or scores is NaN or infinite.

    >>> import torch
    >>> check_logits(torch.tensor([1.0, torch.inf]))
    Traceback (most recent call last):
    jumok.errors.NonFiniteError: the logits of the model must be finite, got nan or infinity; its \
weights are too large or damaged: get or train it again
    """
    if not values.isfinite().all():
        raise non_finite_error("logits")


def check_log_p(log_p: "Tensor") -> None:
    """Raise NonFiniteError if a row of log-probabilities (B, V) comes from logits that are not.

    One logit of infinity or NaN, or a row of -inf, makes the whole row of a log-softmax NaN.
    """
    if log_p[..., 0].isnan().any():
        raise non_finite_error("logits")


def non_finite_error(what: str) -> NonFiniteError:
    """The error for an answer that is not finite."""
    return NonFiniteError(
        "decoding.not_finite",
        "the {what} of the model must be finite, got nan or infinity; its weights are too large "
        "or damaged: get or train it again",
        what=what,
    )
