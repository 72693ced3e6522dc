"""Interventions over a data set with an own metric: ablation, patching, attribution patching.

Every function changes one site after the other, a site being a point, or one head or one token of
it, and returns the metric of each row, (sites, n). The model is not modified.

Shapes: s sites, n rows of the data, R changed runs in a batch, B rows of it, T tokens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.config_io import check_choice
from jumok.errors import InputError
from jumok.experiment.inputs import (
    Batch,
    Data,
    Model,
    Subject,
    paired_batches,
    read,
    read_alike,
)
from jumok.experiment.metrics import Floats, Metric, per_row
from jumok.experiment.recording import activations, token_axis
from jumok.models.points import Edit, Point

Replacement: TypeAlias = Callable[[str, Tensor], Tensor]  # of a point's name and activation
How: TypeAlias = Literal["zero", "mean", "resample"]
MAX_TOKENS = 4096  # of all runs of a batch


@dataclass(frozen=True)
class Site:
    """A point of a model, or one head or token of it; a negative token counts from the end.

    >>> Site("decoder.3.mixed", head=5)
    Site(point='decoder.3.mixed', head=5, token=None)
    """

    point: str
    head: int | None = None
    token: int | None = None


def heads(model: Model, names: str | Sequence[str] = "*.mixed") -> list[Site]:
    """A site for each head of the points that match `names`: by default of every head's output.

    >>> import jumok
    >>> len(heads(jumok.load("note", device="cpu"), "cross.*.mixed"))  # 2 layers of 2 heads
    4
    """
    subject = Subject(model)
    return [
        Site(name, head)
        for name in subject.names(names)
        for head in range(subject.points[name].heads)
    ]


def measure(
    model: Model,
    data: object,
    metric: Metric,
    edit: Mapping[str, Callable[[Tensor, Batch], Tensor]] | None = None,
) -> Floats:
    """The metric of each row of the data, (n,), with activations changed by own functions.

    metric: a function of the logits and their `Batch` that returns a number per row, (B,).
    edit: for each point a function of the activation and its `Batch`.

        muted = measure(model, texts, metric, {"decoder.1.mixed": lambda x, batch: x * 0})

    >>> import jumok
    >>> from jumok.experiment.metrics import mean_log_probability
    >>> model = jumok.load("note", device="cpu")
    >>> data = [("겨울은 추워요.", "Winter is cold."), ("감기 조심하세요.", "Watch out for colds.")]
    >>> bool((measure(model, data, mean_log_probability) > -0.5).all())
    True

    Raises InputError for unknown points and for a metric without one number per row.
    """
    subject, rows = Subject(model), read(model, data)
    own = edit or {}
    subject.names(own, exact=True)
    values = np.empty(len(rows))
    for batch in rows.batches(subject.device):
        changes: dict[str, Edit] = {
            name: partial(_with_batch, change, batch) for name, change in own.items()
        }
        logits, _ = subject.run(batch, edit=changes)
        values[batch.places] = per_row(metric, logits, batch).cpu()
    return values


def ablate(
    model: Model,
    data: object,
    metric: Metric,
    sites: Iterable[Site | str],
    *,
    how: How = "zero",
    reference: object = None,
    seed: int = 0,
) -> Floats:
    """The metric with each site ablated in turn, (s, n).

    zero      its activation is 0: Michel et al. 2019, "Are Sixteen Heads Really Better than One?",
              section 3.2.
    mean      the mean over all real tokens of `reference` (default: the data): Wang et al. 2022,
              "Interpretability in the Wild", section 2.1.
    resample  for each token that of a random real token of `reference`, drawn with `seed`. To take
              whole other inputs (Chan et al. 2022, "Causal Scrubbing") use `patch`.

    >>> import jumok
    >>> from jumok.experiment.metrics import mean_log_probability
    >>> model, data = jumok.load("note", device="cpu"), [("겨울은 추워요.", "Winter is cold.")]
    >>> ablate(model, data, mean_log_probability, heads(model)).shape
    (12, 1)

    Raises InputError for unknown sites, and for mean and resample of weights or scores, which
    belong to two tokens.
    """
    check_choice("how", how, How)
    subject, rows, chosen = Subject(model), read(model, data), _sites(sites)
    names = _names(subject, chosen)
    if how == "zero":
        return _each_batch(
            subject, rows, metric, chosen, lambda batch: lambda name, x: torch.zeros_like(x)
        )
    known = activations(model, rows if reference is None else reference, names)
    tokens = {name: known.tokens(name) for name in names}  # (N, ...)
    if how == "mean":
        means = {name: _mean_of(x, known.points[name], subject) for name, x in tokens.items()}
        return _each_batch(subject, rows, metric, chosen, lambda batch: lambda name, x: means[name])
    longest = max(int(rows.lengths(side).max()) for side in rows.ids)
    draws = np.random.default_rng(seed).random((len(rows), longest))  # the same for all sites

    def drawn(batch: Batch) -> Replacement:
        return partial(_resampled, known.points, tokens, draws[batch.places])

    return _each_batch(subject, rows, metric, chosen, drawn)


def patch(
    model: Model, data: object, other: object, metric: Metric, sites: Iterable[Site | str]
) -> Floats:
    """The metric with the activation of each site in turn taken from `other`, (s, n).

    Activation patching: Meng et al. 2022, "Locating and Editing Factual Associations in GPT",
    section 2; Vig et al. 2020. Row i of `other` must have as many tokens as row i of the data.

    >>> import jumok
    >>> from jumok.experiment.metrics import mean_log_probability
    >>> model = jumok.load("note", device="cpu")
    >>> data, other = [("겨울은 추워요.", "Winter")], [("여름은 더워요.", "Winter")]
    >>> whole = patch(model, data, other, mean_log_probability, [Site("source.hidden.0")])
    >>> bool(abs(whole - measure(model, other, mean_log_probability)).max() < 1e-5)
    True

    Raises InputError for unknown sites and for rows of different lengths.
    """
    subject, (rows, others), chosen = Subject(model), read_alike(model, data, other), _sites(sites)
    names = _names(subject, chosen)

    def from_other(batch: Batch) -> Replacement:
        other_batch = others.batch(batch.places, subject.device)
        _, found = subject.run(other_batch, names)
        return lambda name, x: found[name]

    return _each_batch(subject, rows, metric, chosen, from_other)


def attribution_patch(
    model: Model, data: object, other: object, metric: Metric, sites: Iterable[Site | str]
) -> Floats:
    """The first-order estimate of `patch` minus the metric of the data, (s, n), for all sites.

        (a_other - a) · d metric / d a

    with two forward passes and a backward one: Nanda 2023, "Attribution Patching"; Syed et al.
    2023, "Attribution Patching Outperforms Automated Circuit Discovery". With other=None it is
    that of zero ablation, -a · d metric / d a: minus the importance of Michel et al. 2019 (section
    4.1) before its absolute value.

    Raises InputError as `patch` does.
    """
    subject, chosen = Subject(model), _sites(sites)
    rows = read(model, data)
    others = None if other is None else read_alike(model, rows, other)[1]
    names = _names(subject, chosen)
    values = np.empty((len(chosen), len(rows)))
    for batch in rows.batches(subject.device):
        there: dict[str, Tensor] = {}
        if others is not None:
            other_batch = others.batch(batch.places, subject.device)
            _, there = subject.run(other_batch, names)
        here, slopes = gradients(subject, batch, metric, names)
        for i, site in enumerate(chosen):
            name = site.point
            change = (there[name] - here[name] if there else -here[name]) * slopes[name]
            change = change * mask_of(subject.points[name], site, batch)
            values[i, batch.places] = change.flatten(1).sum(1).cpu()
    return values


def path_patch(
    model: Model,
    data: object,
    other: object,
    metric: Metric,
    senders: Iterable[Site],
    receivers: Iterable[Site],
    *,
    frozen: str | Sequence[str] = "*.mixed",
) -> Floats:
    """The metric with the paths from each sender to all receivers taken from `other`, (s, n).

    A sender gets its activation of `other`, the points of `frozen` (default: all heads) keep those
    of the data, the rest is computed again; what the receivers then have is put into a run on the
    data: Wang et al. 2022, section 3.1 and appendix B; Goldowsky-Dill et al. 2023, "Localizing
    Model Behavior with Path Patching". Feed-forward layers are a part of the paths, unless frozen
    too ("*.steps.*.feed_forward"). The last point of a model, as "target.hidden.4" of four layers,
    receives direct effects on the logits.

    Raises InputError as `patch` does.
    """
    subject, (rows, others) = Subject(model), read_alike(model, data, other)
    first, last = list(senders), list(receivers)
    sent, received = _names(subject, first), _names(subject, last)
    fixed = subject.names(frozen)
    values = np.empty((len(first), len(rows)))
    for batch, other_batch in paired_batches(subject, rows, others):
        _, there = subject.run(other_batch, sent)
        _, here = subject.run(batch, [*fixed, *sent])
        masks = {
            name: reduce(
                torch.logical_or,
                [mask_of(subject.points[name], each, batch) for each in last if each.point == name],
            )
            for name in received
        }
        for i, site in enumerate(first):
            mask = mask_of(subject.points[site.point], site, batch)
            edits: dict[str, Edit] = {name: constant(here[name]) for name in fixed}
            sender = torch.where(mask, there[site.point], here[site.point])
            edits[site.point] = constant(sender)
            _, arrived = subject.run(batch, received, edits)
            edits = {name: partial(_replaced, masks[name], arrived[name]) for name in received}
            logits, _ = subject.run(batch, edit=edits)
            values[i, batch.places] = per_row(metric, logits, batch).cpu()
    return values


def gradients(
    subject: Subject, batch: Batch, metric: Metric, names: Sequence[str]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The activations of a batch and d metric / d activation, by name; 0 where it has no effect."""
    inputs: dict[str, Edit] = {f"{side}.hidden.0": leaf for side in batch.ids}
    logits, found = subject.run(batch, names, inputs, gradients=True)
    total = per_row(metric, logits, batch).sum()
    slopes = torch.autograd.grad(total, [found[name] for name in names], allow_unused=True)
    return {name: found[name].detach() for name in names}, {
        name: torch.zeros_like(found[name]) if slope is None else slope
        for name, slope in zip(names, slopes, strict=True)
    }


