"""AdamW (5.3; Loshchilov and Hutter 2019), Muon and others; states by the names of weights."""

from collections import defaultdict
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.device import resolve_dtype
from jumok.errors import ConfigError, InputError
from jumok.nn.lora import frozen_by_lora
from jumok.training.config import TrainingConfig
from jumok.training.ema import EMA
from jumok.training.fused_adamw import FusedAdamW
from jumok.training.layer_decay import frozen_parameters, is_in_layer, lr_multipliers
from jumok.training.optimizers import OPTIMIZERS, Groups, OptimizerKind

Named = dict[str, nn.Parameter]


def _kind(name: str) -> OptimizerKind:
    """The kind with this name. Raises ConfigError for what is none, which another may register."""
    found: object = OPTIMIZERS.get(name)
    if isinstance(found, type) and issubclass(found, OptimizerKind):
        return found()
    raise _no_optimizer(name, found)


def _no_optimizer(name: str, found: object) -> ConfigError:
    return ConfigError(
        "training.own_optimizer",
        "the optimizer {name} must be a subclass of OptimizerKind whose build returns an Optimizer "
        "of torch, got {got}",
        name=name,
        got=found.__name__ if isinstance(found, type) else type(found).__name__,
    )


class AdamWKind(OptimizerKind):
    """AdamW with the betas of the config and the epsilon of section 5.3."""

    elementwise, parts = True, ("step", "exp_avg", "exp_avg_sq")

    def build(self, groups: Groups, config: TrainingConfig) -> torch.optim.Optimizer:
        """AdamW of these groups, in one kernel for all weights."""
        betas = config.beta1, config.beta2
        return FusedAdamW(groups, lr=config.learning_rate, betas=betas, eps=1e-9)


class MuonKind(OptimizerKind):
    """Muon (`muon.py`) for the matrices of the layers, in the precision of the training."""

    parts = ("momentum_buffer",)

    def updates(self, name: str, weight: nn.Parameter) -> bool:
        """Whether it is a matrix of a layer."""
        return weight.ndim == 2 and is_in_layer(name)

    def build(self, groups: Groups, config: TrainingConfig) -> torch.optim.Optimizer:
        """Muon of these groups."""
        from jumok.training.muon import Muon

        dtype = resolve_dtype(config.precision, groups[0]["params"][0].device)
        return Muon(groups, config.learning_rate, dtype)


class Optimizer:
    """AdamW over the named weights of a model; matrices decay, biases and norms do not.

    The weights that the kind of `config.optimizer` does not update keep AdamW: with "muon" those of
    embeddings and heads, biases and norms.

    Weights that `config.freeze` names get no gradient and do not change; with `config.layer_decay`
    lower layers have lower learning rates (`layer_decay.py`). Raises InputError for a pattern of
    `freeze` that matches no weight.
    """

    def __init__(self, parameters: Named, config: TrainingConfig) -> None:
        self.parameters = parameters
        frozen = frozen_parameters(parameters, config.freeze) | frozen_by_lora(list(parameters))
        for name, parameter in parameters.items():
            parameter.requires_grad_(name not in frozen)
        trainable = {name: p for name, p in parameters.items() if p.requires_grad}
        multipliers = lr_multipliers(parameters, config.layer_decay)
        kind, adamw = _kind(config.optimizer), AdamWKind()
        by_kind = {name: p for name, p in trainable.items() if kind.updates(name, p)}
        by_adamw = {name: p for name, p in trainable.items() if name not in by_kind}
        self.kind_of: dict[str, OptimizerKind] = {}  # each trainable weight
        self.optimizer_of: dict[str, torch.optim.Optimizer] = {}
        for each, named in ((adamw, by_adamw), (kind, by_kind)):
            if named:
                optimizer = each.build(_groups(named, multipliers, config.weight_decay), config)
                if not isinstance(optimizer, torch.optim.Optimizer):
                    raise _no_optimizer(config.optimizer, optimizer)
                self.kind_of |= dict.fromkeys(named, each)
                self.optimizer_of |= dict.fromkeys(named, optimizer)

    def step(
        self,
        learning_rate: float,
        *,
        clip_norm: float = 0.0,
        norm: Tensor | None = None,
        ema: EMA | None = None,
        number: int = 0,
    ) -> None:
        """Update the weights and drop the gradients.

        With `clip_norm` the gradients, whose norm is given, are clipped first; with `ema` the
        weights are averaged in after this step, which has the given number.
        """
        averages: dict[Tensor, Tensor] = {}
        if ema is not None:
            averages = {self.parameters[name]: value for name, value in ema.values.items()}
        average_weight = ema.weight(number) if ema is not None else 0.0
        averaged: set[Tensor] = set()
        scale = 1.0
        if clip_norm and norm is not None:
            scale = min(1.0, clip_norm / (norm.item() + 1e-6))  # as torch.nn.utils
        for optimizer in dict.fromkeys(self.optimizer_of.values()):  # each once, in this order
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * group["lr_multiplier"]
            if isinstance(optimizer, FusedAdamW):
                done = optimizer.fused_step(scale, averages, average_weight)
                if done:
                    averaged.update(done)
                    continue
            if clip_norm and norm is not None:
                weights = [p for group in optimizer.param_groups for p in group["params"]]
                nn.utils.clip_grads_with_norm_(weights, clip_norm, norm)
            optimizer.step()
        if ema is not None:
            ema.update(number, averaged)
        self.zero_grad()

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """What the next step needs of every trainable weight, as `part:name`.

        AdamW keeps both moments and the number of steps, Muon the momentum. Raises InputError for a
        state that is not a tensor, which no checkpoint could hold.
        """
        states = {
            f"{part}:{name}": value
            for name, parameter in self.parameters.items()
            if name in self.optimizer_of
            for part, value in self.optimizer_of[name].state.get(parameter, {}).items()
            if value is not None  # the momentum of SGD without one
        }
        for key, value in states.items():
            if not isinstance(value, Tensor):
                raise InputError(
                    "training.optimizer_state",
                    "{key} of the optimizer must be a tensor, which a checkpoint holds, got {kind}",
                    key=key,
                    kind=type(value).__name__,
                )
        return states

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for key, value in state.items():
            part, _, name = key.partition(":")
            parameter = self.parameters[name]
            state_of = self.optimizer_of[name].state[parameter]
            state_of[part] = value.to(parameter.device).clone()


def _groups(named: Named, multipliers: Mapping[str, float], weight_decay: float) -> Groups:
    """Groups of weights with the same multiplier of the learning rate and the same decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in named.items():
        groups[multipliers[name], weight_decay if parameter.ndim >= 2 else 0.0].append(parameter)
    return [
        {"params": group, "weight_decay": decay, "lr_multiplier": multiplier}
        for (multiplier, decay), group in groups.items()
    ]
