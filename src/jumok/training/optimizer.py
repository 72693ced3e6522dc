"""AdamW (5.3; Loshchilov and Hutter 2019) and its state as named tensors."""

from collections import defaultdict
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.nn.lora import frozen_by_lora
from jumok.training.config import TrainingConfig
from jumok.training.layer_decay import frozen_parameters, lr_multipliers

Named = dict[str, nn.Parameter]


class Optimizer:
    """AdamW over the named weights of a model; matrices decay, biases and norms do not.

    Weights that `config.freeze` names get no gradient and do not change; with `config.layer_decay`
    lower layers have lower learning rates (`layer_decay.py`). Raises InputError for a pattern of
    `freeze` that matches no weight.
    """

    def __init__(self, parameters: Named, config: TrainingConfig) -> None:
        self.parameters = parameters
        frozen = frozen_parameters(parameters, config.freeze) | frozen_by_lora(list(parameters))
        groups: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
        for name, multiplier in lr_multipliers(parameters, config.layer_decay).items():
            parameter = parameters[name]
            parameter.requires_grad_(name not in frozen)
            if parameter.requires_grad:
                decay = config.weight_decay if parameter.ndim >= 2 else 0.0
                groups[multiplier, decay].append(parameter)
        self.adam = torch.optim.AdamW(
            [
                {"params": group, "weight_decay": decay, "lr_multiplier": multiplier}
                for (multiplier, decay), group in groups.items()
            ],
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=1e-9,  # section 5.3
            fused=True,
        )

    def step(self, learning_rate: float) -> None:
        """Update the weights and drop the gradients."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate * group["lr_multiplier"]
        self.adam.step()
        self.zero_grad()

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Both moments and the number of steps of every trainable weight, as `moment:name`."""
        return {
            f"{part}:{name}": value
            for name, parameter in self.parameters.items()
            for part, value in self.adam.state.get(parameter, {}).items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for key, value in state.items():
            part, _, name = key.partition(":")
            parameter = self.parameters[name]
            self.adam.state[parameter][part] = value.to(parameter.device).clone()
