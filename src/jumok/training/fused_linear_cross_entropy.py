"""The loss of choosing from a whole vocabulary, without ever holding all of its logits.

A row of logits is as wide as the vocabulary: 2,000 tokens of 8,000 pieces are 64 MB, written and
read again for every step of the sum. Here a few hundred tokens at a time are projected, and their
derivative is taken at once, while their logits are still in the processor's cache:

    z = h W^T + b        p = softmax(z)        loss = -log p[wanted]        dz = p - onehot(wanted)

Shapes: N tokens, C tokens of a part, D model width, V vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

PART = 256  # tokens: their float32 logits of 8,000 pieces take 8 MB


def fused_linear_cross_entropy(
    hidden: Tensor,
    output: nn.Linear,
    wanted: Tensor,
    *,
    label_smoothing: float = 0.0,
    rdrop_alpha: float = 0.0,
) -> Tensor:
    """-log p(wanted), summed over the tokens: hidden (N, D), wanted (N,) int64 -> ().

    The same as `cross_entropy(output(hidden), wanted, label_smoothing)`. With `rdrop_alpha` the
    second half of the tokens are those of the first half seen again, and
    `rdrop_alpha * rdrop_kl(first, second)` is added (R-Drop). Products are of the type
    autocast asks for, sums of float32 at least.

    >>> output = nn.Linear(8, 4, bias=False)
    >>> _ = nn.init.zeros_(output.weight)
    >>> loss = fused_linear_cross_entropy(torch.ones(2, 8), output, torch.tensor([0, 3]))
    >>> round(loss.item(), 4)  # 2 log 4
    2.7726
    """
    loss: Tensor = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
        hidden, output.weight, output.bias, wanted, label_smoothing, rdrop_alpha
    )
    return loss


class _VocabularyLoss(torch.autograd.Function):
    """Loss and derivative in one pass; going back only scales what was found."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        wanted: Tensor,
        smoothing: float,
        rdrop_alpha: float,
    ) -> Tensor:
        device = hidden.device.type
        autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast else hidden.dtype
        exact = torch.promote_types(dtype, torch.float32)
        learning = any(ctx.needs_input_grad)  # type: ignore[attr-defined]
        h, w = hidden.to(dtype), weight.to(dtype)  # (N, D), (V, D)
        b = None if bias is None else bias.to(dtype)
        dh = torch.empty_like(h)
        dw = torch.zeros_like(weight)
        db = None if bias is None else torch.zeros_like(bias)
        loss = torch.zeros((), dtype=exact, device=hidden.device)
        for rows in _parts(len(h), paired=rdrop_alpha > 0):
            x, y = h[rows], wanted[rows]  # (C, D), (C,)
            log_p = nn.functional.linear(x, w, b).log_softmax(-1, dtype=exact)  # (C, V)
            loss += _cross_entropy(log_p, y, smoothing)
            dz, more = _derivative(log_p, y, smoothing, rdrop_alpha)
            loss += more
            if learning:
                dz = dz.to(dtype)
                dh[rows] = dz @ w
                dw += dz.mT @ x
                if db is not None:
                    db += dz.sum(0, dtype=exact)
        ctx.save_for_backward(dh.to(hidden.dtype), dw, db)  # type: ignore[arg-type]  # None is kept
        return loss

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, d: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, None, None, None]:
        dh, dw, db = ctx.saved_tensors  # type: ignore[attr-defined]
        return dh * d.to(dh.dtype), dw * d, None if db is None else db * d, None, None, None


def _parts(n: int, *, paired: bool) -> Iterator[Tensor | slice]:
    """Which tokens are projected together; of tokens seen twice both views, first ones first."""
    if not paired:
        for start in range(0, n, PART):
            yield slice(start, start + PART)
        return
    half = n // 2
    assert n == 2 * half, "tokens seen twice are an even number"
    for start in range(0, half, PART // 2):
        first = torch.arange(start, min(start + PART // 2, half))
        yield torch.cat([first, first + half])


def _cross_entropy(log_p: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
    """Summed over the tokens; `smoothing` of the weight goes to all words alike (5.4)."""
    loss = -log_p.gather(1, wanted[:, None]).sum()
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * log_p.mean(-1).sum()
    return loss


def _derivative(
    log_p: Tensor, wanted: Tensor, smoothing: float, rdrop_alpha: float
) -> tuple[Tensor, Tensor | float]:
    """By the logits, (C, V), and R-Drop's part of the loss; log_p is used up.

    With p and q the two views, J = (KL(p||q) + KL(q||p)) / 2 has the derivative
    (p (log p - log q - KL(p||q)) + p - q) / 2 by the logits of p.
    """
    p = log_p.exp()
    dz = p.clone() if rdrop_alpha else p
    more: Tensor | float = 0.0
    if rdrop_alpha:
        half = len(p) // 2
        difference = log_p[:half] - log_p[half:]  # (C/2, V)
        gap = p[:half] - p[half:]
        more = rdrop_alpha / 2 * (gap * difference).sum()
        for view, sign in ((slice(None, half), 1.0), (slice(half, None), -1.0)):
            pull = p[view] * difference * sign
            pull -= p[view] * pull.sum(-1, keepdim=True)
            dz[view] += rdrop_alpha / 2 * (pull + sign * gap)
    if smoothing:
        dz -= smoothing / dz.shape[1]
    dz[torch.arange(len(dz), device=dz.device), wanted] -= 1 - smoothing
    return dz, more
