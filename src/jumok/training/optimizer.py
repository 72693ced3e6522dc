"""AdamW (5.3; Loshchilov and Hutter 2019), Muon (Jordan 2024), and their state as named tensors."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.nn.lora import frozen_by_lora
from jumok.training.config import TrainingConfig
from jumok.training.layer_decay import frozen_parameters, is_in_layer, lr_multipliers

Named = dict[str, nn.Parameter]


class Optimizer:
    """AdamW over the named weights of a model; matrices decay, biases and norms do not.

    With `config.optimizer = "muon"` the matrices of the layers are updated by Muon: the update is
    their momentum (0.95, Nesterov) with all singular values set to about 1, times
    0.2 sqrt(max(rows, columns)). Its root mean square is that of AdamW's updates, so both have one
    learning rate (Liu et al. 2025, "Muon is Scalable for LLM Training", 2.2). Embeddings, heads,
    biases and norms keep AdamW.

    Weights that `config.freeze` names get no gradient and do not change; with `config.layer_decay`
    lower layers have lower learning rates (`layer_decay.py`). Raises InputError for a pattern of
    `freeze` that matches no weight, and for Muon with a torch older than 2.9.
    """

    def __init__(self, parameters: Named, config: TrainingConfig) -> None:
        self.parameters = parameters
        frozen = frozen_parameters(parameters, config.freeze) | frozen_by_lora(list(parameters))
        self.muon_names: set[str] = set()
        groups: dict[bool, dict[tuple[float, float], list[nn.Parameter]]] = {
            muon: defaultdict(list) for muon in (False, True)
        }
        for name, multiplier in lr_multipliers(parameters, config.layer_decay).items():
            parameter = parameters[name]
            parameter.requires_grad_(name not in frozen)
            if parameter.requires_grad:
                decay = config.weight_decay if parameter.ndim >= 2 else 0.0
                muon = config.optimizer == "muon" and parameter.ndim == 2 and is_in_layer(name)
                groups[muon][multiplier, decay].append(parameter)
                if muon:
                    self.muon_names.add(name)
        self.optimizers: list[torch.optim.Optimizer] = []
        if groups[False]:
            adamw = torch.optim.AdamW(
                _with_options(groups[False]),
                lr=config.learning_rate,
                betas=(config.beta1, config.beta2),
                eps=1e-9,  # section 5.3
                fused=True,
            )
            self.optimizers.append(adamw)
        if groups[True]:
            if not hasattr(torch.optim, "Muon"):
                raise InputError(
                    f'training.optimizer must be "adamw" with torch {torch.__version__}: Muon is '
                    "part of torch 2.9 and newer"
                )
            muons = _with_options(groups[True])
            lr = config.learning_rate
            self.optimizers.append(torch.optim.Muon(muons, lr, adjust_lr_fn="match_rms_adamw"))

    def step(self, learning_rate: float) -> None:
        """Update the weights and drop the gradients."""
        for optimizer in self.optimizers:
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
            for optimizer in self.optimizers
            for part, value in optimizer.state.get(parameter, {}).items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        adamw, muon = self.optimizers[0], self.optimizers[-1]
        for key, value in state.items():
            part, _, name = key.partition(":")
            parameter = self.parameters[name]
            optimizer = muon if name in self.muon_names else adamw
            optimizer.state[parameter][part] = value.to(parameter.device).clone()


def _with_options(
    groups: Mapping[tuple[float, float], list[nn.Parameter]],
) -> list[dict[str, Any]]:
    return [
        {"params": group, "weight_decay": decay, "lr_multiplier": multiplier}
        for (multiplier, decay), group in groups.items()
    ]
