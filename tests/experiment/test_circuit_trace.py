"""The circuit in a trace: the numbers of the graph, and what travels in the file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import jumok
from jumok.errors import TraceError
from jumok.experiment import circuit, read, train_transcoders
from jumok.experiment.circuit_trace import MAX_EDGES, trace_circuit
from jumok.experiment.inputs import read_split, split_rows
from jumok.experiment.transcoders import Transcoders
from jumok.interpret.schema import CircuitGraph, GraphNode
from jumok.interpret.trace import Trace
from jumok.tasks.pipeline.pipeline import Pipeline
from tests.errors import raises
from tests.experiment.models import model_of, rows_of

SOURCE, TARGET = "겨울은 추워요.", "Winter is cold."


@pytest.fixture(scope="module")
def note() -> tuple[Pipeline, Transcoders, Trace]:
    model = jumok.load("note", device="cpu")
    dev = read_split(model, "dev", 40)
    coders = train_transcoders(model, dev, n_features=96, k=6, steps=60)
    return model, coders, trace_circuit(model, coders, SOURCE, examples=dev)


def graph_of(traced: Trace) -> CircuitGraph:
    assert traced.info.circuit is not None
    return traced.info.circuit


def test_it_has_the_strongest_edges_of_the_graph_and_what_ablations_measure(
    note: tuple[Pipeline, Transcoders, Trace],
) -> None:
    model, coders, traced = note
    graph = graph_of(traced)
    whole = circuit(model, coders, [(SOURCE, TARGET)])
    names = whole.names
    influence, weights = whole.influence(), whole.weights
    assert len(graph.edges) <= MAX_EDGES
    assert graph.total_nodes == len(whole.nodes) > len(graph.nodes)
    assert (graph.total_edges, len(set(names))) == (np.count_nonzero(weights), len(names))
    assert graph.replacement == pytest.approx(whole.replacement, rel=1e-4)
    part = whole.pruned().strongest(MAX_EDGES)
    assert [node.name for node in graph.nodes] == list(part.names)
    measured = part.confirm()
    for edge in graph.edges:
        i, j = (names.index(graph.nodes[k].name) for k in (edge.target, edge.source))
        assert edge.weight == pytest.approx(weights[i, j], rel=1e-4)
        expected = measured[edge.target, edge.source]
        assert edge.measured == pytest.approx(expected, rel=1e-3, abs=1e-4)
    for node in graph.nodes:
        assert node.influence == pytest.approx(influence[names.index(node.name)], rel=1e-4)
    scores = part.edge_influence()
    order = [scores[edge.target, edge.source] for edge in graph.edges]
    assert order == sorted(order, reverse=True)


def test_names_have_pieces_and_edges_their_heads(
    note: tuple[Pipeline, Transcoders, Trace],
) -> None:
    model, coders, traced = note
    graph = graph_of(traced)
    tokens = traced.info.tokens("source").pieces
    found = [node.name for node in graph.nodes if node.kind == "token" and node.side == "source"]
    assert found == [f"source[{i}] {piece}" for i, piece in enumerate(tokens)]
    logits = [node for node in graph.nodes if node.kind == "logit"]
    assert [node.answer for node in logits][-3:] == ["▁cold", ".", "[EOS]"]
    assert logits[0].name == "logit ▁W at target[0]"
    part = circuit(model, coders, [(SOURCE, TARGET)]).pruned().strongest(MAX_EDGES)
    heads = part.heads()
    for edge in graph.edges:
        shares = {
            (*name.split(".")[:2], h): each[h, edge.target, edge.source]
            for name, each in heads.items()
            for h in range(len(each))
        }
        largest = max(shares.values(), key=abs)
        if edge.head is None:
            assert abs(largest) < 0.11 * abs(edge.weight)
        else:
            block, layer, head = edge.head
            assert edge.head_weight == pytest.approx(shares[block, str(layer), head], rel=1e-3)
            assert abs(edge.head_weight) == pytest.approx(abs(largest), rel=1e-3)
    crossing = {
        edge.head is not None
        for edge in graph.edges
        if graph.nodes[edge.source].side != graph.nodes[edge.target].side
    }
    assert crossing == {True}  # nothing reaches the other side but through attention


def test_features_have_the_texts_in_which_they_are_largest(
    note: tuple[Pipeline, Transcoders, Trace],
) -> None:
    model, coders, traced = note
    dev = read_split(model, "dev", 40)
    for feature in graph_of(traced).features[::7]:
        key = f"{feature.side}.steps.{feature.layer}.feed_forward", feature.number
        for peak, expected in zip(
            feature.peaks, coders.peaks(model, dev, [key], 4)[0], strict=True
        ):
            tokenizer = model.vocabulary if feature.side == "source" else model.target_vocabulary
            token = dev.ids[feature.side][expected.row][expected.token]
            assert peak.pieces[peak.at] == tokenizer.piece(token)
            assert peak.value == pytest.approx(expected.value, rel=1e-4)


def test_it_travels_in_the_file_and_an_older_header_has_none(
    note: tuple[Pipeline, Transcoders, Trace], tmp_path: Path
) -> None:
    _, _, traced = note
    path = traced.save(tmp_path / "circuit.safetensors")
    assert Trace.open(path).info == traced.info
    older = traced.info.to_json().replace('"circuit":', '"other":')
    with raises(TraceError, "trace.bad_header"):
        type(traced.info).from_json(older)
    header = replace(traced.info, circuit=None).to_json().replace('"circuit":null,', "")
    assert type(traced.info).from_json(header) == replace(traced.info, circuit=None)


def test_a_graph_of_other_tokens_or_nodes_is_refused(
    note: tuple[Pipeline, Transcoders, Trace],
) -> None:
    _, _, traced = note
    graph = graph_of(traced)
    far: GraphNode = replace(graph.nodes[0], token=99)
    for wrong in (
        replace(graph, nodes=(far, *graph.nodes[1:])),
        replace(graph, edges=(replace(graph.edges[0], source=len(graph.nodes)),)),
    ):
        with raises(TraceError, "trace.index_range"):
            replace(traced.info, circuit=wrong)


@pytest.mark.parametrize("kind", ["language model", "classifier", "tagging", "masked"])
def test_other_models(kind: str) -> None:
    model = model_of(kind)
    texts = rows_of(kind)
    coders = train_transcoders(model, texts, n_features=64, k=6, steps=5)
    traced = trace_circuit(model, coders, texts[0], examples=texts)
    graph = graph_of(traced)
    logit = graph.nodes[-1]
    assert (logit.kind, logit.answer is not None) == ("logit", True)
    if kind in ("classifier", "tagging"):
        assert logit.answer in model.labels
    if kind == "masked":
        ids = traced.info.tokens("source").ids
        masks = [i for i, number in enumerate(ids) if number == model.vocabulary.mask_id]
        assert [n.token for n in graph.nodes if n.kind == "logit"] == (masks or [len(ids) - 1])
    if kind == "language model":
        assert logit.token == len(traced.info.tokens("target")) - 1  # it continues no text
        assert traced.info.decoding is None
    else:
        assert len(traced.info.tokens("source")) == len(read(model, texts[:1]).ids["source"][0])
    assert graph.edges


def test_held_out_rows_are_not_trained_on() -> None:
    model = jumok.load("note", device="cpu")
    data = read_split(model, "dev", 25)
    kept, others = split_rows(data)
    assert (len(kept), len(others)) == (22, 3)
    assert [*others.ids["source"]] == [data.ids["source"][i] for i in (0, 10, 20)]
    one = read_split(model, "dev", 1)
    assert split_rows(one) == (one, one)
