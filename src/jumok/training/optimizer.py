"""AdamW (5.3; Loshchilov and Hutter 2019) and Muon; their states by the names of weights."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from jumok.device import resolve_dtype
from jumok.nn.lora import frozen_by_lora
from jumok.training.config import TrainingConfig
from jumok.training.layer_decay import frozen_parameters, is_in_layer, lr_multipliers
from jumok.training.muon import Muon

Named = dict[str, nn.Parameter]


class Optimizer:
    """AdamW over the named weights of a model; matrices decay, biases and norms do not.

    With `config.optimizer = "muon"` the matrices of the layers are updated by Muon (`muon.py`) in
    the precision of the training; embeddings, heads, biases and norms keep AdamW.

    Weights that `config.freeze` names get no gradient and do not change; with `config.layer_decay`
    lower layers have lower learning rates (`layer_decay.py`). Raises InputError for a pattern of
    `freeze` that matches no weight.
    """

    def __init__(self, parameters: Named, config: TrainingConfig) -> None:
        self.parameters = parameters
        frozen = frozen_parameters(parameters, config.freeze) | frozen_by_lora(list(parameters))
        for name, parameter in parameters.items():
            parameter.requires_grad_(name not in frozen)
        trainable = {name: p for name, p in parameters.items() if p.requires_grad}
        multipliers = lr_multipliers(parameters, config.layer_decay)
        by_muon = {
            name: p
            for name, p in trainable.items()
            if config.optimizer == "muon" and p.ndim == 2 and is_in_layer(name)
        }
        by_adamw = {name: p for name, p in trainable.items() if name not in by_muon}
        self.muon_names = frozenset(by_muon)
        self.optimizer_of: dict[str, torch.optim.Optimizer] = {}  # each trainable weight
        if by_adamw:
            adamw = torch.optim.AdamW(
                _groups(by_adamw, multipliers, config.weight_decay),
                lr=config.learning_rate,
                betas=(config.beta1, config.beta2),
                eps=1e-9,  # section 5.3
                fused=True,
            )
            self.optimizer_of |= dict.fromkeys(by_adamw, adamw)
        if by_muon:
            device = next(iter(by_muon.values())).device
            muon = Muon(
                _groups(by_muon, multipliers, config.weight_decay),
                config.learning_rate,
                resolve_dtype(config.precision, device),
            )
            self.optimizer_of |= dict.fromkeys(by_muon, muon)

    def step(self, learning_rate: float) -> None:
        """Update the weights and drop the gradients."""
        for optimizer in dict.fromkeys(self.optimizer_of.values()):  # each once, in this order
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * group["lr_multiplier"]
            optimizer.step()
        self.zero_grad()

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """What the next step needs of every trainable weight, as `part:name`.

        AdamW keeps both moments and the number of steps, Muon the momentum.
        """
        return {
            f"{part}:{name}": value
            for name, parameter in self.parameters.items()
            if name in self.optimizer_of
            for part, value in self.optimizer_of[name].state.get(parameter, {}).items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for key, value in state.items():
            part, _, name = key.partition(":")
            parameter = self.parameters[name]
            state_of = self.optimizer_of[name].state[parameter]
            state_of[part] = value.to(parameter.device).clone()


def _groups(
    named: Named, multipliers: Mapping[str, float], weight_decay: float
) -> list[dict[str, Any]]:
    """Groups of weights with the same multiplier of the learning rate and the same decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in named.items():
        groups[multipliers[name], weight_decay if parameter.ndim >= 2 else 0.0].append(parameter)
    return [
        {"params": group, "weight_decay": decay, "lr_multiplier": multiplier}
        for (multiplier, decay), group in groups.items()
    ]
