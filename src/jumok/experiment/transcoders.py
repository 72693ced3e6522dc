"""Transcoders: sparse features in the place of a feed-forward layer.

A transcoder maps the input of a feed-forward layer to its output through many features, of which k
are active at a token (Dunefsky et al. 2024, "Transcoders Find Interpretable LLM Feature Circuits").
It is a feed-forward layer itself: a model with transcoders has the same points, and the features
are its points "{side}.steps.{layer}.hidden".

Shapes: B rows, T tokens, N real tokens of a batch, D model width, F features.
"""

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from jumok.atomic_io import write_atomically
from jumok.config_io import check_range
from jumok.data.packing import length_batches
from jumok.errors import InputError, ModelFileError
from jumok.experiment.inputs import Batch, Data, Model, Subject, read
from jumok.language import translate
from jumok.models.points import backbones_by_side
from jumok.nn.feedforward import PositionwiseFeedForward
from jumok.nn.hooks import Module, shared_copy
from jumok.safe_json import parse_json
from jumok.safetensors_io import read_metadata, read_tensors, serialize
from jumok.terminal import counted

AUXILIARY = 32  # features that never won, which learn from what the others leave: Gao et al., A.2
DEAD_AFTER = 200  # steps without being active


class TopK(nn.Module):
    """The k largest of the last axis, if they are positive; 0 elsewhere (Gao et al. 2024, 2.3).

    >>> TopK(2)(torch.tensor([3.0, -1.0, 1.0, 2.0]))
    tensor([3., 0., 0., 2.])
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        """(..., F) -> (..., F)."""
        if self.k >= x.shape[-1]:
            return x.relu()
        values, places = x.topk(self.k)
        return torch.zeros_like(x).scatter(-1, places, values.relu())


class Transcoder(PositionwiseFeedForward):
    """down(top_k(up(x))) + skip(x): F features and a linear path (Paulo et al. 2025).

    >>> coder = Transcoder(d_model=8, n_features=64, k=4)
    >>> coder.features(torch.randn(5, 8)).count_nonzero(-1).max() <= 4
    tensor(True)
    """

    def __init__(self, d_model: int, n_features: int, k: int) -> None:
        super().__init__(d_model, n_features)
        self.activation = TopK(k)
        self.skip = nn.Linear(d_model, d_model, bias=False)
        nn.init.zeros_(self.skip.weight)

    def features(self, x: Tensor) -> Tensor:
        """The activations of the features, (..., D) -> (..., F)."""
        return self.activation(self.up(x))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return super().forward(x) + self.skip(x)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Fit:
    """How well a transcoder does on rows of data: explained variance and active features (L0)."""

    explained: float
    active: float


class Peak(NamedTuple):
    """Where a feature is most active: a row of the data, its token, the activation."""

    row: int
    token: int
    value: float


@dataclass(frozen=True)
class Transcoders:
    """A transcoder for each feed-forward layer of a model, by the point of its output.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> data = [("겨울은 추워요.", "Winter is cold."), ("감기 조심하세요.", "Watch out for colds.")]
    >>> coders = train_transcoders(model, data, n_features=128, k=8, steps=300)
    >>> fit = coders.fit(model, data)["target.steps.1.feed_forward"]
    >>> fit.explained > 0.9, fit.active <= 8
    (True, True)
    """

    coders: Mapping[str, Transcoder]
    feed_forward_sha256: str | None = None  # of the model they are of; None in older files

    def splice(self, model: Module) -> Module:
        """A copy of the model that has the transcoders for its feed-forward layers.

        Of a pipeline `pipeline.with_models(coders.splice)`. Raises InputError for a model of other
        layers or another width, and for one of other feed-forward weights.
        """
        spliced = shared_copy(model)
        layers: dict[str, Any] = _layers(spliced)
        needed = {name: layer.feed_forward.up.weight.shape[1] for name, layer in layers.items()}
        given = {name: coder.up.in_features for name, coder in self.coders.items()}
        if given != needed:
            raise InputError(
                "experiment.transcoders_of_model",
                "the transcoders must be those of the model's layers, of these widths: {layers}, "
                "got {got}; train them with train_transcoders",
                layers=", ".join(f"{name} ({width})" for name, width in needed.items()),
                got=", ".join(f"{name} ({width})" for name, width in given.items()),
            )
        found = _sha256(layers)
        if self.feed_forward_sha256 not in (None, found):
            raise InputError(
                "experiment.transcoders_of_another_model",
                "the transcoders must be trained on a model of the same feed-forward weights "
                "(SHA-256 {expected}...), got a model of {got}...; train them on this model with "
                "train_transcoders",
                expected=str(self.feed_forward_sha256)[:12],
                got=found[:12],
            )
        for name, layer in layers.items():
            layer.feed_forward = self.coders[name]
        return spliced.eval()

    def fit(self, model: Model, data: object) -> dict[str, Fit]:
        """The share of the variance of each layer's output that is explained, and the mean L0."""
        subject, rows = Subject(model), read(model, data)
        sums: dict[str, list[Tensor]] = {}
        with torch.no_grad():
            for batch in rows.batches(subject.device):
                for name, (x, y) in _inputs_and_outputs(subject, batch).items():
                    coder = self.coders[name]
                    y, miss = y.double(), (y - coder(x)).double()
                    active = coder.features(x).count_nonzero(-1).sum()
                    found = [y.sum(0), y.square().sum(), miss.square().sum(), active, len(y)]
                    known = sums.get(name, [0] * len(found))
                    sums[name] = [a + b for a, b in zip(known, found, strict=True)]
        return {
            name: Fit(
                float(1 - missed / (square - total.square().sum() / n)),
                float(active / n),
            )
            for name, (total, square, missed, active, n) in sums.items()
        }

    def peaks(
        self, model: Model, data: object, features: Sequence[tuple[str, int]], n: int = 5
    ) -> list[list[Peak]]:
        """The n rows of the data in which each feature, (point of its layer, number), is largest.

        A row counts once, by its largest token.
        """
        subject, rows = Subject(model), read(model, data)
        own = {
            name: [i for i, (of, _) in enumerate(features) if of == name] for name in self.coders
        }
        inputs = {name: input_point(subject, name) for name, places in own.items() if places}
        values = torch.zeros(len(features), len(rows))
        tokens = torch.zeros(len(features), len(rows), dtype=torch.int64)
        for batch in rows.batches(subject.device):
            _, found = subject.run(batch, list(inputs.values()))
            for name, point in inputs.items():
                numbers = [features[i][1] for i in own[name]]
                with torch.no_grad():
                    active = self.coders[name].features(found[point])[..., numbers]  # (B, T, ...)
                real = batch.mask[subject.points[name].token_side]
                best = (active * real[..., None]).max(1)
                places = torch.tensor(own[name])[:, None], batch.rows.cpu()
                values[places], tokens[places] = best.values.T.cpu(), best.indices.T.cpu()
        top = values.topk(min(n, len(rows)))  # 2 x (features, n)
        return [
            [Peak(j, int(tokens[i, j]), float(values[i, j])) for j in row if values[i, j] > 0]
            for i, row in enumerate(top.indices.tolist())
        ]

    def to(self, device: torch.device | str) -> "Transcoders":
        """The transcoders, moved to the device of a model: those of `load` are on the CPU."""
        for coder in self.coders.values():
            coder.to(device)
        return self

    def save(self, path: Path | str) -> None:
        """One safetensors file; its metadata have its sizes and the model's SHA-256."""
        tensors = {
            f"{name}:{key}": tensor
            for name, coder in self.coders.items()
            for key, tensor in coder.state_dict().items()
        }
        sizes = {
            name: [*coder.up.weight.shape, coder.activation.k]
            for name, coder in self.coders.items()
        }
        metadata = {"transcoders": json.dumps(sizes)}
        if self.feed_forward_sha256 is not None:
            metadata["feed_forward_sha256"] = self.feed_forward_sha256
        write_atomically(Path(path), serialize(tensors, metadata))

    @classmethod
    def load(cls, path: Path | str) -> "Transcoders":
        """Read the file of `save`. Raises ModelFileError for another file."""
        try:
            metadata = read_metadata(Path(path))
            sizes = parse_json(metadata["transcoders"].encode())
            tensors = read_tensors(Path(path))
            coders: dict[str, Transcoder] = {}
            for name, (n_features, d_model, k) in sizes.items():
                coder = coders[name] = Transcoder(d_model, n_features, k)
                keys = coder.state_dict()
                coder.load_state_dict({key: tensors[f"{name}:{key}"] for key in keys})
        except (KeyError, ValueError, RuntimeError) as error:
            raise ModelFileError(
                "experiment.transcoders_file",
                "{path} must be a file of Transcoders.save, got another one; train them again",
                path=str(path),
            ) from error
        sha256 = metadata.get("feed_forward_sha256")
        return cls({name: coder.eval() for name, coder in coders.items()}, sha256)


