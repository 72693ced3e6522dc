"""Output projection and cross-entropy in one function that never holds all logits.

The logits of 2,000 tokens and 8,000 pieces take 64 MB, which every step of the computation writes
and reads again. Here a few hundred tokens at a time are projected, and their gradient is computed
at once, while their logits are still in the processor's cache:

    z = h W^T + b        p = softmax(z)        loss = -log p[target]        dz = p - onehot(target)

A second derivative (`create_graph=True`) and the transforms of torch.func hold all logits.

Shapes: N tokens, C tokens of a chunk, D model width, V vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from jumok.nn.second_derivatives import differentiable_gradients
from jumok.nn.training_kernel import training_kernel
from jumok.torch_ops import has_transforms

CHUNK = 256  # tokens: their float32 logits of 8,000 pieces take 8 MB


def fused_linear_cross_entropy(
    hidden: Tensor,
    output: nn.Linear,
    targets: Tensor,
    *,
    label_smoothing: float = 0.0,
    rdrop_alpha: float = 0.0,
) -> Tensor:
    """-log p(target), summed over the tokens: hidden (N, D), targets (N,) int64 -> ().

    The same as `cross_entropy(output(hidden), targets, label_smoothing)`. With `rdrop_alpha` the
    second half of the tokens are a second view of the first half, and
    `rdrop_alpha * rdrop_kl(first, second)` is added (R-Drop). Matrix products have autocast's type,
    sums at least float32.

    >>> output = nn.Linear(8, 4, bias=False)
    >>> _ = nn.init.zeros_(output.weight)
    >>> loss = fused_linear_cross_entropy(torch.ones(2, 8), output, torch.tensor([0, 3]))
    >>> round(loss.item(), 4)  # 2 log 4
    2.7726
    """
    dtype = hidden.dtype
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    inputs = hidden, output.weight, output.bias, targets, label_smoothing, rdrop_alpha, dtype
    if has_transforms():
        return _explicit_loss(*inputs)
    loss: Tensor = _FusedLinearCrossEntropy.apply(*inputs)  # type: ignore[no-untyped-call]
    return loss


def _explicit_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    rdrop_alpha: float,
    dtype: torch.dtype,
) -> Tensor:
    """The same loss in operations that PyTorch differentiates and transforms."""
    exact = torch.promote_types(dtype, torch.float32)
    b = None if bias is None else bias.to(dtype)
    logits = nn.functional.linear(hidden.to(dtype), weight.to(dtype), b)  # (N, V)
    log_p = logits.log_softmax(-1, dtype=exact)
    loss = _cross_entropy(log_p, targets, smoothing)
    if rdrop_alpha:
        first, second = log_p.chunk(2)  # 2 x (N/2, V)
        loss = loss + rdrop_alpha / 2 * ((first.exp() - second.exp()) * (first - second)).sum()
    return loss


class _FusedLinearCrossEntropy(torch.autograd.Function):
    """Loss and gradients in the forward pass; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        rdrop_alpha: float,
        dtype: torch.dtype,
    ) -> Tensor:
        exact = torch.promote_types(dtype, torch.float32)
        needs_grad = any(ctx.needs_input_grad)  # type: ignore[attr-defined]
        h, w = hidden.to(dtype), weight.to(dtype)  # (N, D), (V, D)
        kernel = None if rdrop_alpha else training_kernel(h)
        b = None if bias is None else bias.to(dtype)
        dh = torch.empty_like(h)
        dw = torch.zeros_like(weight)
        db = None if bias is None else torch.zeros_like(bias)
        loss = torch.zeros((), dtype=exact, device=hidden.device)
        for rows in _chunks(len(h), paired=rdrop_alpha > 0):
            x, y = h[rows], targets[rows]  # (C, D), (C,)
            logits = nn.functional.linear(x, w, b)  # (C, V)
            if kernel is not None:
                loss += kernel.cross_entropy_(logits, y, smoothing).sum()
                dz = logits
            else:
                log_p = logits.log_softmax(-1, dtype=exact)
                loss += _cross_entropy(log_p, y, smoothing)
                dz, rdrop = _gradient(log_p, y, smoothing, rdrop_alpha)
                loss += rdrop
            if needs_grad:
                dz = dz.to(dtype)
                dh[rows] = dz @ w
                dw += dz.mT @ x
                if db is not None:
                    db += dz.sum(0, dtype=exact)
        found = dh.to(hidden.dtype), dw, db
        ctx.save_for_backward(hidden, weight, bias, targets, *found)  # type: ignore[arg-type]
        ctx.settings = smoothing, rdrop_alpha, dtype  # type: ignore[attr-defined]
        return loss

    @staticmethod
    def backward(
        ctx: FunctionCtx, d: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None, None, None]:
        hidden, weight, bias, targets, *found = ctx.saved_tensors  # type: ignore[attr-defined]
        if torch.is_grad_enabled():  # create_graph=True
            settings: tuple[float, float, torch.dtype] = ctx.settings  # type: ignore[attr-defined]
            dh, dw, db = differentiable_gradients(
                lambda hidden, weight, bias: _explicit_loss(
                    hidden, weight, bias, targets, *settings
                ),
                (hidden, weight, bias),
                ctx.needs_input_grad,  # type: ignore[attr-defined]
                d,
            )
            return dh, dw, db, None, None, None, None
        dh, dw, db = found
        db = None if db is None else db * d
        return dh * d.to(dh.dtype), dw * d, db, None, None, None, None


def _chunks(n: int, *, paired: bool) -> Iterator[Tensor | slice]:
    """The tokens of each chunk; with two views both views of the same tokens, the first first."""
    if not paired:
        for start in range(0, n, CHUNK):
            yield slice(start, start + CHUNK)
        return
    half = n // 2
    assert n == 2 * half, "two views have an even number of tokens"
    for start in range(0, half, CHUNK // 2):
        first = torch.arange(start, min(start + CHUNK // 2, half))
        yield torch.cat([first, first + half])


def _cross_entropy(log_p: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Summed over the tokens; `smoothing` of the weight is spread over all pieces (5.4)."""
    loss = -log_p.gather(1, targets[:, None]).sum()
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * log_p.mean(-1).sum()
    return loss


def _gradient(
    log_p: Tensor, targets: Tensor, smoothing: float, rdrop_alpha: float
) -> tuple[Tensor, Tensor | float]:
    """The gradient by the logits, (C, V), and R-Drop's term of the loss; overwrites log_p.

    With p and q the two views, J = (KL(p||q) + KL(q||p)) / 2 has the gradient
    (p (log p - log q - KL(p||q)) + p - q) / 2 by the logits of p.
    """
    p = log_p.exp()
    dz = p.clone() if rdrop_alpha else p
    rdrop: Tensor | float = 0.0
    if rdrop_alpha:
        half = len(p) // 2
        difference = log_p[:half] - log_p[half:]  # (C/2, V)
        gap = p[:half] - p[half:]
        rdrop = rdrop_alpha / 2 * (gap * difference).sum()
        for view, sign in ((slice(None, half), 1.0), (slice(half, None), -1.0)):
            pull = p[view] * difference * sign
            pull -= p[view] * pull.sum(-1, keepdim=True)
            dz[view] += rdrop_alpha / 2 * (pull + sign * gap)
    if smoothing:
        dz -= smoothing / dz.shape[1]
    dz[torch.arange(len(dz), device=dz.device), targets] -= 1 - smoothing
    return dz, rdrop
