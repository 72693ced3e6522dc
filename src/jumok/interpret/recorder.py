"""Record the tensors of a trace with hooks on a jumok model, and mute heads.

docs/trace.md lists the names of the tensors. Shapes: B sequences, H heads, G key heads, T queries,
S keys, K width of a head, D width of the model.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.errors import TraceError
from jumok.interpret.schema import (
    SIDES,
    Block,
    BlockName,
    ModelInfo,
    Muted,
    Side,
    positions_and_norm,
)
from jumok.models import Decoder, Encoder, TransformerConfig
from jumok.models.backbones import backbones
from jumok.nn.attention import MultiHeadAttention
from jumok.nn.disentangled import DisentangledAttention, RelativeEmbedding
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.hooks import HookPoint
from jumok.nn.layer import ResidualNorm, TransformerLayer
from jumok.nn.positions import RotaryPositions

TOP_K = 10  # candidates in a trace after each token of a decoder

Array = NDArray[np.generic]
Recorded = dict[str, Tensor]


class AttentionModule(NamedTuple):
    """One attention module of a model, with its block and layer."""

    block: BlockName
    layer: int
    module: MultiHeadAttention


def backbones_by_side(model: nn.Module) -> dict[Side, Encoder | Decoder]:
    """The backbones of a model by the side of a trace that they process."""
    names: dict[str, Side] = {"encoder": "source", "decoder": "target"}
    return {names[name]: backbone for name, backbone in backbones(model).items()}


def attention_modules(model: nn.Module) -> list[AttentionModule]:
    """All attention modules: the encoder's, the decoder's self-attention, its cross-attention."""
    found: list[AttentionModule] = []
    for side, backbone in backbones_by_side(model).items():
        own: BlockName = "encoder" if side == "source" else "decoder"
        layers = _layers(backbone)
        found += [AttentionModule(own, i, layer.self_attention) for i, layer in enumerate(layers)]
        found += [
            AttentionModule("cross", i, layer.cross_attention)
            for i, layer in enumerate(layers)
            if layer.cross_attention is not None
        ]
    return found


def describe_blocks(model: nn.Module) -> tuple[Block, ...]:
    """The blocks of a model for the header of a trace."""
    found = attention_modules(model)
    described = []
    for name in dict.fromkeys(attention.block for attention in found):
        modules = [attention.module for attention in found if attention.block == name]
        queries, keys = SIDES[name]
        described.append(
            Block(
                name=name,
                queries=queries,
                keys=keys,
                layers=len(modules),
                heads=modules[0].n_heads,
                key_heads=modules[0].n_kv_heads,
                d_head=modules[0].query.out_features // modules[0].n_heads,
                scale=modules[0].scale,
                causal=name == "decoder",
                softcap=modules[0].softcap,
            )
        )
    return tuple(described)


def model_info(model: nn.Module, config: TransformerConfig, family: str) -> ModelInfo:
    """The hyperparameters of a model for the header of a trace."""
    found = backbones(model)
    names = list(found)
    tokens: TokenEmbedding = next(iter(found.values())).embedding.tokens
    kind = "encoder_decoder" if len(names) == 2 else names[0]
    positions, norm = positions_and_norm(config.positions, config.norm)
    return ModelInfo(
        kind=kind,  # type: ignore[arg-type]  # one of the three
        family=family,
        d_model=config.d_model,
        d_ff=config.d_ff,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        positions=positions,
        norm=norm,
        norm_eps=config.norm_eps,
        norm_first=config.norm_first,
        gated=config.gated,
        activation=config.activation,
        implementation="jumok",
        embedding_scale=tokens.scale,
        bias=config.bias,
        head_norm=config.qk_norm,
        sublayer_norm=config.sublayer_norm,
        layer_kinds=max((part.stack.kinds for part in found.values()), key=len),
        sliding_window=config.sliding_window,
        first_norm=config.first_norm,
    )


@contextmanager
def record(model: nn.Module) -> Iterator[Recorded]:
    """Record one forward pass of a model inside this context.

        copy = shared_copy(model)
        with record(copy) as recorded:
            copy(ids)
        recorded["encoder.0.weights"]  # (B, H, T, S)

    A hook that replaces weights must be registered before. A shared copy of a compiled model is not
    compiled, so its hooks are called.
    """
    recorded: Recorded = {}
    hooks = [
        hook
        for side, backbone in backbones_by_side(model).items()
        for hook in _hook(side, backbone, recorded)
    ]
    try:
        yield recorded
    finally:
        for hook in hooks:
            hook.remove()


def to_arrays(recorded: Recorded) -> dict[str, Array]:
    """The tensors as numpy arrays: masks in uint8, all others in float32."""
    return {
        name: (x.to(torch.uint8) if x.dtype == torch.bool else x.float()).cpu().numpy()
        for name, x in recorded.items()
    }


def constant_tensors(model: nn.Module, lengths: dict[Side, int]) -> Recorded:
    """Tensors that do not depend on the text: position and segment embeddings, rotary angles."""
    found: Recorded = {}
    for side, backbone in backbones_by_side(model).items():
        embedding = backbone.embedding
        if embedding.positions is not None:
            device = embedding.tokens.weight.device
            positions = torch.arange(lengths[side], device=device)[None]
            found[f"{side}.positions"] = embedding.positions(positions)[0]  # (n, D)
        if embedding.segments is not None:
            found[f"{side}.segments"] = embedding.segments.weight.clone()  # (n, D)
        rotary = backbone.stack.rotary
        if isinstance(rotary, RotaryPositions):
            found["rotary"] = rotary.frequencies  # (K/2,)
            local = backbone.stack.local_rotary
            if local is not rotary and isinstance(local, RotaryPositions):
                block = "encoder" if side == "source" else "decoder"
                for i, kind in enumerate(backbone.stack.kinds):
                    if kind == "L":
                        found[f"{block}.{i}.rotary"] = local.frequencies  # (K/2,)
    return found


def parameter_tensors(model: nn.Module) -> Recorded:
    """The weights of the layers, with which the page computes their outputs again.

    Empty with norms or an attention of an extension, which the page does not compute.
    """
    found: Recorded = {}
    for side, backbone in backbones_by_side(model).items():
        if {"norms of an extension", "attention of an extension"} & {*backbone.stack.extensions()}:
            return {}
        for i, layer in enumerate(_layers(backbone)):
            for name, parameter in layer.named_parameters():
                found[f"parameters.{side}.{i}.{name}"] = parameter
        embedding = backbone.embedding
        for name, module in (
            ("embedding.norm", embedding.norm),
            ("embedding.projection", embedding.projection),
            ("norm", backbone.stack.norm),
        ):
            for part, parameter in module.named_parameters():
                found[f"parameters.{side}.{name}.{part}"] = parameter
    return found


def add_mask(recorded: Recorded, block: BlockName, layer: int, mask: Tensor) -> None:
    """Add the mask (B, T, S) of a layer: layer 0 gives that of the block, others if they differ.

    The layers of Gemma 3 and EXAONE 4 differ: some attend within a window.
    """
    if layer == 0:
        recorded[f"{block}.mask"] = mask
    elif not torch.equal(mask, recorded[f"{block}.mask"]):
        recorded[f"{block}.{layer}.mask"] = mask


def value_norms(v: Tensor, weight: Tensor) -> Tensor:
    """‖v_j W_O‖ of each head and key: v (B, G, S, K), W_O (D, H·K) -> (B, H, S).

    Kobayashi et al. 2020, "Attention is Not Only a Weight". Heads that share a value have each
    their own part of W_O.
    """
    per_head = weight.view(len(weight), -1, v.shape[-1])  # (D, H, K)
    H = per_head.shape[1]
    norms = [(v[:, h * v.shape[1] // H] @ per_head[:, h].mT).norm(dim=-1) for h in range(H)]
    return torch.stack(norms, 1)


def mute_heads(model: nn.Module, heads: Iterable[tuple[str, int, int]]) -> tuple[Muted, ...]:
    """Set the attention weights of heads to 0; return the heads sorted, without duplicates.

    A head is (block, layer, head). The model is changed: pass a shared copy
    (`nn.hooks.shared_copy`). Raises InputError for a head that the model does not have.
    """
    modules = attention_modules(model)
    selected: dict[tuple[str, int], set[int]] = defaultdict(set)
    for block, layer, head in heads:
        n_heads = {each.layer: each.module.n_heads for each in modules if each.block == block}
        if not n_heads:
            names = ", ".join(dict.fromkeys(each.block for each in modules))
            raise TraceError(
                "trace.muted_block",
                "the block of a muted head must be one of {names}, got {block!r}",
                names=names,
                block=block,
            )
        if layer not in n_heads or not 0 <= head < n_heads[layer]:
            raise TraceError(
                "trace.muted_head_range",
                "a muted head of block {block} must be in layers 0 to {n_heads} and heads 0 to "
                "{n_heads_2}, got head {head} of layer {layer}",
                block=block,
                n_heads=max(n_heads),
                n_heads_2=n_heads[min(n_heads)] - 1,
                head=head,
                layer=layer,
            )
        selected[block, layer].add(head)
    muted: list[Muted] = []
    for each in modules:
        off = sorted(selected.get((each.block, each.layer), ()))
        if off:
            each.module.hook_pattern.register_forward_hook(_zero_heads(off))
            muted += [(each.block, each.layer, head) for head in off]
    return tuple(muted)


def _zero_heads(heads: list[int]) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    def hook(point: nn.Module, inputs: tuple[Tensor, ...], weights: Tensor) -> Tensor:
        zeroed = weights.clone()  # (B, H, T, S)
        zeroed[:, heads] = 0
        return zeroed

    return hook


def _layers(backbone: Encoder | Decoder) -> Sequence[TransformerLayer]:
    return [layer for layer in backbone.stack.layers if isinstance(layer, TransformerLayer)]


Handle = torch.utils.hooks.RemovableHandle
Keep = Callable[[Tensor], None]


def _hook(side: Side, backbone: Encoder | Decoder, recorded: Recorded) -> Iterator[Handle]:
    """Hooks on a whole encoder or decoder."""
    own: BlockName = "encoder" if side == "source" else "decoder"
    layers = _layers(backbone)

    def keep(name: str) -> Keep:
        def store(x: Tensor) -> None:
            recorded[name] = x.detach()

        return store

    tokens = backbone.embedding.tokens

    def keep_tokens(ids: Tensor) -> None:  # no hook on `tokens`: both sides may share it
        recorded[f"{side}.embedding"] = tokens(ids)
        recorded[f"parameters.{side}.embedding.tokens"] = tokens.weight[torch.unique(ids)].detach()

    yield _before(backbone.embedding, keep_tokens)
    for i, layer in enumerate(layers):
        yield _before(layer, keep(f"{side}.hidden.{i}"))
        yield from _hook_attention(own, i, layer.self_attention, recorded)
        if layer.cross_attention is not None:
            yield from _hook_attention("cross", i, layer.cross_attention, recorded)
        for name, module in _steps(layer):
            yield _after(module, keep(f"{side}.steps.{i}.{name}"))
        for name, residual in _residual_norms(layer):
            if residual.norm_first and not isinstance(residual.norm, nn.Identity):
                yield _after(residual.norm, keep(f"{side}.steps.{i}.{name}_input"))
            if not isinstance(residual.sublayer_norm, nn.Identity):
                yield _after(residual.sublayer_norm, keep(f"{side}.steps.{i}.{name}_normed"))
        yield _before(layer.feed_forward.down, keep(f"{side}.steps.{i}.hidden"))
    yield _after(backbone.stack.norm, keep(f"{side}.hidden.{len(layers)}"))
    if not isinstance(backbone.stack.relative, RelativeEmbedding | None):

        def keep_bias(bias: Tensor) -> None:
            for i in range(len(layers)):
                recorded[f"{own}.{i}.bias"] = bias.detach()  # (1, H, T, S)

        yield _after(backbone.stack.relative, keep_bias)


def _steps(layer: TransformerLayer) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a layer whose outputs are recorded, by their names in a trace."""
    yield "self_attention", layer.self_attention.output
    yield "after_self_attention", layer.self_attention_norm
    if layer.cross_attention is not None and layer.cross_attention_norm is not None:
        yield "cross_attention", layer.cross_attention.output
        yield "after_cross_attention", layer.cross_attention_norm
    yield "feed_forward", layer.feed_forward
    yield "after_feed_forward", layer.feed_forward_norm


