"""An exponential moving average of the weights, which often scores better than the weights."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from jumok.torch_ops import lerp_all_


class EMA:
    """average <- decay * average + (1 - decay) * weights, after every step.

    At first the decay is smaller, (1 + step) / (10 + step), so that the initial weights fade fast.

    >>> weight = nn.Parameter(torch.zeros(1))
    >>> ema = EMA({"w": weight}, decay=0.5)
    >>> _ = weight.data.fill_(1.0); ema.update(step=100); ema.values["w"]
    tensor([0.5000])
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float) -> None:
        self.parameters = parameters
        self.decay = decay
        self.values = {name: p.detach().clone() for name, p in parameters.items()} if decay else {}

    @torch.no_grad()
    def update(self, step: int, but: Collection[Tensor] = ()) -> None:
        """Average in the weights after this step, without those that already are."""
        left = [name for name in self.values if self.parameters[name] not in but]
        if left:
            weights = [self.parameters[name] for name in left]
            lerp_all_([self.values[name] for name in left], weights, self.weight(step))

    def weight(self, step: int) -> float:
        """How much of the weights after this step is averaged in."""
        return 1 - min(self.decay, (1 + step) / (10 + step))

    @contextmanager
    def swap(self) -> Iterator[None]:
        """Context in which the model has the averaged weights; without averaging, its own."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def load(self, values: Mapping[str, Tensor]) -> None:
        """Restore these averages."""
        for name, value in values.items():
            self.values[name].copy_(value)

    @torch.no_grad()
    def _swap(self) -> None:
        for name, value in self.values.items():
            parameter = self.parameters[name]
            parameter.data, self.values[name] = value, parameter.data
