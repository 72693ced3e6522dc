"""The circuit of one text: an attribution graph over tokens, features, errors and logits.

Attention weights and the statistics of norms are kept as they are on the text, and each
feed-forward layer is its transcoder and what that misses (the error). Then everything between the
embeddings, the active features, the errors and the logits is linear, and an edge is exactly what
its source adds to its target: Ameisen et al. 2025, "Circuit Tracing: Revealing Computational Graphs
in Language Models", section 3; Dunefsky et al. 2024, section 4, before it.

Shapes: n nodes, m of them targets, R ablations, T tokens, D model width, F features, V vocabulary.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.errors import InputError
from jumok.experiment.attribution import frozen_norms
from jumok.experiment.inputs import Model, Subject, read
from jumok.experiment.interventions import constant, leaf
from jumok.experiment.metrics import Floats
from jumok.experiment.transcoders import Transcoders, hidden_point, input_point
from jumok.models.points import Edit, Side
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.tokenizer import piece_or_empty

Kind: TypeAlias = Literal["token", "feature", "error", "logit"]
Key: TypeAlias = tuple[Kind, str]  # nodes of one tensor: their kind and its point
MAX_NODES = 8000  # n x n numbers of 8 bytes: half a gigabyte
AT_ONCE = 256  # targets of a backward pass, ablations of a forward pass


class Node(NamedTuple):
    """A node: where it is, its number and its value.

    The number of a feature counts those of its layer; that of a token or logit is the id. The value
    of a feature is its activation, that of a logit its difference from the mean of all logits; that
    of tokens and errors, which are vectors, is 1. `point` is the tensor that has it.
    """

    kind: Kind
    side: Side
    layer: int
    token: int
    number: int = 0
    value: float = 1.0

    @property
    def point(self) -> str:
        """The embedding, or the output of a feed-forward layer."""
        if self.kind == "token":
            return f"{self.side}.hidden.0"
        return f"{self.side}.steps.{self.layer}.feed_forward"


@dataclass(frozen=True, eq=False)
class Circuit:
    """A graph of n nodes: `weights[i, j]` is what node j adds to node i, `bias` what biases add.

    Nodes are in the order of the computation: j < i where a weight is not 0. The row of a feature
    or logit and its bias sum to its value.
    """

    nodes: tuple[Node, ...]
    weights: Floats
    bias: Floats
    text: "_Text" = field(repr=False)

    @property
    def values(self) -> Floats:
        """The value of each node, (n,)."""
        return np.array([node.value for node in self.nodes])

    @property
    def names(self) -> tuple[str, ...]:
        """A name of each node with its piece: "source[2] ▁추 L1 #148", "logit ▁W at target[0]"."""
        return tuple(map(self.text.name, self.nodes))

    def where(self, *kinds: Kind) -> NDArray[np.bool_]:
        """The nodes of some kinds, (n,)."""
        return np.array([node.kind in kinds for node in self.nodes])

    def effects(self, targets: Sequence[int] | None = None) -> Floats:
        """How much lower each target becomes if node j is taken out, over all paths, (m, n).

        targets: numbers of nodes, by default all. With J = weights / values, the derivative of one
        node by another, these are the rows of (I - J)^-1 times the values of the sources.
        """
        rows = np.eye(len(self.nodes))[slice(None) if targets is None else list(targets)]
        found: Floats = _over_paths(rows, self.weights / self.values) * self.values
        return found

    def influence(self) -> Floats:
        """The share of each node in the absolute weights of all paths to the logits, (n,)."""
        first = self.where("logit") / max(1, self.where("logit").sum())
        found: Floats = _over_paths(first[None], self._shares())[0]
        return found

    @property
    def replacement(self) -> float:
        """The share of the influence that comes from tokens, not from errors (section 3.3)."""
        influence = self.influence()
        tokens, errors = (influence[self.where(kind)].sum() for kind in ("token", "error"))
        return float(tokens / (tokens + errors))

    @property
    def completeness(self) -> float:
        """The share of the inputs of nodes, by influence, that are not errors."""
        influence = self.influence() * self.where("feature", "logit")
        errors = self._shares()[:, self.where("error")].sum(1)
        return float((influence * (1 - errors)).sum() / influence.sum())

    def pruned(self, nodes: float = 0.8, edges: float = 0.98) -> "Circuit":
        """The nodes, then the edges, that carry these shares of the influence on the logits.

        Tokens and logits stay. What is left out becomes a part of the bias.
        """
        influence = self.influence()
        inner = self.where("feature", "error")
        kept = ~inner | _most(influence * inner, nodes)
        part = self._of(np.flatnonzero(kept))
        scores = part.edge_influence()
        return part._with_edges(_most(scores.reshape(-1), edges).reshape(scores.shape))

    def strongest(self, n_edges: int) -> "Circuit":
        """The n edges with the largest shares of the influence on the logits, or fewer.

        Tokens and logits stay, other nodes where an edge leads on.
        """
        scores = self.edge_influence().reshape(-1)
        kept = np.zeros(len(scores), np.bool_)
        kept[np.argsort(-scores, kind="stable")[:n_edges]] = True
        return self._with_edges(kept.reshape(self.weights.shape) & (self.weights != 0))

    def edge_influence(self) -> Floats:
        """The share of each edge in the absolute weights of all paths to the logits, (n, n)."""
        return self._shares() * self.influence()[:, None]

    def confirm(self, *, direct: bool = True) -> Floats:
        """How much lower node i becomes in the model if node j is taken out, measured, (n, n).

        What a node adds to the output of its layer (or the embedding) is subtracted there, in the
        model itself: attention and norms are computed again. With `direct` all feed-forward layers
        keep their outputs, which `weights` predict; without, everything is computed again, which
        `effects` predict. Only nodes with an edge to another are taken out; the rest is 0.
        """
        measured = np.zeros_like(self.weights)
        sources = np.flatnonzero((self.weights != 0).any(0))
        for start in range(0, len(sources), AT_ONCE):
            part = sources[start : start + AT_ONCE]
            removed = self.text.contributions([self.nodes[j] for j in part])
            inputs, logits = self.text.without(removed, direct=direct)
            for i, node in enumerate(self.nodes):
                if node.kind in ("feature", "logit"):
                    x = logits if node.kind == "logit" else inputs[node.point]
                    change = (x[:1] - x[1:])[:, node.token]  # row 0 is the model as it is
                    measured[i, part] = (change @ self.text.direction(node)).double().cpu()
        return measured

    def heads(self) -> dict[str, Floats]:
        """The part of each weight whose paths go through a head, (H, n, n), by its output's point.

        A path through heads of several layers counts for each of them.
        """
        mixed = self.text.subject.names("*.mixed")
        linear = _Linear(self.text, mixed)
        shares = {
            name: np.zeros((x.shape[1], *self.weights.shape)) for name, x in linear.read.items()
        }
        for targets, slopes in linear.slopes(self.nodes, list(linear.read.values())):
            for (name, x), slope in zip(linear.read.items(), slopes, strict=True):
                if slope is None:
                    continue
                for head in range(x.shape[1]):
                    only = torch.zeros_like(slope)
                    only[:, :, head] = slope[:, :, head]
                    through = _gradients(x, list(linear.leaves.values()), only)
                    shares[name][head, targets] = linear.contributions(self.nodes, through)
        return {name: share * (self.weights != 0) for name, share in shares.items()}

    def _with_edges(self, kept: NDArray[np.bool_]) -> "Circuit":
        """The graph with these edges (n, n), without inner nodes that lead nowhere then."""
        weights = np.where(kept, self.weights, 0)
        part = replace(self, weights=weights, bias=self.values - weights.sum(1))
        while True:
            used = ~part.where("feature", "error") | (part.weights != 0).any(0)
            if used.all():
                return part
            part = part._of(np.flatnonzero(used))

    def _of(self, kept: NDArray[np.int64]) -> "Circuit":
        nodes = tuple(self.nodes[i] for i in kept)
        weights = self.weights[np.ix_(kept, kept)]
        made = replace(self, nodes=nodes, weights=weights)
        return replace(made, bias=made.values - weights.sum(1))

    def _shares(self) -> Floats:
        """Absolute weights, each row divided by its sum."""
        size = np.abs(self.weights)
        found: Floats = size / np.maximum(size.sum(1, keepdims=True), 1e-12)
        return found


def _over_paths(rows: Floats, weights: Floats) -> Floats:
    """rows (I - weights)^-1, (m, n): the sum over paths of any length, for triangular weights."""
    upper = torch.eye(len(weights), dtype=torch.float64) - torch.from_numpy(weights).T
    found = torch.linalg.solve_triangular(upper, torch.from_numpy(rows).T.double(), upper=True)
    values: Floats = found.T.numpy()
    return values


def _most(scores: Floats, share: float) -> NDArray[np.bool_]:
    """The largest scores that together have a share of the sum."""
    order = np.argsort(-scores)
    n = int(np.searchsorted(scores[order].cumsum(), share * scores.sum())) + 1
    found = np.zeros(len(scores), np.bool_)
    found[order[:n]] = True
    return found & (scores > 0)


def circuit(
    model: Model,
    coders: Transcoders,
    data: object,
    tokens: Sequence[int] | None = None,
    *,
    freeze_norms: bool = True,
) -> Circuit:
    """The whole graph of one text, up to the logits that are the largest at `tokens`.

    data: one row as for `jumok.experiment.read`; of an encoder-decoder a source and a target.
    tokens: positions of the last stack; by default all of an encoder-decoder, else the last one.
    freeze_norms: keep the statistics of norms, so that an edge is exactly what its source adds.
    Without, an edge is the value of its source times the derivative, through norms too: nearer to
    what `confirm` measures where norms undo a part of an ablation.

    >>> import jumok
    >>> from jumok.experiment.transcoders import train_transcoders
    >>> model, text = jumok.load("note", device="cpu"), [("겨울은 추워요.", "Winter is cold.")]
    >>> coders = train_transcoders(model, text, n_features=128, k=8, steps=100)
    >>> graph = circuit(model, coders, text, tokens=[0]).pruned(0.5)
    >>> graph.nodes[-1].kind, graph.confirm().shape == graph.weights.shape
    ('logit', True)

    Raises InputError for other than one row, for positions that the text does not have, and for a
    text with too many nodes.
    """
    text = _Text(model, coders, data, freeze_norms)
    linear = _Linear(text)
    nodes = [node for key in linear.leaves for node in text.nodes(key)]
    length = text.logits.shape[1]
    if tokens is None:
        tokens = range(length) if len(text.batch.ids) > 1 else [-1]
    if not tokens or not all(-length <= place < length for place in tokens):
        raise InputError(
            "experiment.circuit_tokens",
            "positions of tokens must be from 0 to {last}, or from -1 (the last) backwards, at "
            "least one, got {tokens}",
            last=length - 1,
            tokens=list(tokens),
        )
    for place in tokens:
        at = place % length
        number = int(text.logits[0, at].argmax())
        node = Node("logit", text.side, text.n_layers, at, number)
        value = float(text.logits[0, at] @ text.direction(node))
        nodes.append(node._replace(value=value))
    if len(nodes) > MAX_NODES:
        raise InputError(
            "experiment.too_many_nodes",
            "a circuit must have at most {limit} nodes, got {n}; try a shorter text, or "
            "transcoders with a smaller k",
            limit=MAX_NODES,
            n=len(nodes),
        )
    weights = np.zeros((len(nodes), len(nodes)))
    for targets, slopes in linear.slopes(nodes, list(linear.leaves.values())):
        weights[targets] = linear.contributions(nodes, slopes)
    graph = Circuit(tuple(nodes), weights, np.zeros(len(nodes)), text)
    return replace(graph, bias=graph.values - weights.sum(1))


class _Text:
    """What the model computes on one text."""

    def __init__(self, model: Model, coders: Transcoders, data: object, freeze_norms: bool) -> None:
        rows = read(model, data)
        if len(rows) != 1:
            raise InputError(
                "experiment.one_row", "a circuit is of one text, got {n}; pass one", n=len(rows)
            )
        subject = self.subject = Subject(model)
        self.coders = coders.coders
        self.freeze_norms = freeze_norms
        self.spliced = coders.splice(subject.module)
        self.batch = rows.batch(np.zeros(1, np.int64), subject.device)
        self.side = rows.side
        self.weights = subject.names("*.weights")
        self.starts = [f"{side}.hidden.0" for side in self.batch.ids]
        self.reads = {name: input_point(subject, name) for name in self.coders}
        names = [*self.weights, *self.starts, *self.reads, *self.reads.values()]
        logits, self.found = subject.run(self.batch, names)
        self.logits = _by_token(logits)  # (1, T, V)
        self.n_layers = sum(name.startswith(rows.side) for name in self.coders)
        with torch.no_grad():
            self.features = {
                name: coder.features(self.found[self.reads[name]])
                for name, coder in self.coders.items()
            }
            self.errors = {
                name: self.found[name] - coder(self.found[self.reads[name]])
                for name, coder in self.coders.items()
            }

    def name(self, node: Node) -> str:
        """A name of a node with its piece; with its id for a model without a vocabulary."""
        place = f"{node.side}[{node.token}]"
        if node.kind == "logit":
            return f"logit {self.answer(node)}" + f" at {place}" * (self.logits.shape[1] > 1)
        number = int(self.batch.ids[node.side][0, node.token])
        layer = {"feature": f" L{node.layer} #{node.number}", "error": f" L{node.layer} error"}
        found = piece(self.subject.pipeline, node.side, number)
        return f"{place} {found}{layer.get(node.kind, '')}"

    def answer(self, node: Node) -> str:
        """The label or the piece of a logit."""
        pipeline, n = self.subject.pipeline, self.logits.shape[-1]
        if pipeline is not None and len(pipeline.labels) == n:
            return pipeline.labels[node.number]
        return piece(pipeline, node.side, node.number) if n > 1 else "score"

    def nodes(self, key: Key) -> list[Node]:
        """The nodes of a tensor."""
        kind, name = key
        side = self.subject.points[name].token_side
        ids = self.batch.ids[side][0].tolist()
        if kind == "token":
            return [Node(kind, side, -1, t, number) for t, number in enumerate(ids)]
        layer = int(name.split(".")[2])
        if kind == "error":
            return [Node(kind, side, layer, t) for t in range(len(ids))]
        features = self.features[name][0]
        return [
            Node(kind, side, layer, t, i, float(features[t, i]))
            for t, i in features.nonzero().tolist()
        ]

    def direction(self, node: Node) -> Tensor:
        """The vector by which an input of a layer, or the logits, are multiplied: (D,) or (V,)."""
        if node.kind == "feature":
            return self.coders[node.point].up.weight[node.number].detach()
        n = self.logits.shape[-1]
        found = torch.full_like(self.logits[0, 0], -1 / n if n > 1 else 0)
        found[node.number] += 1
        return found

    def contributions(self, nodes: Sequence[Node]) -> dict[str, Tensor]:
        """What each node adds to its point, (R, T, D), by point."""
        found: dict[str, Tensor] = {}
        for r, node in enumerate(nodes):
            whole = self.found[node.point]
            if node.kind == "feature":
                added = node.value * self.coders[node.point].down.weight[:, node.number].detach()
            else:
                added = (whole if node.kind == "token" else self.errors[node.point])[0, node.token]
            rows = found.setdefault(node.point, whole.new_zeros(len(nodes), *whole.shape[1:]))
            rows[r, node.token] = added
        return found

    def without(
        self, removed: Mapping[str, Tensor], *, direct: bool
    ) -> tuple[dict[str, Tensor], Tensor]:
        """The inputs of the layers and the logits, (1 + R, T, ...): as they are, then without."""
        n = 1 + len(next(iter(removed.values())))
        edits: dict[str, Edit] = {}
        for name in [*self.starts, *self.reads]:
            whole = self.found[name]
            less = removed.get(name, whole.new_zeros(n - 1, *whole.shape[1:]))
            less = torch.cat([torch.zeros_like(whole), less])  # (1 + R, T, D)
            if direct or name in self.starts:
                edits[name] = constant(whole - less)
            elif name in removed:
                edits[name] = partial(torch.sub, other=less)
        logits, found = self.subject.run(self.batch.repeat(n), list(self.reads.values()), edits)
        inputs = {name: found[source] for name, source in self.reads.items()}
        return inputs, _by_token(logits)


def piece(model: Model | None, side: Side, number: int) -> str:
    """The piece of an id; the id itself of a model without a vocabulary."""
    if not isinstance(model, Pipeline) or model.vocabulary_or_none is None:
        return str(number)
    tokenizer = model.target_vocabulary if side == "target" else model.vocabulary
    return piece_or_empty(tokenizer, number) or str(number)


class _Linear:
    """The model of a text whose attention weights, norms and active features are constants.

    `leaves` are the embeddings, features and errors, which get gradients; `read` further points.
    """

    def __init__(self, text: _Text, read: Sequence[str] = ()) -> None:
        self.leaves: dict[Key, Tensor] = {}
        edits: dict[str, Edit] = {name: constant(text.found[name]) for name in text.weights}
        for start in text.starts:
            self.leaves["token", start] = leaf(text.found[start])
            edits[start] = constant(self.leaves["token", start])
            side = start.partition(".")[0]
            for name in (name for name in text.coders if name.startswith(side)):
                features = self.leaves["feature", name] = leaf(text.features[name])
                error = self.leaves["error", name] = leaf(text.errors[name])
                edits[hidden_point(name)] = constant(features)
                edits[name] = partial(torch.add, error)
        subject = Subject(text.spliced)
        subject.has_logits = text.subject.has_logits
        with ExitStack() as stack:
            for side in text.batch.ids if text.freeze_norms else ():
                stack.enter_context(frozen_norms(subject.module, side))
            names = [*text.reads.values(), *read]
            logits, found = subject.run(text.batch, names, edits, gradients=True)
        self.text = text
        self.read = {name: found[name] for name in read}
        self.outputs = {name: found[source] for name, source in text.reads.items()}
        self.outputs["logits"] = _by_token(logits)

    def slopes(
        self, nodes: Sequence[Node], inputs: Sequence[Tensor]
    ) -> Iterator[tuple[list[int], Sequence[Tensor | None]]]:
        """Nodes that are targets, and their gradients with respect to inputs, (m, 1, ...) each."""
        by_output: dict[str, list[int]] = {}
        for i, node in enumerate(nodes):
            if node.kind in ("feature", "logit"):
                name = "logits" if node.kind == "logit" else node.point
                by_output.setdefault(name, []).append(i)
        for name, places in by_output.items():
            output = self.outputs[name]
            for start in range(0, len(places), AT_ONCE):
                targets = places[start : start + AT_ONCE]
                above = output.new_zeros(len(targets), *output.shape)
                for r, i in enumerate(targets):
                    above[r, 0, nodes[i].token] = self.text.direction(nodes[i])
                yield targets, _gradients(output, inputs, above)

    def contributions(self, nodes: Sequence[Node], slopes: Sequence[Tensor | None]) -> Floats:
        """What the nodes add to the m targets of these slopes of all leaves, (m, n)."""
        places: dict[Key, list[int]] = {}
        for j, node in enumerate(nodes):
            if node.kind != "logit":
                places.setdefault((node.kind, node.point), []).append(j)
        m = next(len(slope) for slope in slopes if slope is not None)
        found = np.zeros((m, len(nodes)))
        for (key, x), slope in zip(self.leaves.items(), slopes, strict=True):
            own = places.get(key, [])
            if slope is None or not own:
                continue
            tokens = [nodes[j].token for j in own]
            parts = slope[:, 0] * x.detach()  # (m, T, D) or (m, T, F)
            if key[0] == "feature":
                parts = parts[:, tokens, [nodes[j].number for j in own]]
            else:
                parts = parts.sum(-1)[:, tokens]
            found[:, own] = parts.double().cpu()
        return found


def _by_token(logits: Tensor) -> Tensor:
    """Logits with an axis of tokens; those of a whole text have one place."""
    return logits if logits.ndim == 3 else logits[:, None]


def _gradients(output: Tensor, inputs: Sequence[Tensor], above: Tensor) -> Sequence[Tensor | None]:
    return torch.autograd.grad(
        output, inputs, above, retain_graph=True, is_grads_batched=True, allow_unused=True
    )
