"""The circuit of a text in a saved page: the numbers of the graph, the pointer, the keyboard."""

from pathlib import Path

import pytest

import jumok
from jumok.experiment import trace_circuit, train_transcoders
from jumok.experiment.inputs import read_split
from jumok.interpret.schema import CircuitGraph
from jumok.interpret.trace import Trace
from tests.browser.chromium import Window
from tests.browser.conftest import Serve, Windows

WIDTHS = """[...document.querySelectorAll("path[data-edge]")]
    .map((path) => [path.dataset.edge, path.getAttribute("stroke-width")])"""


@pytest.fixture(scope="module")
def traced() -> Trace:
    """The circuit of a translation by `note`, with few features, so that there are errors."""
    model = jumok.load("note", device="cpu")
    rows = read_split(model, "dev", 60)
    coders = train_transcoders(model, rows, n_features=96, k=4, steps=60)
    return trace_circuit(model, coders, "겨울은 추워요.", examples=rows)


@pytest.fixture
def page(traced: Trace, tmp_path: Path) -> str:
    return traced.html(tmp_path / "circuit.html").as_uri()


def graph_of(traced: Trace) -> CircuitGraph:
    assert traced.info.circuit is not None
    return traced.info.circuit


def edges(window: Window) -> set[str]:
    found = window.page.locator("path[data-edge]")
    return {str(each.get_attribute("data-edge")) for each in found.all()}


def test_a_saved_page_opens_on_the_edges_of_the_graph(
    windows: Windows, page: str, traced: Trace
) -> None:
    graph = graph_of(traced)
    names = [f"{edge.source}-{edge.target}" for edge in graph.edges]
    with windows() as window:
        window.open(page)
        window.page.locator("[data-role=stage][data-view=circuit] svg[role=group]").wait_for()
        assert edges(window) == set(names[:60])
        slider = window.page.locator("[data-role=edges]")
        slider.fill("9")
        window.wait_until_equal(lambda: edges(window), set(names[:9]), "9 edges")
        weights = {name: abs(e.weight) for name, e in zip(names, graph.edges[:9], strict=False)}
        widths = {name: float(width) for name, width in window.run(WIDTHS)}
        assert sorted(weights, key=weights.__getitem__) == sorted(widths, key=widths.__getitem__)
        assert "circuit.edges=9" in window.page.url
        slider.fill(slider.get_attribute("max") or "")
        window.wait_until_equal(lambda: edges(window), set(names), "all edges")
        kinds = {node.kind for node in graph.nodes}
        assert kinds == {"token", "feature", "error", "logit"}
        assert window.page.locator("[data-node]").count() == len(graph.nodes)
        assert window.foreign_requests("file:") == []


def test_a_node_has_its_edges_texts_and_neighbours(
    windows: Windows, page: str, traced: Trace
) -> None:
    graph = graph_of(traced)
    edge = next(e for e in graph.edges if graph.nodes[e.source].kind == "feature")
    node = graph.nodes[edge.source]
    with windows() as window:
        window.open(page, "v=circuit&lang=en")
        dot = window.page.locator(f"#circuit-{edge.source}")
        dot.hover()
        details = window.page.locator("[data-role=node]")
        details.locator("h2").wait_for()
        assert (
            details.locator("h2").inner_text().startswith(f"feature {node.number}, L{node.layer}")
        )
        bright = f"path[data-edge='{edge.source}-{edge.target}'][opacity='0.95']"
        window.page.locator(bright).wait_for()
        other = next(e for e in graph.edges[:60] if edge.source not in (e.source, e.target))
        faint = f"path[data-edge='{other.source}-{other.target}'][opacity='0.1']"
        assert window.page.locator(faint).count() == 1
        dot.click()
        assert f"circuit.node={edge.source}" in window.page.url
        window.page.mouse.move(1, 1)  # locked: it stays
        feature = next(
            f
            for f in graph.features
            if (f.side, f.layer, f.number) == (node.side, node.layer, node.number)
        )
        marks = details.locator("[data-role=peaks] mark").all_inner_texts()
        assert marks == [p.pieces[p.at].replace("▁", "␣") for p in feature.peaks]
        outgoing = sorted(
            (e for e in graph.edges if e.source == edge.source), key=lambda e: -abs(e.weight)
        )
        listed = details.locator("[data-role=target] li .number").all_inner_texts()
        assert listed == [f"{e.weight:+.2f}".replace("-", "−") for e in outgoing[:8]]
        details.locator("[data-role=target] button").first.click()
        window.wait_until_equal(
            lambda: f"circuit.node={outgoing[0].target}" in window.page.url, True, "a neighbour"
        )


