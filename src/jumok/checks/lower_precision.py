"""Variants in bfloat16 and int8, and the tolerance for them: the effect of random rounding noise.

There is no single tolerance for bfloat16 or int8: a deep model, or one with large weights,
amplifies small errors. So the tolerance is measured: the float32 model is run with every number
that the format would round changed at random by up to half a step of the format. The same
computation in that format must then stay within a few times the largest difference seen; a wrong
computation (positions counted in bfloat16, a softmax summed in it) does not.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from jumok.checks.invariance import NotApplicable, max_difference
from jumok.checks.target import CheckTarget, Outputs, Variant, batched
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.hooks import HookPoint

N_DRAWS = 3  # random draws; the largest difference counts
MARGIN = 4.0  # a few draws underestimate the maximum; errors of one weight are correlated


ModelTransform = Callable[[nn.Module], nn.Module]  # returns a copy, leaves the model unchanged


@dataclass(frozen=True)
class TransformedModel:
    """One batch, by a transformed copy of the model."""

    transform: ModelTransform

    def __call__(self, target: CheckTarget) -> Outputs:
        """The outputs of the copy, in float32."""
        return batched(target.with_model(self.transform(target.pipeline.model)))


@dataclass(frozen=True)
class Int8Variant:
    """The C++ kernel in int8 if it is available, else a transformed copy of the model."""

    kernel: Variant
    transform: ModelTransform

    def __call__(self, target: CheckTarget) -> Outputs:
        """NotApplicable if int8 arithmetic is not available."""
        if target.pipeline.device.type != "cpu":
            raise NotApplicable("check.int8_needs_cpu", "int8 runs on the CPU only")
        try:
            return self.kernel(target)
        except NotApplicable:
            return TransformedModel(self.transform)(target)


@dataclass(frozen=True)
class RoundingNoise:
    """Rounding to a number format, simulated by noise.

    Called with a target, it returns the tolerance for outputs computed in the format.
    """

    half_step: Callable[[Tensor], Tensor]  # for each number of x, broadcasts to x
    everywhere: bool  # all weights and results, or only weights and inputs of linear maps

    def __call__(self, target: CheckTarget) -> float:
        """`MARGIN` times the largest difference of `N_DRAWS` random draws."""
        expected = batched(target)
        noisy = (self._add_noise(target.pipeline.model, seed) for seed in range(N_DRAWS))
        return MARGIN * max(max_difference(batched(target.with_model(m)), expected) for m in noisy)

    def _add_noise(self, model: nn.Module, seed: int) -> nn.Module:
        """A copy of the model with random rounding errors."""
        device = next(model.parameters()).device
        generator = torch.Generator(device).manual_seed(seed)

        def perturb(x: Tensor) -> Tensor:
            error = torch.rand(x.shape, generator=generator, device=device, dtype=x.dtype) * 2 - 1
            return x + error * self.half_step(x)

        def perturb_inputs(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (perturb(inputs[0]), *inputs[1:])

        def perturb_result(module: nn.Module, inputs: tuple[Any, ...], result: Any) -> Any:
            return perturb(result) if isinstance(result, Tensor) else result

        noisy = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in self._parameters(noisy):
                parameter.copy_(perturb(parameter))
        for module in noisy.modules():
            if self.everywhere and not isinstance(
                module, HookPoint
            ):  # hooks would change the attention path
                module.register_forward_hook(perturb_result)
            elif isinstance(module, nn.Linear):
                module.register_forward_pre_hook(perturb_inputs)
        return noisy

    def _parameters(self, model: nn.Module) -> Iterator[Tensor]:
        if self.everywhere:
            return model.parameters()
        maps = (m.weight for m in model.modules() if isinstance(m, nn.Linear | TokenEmbedding))
        return iter(dict.fromkeys(maps))  # shared weights once


def bfloat16_half_step(x: Tensor) -> Tensor:
    """Half the distance between neighbours in bfloat16, which has 8 significant bits.

    >>> bfloat16_half_step(torch.tensor([1.0, 1.9, 2.0])).tolist()
    [0.00390625, 0.00390625, 0.0078125]
    """
    _, exponent = torch.frexp(x)  # |x| is from 2^(exponent - 1) up to 2^exponent
    return torch.ldexp(torch.ones_like(x), exponent - 9)


def int8_half_step(x: Tensor) -> Tensor:
    """Half a quantization step of each row: its largest number is 127 steps.

    >>> int8_half_step(torch.tensor([[254.0, 3.0]])).tolist()
    [[1.0]]
    """
    return x.abs().amax(-1, keepdim=True) / (2 * 127)


BFLOAT16 = RoundingNoise(bfloat16_half_step, everywhere=True)
INT8 = RoundingNoise(int8_half_step, everywhere=False)