def train_transcoders(
    model: Model,
    data: object,
    *,
    n_features: int = 512,
    k: int = 32,
    steps: int = 1000,
    batch_tokens: int = 1024,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> Transcoders:
    """Train a transcoder for every feed-forward layer of a model on the real tokens of data.

    data: as for `jumok.experiment.read`. Each step reads the activations of one batch, none are
    stored; all layers learn from the same pass. The loss of a layer is the squared error divided by
    the variance of its output, and 1/32 of the same for features that have not been active lately
    on what the others leave (Gao et al. 2024, "Scaling and evaluating sparse autoencoders", A.2).

    Of 20 rows or more, 5 %, at most 200, are held out. A layer keeps the weights it starts with
    where they explain more of those rows (of all up to 200, if none are held out): where k is more
    than the active neurons, the start is exact and training can only lose.

    Raises InputError as `read` does, and for sizes below 1 or fewer than 0 steps.
    """
    for name, size in (("n_features", n_features), ("k", k), ("batch_tokens", batch_tokens)):
        check_range(name, size, "[1, inf)")
    check_range("steps", steps, "[0, inf)")
    subject, rows = Subject(model), read(model, data)
    torch.manual_seed(seed)
    layers = _layers(subject.module)
    coders = {
        name: _start(layer.feed_forward, n_features, k).to(subject.device)
        for name, layer in layers.items()
    }
    starts = copy.deepcopy(coders)
    parameters = [p for coder in coders.values() for p in coder.parameters()]
    optimizer = torch.optim.Adam(parameters, learning_rate, betas=(0.9, 0.99), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 100, 2 * (1 - step / max(1, steps)))
    )
    idle = {name: torch.zeros(n_features, device=subject.device) for name in coders}
    order = np.random.default_rng(seed).permutation(len(rows))
    n_held = min(200, len(rows) // 20)
    held, seen = (order[:n_held], order[n_held:]) if n_held else (order[:200], order)
    batches = islice(_batches(rows.take(seen), batch_tokens, subject, seed), steps)
    for batch in counted(batches, translate("jumok: {n} of {total} steps"), steps):
        loss = torch.zeros((), device=subject.device)
        for name, (x, y) in _inputs_and_outputs(subject, batch).items():
            loss = loss + _loss(coders[name], x, y, idle[name])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    if steps:
        kept = rows.take(held)
        before, after = (Transcoders(each).fit(model, kept) for each in (starts, coders))
        for name in coders:
            if before[name].explained > after[name].explained:
                coders[name] = starts[name]
    trained = {name: coder.eval() for name, coder in coders.items()}
    return Transcoders(trained, _sha256(layers))


def _sha256(layers: Mapping[str, Any]) -> str:
    """The SHA-256 of the feed-forward weights, as bfloat16: equal on devices and in both dtypes."""
    digest = hashlib.sha256()
    for name, layer in layers.items():
        for key, tensor in layer.feed_forward.state_dict().items():
            digest.update(f"{name}:{key}{tuple(tensor.shape)}".encode())
            bits = tensor.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16)
            digest.update(bits.numpy().tobytes())
    return digest.hexdigest()


