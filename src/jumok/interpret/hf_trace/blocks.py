"""What passed through the attentions of a foreign model, as the blocks and tensors of a trace.

Shapes: B sequences, H heads, G key heads, T queries, S keys, K width of a head.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.interpret.hf_trace.attention import AttentionCall
from jumok.interpret.hf_trace.model import output_weight, value_norms
from jumok.interpret.schema import Block, BlockName, Side
from jumok.nn.attention import masked_softmax

CROSS_NAME = re.compile(r"cross|encoder_attn|encdecattention", re.IGNORECASE)  # in a module's name
SIDES: Mapping[BlockName, tuple[Side, Side]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}  # of a weight made again
HALF_PRECISION_TOLERANCE = 2e-2  # of one in half precision


@dataclass(frozen=True)
class Stack:
    """The attentions of one block in order, each with its name in the model."""

    block: Block
    layers: tuple[tuple[str, AttentionCall], ...]


def collect_stacks(
    model: nn.Module, seen: Sequence[AttentionCall], encoder_decoder: bool
) -> list[Stack]:
    """The blocks that were passed, told by where each attention stands in the model.

    Raises InputError for layers of unlike heads, and when none was passed.
    """
    if not seen:
        raise InputError(
            f"a {type(model).__name__} does not ask transformers for its attention, so nobody can "
            "look on; give a model of another family"
        )
    names = {module: name for name, module in model.named_modules()}
    found: dict[BlockName, list[tuple[str, AttentionCall]]] = {}
    for one in seen:
        name = names[one.module]
        if not encoder_decoder:
            block: BlockName = "decoder" if _causal(seen[0]) else "encoder"
        elif name in _encoder_names(model):
            block = "encoder"
        else:
            block = "cross" if CROSS_NAME.search(name) else "decoder"
        found.setdefault(block, []).append((name, one))
    order: tuple[BlockName, ...] = ("encoder", "decoder", "cross")
    return [_stack(name, found[name]) for name in order if name in found]


def stack_tensors(model: nn.Module, stack: Stack) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors of a block as a trace has them, and what a reader should know of them.

    Weights are the model's own, but 0 where nothing may be seen; scores are made again.
    """
    found: dict[str, Tensor] = {}
    notes: dict[str, None] = {}  # each once, in order
    block = stack.block
    masks = [_mask(one) for _, one in stack.layers]
    found[f"{block.name}.mask"] = masks[0]
    if any(not torch.equal(mask, masks[0]) for mask in masks):
        notes[f"The layers of block {block.name} see unlike parts of the text; the mask is that "
              "of layer 0, the weights are those of each."] = None  # fmt: skip
    for layer, ((name, one), mask) in enumerate(zip(stack.layers, masks, strict=True)):
        place = f"{block.name}.{layer}"
        shared = block.heads // block.key_heads
        q = one.q.float() * (one.scale / block.scale)
        k, v, bias = one.k.float(), one.v.float(), _bias(one, mask)
        scores = (q @ k.repeat_interleave(shared, 1).mT) * block.scale  # (B, H, T, S)
        if block.softcap is not None:
            scores = block.softcap * torch.tanh(scores / block.softcap)
        if bias is not None:
            scores = scores + bias
            found[f"{place}.bias"] = bias
        weights = one.weights.float().masked_fill(~mask[:, None], 0.0)
        found |= {f"{place}.q": q, f"{place}.k": k, f"{place}.v": v}
        found |= {f"{place}.scores": scores, f"{place}.weights": weights}
        again = masked_softmax(scores, mask[:, None])
        if (again - weights).abs().max() > TOLERANCE.get(one.q.dtype, HALF_PRECISION_TOLERANCE):
            notes[f"The weights of block {block.name} are more than the softmax of its scores: "
                  "the model changes one or the other."] = None  # fmt: skip
        if one.scale != block.scale:
            notes[f"The layers of block {block.name} scale their scores unlike each other; q is "
                  "given so that the scale of layer 0 is right for all."] = None  # fmt: skip
        output = output_weight(model, name, block.heads * v.shape[-1])
        if output is None:
            notes["How much each value gives is not known: the model keeps its last product of "
                  "an attention where we do not look."] = None  # fmt: skip
        else:
            found[f"{place}.value_norms"] = value_norms(v, output.float())
    return found, list(notes)


def _stack(name: BlockName, layers: Sequence[tuple[str, AttentionCall]]) -> Stack:
    measures = {(one.q.shape[1], one.k.shape[1], one.q.shape[-1]) for _, one in layers}
    if len(measures) > 1:
        raise InputError(
            f"the layers of block {name} have unlike heads: {sorted(measures)} (heads, key heads, "
            "width); a trace holds layers of one kind"
        )
    [(heads, key_heads, d_head)] = measures
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
    inside = set(encoder.modules())
    return {name for name, module in model.named_modules() if module in inside}


def _causal(one: AttentionCall) -> bool:
    """Whether nobody sees what comes later; of a single token, ask the module."""
    T, S = one.weights.shape[-2:]
    if T == 1:
        return bool(getattr(one.module, "is_causal", False))
    later = torch.ones(T, S, dtype=torch.bool, device=one.q.device).triu(1)
    return not bool((_mask(one) & later).any())


def _mask(one: AttentionCall) -> Tensor:
    """Who may attend to whom, alike for all heads: (B, T, S) bool."""
    B, _, T, S = one.weights.shape
    if one.mask is None:
        return torch.ones(B, T, S, dtype=torch.bool, device=one.q.device)
    mask = one.mask[..., :S]
    if mask.dtype != torch.bool:  # what hides is the lowest number there is
        mask = mask > torch.finfo(mask.dtype).min / 2
    return mask.expand(B, -1, T, S)[:, 0]


def _bias(one: AttentionCall, mask: Tensor) -> Tensor | None:
    """What is added to all scores because of where tokens stand: (1, H, T, S); None: nothing.

    Some models (ALiBi) write it into the mask.
    """
    H, T, S = one.weights.shape[1:]
    added = torch.zeros(1, H, T, S, device=one.q.device)
    if one.bias is not None:
        added = added + one.bias.float()[:1]
    if one.mask is not None and one.mask.dtype != torch.bool:
        added = added + one.mask[:1, ..., :S].float().masked_fill(~mask[:1, None], 0.0)
    return added if bool(added.any()) else None
