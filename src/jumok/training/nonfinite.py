"""When a loss is no number any more: which layer said so first."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from jumok.processes import ProcessGroup


def find_first_nonfinite(
    model: nn.Module,
    forward: Callable[[], object],
    parameters: Mapping[str, nn.Parameter] | None = None,
) -> str:
    """The name of the first module whose output is not finite when `forward` runs again.

    Where all are finite, the first weight whose gradient is not; "the loss itself" if none. The
    gradients are those of `parameters`: None means the model's own.
    """
    found: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if not found and isinstance(output, Tensor) and not output.isfinite().all():
                found.append(name or "the model")

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in model.named_modules()]
    try:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            forward()
    finally:
        for hook in hooks:
            hook.remove()
    for name, parameter in (parameters or dict(model.named_parameters())).items():
        if not found and parameter.grad is not None and not parameter.grad.isfinite().all():
            found.append(f"the gradient of {name}")
    return found[0] if found else "the loss itself"


def first_said(where: str, processes: ProcessGroup) -> str:
    """What some process found (see `find_first_nonfinite`): a layer, or else a gradient, or the loss."""
    said = [text.decode() for text in processes.all_gather_bytes(where.encode())]
    named = [text for text in said if not text.startswith("the ")]
    gradients = [text for text in said if text.startswith("the gradient")]
    return (named or gradients or said)[0]
