"""Where an output comes from: direct logit attribution, logit lens, integrated gradients, rollout.

Shapes: n rows of the data, B rows of a batch, L layers, H heads, T tokens, D width of the model.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.experiment.inputs import Batch, Model, Subject, paired_batches, read, read_alike
from jumok.experiment.interventions import constant, leaf
from jumok.experiment.metrics import Floats, Metric, per_row
from jumok.experiment.recording import Array, token_axis
from jumok.models.points import Side, backbones_by_side
from jumok.nn.layer import ResidualNorm
from jumok.nn.norms import OffsetRMSNorm


def logit_attribution(model: Model, data: object, metric: Metric) -> dict[str, Floats]:
    """What each part of the last stack adds to the metric on its direct path, by point.

    The last hidden state is the sum of the embedding and of what heads and feed-forward layers
    write, each multiplied by the norms on its way, whose means and variances are kept: Elhage et
    al. 2021, "A Mathematical Framework for Transformer Circuits", "Logit Attribution". Heads are
    (n, H), other parts and "bias" (n,): the biases of the attentions, norms and the head, which no
    part owns. All of them sum to the metric.

    It is exact where the metric is linear in the last hidden state, as a difference of logits
    (`logit_difference`) of a linear head is; otherwise it is a linear approximation there.

    >>> import jumok
    >>> from jumok.experiment import logit_difference, measure
    >>> model, data = jumok.load("note", device="cpu"), [("겨울은 추워요.", "Winter is")]
    >>> metric = logit_difference([20], [30])
    >>> parts = logit_attribution(model, data, metric)
    >>> parts["cross.1.mixed"].shape
    (1, 2)
    >>> total = sum(part.reshape(1, -1).sum(1) for part in parts.values())
    >>> bool(abs(total - measure(model, data, metric)).max() < 1e-4)
    True

    Raises InputError for norms of an extension.
    """
    subject, rows = Subject(model), read(model, data)
    names = _writers(subject, rows.side)
    shapes = {name: (len(rows), subject.points[name].heads) for name in names}
    values = {name: np.empty(shape if shape[1] else shape[:1]) for name, shape in shapes.items()}
    values["bias"] = np.empty(len(rows))
    for batch in rows.batches(subject.device):
        with frozen_norms(subject.module, rows.side):
            edits = dict.fromkeys(names, leaf)
            logits, found = subject.run(batch, names, edits, gradients=True)
            result = per_row(metric, logits, batch)
            slopes = torch.autograd.grad(result.sum(), [found[name] for name in names])
        at = batch.places
        values["bias"][at] = result.detach().double().cpu()
        for name, slope in zip(names, slopes, strict=True):
            parts = (found[name].detach() * slope).double()  # (B, H, T, K) or (B, T, D)
            own = parts.sum((-2, -1)).cpu()  # (B, H) or (B,)
            values[name][at] = own
            values["bias"][at] -= own.reshape(len(batch), -1).sum(1).numpy()
    return values


def logit_lens(model: Model, data: object, metric: Metric) -> Floats:
    """The metric if the model ended after layer 0, 1, ..., L of its last stack, (L + 1, n).

    The final norm and the head are applied to the residual stream before that layer: nostalgebraist
    2020, "interpreting GPT: the logit lens" (lesswrong.com). The last row is the model itself.

    >>> import jumok
    >>> from jumok.experiment import mean_log_probability
    >>> model, data = jumok.load("note", device="cpu"), [("겨울은 추워요.", "Winter is cold.")]
    >>> lens = logit_lens(model, data, mean_log_probability)  # 2 layers
    >>> lens.shape, bool(lens[2, 0] > lens[0, 0])
    ((3, 1), True)
    """
    subject, rows = Subject(model), read(model, data)
    n_layers = len(backbones_by_side(subject.module)[rows.side].stack.layers)
    end = f"{rows.side}.steps.{n_layers - 1}.after_feed_forward"
    streams = [f"{rows.side}.hidden.{layer}" for layer in range(n_layers)]
    values = np.empty((n_layers + 1, len(rows)))
    for batch in rows.batches(subject.device):
        logits, found = subject.run(batch, streams)
        values[n_layers, batch.places] = per_row(metric, logits, batch).cpu()
        for layer, name in enumerate(streams):
            logits, _ = subject.run(batch, edit={end: constant(found[name])})
            values[layer, batch.places] = per_row(metric, logits, batch).cpu()
    return values


def integrated_gradients(
    model: Model,
    data: object,
    metric: Metric,
    *,
    other: object = None,
    point: str | None = None,
    steps: int | None = None,
) -> Floats:
    """The contribution of each token at a point to the metric, (n, T); 0 on padding.

        (x - x') · ∫ d metric / d x (x' + α (x - x')) dα,   α from 0 to 1

    summed over the width: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks",
    equation 1, by Gauss-Legendre quadrature of `steps` points. x' is the activation of `other`
    (such as the same texts with [PAD] for each token), or 0. The contributions of a row sum to its
    metric minus that of x' (completeness). Where that sum is more than 1 % and 0.001 off, the
    points are dense near x' (α = u^24): near 0 each of N norms in a row multiplies by up to
    1 / sqrt(eps), so without biases the metric changes at α of about eps^(N/2), such as 1e-24.
    Without `steps` there are 50 points, then 200 and 800 dense ones. `point` is by default the
    input of the first layer, of an encoder-decoder that of its encoder.

    >>> import jumok
    >>> from jumok.experiment import mean_log_probability
    >>> model, data = jumok.load("note", device="cpu"), [("겨울은 추워요.", "Winter is cold.")]
    >>> integrated_gradients(model, data, mean_log_probability).shape  # 7 tokens
    (1, 7)

    Raises InputError for a point without tokens, for rows of `other` of other lengths, and where
    the points do not suffice for 1 %.
    """
    subject = Subject(model)
    rows, others = read_alike(model, data, data if other is None else other)
    name = subject.names(point or f"{next(iter(rows.ids))}.hidden.0")[0]
    place = subject.points[name]
    axis = token_axis(place)
    grids = ((50, 1), (200, 24), (800, 24)) if steps is None else ((steps, 1), (steps, 24))
    values = np.zeros((len(rows), int(rows.lengths(place.token_side).max())))
    for batch, other_batch in paired_batches(subject, rows, others):
        logits, here = subject.run(batch, [name])
        x = here[name]
        base = torch.zeros_like(x) if other is None else subject.run(other_batch, [name])[1][name]
        start, _ = subject.run(batch, edit={name: constant(base)})
        difference = per_row(metric, logits, batch) - per_row(metric, start, batch)  # (B,)

        def slope(between: Tensor, batch: Batch = batch) -> Tensor:
            edit = {name: lambda _: leaf(between)}
            logits, found = subject.run(batch, [name], edit, gradients=True)
            return torch.autograd.grad(per_row(metric, logits, batch).sum(), found[name])[0]

        for n, power in grids:
            total = _mean_slope(slope, base, x, n, power)
            parts = ((x - base) * total).movedim(axis, 1).flatten(2).sum(2)  # (B, T)
            parts = parts * batch.mask[place.token_side]
            miss = (parts.sum(1) - difference).abs()
            if (miss <= 0.01 * difference.abs() + 1e-3).all():
                break
        else:
            raise InputError(
                "experiment.not_converged",
                "the contributions of a row must sum to the metric minus that of the baseline, got "
                "a sum that is {miss:.3g} off with {n} steps; leave steps out or set more, or set "
                "another baseline by other=, such as rows of the same length of [PAD] or [MASK]",
                miss=float(miss.max()),
                n=n,
            )
        values[batch.places, : parts.shape[1]] = parts.cpu()
    return values


def _mean_slope(
    slope: Callable[[Tensor], Tensor], base: Tensor, x: Tensor, steps: int, power: int
) -> Tensor:
    """The integral of the slope from `base` to `x`, divided by their difference; α = u^power."""
    total = torch.zeros_like(x)
    for node, weight in zip(*np.polynomial.legendre.leggauss(steps), strict=True):
        u = (node + 1) / 2
        total += weight / 2 * power * u ** (power - 1) * slope(base + u**power * (x - base))
    return total


def rollout(weights: Sequence[Array]) -> Array:
    """How much each token of the input reaches each token after the last layer, (..., T, T).

    weights: those of the layers of one block, (..., H, T, T) each. With A their mean over heads

        R_l = (A_l + I) / 2 · R_(l-1),   R_0 = I

    the rows divided by their sums: Abnar and Zuidema 2020, "Quantifying Attention Flow in
    Transformers", section 3.

    >>> half = np.full((1, 2, 2), 0.5)  # one head
    >>> rollout([half, half])
    array([[0.625, 0.375],
           [0.375, 0.625]])

    Raises InputError for no layers, and for other shapes, as of cross-attention.
    """
    shapes = [np.shape(layer) for layer in weights]
    if not shapes or any(len(s) < 3 or s[-1] != s[-2] or s[:-3] != shapes[0][:-3] for s in shapes):
        raise InputError(
            "experiment.rollout_shapes",
            "the weights of each layer must have the shape (..., H, T, T), got {shapes}; give "
            "those of one block of self-attention, a layer at a time",
            shapes=", ".join(map(str, shapes)) or "()",
        )
    identity = np.eye(weights[0].shape[-1])
    found = np.broadcast_to(identity, (*weights[0].shape[:-3], *identity.shape))
    for layer in weights:
        mixed = layer.mean(-3, dtype=np.float64) / 2 + identity / 2  # (..., T, T)
        found = mixed / mixed.sum(-1, keepdims=True) @ found
    return found


def _writers(subject: Subject, side: Side) -> list[str]:
    """The points whose tensors are added to the residual stream of a side."""
    writes = re.compile(
        {
            "source": r"source\.(hidden\.0|steps\.\d+\.feed_forward)|encoder\.\d+\.mixed",
            "target": r"target\.(hidden\.0|steps\.\d+\.feed_forward)|(decoder|cross)\.\d+\.mixed",
        }[side]
    )
    return [name for name in subject.points if writes.fullmatch(name)]


@contextmanager
def frozen_norms(model: nn.Module, side: Side) -> Iterator[None]:
    """Norms on the residual stream of a side become linear: their statistics get no gradient."""
    stack = backbones_by_side(model)[side].stack
    norms = [stack.norm]
    for module in stack.modules():
        if isinstance(module, ResidualNorm):
            norms += [module.norm, module.sublayer_norm]
    with ExitStack() as hooks:
        for norm in norms:
            if not isinstance(norm, nn.Identity):
                hooks.callback(norm.register_forward_hook(_linear_norm).remove)
        yield


def _linear_norm(norm: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """The output of a norm, as a linear function of its input."""
    (x,) = inputs
    if isinstance(norm, nn.LayerNorm):
        x = x - x.mean(-1, keepdim=True)
    elif not isinstance(norm, nn.RMSNorm):
        raise InputError(
            "experiment.unknown_norm",
            "logit attribution needs LayerNorm or RMSNorm, got {kind}",
            kind=type(norm).__name__,
        )
    eps = torch.finfo(x.dtype).eps if norm.eps is None else norm.eps
    scale = (x.detach().square().mean(-1, keepdim=True) + eps).rsqrt()
    weight = norm.weight + 1 if isinstance(norm, OffsetRMSNorm) else norm.weight
    bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
    y = x * scale * weight
    return y if bias is None else y + bias
