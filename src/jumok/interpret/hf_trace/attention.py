"""Looking on while a model of transformers attends: one attention function for all families.

transformers (4.53 and newer) asks `AttentionInterface` for the function by the name in a model's
config. Ours keeps what it is given and lets the family's own written-out function do the work, so
no number changes. Shapes: B sequences, H heads, G key heads, T queries, S keys, K width of a head.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from jumok.errors import InputError

NAME = "jumok"  # of our function, where transformers keeps them
EAGER_FUNCTION = "eager_attention_forward"  # what a family's file calls its own


@dataclass(frozen=True)
class AttentionCall:
    """What passed through one attention."""

    module: nn.Module
    q: Tensor  # (B, H, T, K), turned already where positions are rotary
    k: Tensor  # (B, G, S, K), the same
    v: Tensor  # (B, G, S, K)
    weights: Tensor  # (B, H, T, S)
    mask: Tensor | None  # (B|1, H|1, T, S): added to the scores, or True: may attend
    bias: Tensor | None  # (1, H, T, S): of relative positions
    scale: float
    softcap: float | None  # of scores, as Gemma 2 has it


_SEEN: ContextVar[list[AttentionCall] | None] = ContextVar("seen", default=None)


@contextmanager
def record_attention(view: nn.Module) -> Iterator[list[AttentionCall]]:
    """Collect every attention of a model, in the order in which they are made.

    The implementation of the model is changed for good: give a view of its own
    (`nn.hooks.shared_copy`). Raises InputError when it does not let its attention be chosen.
    """
    _register()
    for module in view.modules():
        if hasattr(module, "config") and hasattr(module.config, "_attn_implementation"):
            module.config._attn_implementation = NAME
    seen: list[AttentionCall] = []
    token = _SEEN.set(seen)
    try:
        yield seen
    finally:
        _SEEN.reset(token)


def is_transformers_model(model: object) -> bool:
    """Whether this is a model of transformers; the library itself is not imported.

    >>> is_transformers_model(nn.Linear(2, 2))
    False
    """
    return any(
        base.__name__ == "PreTrainedModel" and base.__module__.startswith("transformers.")
        for base in type(model).__mro__
    )


def _register() -> None:
    """Make our function known to transformers, its masks those of its own written-out one."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import eager_mask
    except ImportError as error:
        raise InputError(
            "a transformers with AttentionInterface is needed (4.53 or newer); "
            "pip install -U transformers"
        ) from error
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, eager_mask)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **how: Any,  # as transformers calls it; each family has words of its own
) -> tuple[Tensor, Tensor]:
    """The family's own function, and a note of what passed."""
    mixed, weights = _own_function(module)(module, query, key, value, attention_mask, **how)
    seen = _SEEN.get()
    if seen is not None:
        bias, scale = how.get("position_bias"), how.get("scaling")
        scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
        cap = how.get("softcap")
        cap = float(cap) if cap else None
        seen.append(
            AttentionCall(module, query, key, value, weights, attention_mask, bias, scale, cap)
        )
    return mixed, weights


def _own_function(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    """The written-out attention in the file that a module's class, or a parent of it, is from."""
    for base in type(module).__mro__:
        found = getattr(sys.modules.get(base.__module__), EAGER_FUNCTION, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise InputError(
        f"{type(module).__name__} has no {EAGER_FUNCTION} beside it, so its weights cannot be seen; "
        "give a model of another family"
    )
