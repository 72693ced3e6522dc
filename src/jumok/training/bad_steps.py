"""Steps whose loss or gradient is not finite, or whose loss spikes: reported and not applied."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok import safetensors_io
from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import NonFiniteError
from jumok.nn.hooks import without_compilation
from jumok.processes import ProcessGroup, raise_together
from jumok.training.state import TrainerState

FOLDER = "bad-steps"
MAX_CONSECUTIVE = 20  # more skipped steps in a row are not caused by a few odd batches
MIN_HISTORY = 20  # losses before the mean loss is stable enough to detect a spike


@dataclass(frozen=True)
class StepFailure:
    """Why a step must not be applied: a non-finite loss or gradient, or a loss spike."""

    loss: float
    reason: str
    finite: bool

    def located(self, where: str) -> "StepFailure":
        """A copy with the name of the first module or weight that is not finite."""
        return replace(self, reason=f"{self.reason}, first in {where}")


def diagnose(
    loss: float, norm: float, state: TrainerState, spike_factor: float
) -> StepFailure | None:
    """What is wrong with a step of this loss and gradient norm; None if it can be applied.

    A loss of more than `spike_factor` times the mean before it is a spike; 0: none is.

    >>> state = TrainerState(step=100, mean_loss=2.0)
    >>> diagnose(9.0, 1.0, state, 4.0).reason, diagnose(7.0, 1.0, state, 4.0)
    ('the loss is 9, 4.5 times the mean before it', None)
    """
    if not (math.isfinite(loss) and math.isfinite(norm)):
        return StepFailure(loss, "the loss or a gradient is not finite", finite=False)
    mean, n_losses = state.mean_loss, state.step - state.skipped
    if spike_factor and n_losses >= MIN_HISTORY and loss > spike_factor * mean:
        reason = f"the loss is {loss:.4g}, {loss / mean:.1f} times the mean before it"
        return StepFailure(loss, reason, finite=True)
    return None


def skip_or_stop(
    folder: Path,
    step: int,
    batches: Mapping[int, object],
    failure: StepFailure,
    in_a_row: int,
    processes: ProcessGroup,
    *,
    stop: bool,
) -> str:
    """Dump this process's batches of a step that is not applied; return a warning.

    Raises NonFiniteError on all processes if the training must `stop` or too many steps in a row
    failed; StorageError if the batches cannot be written.
    """
    several = f"-process-{processes.rank}" if processes.size > 1 else ""
    with raise_together(processes):
        metadata: dict[str, str | float] = {"why": failure.reason, "loss": failure.loss}
        path = dump_batches(folder, f"step-{step}{several}", batches, metadata)
    warning = f"step {step}: {failure.reason}; the step was not applied, its batch is in {path}"
    if stop or in_a_row > MAX_CONSECUTIVE:
        count = f", {in_a_row} in a row" if in_a_row > 1 else ""
        with raise_together(processes):
            raise NonFiniteError(
                "training.many_skipped_steps",
                "{warning}{count}; train again with a lower training.learning_rate or a longer "
                'training.warmup_steps, or skip such steps with training.on_nonfinite = "skip"',
                warning=warning,
                count=count,
            )
    return warning


def dump_batches(
    folder: Path, name: str, batches: Mapping[int, object], metadata: Mapping[str, str | float]
) -> Path:
    """Write the batches of a step as RUN/bad-steps/NAME.safetensors.

    Tensors are named as in the batch: `0.ids` is the ids of the first one. Raises StorageError.
    """
    path = folder / FOLDER / f"{name}.safetensors"
    tensors = {
        f"{index}.{name}": tensor.detach().cpu().contiguous()
        for index, batch in batches.items()
        for name, tensor in _tensors(batch)
    }
    with storage_errors(f"{path.parent}: cannot be created"):
        path.parent.mkdir(parents=True, exist_ok=True)
    texts = {key: str(value) for key, value in metadata.items()}
    write_atomically(path, safetensors_io.serialize(tensors, texts))
    return path


def _tensors(batch: object) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a batch and of the dataclasses in it, with its dotted name."""
    if not is_dataclass(batch):
        return
    for field in fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, Tensor):
            yield field.name, value
        for name, tensor in _tensors(value):
            yield f"{field.name}.{name}", tensor


def find_first_nonfinite(
    model: nn.Module,
    forward: Callable[[], object],
    parameters: Mapping[str, nn.Parameter] | None = None,
) -> str:
    """The name of the first module whose output is not finite when `forward` runs again.

    If all outputs are finite, the first weight whose gradient is not; "the loss itself" if none.
    The gradients are those of `parameters`; None: of the model's own.
    """
    found: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if not found and isinstance(output, Tensor) and not output.isfinite().all():
                found.append(name or "the model")

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in model.named_modules()]
    try:
        with torch.no_grad(), without_compilation():
            forward()
    finally:
        for hook in hooks:
            hook.remove()
    for name, parameter in (parameters or dict(model.named_parameters())).items():
        if not found and parameter.grad is not None and not parameter.grad.isfinite().all():
            found.append(f"the gradient of {name}")
    return found[0] if found else "the loss itself"


def first_reported(where: str, processes: ProcessGroup) -> str:
    """The most specific finding of all processes: a layer, else a gradient, else the loss."""
    found = [text.decode() for text in processes.all_gather_bytes(where.encode())]
    layers = [text for text in found if not text.startswith("the ")]
    gradients = [text for text in found if text.startswith("the gradient")]
    return (layers or gradients or found)[0]