def _start(layer: Any, n_features: int, k: int) -> Transcoder:
    """A transcoder before its training: the neurons of the layer, and features that add nothing.

    The decoder vectors of the neurons get length 1: an activation is the length of what it adds.
    The other features begin so small that they take no place of a neuron among the top k.
    """
    up, down = layer.up, layer.down
    d_ff, d_model = up.weight.shape
    coder = Transcoder(d_model, n_features, k)
    with torch.no_grad():
        n = min(d_ff, n_features)
        lengths = down.weight[:, :n].norm(dim=0).clamp(min=1e-6)
        coder.up.weight[:n] = up.weight[:n] * lengths[:, None]
        coder.down.weight[:, :n] = down.weight[:, :n] / lengths
        coder.up.weight[n:] *= 0.01
        coder.down.weight[:, n:] = 0
        nn.init.zeros_(coder.up.bias)
        nn.init.zeros_(coder.down.bias)
        if up.bias is not None:
            coder.up.bias[:n] = up.bias[:n] * lengths
            coder.down.bias.copy_(down.bias)
    return coder


def _loss(coder: Transcoder, x: Tensor, y: Tensor, idle: Tensor) -> Tensor:
    """The loss of a layer: x and y (N, D); `idle` (F,) counts the steps since a feature was active.

    The steps are counted here.
    """
    variance = (y - y.mean(0)).square().sum() + 1e-6
    before = coder.up(x)  # (N, F)
    features = coder.activation(before)
    miss = y - coder.down(features) - coder.skip(x)
    loss: Tensor = miss.square().sum() / variance
    idle.add_(1).masked_fill_((features > 0).any(0), 0)
    dead = idle > DEAD_AFTER
    n_dead = int(dead.sum())
    if n_dead:
        extra: Tensor = TopK(min(AUXILIARY, n_dead))(before[:, dead])  # (N, dead)
        left = miss.detach() - extra @ coder.down.weight[:, dead].T
        loss = loss + left.square().sum() / miss.detach().square().sum() / 32
    return loss


