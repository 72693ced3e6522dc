"""What a resumed training reads back must be what a training writes.

The checksums of a checkpoint show that its files are complete, not that a training wrote them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from jumok.errors import CheckpointError, InputError
from jumok.models.weights import check_finite
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.state import TrainerState

STEP = "step"


@contextmanager
def unusable(path: Path) -> Iterator[None]:
    """Raise CheckpointError with the path and with advice for an InputError of the body."""
    try:
        yield
    except InputError as error:
        reason, _, _ = str(error).partition(";")
        raise CheckpointError(
            "checkpoint.unusable",
            "{path}: {reason}; move it away to resume from an older one, or train in another "
            "folder",
            path=path,
            reason=reason,
        ) from error


def read_progress(checkpoint: Checkpoint, microbatches_per_step: int) -> TrainerState:
    """The trainer's state in a checkpoint.

    Raises InputError, which names the field, for one that no training of so many microbatches a
    step has after the checkpoint's steps.
    """
    progress = checkpoint.metadata.get("progress")
    state = TrainerState.from_dict(progress, microbatches_per_step)  # type: ignore[arg-type]  # checked there
    if state.step != checkpoint.step:
        raise InputError(
            "checkpoint.progress_of_other_step",
            "progress.step must be {step:,}, got {step_2:,}",
            step=checkpoint.step,
            step_2=state.step,
        )
    return state


def check_states(checkpoint: Checkpoint, expected: Collection[str]) -> None:
    """Raise InputError unless a checkpoint has exactly these states."""
    if set(checkpoint.states) != set(expected):
        raise InputError(
            "checkpoint.wrong_states",
            "its states must be {expected}, got {states}",
            expected=", ".join(sorted(expected)),
            states=", ".join(sorted(checkpoint.states))[:200],
        )


def check_tensors(
    state: str, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> None:
    """Raise InputError unless these are finite tensors of the expected names, shapes and dtypes."""
    for name in sorted(expected.keys() ^ tensors.keys()):
        reason = "missing" if name in expected else "unexpected"
        raise InputError(
            "checkpoint.wrong_tensor_names",
            "{name} of state {state} is {reason}",
            name=name[:200],
            state=state,
            reason=reason,
        )
    for name, like in expected.items():
        tensor = tensors[name]
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise InputError(
                "checkpoint.state_of_other_kind",
                "{name} of state {state} must be {kind}, got {kind_2}",
                name=name,
                state=state,
                kind=_kind(like),
                kind_2=_kind(tensor),
            )
    check_finite(tensors, f"state {state}")


def check_optimizer(
    tensors: Mapping[str, Tensor],
    trainable: Mapping[str, Tensor],
    parts: Mapping[str, Sequence[str] | None],
    applied_steps: int,
) -> None:
    """Raise InputError unless these are the moments of these weights after so many steps.

    `parts` are those that the optimizer of each weight keeps; None: those of an extension, which
    may be any. A weight that never got a gradient has no moments.
    """
    known = {name.partition(":")[2] for name in tensors}
    checked = {
        f"{part}:{name}": torch.empty(()) if part == STEP else weight
        for name, weight in trainable.items()
        if name in known
        for part in parts[name] or ()
    }
    of_extension = {
        key: tensor
        for key, tensor in tensors.items()
        if parts.get(key.partition(":")[2], ()) is None
    }
    check_tensors("optimizer", tensors, checked | of_extension)
    if not tensors and applied_steps and trainable:
        raise InputError(
            "checkpoint.moments_missing",
            "state optimizer must have the moments of {applied_steps:,} steps",
            applied_steps=applied_steps,
        )
    for name in checked:
        tensor = tensors[name]
        if name.startswith(f"{STEP}:") and not 1 <= tensor.item() <= applied_steps:
            raise InputError(
                "checkpoint.optimizer_step_range",
                "{name} of state optimizer must be from 1 to {applied_steps:,}, got {tensor:g}",
                name=name,
                applied_steps=applied_steps,
                tensor=tensor.item(),
            )
        if name.startswith("exp_avg_sq:") and tensor.numel() and tensor.min().item() < 0:
            raise InputError(
                "checkpoint.negative_moment",
                "{name} of state optimizer must be at least 0, a mean of squares",
                name=name,
            )


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
