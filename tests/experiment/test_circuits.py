"""Circuits: edges and biases sum to each node, errors make them whole, ablations confirm them."""

from typing import Any

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.experiment import Subject
from jumok.experiment.circuits import Circuit, _Linear, circuit
from jumok.experiment.interventions import constant
from jumok.experiment.transcoders import Transcoders, train_transcoders
from jumok.models.points import hooked
from tests.errors import raises
from tests.experiment.models import data_of, model_of

ROW = [("겨울은 추워요.", "Winter is cold.")]
KINDS = ("sequences", "language model", "classifier", "tagging")  # with linear heads


def one_row(kind: str) -> Any:
    data = data_of(kind)
    return (
        tuple([rows[0]] for rows in data.ids.values())
        if kind == "sequences"
        else [data.ids[data.side][0]]
    )


def graph_of(kind: str, k: int = 6) -> tuple[Circuit, Transcoders]:
    model = model_of(kind)
    coders = train_transcoders(model, data_of(kind), n_features=64, k=k, steps=20)
    return circuit(model, coders, one_row(kind)), coders


@pytest.fixture(scope="module")
def note() -> tuple[Circuit, Transcoders]:
    model = jumok.load("note", device="cpu")
    coders = train_transcoders(model, ROW, n_features=96, k=6, steps=60)
    return circuit(model, coders, ROW), coders


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_in_and_the_biases_on_the_way_sum_to_each_node(kind: str) -> None:
    graph, coders = graph_of(kind)
    parameters = dict(graph.text.spliced.named_parameters())
    for weight in parameters.values():
        weight.requires_grad_()  # those of a pipeline do not
    biases = [weight for name, weight in parameters.items() if name.endswith("bias")]
    linear = _Linear(graph.text)
    targets = [node for node in graph.nodes if node.kind in ("feature", "logit")]
    for node in [*targets[::40], *targets[-2:]]:
        output = linear.outputs["logits" if node.kind == "logit" else node.point]
        value = output[0, node.token] @ graph.text.direction(node)
        slopes = torch.autograd.grad(value, biases, retain_graph=True, allow_unused=True)
        bias = sum(
            float((b * g).detach().sum())
            for b, g in zip(biases, slopes, strict=True)
            if g is not None
        )
        if node.kind == "feature":
            bias += float(coders.coders[node.point].up.bias[node.number].detach())
        i = graph.nodes.index(node)
        assert graph.weights[i].sum() + bias == pytest.approx(node.value, abs=1e-4, rel=1e-4)
        assert graph.weights[i].sum() + graph.bias[i] == pytest.approx(node.value)
    for weight in parameters.values():
        weight.requires_grad_(False)


@pytest.mark.parametrize("kind", KINDS)
def test_with_errors_the_linear_model_is_the_model_on_its_text(kind: str) -> None:
    graph, _ = graph_of(kind)
    found = _Linear(graph.text).outputs["logits"]
    torch.testing.assert_close(found, graph.text.logits, rtol=1e-4, atol=1e-4)
    for name, error in graph.text.errors.items():
        assert float(error.norm()) > 1e-3, name  # there is something to make whole


def test_weights_point_forward_and_features_are_the_active_ones(
    note: tuple[Circuit, Transcoders],
) -> None:
    graph, _ = note
    assert not np.triu(graph.weights).any()
    assert not graph.weights[graph.where("token", "error")].any()
    for name, features in graph.text.features.items():
        n = sum(node.kind == "feature" and node.point == name for node in graph.nodes)
        assert n == int(features.count_nonzero()) > 0


def test_effects_are_sums_over_all_paths(note: tuple[Circuit, Transcoders]) -> None:
    graph, _ = note
    slopes = graph.weights / graph.values
    paths, total = slopes, slopes.copy()
    for _ in range(6):  # two layers a side: no path is longer
        paths = paths @ slopes
        total += paths
    effects = graph.effects()
    np.testing.assert_allclose(effects - np.diag(graph.values), total * graph.values, atol=1e-5)


def test_pruning_keeps_a_share_of_the_influence_and_no_dead_ends(
    note: tuple[Circuit, Transcoders],
) -> None:
    graph, _ = note
    influence, inner = graph.influence(), graph.where("feature", "error")
    small, large = graph.pruned(0.5, 0.9), graph.pruned(0.9, 0.98)
    assert len(small.nodes) < len(large.nodes) < len(graph.nodes)
    kept = [i for i in np.flatnonzero(inner) if graph.nodes[i] in set(large.nodes)]
    assert influence[kept].sum() > 0.85 * influence[inner].sum()
    for each in (small, large):
        assert (each.weights != 0).any(0)[each.where("feature", "error")].all()
        np.testing.assert_allclose(each.weights.sum(1) + each.bias, each.values)
        places = [graph.nodes.index(node) for node in each.nodes]
        expected = graph.weights[np.ix_(places, places)]
        assert ((each.weights == 0) | (each.weights == expected)).all()
    assert 0 < graph.replacement < 1
    assert 0 < graph.completeness < 1
    assert [n for n in small.nodes if n.kind == "logit"] == [
        n for n in graph.nodes if n.kind == "logit"
    ]


