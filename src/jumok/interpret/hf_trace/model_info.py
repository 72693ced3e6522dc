"""What a trace states of a transformers model: by our tables, else from config and modules."""

import math
import re
from collections.abc import Mapping
from typing import Any

from torch import nn

from jumok.errors import InputError
from jumok.interpret.schema import ModelInfo, ModelKind, Positions, positions_and_norm
from jumok.pretrained.architecture import FAMILIES
from jumok.pretrained.config_reader import ACTIVATIONS, ConfigReader

_WIDTHS = ("intermediate_size", "d_ff", "encoder_ffn_dim", "ffn_dim", "n_inner", "hidden_dim")
_LAYER_KINDS = {"full_attention": "G", "sliding_attention": "L"}
_WINDOWS = re.compile("window|chunk|local|sparse|layer_type")  # keys of configs: limited attention


def model_info(model: nn.Module, kind: ModelKind, d_model: int) -> ModelInfo:
    """The hyperparameters, by our table of the model's family, else from its config and modules."""
    config: Any = model.config
    values = config.to_dict()
    family = str(values.get("model_type") or "unknown")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if family in FAMILIES:
        try:
            known = FAMILIES.get(family).read_config(ConfigReader(values))
        except InputError:  # an unsupported setting: use the config and the modules
            pass
        else:
            positions, norm_name = positions_and_norm(known.positions, known.norm)
            return ModelInfo(
                kind=kind,
                family=family,
                d_model=d_model,
                d_ff=known.d_ff,
                parameters=parameters,
                positions=positions,
                norm=norm_name,
                norm_eps=known.norm_eps,
                norm_first=known.norm_first,
                gated=known.gated,
                activation=known.activation,
                implementation="transformers",
                embedding_scale=math.sqrt(known.embedding_dim) if known.scale_embedding else 1.0,
                bias=known.bias,
                head_norm=known.qk_norm,
                sublayer_norm=known.sublayer_norm,
                layer_kinds=known.layer_kinds(max(known.n_layers, known.n_decoder_layers or 0)),
                sliding_window=known.sliding_window,
                first_norm=known.first_norm,
            )
    norm = next((part for part in model.modules() if "Norm" in type(part).__name__), None)
    activation = str(values.get("hidden_act") or values.get("activation_function") or "unknown")
    d_ff = next((int(width) for width in map(values.get, _WIDTHS) if isinstance(width, int)), None)
    layer_kinds, sliding_window = _layer_kinds(values)
    sublayer_norm = _has_norm(model, r"post_(feedforward|mlp)_(layer)?norm")
    return ModelInfo(
        kind=kind,
        family=family,
        d_model=d_model,
        d_ff=d_ff or 4 * d_model,
        parameters=parameters,
        positions=_positions(model),
        norm="rms" if "RMS" in type(norm).__name__ else "layer",
        norm_eps=float(getattr(norm, "eps", getattr(norm, "variance_epsilon", 1e-5))),
        norm_first=bool(values.get("do_layer_norm_before", _has_final_norm(model)))
        and (not sublayer_norm or _has_norm(model, "input_(layer)?norm")),
        gated=any(name.endswith("gate_proj") for name, _ in model.named_modules()),
        activation=ACTIVATIONS.get(activation, activation),
        implementation="transformers",
        embedding_scale=_embedding_scale(model),
        bias=_has_biases(model, d_ff),
        head_norm=None if _has_norm(model, r"attn|attention") else False,
        sublayer_norm=sublayer_norm or None,
        layer_kinds=layer_kinds,
        sliding_window=sliding_window,
    )


def _positions(model: nn.Module) -> Positions:
    """The positional encoding, from the names and classes of the modules."""
    kinds = [(name, type(module).__name__) for name, module in model.named_modules()]
    if any("Rotary" in kind for _, kind in kinds):
        return "rotary"
    if any("relative_attention_bias" in name for name, _ in kinds):
        return "relative"
    if any(kind == "Embedding" and "position" in name for name, kind in kinds):
        return "learned"
    return "unknown"


def _layer_kinds(values: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """The letter of each layer and the window, from a config; None where it has other kinds."""
    names = values.get("layer_types")
    window = values.get("sliding_window")
    if isinstance(names, list) and all(name in _LAYER_KINDS for name in names):
        kinds = "".join(_LAYER_KINDS[name] for name in names)
        if "L" not in kinds:
            return kinds, None
        return (kinds, window) if isinstance(window, int) else (None, None)
    layers = values.get("num_hidden_layers")
    limited = any(value for key, value in values.items() if _WINDOWS.search(key))
    return ("G" * layers, None) if isinstance(layers, int) and not limited else (None, None)


def _embedding_scale(model: nn.Module) -> float | None:
    """The factor of the token embedding, if its module has it: 1 or the root of the width."""
    embedding: nn.Module = model.get_input_embeddings()  # type: ignore[operator]
    scale = getattr(embedding, "embed_scale", None)  # else it may be in the forward
    if scale is None:
        return None
    known = (1.0, math.sqrt(getattr(embedding, "embedding_dim", 1)))
    return next((each for each in known if math.isclose(float(scale), each, rel_tol=1e-6)), None)


def _has_biases(model: nn.Module, d_ff: int | None) -> bool | None:
    """Whether the maps to the feed-forward width have biases; None if none or only some have."""
    found = {
        module.bias is not None
        for module in model.modules()
        if isinstance(module, nn.Linear) and module.out_features == d_ff
    }
    return found.pop() if len(found) == 1 else None


def _has_final_norm(model: nn.Module) -> bool:
    """Whether a norm follows the layers, as in pre-norm models: it is in the same module."""
    return any(
        any(
            "Norm" in type(part).__name__ and "emb" not in name
            for name, part in owner.named_children()
        )
        for owner in model.modules()
        if any(isinstance(part, nn.ModuleList) for part in owner.children())
    )


def _has_norm(model: nn.Module, pattern: str) -> bool:
    """Whether a norm is in a module of this name, or has it."""
    return any(
        "Norm" in type(module).__name__ and re.search(pattern, name)
        for name, module in model.named_modules()
    )
