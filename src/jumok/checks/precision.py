"""Coarser numbers: a copy of the model in bfloat16 or int8."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import Answers, Subject, Way, batched

Change = Callable[[nn.Module], nn.Module]  # makes a copy in other numbers, leaves the model alone


@dataclass(frozen=True)
class Changed:
    """A way to ask: in one batch, a copy that `change` made of the model."""

    change: Change

    def __call__(self, subject: Subject) -> Answers:
        """The answers of the copy, in float32."""
        return batched(subject.with_model(self.change(subject.loaded.model)))


@dataclass(frozen=True)
class InInt8:
    """A way to ask: with the C++ kernel in int8 where it can be had, else a copy by `change`."""

    kernel: Way
    change: Change

    def __call__(self, subject: Subject) -> Answers:
        """NotApplicable where no product of 8-bit numbers is to be had."""
        if subject.loaded.device.type != "cpu":
            raise NotApplicable("int8 is for the CPU, and the model is elsewhere")
        try:
            return self.kernel(subject)
        except NotApplicable:
            return Changed(self.change)(subject)
