"""AdamW (5.3; Loshchilov and Hutter 2019) and its state as named tensors."""

from collections import defaultdict
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.training.config import TrainingConfig
from jumok.training.layer_decay import frozen_parameters, lr_multipliers

Named = dict[str, nn.Parameter]


class Optimizer:
    """AdamW over the named weights of a model; matrices decay, biases and norms do not.

    What `config.freeze` names gets no gradient and stays as it is. With `config.layer_decay` the
    layers of a tower learn at shares of the rate (`depth.py`). Raises InputError for a word of
    `freeze` that means no weight.
    """

    def __init__(self, parameters: Named, config: TrainingConfig) -> None:
        self.parameters = parameters
        still = frozen_parameters(parameters, config.freeze)
        groups: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
        for name, share in lr_multipliers(parameters, config.layer_decay).items():
            parameter = parameters[name]
            parameter.requires_grad_(name not in still)
            if parameter.requires_grad:
                decay = config.weight_decay if parameter.ndim >= 2 else 0.0
                groups[share, decay].append(parameter)
        self.adam = torch.optim.AdamW(
            [
                {"params": group, "weight_decay": decay, "share": share}
                for (share, decay), group in groups.items()
            ],
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=1e-9,  # section 5.3
            fused=True,
        )

    def step(self, learning_rate: float) -> None:
        """Change the weights by their gradients, then forget the gradients."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate * group["share"]
        self.adam.step()
        self.forget()

    def forget(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Both moments of every weight that learns and the number of steps, by name."""
        return {
            f"{part}:{name}": value
            for name, parameter in self.parameters.items()
            for part, value in self.adam.state.get(parameter, {}).items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        for key, value in state.items():
            part, _, name = key.partition(":")
            parameter = self.parameters[name]
            self.adam.state[parameter][part] = value.to(parameter.device).clone()