def test_the_keyboard_follows_edges_and_the_page_is_accessible(
    windows: Windows, page: str, traced: Trace
) -> None:
    graph = graph_of(traced)
    for language, scheme, width in (("en", "light", 1280), ("ko", "dark", 390)):
        with windows(width=width, scheme=scheme) as window:
            window.open(page, f"v=circuit&lang={language}")
            window.page.locator("[data-role=edges]").focus()
            window.page.keyboard.press("Tab")
            last = len(graph.nodes) - 1
            focused = "document.activeElement.id"
            assert window.run(focused) == f"circuit-{last}"
            below = max(
                (e for e in graph.edges[:60] if e.target == last), key=lambda e: abs(e.weight)
            )
            window.page.keyboard.press("ArrowDown")
            assert window.run(focused) == f"circuit-{below.source}"
            window.page.keyboard.press("Enter")
            assert f"circuit.node={below.source}" in window.page.url
            assert window.page.locator("[aria-pressed=true][data-node]").count() == 1
            window.page.locator(".circuit-table summary").click()
            assert window.page.locator(".circuit-table tbody tr").count() == 60
            assert window.violations() == []
            overflow = "document.documentElement.scrollWidth - innerWidth"
            assert window.run(overflow) <= 0  # the picture scrolls in its box
            title = window.page.locator("[data-role=tab][data-view=circuit]").inner_text()
            assert title == {"en": "circuit", "ko": "회로"}[language]


# The left and right ends, in pixels, of the picture, a node and the names of the rows.
ENDS = """(node) => [".circuit-picture", `#circuit-${node}`, ".circuit-names"]
    .map((each) => document.querySelector(each).getBoundingClientRect())
    .map(({left, right}) => [left, right])"""


def test_the_chosen_node_is_in_view_and_the_row_names_stay(
    windows: Windows, page: str, traced: Trace
) -> None:
    nodes = graph_of(traced).nodes
    last = max(range(len(nodes)), key=lambda i: (nodes[i].kind == "token", nodes[i].token))
    with windows(width=390) as window:
        window.open(page, f"v=circuit&circuit.node={last}")
        window.page.locator(f"#circuit-{last}").wait_for()
        assert window.run("document.querySelector('.circuit-picture').scrollLeft") > 0
        picture, node, names = window.run(ENDS, last)
        assert names[1] <= node[0]
        assert node[1] <= picture[1]
        assert names[0] == picture[0]


def test_a_served_trace_opens_on_it_and_one_without_has_no_tab(
    windows: Windows, serve: Serve, traced: Trace, addresses: dict[str, str], tmp_path: Path
) -> None:
    address = serve(traced.save(tmp_path / "circuit.safetensors"))
    with windows() as window:
        window.open(address)
        window.page.locator("[data-role=stage][data-view=circuit] svg[role=group]").wait_for()
        table = window.export("csv", tmp_path).read_text(encoding="utf-8-sig").splitlines()
        assert len(table) == 1 + len(graph_of(traced).edges)
        picture = window.export("svg", tmp_path).read_text(encoding="utf-8")
        assert picture.count("<path") >= 60
    with windows() as window:
        window.open(addresses["encoder_decoder"], "v=flow")
        assert window.page.locator("[data-role=tab]").count() == 12
        window.show("v=circuit&lang=en")
        window.page.locator(".missing").wait_for()
        assert "jumok circuit" in window.page.locator(".missing").inner_text()
