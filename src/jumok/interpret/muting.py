"""Heads switched off: their weights are zeros, and nothing of them arrives."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from torch import Tensor, nn

from jumok.errors import InputError
from jumok.interpret.recorder import attention_modules
from jumok.interpret.schema import Muted


def mute_heads(model: nn.Module, heads: Iterable[tuple[str, int, int]]) -> tuple[Muted, ...]:
    """Switch heads off, each a (block, layer, head), and return them sorted, each once.

    The model is changed: give a view of its own (`nn.hooks.shared_copy`). Raises InputError for a
    head it has not.
    """
    found = attention_modules(model)
    chosen: dict[tuple[str, int], set[int]] = defaultdict(set)
    for block, layer, head in heads:
        own = {each.layer: each.module.n_heads for each in found if each.block == block}
        if not own:
            names = ", ".join(dict.fromkeys(each.block for each in found))
            raise InputError(f"block {block!r} cannot be muted; the model has {names}")
        if layer not in own or not 0 <= head < own[layer]:
            raise InputError(
                f"head {head} of layer {layer} cannot be muted; block {block} has layers 0 to "
                f"{max(own)} with heads 0 to {own[min(own)] - 1}"
            )
        chosen[block, layer].add(head)
    muted: list[Muted] = []
    for each in found:
        off = sorted(chosen.get((each.block, each.layer), ()))
        if off:
            each.module.hook_pattern.register_forward_hook(_silence(off))
            muted += [(each.block, each.layer, head) for head in off]
    return tuple(muted)


Hook = Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]


def _silence(heads: list[int]) -> Hook:
    def hook(point: nn.Module, inputs: tuple[Tensor, ...], weights: Tensor) -> Tensor:
        silent = weights.clone()  # (B, H, T, S)
        silent[:, heads] = 0
        return silent

    return hook
