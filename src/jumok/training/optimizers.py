"""The kinds of optimizers, found by name: each builds an optimizer of torch for some weights."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from jumok.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import nn

    from jumok.training.config import TrainingConfig

Groups = list[dict[str, Any]]  # "params", "weight_decay" and "lr_multiplier" of each


class OptimizerKind(ABC):
    """Abstract: a kind of optimizer; the weights that it does not update keep AdamW.

    What `build` returns is stepped with `group["lr"]` set for each group, and keeps its state in
    tensors: `state[weight][part]`.
    """

    elementwise: ClassVar[bool] = False  # each number is updated alone: weights may be sharded
    parts: ClassVar[tuple[str, ...] | None] = None  # of the state of a weight; None: not checked

    def updates(self, name: str, weight: "nn.Parameter") -> bool:
        """Whether it updates the weight with this name."""
        return True

    @abstractmethod
    def build(self, groups: Groups, config: "TrainingConfig") -> "torch.optim.Optimizer":
        """The optimizer of these groups."""


OPTIMIZERS = Registry[type[OptimizerKind]](
    "jumok.optimizers",
    "training.optimizer",
    {
        "adamw": "jumok.training.optimizer:AdamWKind",
        "muon": "jumok.training.optimizer:MuonKind",
    },
)
