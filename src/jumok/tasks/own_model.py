"""A model of one's own, `jumok.train(model=...)`: any nn.Module in place of a task's Transformer.

Its `forward` takes the ids (B, T) int64 and a mask (B, T) bool, True = real token, and returns the
N outputs of `Task.n_outputs`: (B, N) of a text, (B, T, N) of tokens (tags and masked tokens).
"""

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from jumok.errors import InputError, RecipeError
from jumok.registry import register
from jumok.tasks.recipe.fixed_values import check_values, with_key
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.registry import TRANSFORMER, get_task, tasks_with

if TYPE_CHECKING:
    from jumok.tasks.recipe.recipe import Recipe

OwnModel = Callable[[ModelConfig, int], nn.Module] | nn.Module
UNIT_TOLERANCE = 1e-3  # of the length of a vector


def register_model(model: OwnModel) -> str:
    """Register a class, a function or an nn.Module under its name, and return the name.

    An nn.Module is copied wherever the model is built: it stays as it is, and the seed of a recipe
    does not change its initial weights.

    >>> from jumok.tasks.registry import ARCHITECTURES
    >>> class Zeros(nn.Module): ...
    >>> register_model(Zeros()), "Zeros" in ARCHITECTURES
    ('Zeros', True)
    """
    if not isinstance(model, nn.Module):
        if not callable(model) or getattr(model, "__name__", "<lambda>") == "<lambda>":
            raise InputError(
                "run.model_argument",
                "model must be an nn.Module, or a class or function of the table [model] and the "
                "number of outputs that returns one and has a name, by which a run is opened, got "
                "{given!r:.60}; give a class, or a function of def",
                given=model,
            )
        register("jumok.models", model.__name__, model)
        return model.__name__
    kind = type(model)

    def build(config: ModelConfig, n_outputs: int) -> nn.Module:
        return copy.deepcopy(model)

    build.__module__, build.__qualname__ = kind.__module__, kind.__qualname__
    register("jumok.models", kind.__name__, build)
    return kind.__name__


def forward_own(model: nn.Module, ids: Tensor, mask: Tensor | None) -> Tensor:
    """The outputs of a model of one's own, which always gets a mask."""
    mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
    return model(ids, mask)  # type: ignore[no-any-return]


def check_own_recipe(recipe: "Recipe") -> None:
    """Raise InputError for settings that only a Transformer of jumok has."""
    name = recipe.model.architecture
    if name == TRANSFORMER:
        return
    if get_task(recipe.task).n_outputs(recipe.model, ()) is None:
        available = tasks_with(lambda task: task.n_outputs(ModelConfig(), ()) is not None)
        raise RecipeError(
            "recipe.own_model_not_for_task",
            'model.architecture must be "transformer" for the task {task}, which generates text '
            'with its caches, got "{name}"; register an attention, positions or a norm instead, or '
            "train one of {available}",
            task=recipe.task,
            name=name,
            available=", ".join(available),
        )
    check_values(recipe, _ONLY_TRANSFORMER, with_key(f'model.architecture = "{name}"'))


_ONLY_TRANSFORMER: Mapping[str, object] = {
    "model.init": "",
    "model.generator": 0.0,
    "model.tagging": "pieces",
    "training.method": "fine-tune",
    "training.layer_decay": 1.0,
    "training.lora.rank": 0,
    "training.sharding": "none",
    "training.activation_checkpointing": False,
    "masking.packed": False,
    "masking.cooccurrence_init": False,
    "distillation.teachers": (),
}


@torch.no_grad()
def check_own_model(recipe: "Recipe", model: nn.Module, labels: tuple[str, ...]) -> None:
    """Raise InputError unless a model of one's own has the outputs of its task for two texts.

    Also for buffers that a run would not hold: its weights are the parameters.
    """
    name, task = recipe.model.architecture, get_task(recipe.task)
    n_outputs = task.n_outputs(recipe.model, labels)
    if name == TRANSFORMER or n_outputs is None:
        return
    parameters = dict(model.named_parameters(remove_duplicate=False))
    if buffers := sorted(model.state_dict().keys() - parameters.keys()):
        raise InputError(
            "run.own_model_buffers",
            "buffers of the model {name} must be computed from its arguments, because a run holds "
            "parameters alone, got {buffer}; register it with persistent=False, or use a norm "
            "without running means",
            name=name,
            buffer=buffers[0],
        )
    mask = torch.tensor([[True, True, True], [True, True, False]])
    device, was_training = next(model.parameters()).device, model.training
    shape = (2, 3, n_outputs) if task.answer in ("tags", "masks") else (2, n_outputs)
    try:
        ids = torch.zeros(2, 3, dtype=torch.int64, device=device)
        found = forward_own(model.eval(), ids, mask.to(device))
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    except Exception as error:  # whatever a forward of others raises
        raise InputError(
            "run.own_model_fails",
            "the model {name} must compute outputs of shape {shape} from ids and mask of shape "
            "(2, 3), got {type}: {error}; compare its forward with docs/python.md",
            name=name,
            shape=shape,
            type=type(error).__name__,
            error=error,
        ) from error
    finally:
        model.train(was_training)
    if got != shape or not found.is_floating_point() or not found.isfinite().all():
        raise InputError(
            "run.own_model_shape",
            "the model {name} must return finite numbers of shape {shape} for ids and mask of "
            "shape (2, 3), got {got} {dtype}, {n} of them not finite; compare its forward with "
            "docs/python.md",
            name=name,
            shape=shape,
            got=got,
            dtype=str(getattr(found, "dtype", "")),
            n=int((~found.isfinite()).sum()) if isinstance(found, Tensor) else 0,
        )
    if task.answer == "vector" and (found.norm(dim=-1) - 1).abs().max() > UNIT_TOLERANCE:
        raise InputError(
            "run.own_model_vectors",
            "the vectors of the model {name} must have length 1, got {length:.3g}; end forward "
            "with torch.nn.functional.normalize(vectors, dim=-1)",
            name=name,
            length=found.norm(dim=-1).max().item(),
        )