def _residual_norms(layer: TransformerLayer) -> Iterator[tuple[str, ResidualNorm]]:
    """The residual connection and norm of each sublayer."""
    yield "self_attention", layer.self_attention_norm
    if layer.cross_attention_norm is not None:
        yield "cross_attention", layer.cross_attention_norm
    yield "feed_forward", layer.feed_forward_norm


def _hook_attention(
    block: BlockName, layer: int, attention: MultiHeadAttention, recorded: Recorded
) -> Iterator[Handle]:
    """Hooks on one attention: each step of equation (1)."""
    prefix = f"{block}.{layer}"

    def keep(name: str) -> Keep:
        def store(x: Tensor) -> None:
            recorded[f"{prefix}.{name}"] = x.detach()

        return store

    def keep_values(v: Tensor) -> None:
        recorded[f"{prefix}.v"] = v.detach()
        recorded[f"{prefix}.value_norms"] = value_norms(v.detach(), attention.output.weight)

    def keep_mask(table: Tensor) -> None:
        B, _, T, S = recorded[f"{prefix}.scores"].shape
        # the same for all heads: (B|1, 1, T|1, S) or (T, S)
        add_mask(recorded, block, layer, table.expand(B, 1, T, S)[:, 0])

    def keep_mixed(x: Tensor) -> None:
        recorded[f"{prefix}.mixed"] = attention.split(x.detach())  # (B, H, T, K)

    points: list[tuple[HookPoint, Keep]] = [
        (attention.hook_q, keep("q")),
        (attention.hook_k, keep("k")),
        (attention.hook_v, keep_values),
        (attention.hook_scores, keep("scores")),
        (attention.hook_pattern, keep("weights")),
        (attention.hook_mask, keep_mask),
    ]
    if isinstance(attention, DisentangledAttention):
        points.append((attention.hook_position_scores, keep("bias")))
    for point, store in points:
        yield _after(point, store)
    yield _before(attention.output, keep_mixed)


def _after(module: nn.Module, keep: Keep) -> Handle:
    """Record the output of a module."""

    def hook(module: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> None:
        keep(result)

    return module.register_forward_hook(hook)


def _before(module: nn.Module, keep: Keep) -> Handle:
    """Record the input of a module."""

    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        keep(inputs[0])

    return module.register_forward_pre_hook(hook)
