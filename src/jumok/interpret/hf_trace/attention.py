"""Record the attention of a transformers model, as blocks and tensors of a trace.

transformers (4.53 and newer) looks up its attention function in `AttentionInterface` by the name in
the model's config. Ours records its arguments and calls the family's own eager function, so no
number changes. Shapes: B sequences, H heads, G key heads, T queries, S keys, K width of a head, D
width of the model.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from jumok.errors import MissingDependencyError, TraceError
from jumok.interpret.recorder import add_mask, value_norms
from jumok.interpret.schema import SIDES, Block, BlockName
from jumok.nn.attention import masked_softmax

NAME = "jumok"  # of our function in AttentionInterface
EAGER_FUNCTION = "eager_attention_forward"  # the name in the file of each family
CROSS_NAME = re.compile(r"cross|encoder_attn|encdecattention", re.IGNORECASE)  # of a module
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}  # of a weight computed again
HALF_PRECISION_TOLERANCE = 2e-2
_OUTPUTS = ("o_proj", "out_proj", "out_lin", "c_proj", "o", "Wo", "dense", "output.dense")  # W_O


@dataclass(frozen=True)
class AttentionCall:
    """The arguments and weights of one attention."""

    module: nn.Module
    q: Tensor  # (B, H, T, K), rotated where positions are rotary
    k: Tensor  # (B, G, S, K), the same
    v: Tensor  # (B, G, S, K)
    weights: Tensor  # (B, H, T, S)
    mask: Tensor | None  # (B|1, H|1, T, S): added to the scores, or bool with True = may attend
    bias: Tensor | None  # (1, H, T, S): of relative positions
    scale: float
    softcap: float | None  # of scores, as in Gemma 2


@dataclass(frozen=True)
class Stack:
    """The attentions of one block in order, each with its name in the model."""

    block: Block
    layers: tuple[tuple[str, AttentionCall], ...]


_CALLS: ContextVar[list[AttentionCall] | None] = ContextVar("calls", default=None)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[AttentionCall]]:
    """Collect every attention of a model, in the order of computation.

    The attention implementation in the model's config is changed permanently: pass a shared copy
    (`nn.hooks.shared_copy`). Raises InputError if transformers is too old.
    """
    _register()
    for module in model.modules():
        if hasattr(module, "config") and hasattr(module.config, "_attn_implementation"):
            module.config._attn_implementation = NAME
    calls: list[AttentionCall] = []
    token = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(token)


def is_transformers_model(model: object) -> bool:
    """Whether this is a model of transformers; the library itself is not imported.

    >>> is_transformers_model(nn.Linear(2, 2))
    False
    """
    return any(
        base.__name__ == "PreTrainedModel" and base.__module__.startswith("transformers.")
        for base in type(model).__mro__
    )


def collect_stacks(
    model: nn.Module, calls: Sequence[AttentionCall], encoder_decoder: bool
) -> list[Stack]:
    """The blocks of the recorded attentions, by the names of their modules.

    Raises InputError for layers of different head sizes, and if nothing was recorded.
    """
    if not calls:
        raise TraceError(
            "trace.model_without_attention_interface",
            "the model must use transformers' AttentionInterface, and {type_model} does not; try "
            "a model of another family",
            type_model=type(model).__name__,
        )
    names = {module: name for name, module in model.named_modules()}
    found: dict[BlockName, list[tuple[str, AttentionCall]]] = {}
    for call in calls:
        name = names[call.module]
        if not encoder_decoder:
            block: BlockName = "decoder" if _is_causal(calls[0]) else "encoder"
        elif name in _encoder_names(model):
            block = "encoder"
        else:
            block = "cross" if CROSS_NAME.search(name) else "decoder"
        found.setdefault(block, []).append((name, call))
    return [_stack(name, found[name]) for name in SIDES if name in found]


def stack_tensors(model: nn.Module, stack: Stack) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors of a block by their names in a trace, and notes for the reader.

    Weights are the model's own, but 0 where the mask hides a key; scores are computed again.
    """
    found: dict[str, Tensor] = {}
    notes: dict[str, None] = {}  # each once, in order
    block = stack.block
    masks = [_mask(call) for _, call in stack.layers]
    for layer, ((name, call), mask) in enumerate(zip(stack.layers, masks, strict=True)):
        prefix = f"{block.name}.{layer}"
        add_mask(found, block.name, layer, mask)
        heads_per_key = block.heads // block.key_heads
        q = call.q.float() * (call.scale / block.scale)
        k, v, bias = call.k.float(), call.v.float(), _bias(call, mask)
        scores = (q @ k.repeat_interleave(heads_per_key, 1).mT) * block.scale  # (B, H, T, S)
        if block.softcap is not None:
            scores = block.softcap * torch.tanh(scores / block.softcap)
        if bias is not None:
            scores = scores + bias
            found[f"{prefix}.bias"] = bias
        weights = call.weights.float().masked_fill(~mask[:, None], 0.0)
        found |= {f"{prefix}.q": q, f"{prefix}.k": k, f"{prefix}.v": v}
        found |= {f"{prefix}.scores": scores, f"{prefix}.weights": weights}
        recomputed = masked_softmax(scores, mask[:, None])
        tolerance = TOLERANCE.get(call.q.dtype, HALF_PRECISION_TOLERANCE)
        if (recomputed - weights).abs().max() > tolerance:
            notes[f"The weights of block {block.name} are not the softmax of its scores: the model "
                  "changes one or the other."] = None  # fmt: skip
        if call.scale != block.scale:
            notes[f"The layers of block {block.name} have different scales; q is multiplied so "
                  "that the scale of layer 0 is right for all."] = None  # fmt: skip
        output = output_weight(model, name, block.heads * v.shape[-1])
        if output is None:
            notes["The value norms are unknown: the output projection of an attention was not "
                  "found."] = None  # fmt: skip
        else:
            found[f"{prefix}.value_norms"] = value_norms(v, output.float())
    return found, list(notes)


