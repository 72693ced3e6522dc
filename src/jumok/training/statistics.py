"""Statistics of a training step: norms of gradients, sizes of updates, entropies of heads."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from jumok.nn.hooks import record


class StepStatistics:
    """What one step of the optimizer does to each weight.

    `gradient/NAME` is the L2 norm of the gradient before clipping, `update/NAME` that of the change
    of the weight divided by that of the weight.

    >>> weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> weight.grad = torch.tensor([0.0, 2.0])
    >>> step = StepStatistics({"w": weight})
    >>> weight.data[0] += 0.5
    >>> step.after_update()
    {'gradient/w': 2.0, 'update/w': 0.10000000149011612}
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        """Read the gradients, and keep the weights until `after_update`."""
        self._parameters = {n: p for n, p in parameters.items() if p.grad is not None}
        self._before = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._gradients = {
            f"gradient/{name}": p.grad.norm().item()
            for name, p in self._parameters.items()
            if p.grad is not None
        }

    def after_update(self) -> dict[str, float]:
        """The statistics; a weight of zeros has no relative change."""
        updates = {}
        for name, before in self._before.items():
            change = (self._parameters[name].detach() - before).norm()
            updates[f"update/{name}"] = (change / before.norm()).item()
        return self._gradients | {name: value for name, value in updates.items() if value < 1e30}


@torch.no_grad()
def head_entropies(model: nn.Module, forward: Callable[[], object]) -> dict[str, float]:
    """The mean entropy in nats of the weights of each head over the positions of a batch.

    `forward` calls the model, which is in eval mode meanwhile. 0 is a head that reads one token, ln
    S one that reads all S alike. Rows of padding count as others do.
    """
    was_training = model.training
    model.eval()
    try:
        with record(model) as recorded:
            forward()
    finally:
        model.train(was_training)
    found: dict[str, float] = {}
    for name, (weights, *_) in recorded.items():
        entropy = torch.special.entr(weights.float()).sum(-1).mean((0, 2))  # (H)
        found |= {f"entropy/{name}/{head}": value for head, value in enumerate(entropy.tolist())}
    return found
