"""Hook points: named modules where hooks read or replace activations."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from itertools import chain
from threading import Lock
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


class HookPoint(nn.Module):
    """An identity, (...) -> (...); ordinary forward hooks on it read or replace an activation.

    >>> point = HookPoint()
    >>> point.has_hooks
    False
    >>> hook = point.register_forward_hook(lambda point, inputs, x: x * 2)
    >>> point(torch.ones(1)), point.has_hooks
    (tensor([2.]), True)
    """

    @property
    def has_hooks(self) -> bool:
        """Whether a hook is registered here."""
        hooks = (self._forward_hooks, self._forward_pre_hooks, self._backward_hooks)
        return any((*hooks, self._backward_pre_hooks))

    def forward(self, x: Tensor) -> Tensor:
        """`x` itself, unless a hook replaces it."""
        return x


def shared_copy(model: Module) -> Module:
    """A copy of the model that shares its weights but not the hooks registered from now on.

    One request can record or mute heads in the copy while others use the model. Existing hooks are
    copied.

    >>> model = nn.Linear(2, 2)
    >>> copy = shared_copy(model)
    >>> copy is model, copy.weight is model.weight
    (False, True)
    """
    shared = chain(model.parameters(), model.buffers())
    return deepcopy(model, {id(tensor): tensor for tensor in shared})


class HasModel(Protocol):
    """A pipeline, which has a model."""

    @property
    def model(self) -> nn.Module:
        """The model."""


class _Uncompiled:
    """The contexts of `without_compilation` that are open in this process."""

    lock = Lock()
    n_open = 0
    is_eager = False
    stance = ExitStack()  # closing it restores the stance of torch.compile


@contextmanager
def without_compilation() -> Iterator[None]:
    """Compiled modules run uncompiled inside this context, so that their hooks are called.

    The stance of torch.compile belongs to the process, not to a thread: of contexts that overlap
    the first one changes it and the last one restores it. A process that has not imported the
    compiler, which takes a second, has compiled nothing.

    >>> model = nn.Linear(1, 1)
    >>> model.compile(backend="eager")
    >>> with without_compilation():
    ...     y = model(torch.zeros(1))
    """
    with _Uncompiled.lock:
        _Uncompiled.n_open += 1
        if not _Uncompiled.is_eager and "_dynamo" in vars(torch):
            _Uncompiled.is_eager = True
            _Uncompiled.stance.enter_context(torch.compiler.set_stance("force_eager"))
    try:
        yield
    finally:
        with _Uncompiled.lock:
            _Uncompiled.n_open -= 1
            if not _Uncompiled.n_open:
                _Uncompiled.is_eager = False
                _Uncompiled.stance.close()


@contextmanager
def record(model: "nn.Module | HasModel") -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every attention, by the attention's name in the model.

    A pipeline, as `jumok.load` returns it, is recorded by its model.

        with record(model) as weights:
            model(ids)
        weights["encoder.stack.layers.0.self_attention"][0]  # (B, H, T, S), one per forward pass

    Inside the context the attention is computed step by step (equation 1), because the fused
    kernel does not return its weights. A compiled model runs eagerly for the same reason.

    >>> from jumok.nn.attention import MultiHeadAttention
    >>> model = nn.ModuleDict({"attention": MultiHeadAttention(d_model=8, n_heads=2)})
    >>> x = torch.zeros(1, 3, 8)  # (B, T, D)
    >>> with record(model) as weights:
    ...     y = model["attention"](x, x)
    >>> weights["attention"][0].shape  # (B, H, T, S)
    torch.Size([1, 2, 3, 3])
    """
    recorded: dict[str, list[Tensor]] = defaultdict(list)
    module = model if isinstance(model, nn.Module) else model.model

    def keep(attention: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(point: nn.Module, inputs: tuple[Tensor, ...], weights: Tensor) -> None:
            recorded[attention].append(weights.detach())

        return hook

    hooks = [
        point.register_forward_hook(keep(name.removesuffix("hook_pattern").removesuffix(".")))
        for name, point in module.named_modules()
        if isinstance(point, HookPoint) and name.rpartition(".")[2] in ("hook_pattern", "")
    ]
    try:
        with without_compilation():
            yield recorded
    finally:
        for hook in hooks:
            hook.remove()