def has_windows(stacks: Sequence[Stack], kinds: str | None, window: int | None) -> bool:
    """Whether the recorded masks of self-attention are those of these kinds of layers.

    A query of a layer of kind L attends to keys that are nearer than the window; padding and, in
    decoders, later keys are hidden in every layer.
    """
    if kinds is None:
        return False
    for stack in stacks:
        if stack.block.name == "cross":
            continue
        masks = [_mask(call) for _, call in stack.layers]
        if len(masks) > len(kinds):
            return False
        T = masks[0].shape[-1]
        position = torch.arange(T, device=masks[0].device)
        later = position - position[:, None]  # (T, T): how much later the key is
        seen = torch.stack(masks).any(0).any(1, keepdim=True)  # (B, 1, T): not padding
        for kind, mask in zip(kinds, masks, strict=False):
            near = later.abs() < (window if kind == "L" and window is not None else T)
            if stack.block.causal:
                near = near & (later <= 0)
            rows = seen.mT  # of queries that are not padding
            if bool(((mask != (near & seen)) & rows).any()):
                return False
    return True


def output_weight(model: nn.Module, name: str, width: int) -> Tensor | None:
    """W_O (D, width) of the attention of this name; None if it is not found.

    It is in the attention module, or in its parent (BERT: `attention.output.dense`).
    """
    for location in (name, name.rpartition(".")[0]):
        attention = model.get_submodule(location)
        for part in _OUTPUTS:
            try:
                weight = attention.get_submodule(part).weight
            except AttributeError:
                continue
            if not isinstance(weight, Tensor) or weight.ndim != 2:
                continue
            transposed = (
                type(attention.get_submodule(part)).__name__ == "Conv1D"
            )  # GPT-2: (in, out)
            matrix = weight.T if transposed else weight
            if matrix.shape[1] == width:
                return matrix.detach().contiguous()
    return None


