"""Record the tensors of a trace with hooks on a jumok model.

docs/trace.md lists the names of the tensors. Shapes: B sequences, H heads, G key heads, T queries,
S keys, K width of a head, D width of the model.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from jumok.interpret.schema import SIDES, Block, BlockName, ModelInfo, Side, positions_and_norm
from jumok.models import Decoder, Encoder, TransformerConfig
from jumok.models.backbones import backbones
from jumok.models.points import (
    AttentionModule,
    attention_modules,
    backbones_by_side,
    hooked,
    points,
)
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.positions import RotaryPositions

TOP_K = 10  # candidates in a trace after each token of a decoder

Array = NDArray[np.generic]
Recorded = dict[str, Tensor]


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
    """Record one forward pass of a model inside this context; the tensors are there after it.

        copy = shared_copy(model)
        with record(copy) as recorded:
            copy(ids)
        recorded["encoder.0.weights"]  # (B, H, T, S)

    A hook that replaces weights must be registered before. A shared copy of a compiled model is not
    compiled, so its hooks are called.
    """
    with hooked(model, points(model)) as recorded, ExitStack() as stack:
        for side, backbone in backbones_by_side(model).items():
            stack.callback(_keep_tokens(side, backbone, recorded).remove)
        for attention in attention_modules(model):
            stack.callback(_keep_mask(attention, recorded).remove)
        yield recorded
    for block, layer, module in attention_modules(model):
        values = recorded[f"{block}.{layer}.v"]
        recorded[f"{block}.{layer}.value_norms"] = value_norms(values, module.output.weight)
        if (shared := recorded.get(f"{block}.bias")) is not None:
            recorded[f"{block}.{layer}.bias"] = shared  # (1, H, T, S)
    for block in ("encoder", "decoder"):
        recorded.pop(f"{block}.bias", None)
    for name, x in recorded.items():
        recorded[name] = x.detach()


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
        for i, layer in enumerate(backbone.stack.layers):
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


def _keep_tokens(side: Side, backbone: Encoder | Decoder, recorded: Recorded) -> RemovableHandle:
    """Record the embeddings of tokens; no hook on the table, which both sides may share."""
    tokens = backbone.embedding.tokens

    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        ids = inputs[0]
        recorded[f"{side}.embedding"] = tokens(ids)
        recorded[f"parameters.{side}.embedding.tokens"] = tokens.weight[torch.unique(ids)]

    return backbone.embedding.register_forward_pre_hook(hook)


def _keep_mask(attention: AttentionModule, recorded: Recorded) -> RemovableHandle:
    block, layer, module = attention

    def hook(point: nn.Module, inputs: tuple[Tensor, ...], table: Tensor) -> None:
        B, _, T, S = recorded[f"{block}.{layer}.scores"].shape
        # the same for all heads: (B|1, 1, T|1, S) or (T, S)
        add_mask(recorded, block, layer, table.expand(B, 1, T, S)[:, 0])

    return module.hook_mask.register_forward_hook(hook)
