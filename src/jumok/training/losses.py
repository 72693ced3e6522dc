"""What training makes small: a sum over texts or tokens; the trainer divides it by their number.

Shapes: N texts or tokens, L labels or vocabulary.
"""

import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, wanted: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """-log p(wanted), summed over N: logits (N, L), wanted (N,) int64 -> (); sums in float32.

    Label smoothing (5.4) gives every label an equal share of `label_smoothing`.

    >>> import torch
    >>> round(cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3])).item(), 4)  # 2 log 4
    2.7726
    """
    return F.cross_entropy(logits.float(), wanted, reduction="sum", label_smoothing=label_smoothing)


def rdrop_kl(logits: Tensor, others: Tensor) -> Tensor:
    """How differently the same N texts were answered twice: logits 2 x (N, L) -> ().

    KL(p||q) and KL(q||p), half of each, summed over the texts: the extra term of R-Drop (Liang et
    al. 2021, equation 2).

    >>> import torch
    >>> once, again = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 2.0]])
    >>> rdrop_kl(once, once).item(), round(rdrop_kl(once, again).item(), 4)
    (0.0, 0.0749)
    """
    p, q = logits.float().log_softmax(-1), others.float().log_softmax(-1)
    return ((p.exp() - q.exp()) * (p - q)).sum() / 2