def _sites(given: Iterable[Site | str]) -> list[Site]:
    """The sites; a name alone is a whole point."""
    return [Site(each) if isinstance(each, str) else each for each in given]


def _names(subject: Subject, sites: Iterable[Site]) -> list[str]:
    """The points of sites. Raises InputError for one that the model does not have."""
    return subject.names([site.point for site in sites], exact=True)


def mask_of(point: Point, site: Site, batch: Batch) -> Tensor:
    """True where a site is in its point: (B, ...), with 1 for axes that it has whole.

    Raises InputError for a head or token that the point does not have.
    """
    mask = batch.rows.new_ones((len(batch), *[1] * (len(point.axes) - 1)), dtype=torch.bool)
    if site.head is not None:
        if not 0 <= site.head < point.heads:
            raise InputError(
                "experiment.head_range",
                "the head of a site of {point} must be one of its {n} heads, from 0, got {head}",
                point=point.name,
                n=point.heads,
                head=site.head,
            )
        mask = mask & _along(1, batch.rows.new_tensor([range(point.heads)]) == site.head, mask)
    if site.token is not None:
        real = batch.mask[point.sides["T" not in point.axes]]  # (B, T)
        lengths = real.sum(1, keepdim=True)
        token = site.token + lengths * (site.token < 0)  # (B, 1)
        if bool(((token < 0) | (token >= lengths)).any()):
            raise InputError(
                "experiment.token_range",
                "a token of {point} must be in every row, got {token} and a row of {n} tokens",
                point=point.name,
                token=site.token,
                n=int(lengths.min()),
            )
        places = torch.arange(real.shape[1], device=real.device) == token  # (B, T)
        axis = 2 if point.token_axis is None else point.token_axis  # the queries of weights
        mask = mask & _along(axis, places, mask)
    return mask


