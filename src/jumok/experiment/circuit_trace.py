"""The circuit of a text in its trace: what `jumok circuit` prints and the page draws.

Shapes: n nodes, H heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from jumok.experiment.circuits import Circuit, Node, circuit, piece
from jumok.experiment.inputs import read
from jumok.experiment.metrics import Floats
from jumok.experiment.transcoders import Transcoders
from jumok.interpret.schema import (
    CircuitGraph,
    GraphEdge,
    GraphFeature,
    GraphNode,
    GraphPeak,
    Muted,
)
from jumok.interpret.trace import Trace
from jumok.interpret.tracing import trace
from jumok.models.points import Side
from jumok.tasks.pipeline.pipeline import Pipeline

MAX_EDGES = 1000  # a page of the usual size has room for them
PEAKS, AROUND = 4, 6  # texts of a feature, pieces on both sides of its token
HEAD_SHARE = 0.1  # of an edge that goes through a head at least, to name it


def trace_circuit(
    model: Pipeline,
    coders: Transcoders,
    text: str,
    target: str | None = None,
    tokens: Sequence[int] | None = None,
    *,
    examples: object = None,
    freeze_norms: bool = True,
    max_edges: int = MAX_EDGES,
) -> Trace:
    """The trace of a text with its circuit: pruned, at most `max_edges` edges, confirmed.

    A translator reads `target`, or what it generates; a language model the text and `target`.
    tokens and freeze_norms: those of `circuit`; of a masked language model the default is each
    [MASK]. examples: data as for `jumok.experiment.read`, in
    which the texts are found where each feature is most active; without, none are listed.

    >>> import jumok
    >>> from jumok.experiment.transcoders import train_transcoders
    >>> model = jumok.load("note", device="cpu")
    >>> rows = [("겨울은 추워요.", "Winter is cold.")]
    >>> coders = train_transcoders(model, rows, n_features=64, k=8, steps=20)
    >>> seen = trace_circuit(model, coders, "겨울은 추워요.", tokens=[0])
    >>> seen.info.circuit.nodes[-1].name
    'logit ▁W at target[0]'

        seen.html("circuit.html", "v=circuit")

    Raises InputError as `jumok.trace` and `circuit` do.
    """
    if target is None and not model.task.reads_source:
        target = ""  # the logits of a language model are those after its text
    traced = trace(model, text, target)
    if tokens is None and model.task.answer == "masks":
        ids = traced.info.tokens("source").ids
        tokens = [i for i, number in enumerate(ids) if number == model.vocabulary.mask_id] or None
    rows = tuple([list(side[0].ids)] for side in traced.info.sides.values())
    whole = circuit(
        model, coders, rows if len(rows) > 1 else rows[0], tokens, freeze_norms=freeze_norms
    )
    graph = _graph(model, coders, whole, examples, max_edges)
    return traced.with_info(replace(traced.info, circuit=graph))


def _graph(
    model: Pipeline, coders: Transcoders, whole: Circuit, examples: object, max_edges: int
) -> CircuitGraph:
    part = whole.pruned().strongest(max_edges)
    influence = dict(zip(whole.nodes, whole.influence(), strict=True))
    nodes = tuple(
        GraphNode(
            kind=node.kind,
            side=node.side,
            layer=node.layer,
            token=node.token,
            number=node.number,
            value=_short(node.value),
            influence=_short(influence[node]),
            name=name,
            answer=whole.text.answer(node) if node.kind == "logit" else None,
        )
        for node, name in zip(part.nodes, part.names, strict=True)
    )
    return CircuitGraph(
        nodes=nodes,
        edges=tuple(_edges(part)),
        features=_features(model, coders, part.nodes, examples),
        replacement=_short(whole.replacement),
        completeness=_short(whole.completeness),
        total_nodes=len(whole.nodes),
        total_edges=int(np.count_nonzero(whole.weights)),
    )


def _edges(part: Circuit) -> list[GraphEdge]:
    """The edges by their share of the influence, with what ablations measure and their heads."""
    order = np.argsort(-part.edge_influence().reshape(-1), kind="stable")
    targets, sources = np.unravel_index(order[: np.count_nonzero(part.weights)], part.weights.shape)
    measured, heads = part.confirm(), part.heads()
    found = []
    for i, j in zip(targets.tolist(), sources.tolist(), strict=True):
        head, share = _head(heads, i, j)
        named = abs(share) >= HEAD_SHARE * abs(part.weights[i, j])
        edge = GraphEdge(
            source=j,
            target=i,
            weight=_short(part.weights[i, j]),
            measured=_short(measured[i, j]),
            head=head if named else None,
            head_weight=_short(share) if named else None,
        )
        found.append(edge)
    return found


def _head(heads: Mapping[str, Floats], i: int, j: int) -> tuple[Muted, float]:
    """The head with the largest part of the weight from node j to node i, and this part."""
    parts = {
        (name, head): float(share)
        for name, shares in heads.items()
        for head, share in enumerate(shares[:, i, j])
    }
    (name, head), share = max(parts.items(), key=lambda part: abs(part[1]))
    block, layer, _ = name.split(".")
    return (cast(Any, block), int(layer), head), share


def _features(
    model: Pipeline, coders: Transcoders, nodes: Sequence[Node], examples: object
) -> tuple[GraphFeature, ...]:
    """The features among the nodes, each once, with the texts in which they are largest."""
    points = {(n.side, n.layer, n.number): n.point for n in nodes if n.kind == "feature"}
    chosen = sorted(points)
    peaks: dict[tuple[Side, int, int], tuple[GraphPeak, ...]] = {}
    if examples is not None and chosen:
        data = read(model, examples)
        found = coders.peaks(model, data, [(points[key], key[2]) for key in chosen], PEAKS)
        for key, own in zip(chosen, found, strict=True):
            rows = data.ids[key[0]]
            peaks[key] = tuple(_peak(model, key[0], rows[at.row], at.token, at.value) for at in own)
    return tuple(
        GraphFeature(side=side, layer=layer, number=number, peaks=peaks.get(key, ()))
        for key in chosen
        for side, layer, number in [key]
    )


def _peak(model: Pipeline, side: Side, ids: Sequence[int], token: int, value: float) -> GraphPeak:
    start = max(0, token - AROUND)
    pieces = [piece(model, side, i) for i in ids[start : token + AROUND + 1]]
    return GraphPeak(pieces=tuple(pieces), at=token - start, value=_short(value))


def _short(value: float) -> float:
    """A number for the header, with 5 digits."""
    return float(f"{value:.5g}")