def test_an_ablation_is_that_of_the_model_by_hand(note: tuple[Circuit, Transcoders]) -> None:
    graph, coders = note
    graph = graph.pruned(0.6)
    direct, whole = graph.confirm(), graph.confirm(direct=False)
    sources = np.flatnonzero((graph.weights != 0).any(0) & graph.where("feature"))
    for j in sources[:: len(sources) // 4]:
        node = graph.nodes[j]
        vector = node.value * coders.coders[node.point].down.weight[:, node.number].detach()

        def less(y: torch.Tensor, token: int = node.token, v: torch.Tensor = vector) -> Any:
            y = y.clone()
            y[0, token] -= v
            return y

        for measured, held in ((direct, True), (whole, False)):
            edits = {node.point: less}
            if held:
                edits |= {
                    name: (lambda y, name=name: graph.text.found[name])
                    for name in coders.coders
                    if name != node.point
                }
            with torch.no_grad(), hooked(graph.text.subject.module, (), edits):
                logits = graph.text.subject(graph.text.batch)
            for i in np.flatnonzero(graph.where("logit")):
                t = graph.nodes[i].token
                change = (graph.text.logits - logits)[0, t] @ graph.text.direction(graph.nodes[i])
                assert measured[i, j] == pytest.approx(float(change), abs=1e-4)


def test_ablations_of_the_model_confirm_edges_and_effects(
    note: tuple[Circuit, Transcoders],
) -> None:
    graph, _ = note
    features = np.flatnonzero(graph.where("feature"))
    logits = np.flatnonzero(graph.where("logit"))
    edges = np.ix_(logits, features)
    direct, whole = graph.confirm()[edges], graph.confirm(direct=False)[edges]
    assert np.corrcoef(direct.ravel(), graph.weights[edges].ravel())[0, 1] > 0.6
    assert np.corrcoef(whole.ravel(), graph.effects()[edges].ravel())[0, 1] > 0.6
    shuffled = np.random.default_rng(0).permutation(graph.effects()[edges].ravel())
    assert abs(np.corrcoef(whole.ravel(), shuffled)[0, 1]) < 0.3


def test_without_frozen_norms_edges_are_derivatives_of_the_model(
    note: tuple[Circuit, Transcoders],
) -> None:
    graph, coders = note
    model = jumok.load("note", device="cpu")
    moving = circuit(model, coders, ROW, freeze_norms=False)
    assert moving.nodes == graph.nodes
    np.testing.assert_allclose(moving.weights.sum(1) + moving.bias, moving.values)
    text, step = graph.text, 0.02
    held = {name: constant(text.found[name]) for name in (*text.weights, *text.starts, *text.reads)}
    i = len(graph.nodes) - 1  # the last logit
    sources = [j for j, n in enumerate(graph.nodes) if n.point == "target.steps.1.feed_forward"]
    expected = []
    for j in sources:
        (point, removed), *_ = text.contributions([graph.nodes[j]]).items()
        change = []
        for sign in (-1, 1):
            edits = {**held, point: constant(text.found[point] + sign * step * removed)}
            with torch.no_grad(), hooked(text.subject.module, (), edits):
                logits = text.subject(text.batch)[0, graph.nodes[i].token]
            change.append(float(logits @ text.direction(graph.nodes[i])))
        expected.append((change[1] - change[0]) / (2 * step))
    np.testing.assert_allclose(moving.weights[i, sources], expected, atol=0.02)
    assert abs(graph.weights[i, sources] - expected).max() > 0.1


def test_edges_with_one_attention_on_their_way_are_the_sums_of_its_heads(
    note: tuple[Circuit, Transcoders],
) -> None:
    graph, _ = note
    heads = graph.heads()
    nodes = graph.nodes
    sources = [
        j for j, n in enumerate(nodes) if (n.kind, n.side, n.layer) == ("feature", "source", 1)
    ]
    first = [
        i for i, n in enumerate(nodes) if (n.kind, n.side, n.layer) == ("feature", "target", 0)
    ]
    block = np.ix_(first, sources)  # from the encoder to the decoder's first layer
    assert abs(graph.weights[block]).max() > 0.01
    np.testing.assert_allclose(
        heads["cross.0.mixed"].sum(0)[block], graph.weights[block], atol=1e-5
    )
    assert not heads["encoder.1.mixed"][:, *block].any()
    later = [j for j, n in enumerate(nodes) if (n.side, n.layer) == ("target", 1)]
    assert not heads["cross.1.mixed"][:, *np.ix_(first, later)].any()


def test_the_logits_are_those_of_the_places_that_are_asked_for(
    note: tuple[Circuit, Transcoders],
) -> None:
    graph, coders = note
    model = jumok.load("note", device="cpu")
    last = circuit(model, coders, ROW, tokens=[-1])
    assert [n for n in last.nodes if n.kind == "logit"] == [graph.nodes[-1]]
    np.testing.assert_allclose(
        last.weights[-1], graph.weights[-1][[*range(len(last.nodes) - 1), -1]]
    )
    assert sum(n.kind == "logit" for n in graph.nodes) == graph.text.logits.shape[1]
    assert Subject(model).module is not graph.text.subject.module


def test_what_is_refused(note: tuple[Circuit, Transcoders], monkeypatch: Any) -> None:
    _, coders = note
    model = jumok.load("note", device="cpu")
    with raises(InputError, "experiment.one_row"):
        circuit(model, coders, ROW * 2)
    for tokens in ([], [99], [0, -99]):
        with raises(InputError, "experiment.circuit_tokens"):
            circuit(model, coders, ROW, tokens)
    monkeypatch.setattr("jumok.experiment.circuits.MAX_NODES", 100)
    with raises(InputError, "experiment.too_many_nodes"):
        circuit(model, coders, ROW)
