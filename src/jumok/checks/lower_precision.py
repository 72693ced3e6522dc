"""How far coarser numbers may move a model's answers: as far as random errors of their size do.

There is no one tolerance for bfloat16 or int8: a deep model, or one with large weights, passes
small errors on enlarged. So the plain model is asked again with every number that the format
would round moved at random by up to half a step of the format. The same mathematics in that
format must then stay within a few times the largest difference seen; wrong mathematics (positions
counted in bfloat16, a softmax summed in it) does not.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from jumok.checks.difference import distance
from jumok.checks.target import Subject, batched
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.hooks import HookPoint

DRAWS = 3  # the largest difference of so many counts
MARGIN = 4.0  # few outputs say little of how far more may go; errors of one weight go together


@dataclass(frozen=True)
class Rounding:
    """A format of numbers: how far it may move each, and which it holds.

    Called with a subject, it gives the tolerance for answers computed in the format.
    """

    half_step: Callable[[Tensor], Tensor]  # of each number of x, broadcasting to x
    everywhere: bool  # True: all weights and results; False: those of linear maps, and their inputs

    def __call__(self, subject: Subject) -> float:
        """`MARGIN` times the largest difference of `DRAWS` random draws."""
        plain = batched(subject)
        moved = (self._moved(subject.loaded.model, seed) for seed in range(DRAWS))
        return MARGIN * max(distance(batched(subject.with_model(m)), plain) for m in moved)

    def _moved(self, model: nn.Module, seed: int) -> nn.Module:
        """A copy of the model that errs at random."""
        device = next(model.parameters()).device
        chance = torch.Generator(device).manual_seed(seed)

        def move(x: Tensor) -> Tensor:
            error = torch.rand(x.shape, generator=chance, device=device, dtype=x.dtype) * 2 - 1
            return x + error * self.half_step(x)

        def move_inputs(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (move(inputs[0]), *inputs[1:])

        def move_result(module: nn.Module, inputs: tuple[Any, ...], result: Any) -> Any:
            return move(result) if isinstance(result, Tensor) else result

        moved = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in self._parameters(moved):
                parameter.copy_(move(parameter))
        for module in moved.modules():
            if self.everywhere and not isinstance(module, HookPoint):  # watching is another way
                module.register_forward_hook(move_result)
            elif isinstance(module, nn.Linear):
                module.register_forward_pre_hook(move_inputs)
        return moved

    def _parameters(self, model: nn.Module) -> Iterator[Tensor]:
        if self.everywhere:
            return model.parameters()
        maps = (m.weight for m in model.modules() if isinstance(m, nn.Linear | TokenEmbedding))
        return iter(dict.fromkeys(maps))  # one that two share once


def bfloat16_half_step(x: Tensor) -> Tensor:
    """Half the distance between neighbours in bfloat16, which keeps 8 binary digits.

    >>> bfloat16_half_step(torch.tensor([1.0, 1.9, 2.0])).tolist()
    [0.00390625, 0.00390625, 0.0078125]
    """
    _, exponent = torch.frexp(x)  # |x| is from 2^(exponent - 1) up to 2^exponent
    return torch.ldexp(torch.ones_like(x), exponent - 9)


def int8_half_step(x: Tensor) -> Tensor:
    """Half a step of rows in 8 bits: the largest of a row is 127 steps.

    >>> int8_half_step(torch.tensor([[254.0, 3.0]])).tolist()
    [[1.0]]
    """
    return x.abs().amax(-1, keepdim=True) / (2 * 127)


BFLOAT16 = Rounding(bfloat16_half_step, everywhere=True)
INT8 = Rounding(int8_half_step, everywhere=False)