def _register() -> None:
    """Register our function, with the masks of the eager implementation."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import eager_mask
    except ImportError as error:
        raise MissingDependencyError(
            "trace.old_transformers",
            "transformers must have AttentionInterface (4.53 or newer); try pip install -U "
            "transformers",
        ) from error
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, eager_mask)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,  # as transformers calls it; each family has keywords of its own
) -> tuple[Tensor, Tensor]:
    """The family's eager attention; records the call."""
    mixed, weights = _eager_function(module)(module, query, key, value, attention_mask, **options)
    calls = _CALLS.get()
    if calls is not None:
        bias, scale = options.get("position_bias"), options.get("scaling")
        scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
        own = getattr(module, "scaling", None)
        if scale == 1.0 and own == query.shape[-1] ** -0.5:  # OPT multiplies q itself
            query, scale = query / own, own
        softcap = options.get("softcap")
        softcap = float(softcap) if softcap else None
        calls.append(
            AttentionCall(module, query, key, value, weights, attention_mask, bias, scale, softcap)
        )
    return mixed, weights


def _eager_function(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    """The eager attention in the file that defines a module's class, or a base class of it."""
    for base in type(module).__mro__:
        found = getattr(sys.modules.get(base.__module__), EAGER_FUNCTION, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise TraceError(
        "trace.no_eager_attention",
        "the file of {type_module} must define {eager_function}, which returns the weights; try "
        "a model of another family",
        type_module=type(module).__name__,
        eager_function=EAGER_FUNCTION,
    )


def _stack(name: BlockName, layers: Sequence[tuple[str, AttentionCall]]) -> Stack:
    sizes = {(call.q.shape[1], call.k.shape[1], call.q.shape[-1]) for _, call in layers}
    if len(sizes) > 1:
        raise TraceError(
            "trace.layers_of_different_shapes",
            "the layers of block {name} must have equal heads, key heads and head width, got "
            "{sizes}",
            name=name,
            sizes=sorted(sizes),
        )
    [(heads, key_heads, d_head)] = sizes
    queries, keys = SIDES[name]
    block = Block(
        name=name,
        queries=queries,
        keys=keys,
        layers=len(layers),
        heads=heads,
        key_heads=key_heads,
        d_head=d_head,
        scale=layers[0][1].scale,
        causal=name == "decoder",
        softcap=layers[0][1].softcap,
    )
    return Stack(block, tuple(layers))


def _encoder_names(model: nn.Module) -> set[str]:
    """The names of all modules of the encoder."""
    encoder: nn.Module = model.get_encoder()  # type: ignore[operator]  # every one of them has it
    modules = set(encoder.modules())
    return {name for name, module in model.named_modules() if module in modules}


def _is_causal(call: AttentionCall) -> bool:
    """Whether no query attends to a later key; for a single token, the module's `is_causal`."""
    T, S = call.weights.shape[-2:]
    if T == 1:
        return bool(getattr(call.module, "is_causal", False))
    later = torch.ones(T, S, dtype=torch.bool, device=call.q.device).triu(1)
    return not bool((_mask(call) & later).any())


def _mask(call: AttentionCall) -> Tensor:
    """True where a query may attend to a key, the same for all heads: (B, T, S) bool."""
    B, _, T, S = call.weights.shape
    if call.mask is None:
        return torch.ones(B, T, S, dtype=torch.bool, device=call.q.device)
    mask = call.mask[..., :S]
    if mask.dtype != torch.bool:  # hidden keys have the minimum of the dtype
        mask = mask > torch.finfo(mask.dtype).min / 2
    return mask.expand(B, -1, T, S)[:, 0]


def _bias(call: AttentionCall, mask: Tensor) -> Tensor | None:
    """The positional bias that is added to all scores, (1, H, T, S); None if there is none.

    ALiBi models add it to the mask.
    """
    H, T, S = call.weights.shape[1:]
    bias = torch.zeros(1, H, T, S, device=call.q.device)
    if call.bias is not None:
        bias = bias + call.bias.float()[:1]
    if call.mask is not None and call.mask.dtype != torch.bool:
        bias = bias + call.mask[:1, ..., :S].float().masked_fill(~mask[:1, None], 0.0)
    return bias if bool(bias.any()) else None
