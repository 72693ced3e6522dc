"""What a model of transformers is, in the words of a trace's header, and what its heads give away.

Shapes: B sequences, H heads, G key heads, S keys, K width of a head, D width of the model.
"""

from pathlib import PurePath
from typing import Any, Literal

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.interpret.schema import ModelInfo
from jumok.pretrained.architecture import FAMILIES
from jumok.pretrained.config_reader import ACTIVATIONS, ConfigReader

Kind = Literal["encoder", "decoder", "encoder_decoder"]
Positions = Literal[
    "sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "none", "unknown"
]

_WIDTHS = ("intermediate_size", "d_ff", "encoder_ffn_dim", "ffn_dim", "n_inner", "hidden_dim")
_OUTPUTS = ("o_proj", "out_proj", "out_lin", "c_proj", "o", "Wo", "dense", "output.dense")  # W_O


def model_info(model: nn.Module, kind: Kind, d_model: int) -> ModelInfo:
    """The measures of a model: by our own table of its family, else by what can be seen of it."""
    config: Any = model.config
    values = config.to_dict()
    family = str(values.get("model_type") or "unknown")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if family in FAMILIES:
        try:
            known = FAMILIES[family].read_config(ConfigReader(values))
        except InputError:  # a setting we do not follow: what can be seen is told
            pass
        else:
            return ModelInfo(
                kind=kind,
                family=family,
                d_model=d_model,
                d_ff=known.d_ff,
                parameters=parameters,
                positions=known.positions,
                norm=known.norm,
                norm_eps=known.norm_eps,
                norm_first=known.norm_first,
                gated=known.gated,
                activation=known.activation,
            )
    norm = _norm(model)
    activation = str(values.get("hidden_act") or values.get("activation_function") or "unknown")
    widths = (values.get(name) for name in _WIDTHS)
    return ModelInfo(
        kind=kind,
        family=family,
        d_model=d_model,
        d_ff=next((int(width) for width in widths if isinstance(width, int)), 4 * d_model),
        parameters=parameters,
        positions=_positions(model),
        norm="rms" if "RMS" in type(norm).__name__ else "layer",
        norm_eps=float(getattr(norm, "eps", getattr(norm, "variance_epsilon", 1e-5))),
        norm_first=bool(values.get("do_layer_norm_before", True)),
        gated=any(name.endswith("gate_proj") for name, _ in model.named_modules()),
        activation=ACTIVATIONS.get(activation, activation),
    )


def model_title(model: nn.Module) -> str:
    """The name a model was loaded by; of one made in place, its class."""
    name = PurePath(str(getattr(model.config, "name_or_path", ""))).name
    return name or type(model).__name__


def value_norms(v: Tensor, weight: Tensor) -> Tensor:
    """‖v_j W_O‖ of each head and key: v (B, G, S, K), weight (D, H·K) -> (B, H, S).

    Kobayashi et al. 2020. Heads that share a value have each a part of W_O of their own.
    """
    per_head = weight.view(len(weight), -1, v.shape[-1])  # (D, H, K)
    shared = per_head.shape[1] // v.shape[1]
    norms = [(v[:, h // shared] @ per_head[:, h].mT).norm(dim=-1) for h in range(per_head.shape[1])]
    return torch.stack(norms, 1)


def output_weight(model: nn.Module, name: str, inner: int) -> Tensor | None:
    """W_O (D, inner) of the attention of this name, wherever its family keeps it; None: not found.

    It is in the attention, or beside it (BERT keeps it in `attention.output.dense`).
    """
    for place in (name, name.rpartition(".")[0]):
        attention = model.get_submodule(place)
        for part in _OUTPUTS:
            try:
                weight = attention.get_submodule(part).weight
            except AttributeError:
                continue
            if not isinstance(weight, Tensor) or weight.ndim != 2:
                continue
            turned = type(attention.get_submodule(part)).__name__ == "Conv1D"  # GPT-2's: (in, out)
            matrix = weight.T if turned else weight
            if matrix.shape[1] == inner:
                return matrix.detach().contiguous()
    return None


def _norm(model: nn.Module) -> nn.Module | None:
    """The first norm of a model."""
    return next((part for part in model.modules() if "Norm" in type(part).__name__), None)


def _positions(model: nn.Module) -> Positions:
    """How a model knows what comes first, as far as its modules tell."""
    kinds = [(name, type(module).__name__) for name, module in model.named_modules()]
    if any("Rotary" in kind for _, kind in kinds):
        return "rotary"
    if any("relative_attention_bias" in name for name, _ in kinds):
        return "relative"
    if any(kind == "Embedding" and "position" in name for name, kind in kinds):
        return "learned"
    return "unknown"
