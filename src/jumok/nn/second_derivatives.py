"""Gradients that can be differentiated again, of functions with a hand-written backward pass.

A hand-written backward pass computes with intermediate results that have no graph, so its
derivative would be 0 or wrong. When a second derivative is requested, the function is computed once
more in operations of PyTorch, and their gradients have a graph.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def differentiable_gradients(
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    gradient: Tensor,
) -> list[Tensor | None]:
    """The gradients of `function(*inputs)` by the inputs that are needed, with their graph.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (dx,) = differentiable_gradients(lambda x: x**3, [x], [True], torch.tensor(1.0))
    >>> dx.item(), torch.autograd.grad(dx, x)[0].item()  # 3 x^2, 6 x
    (27.0, 18.0)
    """
    # Aliases: one tensor may be given twice, and each argument has a gradient of its own.
    with torch.enable_grad():
        aliases = [each if each is None else each.view_as(each) for each in inputs]
        chosen = {i: x for i, x in enumerate(aliases) if x is not None and needed[i]}
        y = function(*aliases)
        found = torch.autograd.grad(
            y, [*chosen.values()], gradient, create_graph=True, allow_unused=True
        )
    gradients = dict(zip(chosen, found, strict=True))
    return [gradients.get(i) for i in range(len(inputs))]
