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
    return F.cross_entropy(
        logits.float(), wanted, reduction="sum", label_smoothing=label_smoothing
    )