def _inputs_and_outputs(subject: Subject, batch: Batch) -> dict[str, tuple[Tensor, Tensor]]:
    """What the feed-forward layers get and return at real tokens, 2 x (N, D), by point."""
    names = [name for name in subject.points if name.endswith(".feed_forward")]
    inputs = {name: input_point(subject, name) for name in names}
    _, found = subject.run(batch, [*names, *inputs.values()])
    real = {name: batch.mask[subject.points[name].token_side] for name in names}
    return {name: (found[inputs[name]][real[name]], found[name][real[name]]) for name in names}


def input_point(subject: Subject, name: str) -> str:
    """The point of what a feed-forward layer reads: its norm's output, or the residual stream."""
    step = name.removesuffix("feed_forward")
    kinds = ("feed_forward_input", "after_cross_attention", "after_self_attention")
    return next(step + kind for kind in kinds if step + kind in subject.points)


def hidden_point(name: str) -> str:
    """The point of the features of a layer in a model with transcoders."""
    return f"{name.removesuffix('feed_forward')}hidden"


def _layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers of the model by the point of their feed-forward output."""
    return {
        f"{side}.steps.{i}.feed_forward": layer
        for side, backbone in backbones_by_side(model).items()
        for i, layer in enumerate(backbone.stack.layers)
    }


def _batches(rows: Data, batch_tokens: int, subject: Subject, seed: int) -> Iterator[Batch]:
    """Batches of random rows of similar length, epoch after epoch."""
    rng = np.random.default_rng(seed)
    lengths = np.stack([rows.lengths(side) for side in rows.ids], 1)
    while True:
        for places in length_batches(lengths, rng.permutation(len(rows)), batch_tokens, rng):
            yield rows.batch(places, subject.device)