def _along(axis: int, places: Tensor, like: Tensor) -> Tensor:
    """(B|1, n) as (B|1, ..., n, ...), n at an axis."""
    shape = [1] * like.ndim
    shape[0], shape[axis] = places.shape
    return places.view(shape)


def _each_batch(
    subject: Subject,
    rows: Data,
    metric: Metric,
    sites: Sequence[Site],
    replacement: Callable[[Batch], Replacement],
) -> Floats:
    """The metric with each site replaced in turn, (s, n): several sites in a batch of copies."""
    values = np.empty((len(sites), len(rows)))
    for batch in rows.batches(subject.device, MAX_TOKENS):
        new = replacement(batch)
        at_once = max(1, MAX_TOKENS // sum(ids.numel() for ids in batch.ids.values()))
        for start in range(0, len(sites), at_once):
            part = sites[start : start + at_once]
            runs = batch.repeat(len(part))
            edits: dict[str, Edit] = {
                name: partial(_one_each, subject.points[name], part, batch, new)
                for name in dict.fromkeys(site.point for site in part)
            }
            logits, _ = subject.run(runs, edit=edits)
            found = per_row(metric, logits, runs).view(len(part), len(batch)).cpu()
            values[start : start + at_once, batch.places] = found
    return values


def _one_each(
    point: Point, sites: Sequence[Site], batch: Batch, new: Replacement, x: Tensor
) -> Tensor:
    """An activation (R*B, ...): copy r of the rows has site r replaced, if it is of this point."""
    copies = x.expand(len(sites) * len(batch), *x.shape[1:]).chunk(len(sites))  # R x (B, ...)
    return torch.cat(
        [
            _replaced(mask_of(point, site, batch), new(point.name, copy), copy)
            if site.point == point.name
            else copy
            for site, copy in zip(sites, copies, strict=True)
        ]
    )


def _replaced(mask: Tensor, new: Tensor, x: Tensor) -> Tensor:
    return torch.where(mask, new.to(x.dtype), x)


def _with_batch(change: Callable[[Tensor, Batch], Tensor], batch: Batch, x: Tensor) -> Tensor:
    return change(x, batch)


def constant(value: Tensor) -> Edit:
    """An edit that puts a tensor in the place of any activation."""
    return lambda x: value


def leaf(x: Tensor) -> Tensor:
    """An edit that ends the graph of gradients at an activation, which gets them."""
    return x.detach().requires_grad_()


def _mean_of(tokens: NDArray[Any], point: Point, subject: Subject) -> Tensor:
    """The mean of vectors (N, ...), with an axis for the tokens: (H, 1, K) or (1, D)."""
    mean = torch.from_numpy(tokens.mean(0, dtype=np.float64)).to(subject.device)
    return mean.unsqueeze(token_axis(point) - 1)


def _resampled(
    point: Mapping[str, Point],
    tokens: Mapping[str, NDArray[Any]],
    draws: Floats,
    name: str,
    x: Tensor,
) -> Tensor:
    """Vectors of random tokens, in the shape of x; draws (B, T) are uniform in [0, 1)."""
    axis = token_axis(point[name])
    chosen = (draws[:, : x.shape[axis]] * len(tokens[name])).astype(np.int64)  # (B, T)
    return torch.from_numpy(tokens[name][chosen]).to(x.device).movedim(1, axis)
