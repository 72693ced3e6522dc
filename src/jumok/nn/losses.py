"""Losses: sums over texts or tokens; the trainer divides them by the number of targets.

Shapes: N texts or tokens, L labels or vocabulary.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from jumok.errors import ConfigError
from jumok.registry import Registry

# Of one's own, instead of that of a task: outputs and targets to a sum, (). Of classification,
# tagging and language models (N, L) and (N,) int64; of several labels (N, L) and (N, L); of
# regression (N,) and (N,); of similarity both unit vectors (N, D), (N, D) and (N,).
LOSSES: Registry[Callable[..., Tensor]] = Registry("jumok.losses", "loss")


def own_loss(name: str) -> Callable[..., Tensor]:
    """The registered loss; raises ConfigError unless its result is a sum with a gradient."""
    loss = LOSSES.get(name)

    def checked(*inputs: Tensor) -> Tensor:
        found: object = loss(*inputs)
        trains = any(each.requires_grad for each in inputs)
        if not isinstance(found, Tensor):
            got = type(found).__name__
        elif found.ndim:
            got = f"a tensor of shape {tuple(found.shape)}"
        elif trains and not found.requires_grad:
            got = "a tensor without a gradient"
        else:
            return found
        raise ConfigError(
            "training.own_loss",
            "the loss {name} must return the sum over all rows, a tensor () that depends on the "
            "outputs, got {got}; end it with .sum()",
            name=name,
            got=got,
        )

    return checked


def cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """-log p(target), summed over N: logits (N, L), targets (N,) int64 -> (); sums in float32.

    Label smoothing (5.4) gives every label an equal part of `label_smoothing`.

    >>> import torch
    >>> round(cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3])).item(), 4)  # 2 log 4
    2.7726
    """
    return F.cross_entropy(
        logits.float(), targets, reduction="sum", label_smoothing=label_smoothing
    )


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """-log p of L independent yes-or-no decisions for each text, summed: (N, L), (N, L) -> ().

    `targets` are 1 where a text has the label and 0 elsewhere; the probability of a label is the
    sigmoid of its logit. Sums in float32.

    >>> import torch
    >>> labels = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    >>> round(binary_cross_entropy(torch.zeros(2, 2), labels).item(), 4)  # 4 log 2
    2.7726
    """
    return F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="sum")


def rdrop_kl(first: Tensor, second: Tensor) -> Tensor:
    """The symmetric divergence of two predictions for the same N texts: logits 2 x (N, L) -> ().

    (KL(p||q) + KL(q||p)) / 2, summed over the texts: the regularization term of R-Drop (Liang et
    al. 2021, equation 2).

    >>> import torch
    >>> first, second = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 2.0]])
    >>> rdrop_kl(first, first).item(), round(rdrop_kl(first, second).item(), 4)
    (0.0, 0.0749)
    """
    p, q = first.float().log_softmax(-1), second.float().log_softmax(-1)
    return ((p.exp() - q.exp()) * (p - q)).sum() / 2
