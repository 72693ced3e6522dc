"""Hook points: named places where a model may be watched, or changed, without knowing it."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


class HookPoint(nn.Module):
    """A named place where ordinary forward hooks may read, or replace, what passes through.

    >>> point = HookPoint()
    >>> point.has_hooks
    False
    >>> hook = point.register_forward_hook(lambda point, inputs, x: x * 2)
    >>> point(torch.ones(1)), point.has_hooks
    (tensor([2.]), True)
    """

    @property
    def has_hooks(self) -> bool:
        """Whether anybody has hooked this place."""
        ways = (self._forward_hooks, self._forward_pre_hooks, self._backward_hooks)
        return any((*ways, self._backward_pre_hooks))

    def forward(self, x: Tensor) -> Tensor:
        """`x` itself: hooks, not this method, do something with it."""
        return x


def shared_copy(model: Module) -> Module:
    """The same model in modules of its own: weights are shared, hooks set from now on are not.

    So a request may be watched, or muted, while others use the model. Hooks that are there already
    come along: what watches the model watches the view.

    >>> model = nn.Linear(2, 2)
    >>> view = shared_copy(model)
    >>> view is model, view.weight is model.weight
    (False, True)
    """
    shared = chain(model.parameters(), model.buffers())
    return deepcopy(model, {id(tensor): tensor for tensor in shared})


@contextmanager
def record(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every attention, under its place in the model.

        with record(model) as seen:
            model(ids)
        seen["encoder.stack.layers.0.self_attention"][0]  # (B, H, T, S); one tensor a forward pass

    While it lasts the weights are written out (equation 1) instead of staying inside the fused
    kernel, and a compiled model runs eagerly: a compiled graph never made the weights.
    """
    seen: dict[str, list[Tensor]] = defaultdict(list)

    def keep(place: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(point: nn.Module, inputs: tuple[Tensor, ...], weights: Tensor) -> None:
            seen[place].append(weights.detach())

        return hook

    hooks = [
        point.register_forward_hook(keep(name.removesuffix("hook_pattern").removesuffix(".")))
        for name, point in model.named_modules()
        if isinstance(point, HookPoint) and name.rpartition(".")[2] in ("hook_pattern", "")
    ]
    try:
        with torch.compiler.set_stance("force_eager"):
            yield seen
    finally:
        for hook in hooks:
            hook.remove()
