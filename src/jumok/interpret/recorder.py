"""Watching a model of ours while it works: every hook point into the tensors of a trace.

The names of the tensors are those of docs/trace.md. Shapes: B sequences, H heads, T queries,
S keys, K width of a head, D width of the model.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.interpret.schema import Block, BlockName, ModelInfo, Side
from jumok.models import Decoder, Encoder, TransformerConfig
from jumok.models.backbones import backbones
from jumok.nn.attention import MultiHeadAttention
from jumok.nn.hooks import HookPoint
from jumok.nn.layer import ResidualNorm, TransformerLayer

Array = NDArray[np.generic]
Recorded = dict[str, Tensor]

PARAMETER_NAMES = {  # of a layer's modules in format 1 of trace files
    "self_attention": "attention",
    "cross_attention": "cross",
    "self_attention_norm": "around_attention",
    "cross_attention_norm": "around_cross",
    "feed_forward_norm": "around_feed_forward",
}


class AttentionModule(NamedTuple):
    """One attention of a model and its place there."""

    block: BlockName
    layer: int
    module: MultiHeadAttention


def backbones_by_side(model: nn.Module) -> dict[Side, Encoder | Decoder]:
    """The backbones of a model by the side of a trace that they process."""
    names: dict[str, Side] = {"encoder": "source", "decoder": "target"}
    return {names[name]: backbone for name, backbone in backbones(model).items()}


def attention_modules(model: nn.Module) -> list[AttentionModule]:
    """All attentions of a model: the encoder's, the decoder's own, those that look back."""
    found: list[AttentionModule] = []
    for side, tower in backbones_by_side(model).items():
        own: BlockName = "encoder" if side == "source" else "decoder"
        layers = _layers(tower)
        found += [AttentionModule(own, i, layer.self_attention) for i, layer in enumerate(layers)]
        found += [
            AttentionModule("cross", i, layer.cross_attention)
            for i, layer in enumerate(layers)
            if layer.cross_attention is not None
        ]
    return found


def describe_blocks(model: nn.Module) -> tuple[Block, ...]:
    """The blocks of a model as a header describes them."""
    sides: dict[BlockName, tuple[Side, Side]] = {
        "encoder": ("source", "source"),
        "decoder": ("target", "target"),
        "cross": ("target", "source"),
    }
    found = attention_modules(model)
    described = []
    for name in dict.fromkeys(attention.block for attention in found):
        own = [attention.module for attention in found if attention.block == name]
        queries, keys = sides[name]
        described.append(
            Block(
                name=name,
                queries=queries,
                keys=keys,
                layers=len(own),
                heads=own[0].n_heads,
                key_heads=own[0].n_heads,
                d_head=own[0].query.out_features // own[0].n_heads,
                scale=own[0].scale,
                causal=name == "decoder",
            )
        )
    return tuple(described)


def model_info(model: nn.Module, config: TransformerConfig, family: str) -> ModelInfo:
    """The measures of a model as a header has them."""
    names = list(backbones(model))
    kind = "encoder_decoder" if len(names) == 2 else names[0]
    return ModelInfo(
        kind=kind,  # type: ignore[arg-type]  # one of the three
        family=family,
        d_model=config.d_model,
        d_ff=config.d_ff,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        positions=config.positions,
        norm=config.norm,
        norm_eps=config.norm_eps,
        norm_first=config.norm_first,
        gated=config.gated,
        activation=config.activation,
    )


@contextmanager
def record(model: nn.Module) -> Iterator[Recorded]:
    """Collect what passes through a model while this lasts, one forward pass.

        with watch(shared_copy(model)) as seen:
            model(ids)
        seen["encoder.0.weights"]  # (B, H, T, S)

    A hook that replaces weights must be there before. A view of a compiled model is not compiled,
    so the hooks are heard.
    """
    seen: Recorded = {}
    hooks = [
        hook
        for side, tower in backbones_by_side(model).items()
        for hook in _hook(side, tower, seen)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def to_arrays(seen: Recorded) -> dict[str, Array]:
    """What was seen, on the CPU, in float32 where it is not a mask."""
    return {
        name: (x.to(torch.uint8) if x.dtype == torch.bool else x.float()).cpu().numpy()
        for name, x in seen.items()
    }


def constant_tensors(model: nn.Module, lengths: dict[Side, int]) -> Recorded:
    """What is added whatever the text: positions of so many tokens, segments, angles."""
    found: Recorded = {}
    for side, tower in backbones_by_side(model).items():
        embedding = tower.embedding
        if embedding.positions is not None:
            device = embedding.tokens.weight.device
            numbers = torch.arange(lengths[side], device=device)[None]
            found[f"{side}.positions"] = embedding.positions(numbers)[0]  # (n, D)
        if embedding.segments is not None:
            found[f"{side}.segments"] = embedding.segments.weight.clone()  # (n, D)
        rotary = tower.stack.rotary
        if rotary is not None:
            exponent = torch.arange(0, rotary.d_head, 2) / rotary.d_head
            found["rotary"] = torch.pow(rotary.base, -exponent)  # (K/2,)
    return found


def parameter_tensors(model: nn.Module) -> Recorded:
    """The weights of the layers, so that their sums can be made again elsewhere."""
    found: Recorded = {}
    for side, tower in backbones_by_side(model).items():
        for i, layer in enumerate(_layers(tower)):
            for name, parameter in layer.named_parameters():
                part, _, rest = name.partition(".")
                found[f"parameters.{side}.{i}.{PARAMETER_NAMES.get(part, part)}.{rest}"] = parameter
        embedding = tower.embedding
        for name, module in (
            ("embedding.norm", embedding.norm),
            ("embedding.widen", embedding.projection),
            ("norm", tower.stack.norm),
        ):
            for part, parameter in module.named_parameters():
                found[f"parameters.{side}.{name}.{part}"] = parameter
    return found


def value_norms(v: Tensor, output: nn.Linear) -> Tensor:
    """‖v_j W_O‖ of each head: how much a key has to give. (B, H, S, K) -> (B, H, S).

    Kobayashi et al. 2020, "Attention is Not Only a Weight".
    """
    per_head = output.weight.view(output.out_features, v.shape[1], -1)  # (D, H, K)
    norms = [(v[:, h] @ per_head[:, h].mT).norm(dim=-1) for h in range(v.shape[1])]
    return torch.stack(norms, 1)


def _layers(tower: Encoder | Decoder) -> Sequence[TransformerLayer]:
    return [layer for layer in tower.stack.layers if isinstance(layer, TransformerLayer)]


Handle = torch.utils.hooks.RemovableHandle
Keep = Callable[[Tensor], None]


def _hook(side: Side, tower: Encoder | Decoder, seen: Recorded) -> Iterator[Handle]:
    """Hooks on a whole tower."""
    own: BlockName = "encoder" if side == "source" else "decoder"
    layers = _layers(tower)

    def keep(name: str) -> Keep:
        def put(x: Tensor) -> None:
            seen[name] = x.detach()

        return put

    tokens = tower.embedding.tokens

    def keep_tokens(ids: Tensor) -> None:  # not by a hook on `tokens`: both sides may share them
        seen[f"{side}.embedding"] = tokens(ids)
        seen[f"parameters.{side}.embedding.tokens"] = tokens.weight[torch.unique(ids)].detach()

    yield _before(tower.embedding, keep_tokens)
    for i, layer in enumerate(layers):
        yield _before(layer, keep(f"{side}.hidden.{i}"))
        yield from _hook_attention(own, i, layer.self_attention, seen)
        if layer.cross_attention is not None:
            yield from _hook_attention("cross", i, layer.cross_attention, seen)
        for name, module in _steps(layer):
            yield _after(module, keep(f"{side}.steps.{i}.{name}"))
        for name, around in _around(layer):
            if around.norm_first:
                yield _after(around.norm, keep(f"{side}.steps.{i}.{name}_input"))
        yield _before(layer.feed_forward.down, keep(f"{side}.steps.{i}.hidden"))
    yield _after(tower.stack.norm, keep(f"{side}.hidden.{len(layers)}"))
    if tower.stack.relative is not None:

        def keep_bias(bias: Tensor) -> None:
            for i in range(len(layers)):
                seen[f"{own}.{i}.bias"] = bias.detach()  # (1, H, T, S)

        yield _after(tower.stack.relative, keep_bias)


def _steps(layer: TransformerLayer) -> Iterator[tuple[str, nn.Module]]:
    """The parts of a layer whose results are kept, by the names they are kept under."""
    yield "attention", layer.self_attention.output
    yield "after_attention", layer.self_attention_norm
    if layer.cross_attention is not None and layer.cross_attention_norm is not None:
        yield "cross", layer.cross_attention.output
        yield "after_cross", layer.cross_attention_norm
    yield "feed_forward", layer.feed_forward
    yield "after_feed_forward", layer.feed_forward_norm


def _around(layer: TransformerLayer) -> Iterator[tuple[str, ResidualNorm]]:
    """What stands around each part of a layer."""
    yield "attention", layer.self_attention_norm
    if layer.cross_attention_norm is not None:
        yield "cross", layer.cross_attention_norm
    yield "feed_forward", layer.feed_forward_norm


def _hook_attention(
    block: BlockName, layer: int, attention: MultiHeadAttention, seen: Recorded
) -> Iterator[Handle]:
    """Hooks on one attention: each step of equation (1)."""
    place = f"{block}.{layer}"

    def keep(name: str) -> Keep:
        def put(x: Tensor) -> None:
            seen[f"{place}.{name}"] = x.detach()

        return put

    def keep_values(v: Tensor) -> None:
        seen[f"{place}.v"] = v.detach()
        seen[f"{place}.value_norms"] = value_norms(v.detach(), attention.output)

    def keep_mask(table: Tensor) -> None:
        B, _, T, S = seen[f"{place}.scores"].shape
        # all heads see alike: (B|1, 1, T|1, S) or (T, S)
        seen[f"{block}.mask"] = table.expand(B, 1, T, S)[:, 0]

    def keep_mixed(x: Tensor) -> None:
        seen[f"{place}.mixed"] = attention.split(x.detach())  # (B, H, T, K)

    points: list[tuple[HookPoint, Keep]] = [
        (attention.hook_q, keep("q")),
        (attention.hook_k, keep("k")),
        (attention.hook_v, keep_values),
        (attention.hook_scores, keep("scores")),
        (attention.hook_pattern, keep("weights")),
    ]
    if layer == 0:  # the mask of all layers
        points.append((attention.hook_mask, keep_mask))
    for point, put in points:
        yield _after(point, put)
    yield _before(attention.output, keep_mixed)


def _after(module: nn.Module, keep: Keep) -> Handle:
    """Keep what leaves a module."""

    def hook(module: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> None:
        keep(result)

    return module.register_forward_hook(hook)


def _before(module: nn.Module, keep: Keep) -> Handle:
    """Keep what enters a module."""

    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        keep(inputs[0])

    return module.register_forward_pre_hook(hook)
