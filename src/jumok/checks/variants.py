"""Compiled: the towers turned into one program each by torch.compile."""

from dataclasses import dataclass

from torch import nn

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import Answers, Subject, batched
from jumok.errors import JumokError
from jumok.native.build import KernelError, find_compiler
from jumok.nn.hooks import shared_copy


@dataclass(frozen=True)
class Compiled:
    """A way to ask: in one batch, compiled; weights are shared and the model itself stays as is."""

    backend: str = "inductor"  # writes C++ or Triton

    def __call__(self, subject: Subject) -> Answers:
        """NotApplicable without a C++ compiler; JumokError when compiling fails."""
        if self.backend == "inductor" and subject.loaded.device.type == "cpu":
            try:
                find_compiler()
            except KernelError:
                raise NotApplicable("torch.compile needs a C++ compiler; install g++") from None
        view = shared_copy(subject.loaded.model)
        for part in _towers(view):
            part.compile(backend=self.backend)
        try:
            return batched(subject.with_model(view))
        except RuntimeError as error:
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise JumokError(f"torch.compile failed ({why})") from error


def _towers(model: nn.Module) -> list[nn.Module]:
    """Encoder and decoder; a model without any is one itself."""
    children = dict(model.named_children())
    return [children[name] for name in ("encoder", "decoder") if name in children] or [model]
