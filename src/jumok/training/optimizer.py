"""AdamW (5.3; Loshchilov and Hutter 2019) and its state as named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.training.config import TrainingConfig

Named = dict[str, nn.Parameter]


class Optimizer:
    """AdamW over the named weights of a model; matrices decay, biases and norms do not."""

    def __init__(self, parameters: Named, config: TrainingConfig) -> None:
        self.parameters = parameters
        matrices = [p for p in parameters.values() if p.ndim >= 2]
        others = [p for p in parameters.values() if p.ndim < 2]
        self.adam = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=1e-9,  # section 5.3
            fused=True,
        )

    def step(self, learning_rate: float) -> None:
        """Change the weights by their gradients, then forget the gradients."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate
        self.adam.step()
        self.forget()

    def forget(self) -> None:
        """Forget the gradients."""
        self.adam.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """Both moments of every weight and the number of steps, by name."""
        return {
            f"{part}:{name}": value
            for name, parameter in self.parameters.items()
            for part, value in self.adam.state[parameter].items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        for key, value in state.items():
            part, _, name = key.partition(":")
            parameter = self.parameters[name]
            self.adam.state[parameter][part] = value.to(parameter.device).clone()
