"""`jumok circuit`: transcoders are trained once, the graph is printed and written."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import jumok
from jumok.experiment import Transcoders, trace_circuit
from jumok.experiment.inputs import read_split
from jumok.interpret.trace import Trace
from tests.cli.commands import Done, call

Capture = pytest.CaptureFixture[str]

TEXT = "겨울은 추워요."


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transcoders of `note`, trained for a few steps."""
    model = jumok.load("note", device="cpu")
    path = tmp_path_factory.mktemp("circuit") / "note.safetensors"
    coders = jumok.experiment.train_transcoders(
        model, read_split(model, "dev", 40), n_features=96, k=6, steps=60
    )
    coders.save(path)
    return path


def of_note(capsys: Capture, file: Path, *arguments: object) -> Done:
    return call(capsys, "circuit", "note", "--transcoders", file, "--device", "cpu", *arguments)


def test_the_strongest_nodes_and_edges_are_printed_with_their_pieces(
    capsys: Capture, file: Path
) -> None:
    done = of_note(capsys, file, TEXT, "--at", 0, "--at", 4, "--top", 3)
    assert (done.code, done.err) == (0, "")
    model, coders = jumok.load("note", device="cpu"), Transcoders.load(file)
    graph = trace_circuit(model, coders, TEXT, tokens=[0, 4]).info.circuit
    assert graph is not None
    summary, _, header, *nodes, _, columns, first, second, third = done.out.splitlines()
    assert summary.startswith(f"{graph.total_nodes:,} nodes, {graph.total_edges:,} edges; ")
    assert f"{graph.replacement:.1%} of the influence is from tokens" in summary
    assert header.split() == ["node", "influence", "value"]
    inner = [node for node in graph.nodes if node.kind != "logit"]
    inner.sort(key=lambda node: -node.influence)
    for line, node in zip(nodes, inner[:3], strict=True):
        assert line.startswith(node.name)
        assert line.split()[-2:] == [f"{node.influence:.3f}", f"{node.value:.2f}"]
    assert columns.split() == ["edge", "weight", "measured", "head"]
    for line, edge in zip((first, second, third), graph.edges, strict=False):
        assert line.startswith(f"{graph.nodes[edge.source].name} → {graph.nodes[edge.target].name}")
        assert f"{edge.weight:+.2f}" in line
        assert f"{edge.measured:+.2f}" in line


def test_the_graph_as_json_and_as_files(capsys: Capture, file: Path, tmp_path: Path) -> None:
    done = of_note(capsys, file, TEXT, "--target", "Winter is cold.", "--json")
    (table,) = done.rows
    model = jumok.load("note", device="cpu")
    traced = trace_circuit(
        model,
        Transcoders.load(file),
        TEXT,
        "Winter is cold.",
        examples=read_split(model, "dev", 300),
    )
    assert traced.info.circuit is not None
    assert table == json.loads(json.dumps(asdict(traced.info.circuit)))
    assert table["features"][0]["peaks"]
    files = {end: tmp_path / f"circuit.{end}" for end in ("json", "safetensors", "html")}
    for path in files.values():
        done = of_note(capsys, file, TEXT, "--target", "Winter is cold.", "--to", path)
        assert (done.code, done.err) == (0, f"jumok: wrote {path}\n")
    assert json.loads(files["json"].read_text(encoding="utf-8")) == table
    assert Trace.open(files["safetensors"]).info.circuit == traced.info.circuit
    assert "v=circuit" in files["html"].read_text(encoding="utf-8")
    other = of_note(capsys, file, TEXT, "--through-norms", "--json").rows[0]
    assert other["edges"] != table["edges"]


def test_transcoders_are_trained_into_the_folder_of_a_run(
    capsys: Capture, review_run: Path
) -> None:
    text = "이 영화 재미있어요"
    done = call(capsys, "circuit", review_run, text)
    assert (done.code, done.error) == (2, "cli.no_transcoders")
    sizes = ("--steps", 3, "--features", 48, "--active", 5)
    path = review_run / "transcoders.safetensors"
    try:
        done = call(capsys, "circuit", review_run, "--train", *sizes)
        assert (done.code, done.err.splitlines()[-1]) == (0, f"jumok: wrote {path}")
        header, row = done.out.splitlines()
        assert header.split() == ["explained", "variance", "active", "features"]
        name, explained, active = row.split()
        coder = Transcoders.load(path).coders[name]
        assert (coder.up.out_features, float(explained) <= 1, float(active) <= 5) == (
            48,
            True,
            True,
        )
        (table,) = call(capsys, "circuit", review_run, text, "--json").rows
        assert table["nodes"][-1]["answer"] in jumok.load(review_run).labels
    finally:
        path.unlink(missing_ok=True)


def test_transcoders_are_trained_on_a_file(capsys: Capture, tmp_path: Path) -> None:
    data = tmp_path / "pairs.tsv"
    rows = "겨울은 추워요.\tWinter is cold.\n감기 조심하세요.\tWatch out for colds.\n"
    data.write_text(f"source\ttarget\n{rows}", encoding="utf-8")
    path = tmp_path / "coders.safetensors"
    arguments = ("--train", "--steps", 2, "--features", 40, "--data", data)
    done = of_note(capsys, path, TEXT, *arguments, "--json", "--at", 0)
    assert (done.code, done.err.splitlines()[0]) == (0, f"jumok: wrote {path}")
    table = json.loads(done.out.splitlines()[-1])
    pieces = {"".join(peak["pieces"]) for each in table["features"] for peak in each["peaks"]}
    assert any("감기" in piece for piece in pieces)
    assert not any("학교" in piece for piece in pieces)  # of the corpus of `note`


def test_transcoders_that_do_not_fit_are_named(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "coders.safetensors"
    arguments = ("--train", "--steps", 0, "--features", 1, "--active", 1, "--at", 0)
    done = of_note(capsys, path, TEXT, *arguments)
    assert done.code == 0
    share = done.out.partition("from tokens, ")[2].partition("%")[0]
    assert float(share) > 30
    assert f"errors have {float(share):.0f}% of the influence" in done.err


def test_the_tokens_that_a_language_model_does_not_read_are_counted(
    capsys: Capture, language_run: Path, tmp_path: Path
) -> None:
    text, model = "영화 " * 100, jumok.load(language_run, device="cpu")
    options = ("--train", "--steps", 1, "--features", 8, "--active", 2, "--at", -1)
    arguments = (*options, "--transcoders", tmp_path / "coders.safetensors")
    done = call(capsys, "circuit", language_run, text, *arguments)
    n_cut = len(model.vocabulary.encode(text)) - model.recipe.model.max_length
    assert done.code == 0
    assert f"its first {n_cut} tokens are not in the graph" in done.err


def test_what_is_refused(capsys: Capture, file: Path, tmp_path: Path) -> None:
    cases: tuple[tuple[tuple[object, ...], str], ...] = (
        ((), "cli.circuit_needs_a_text"),
        ((TEXT, "--to", tmp_path / "a.svg"), "cli.circuit_to"),
        (("--train", "--to", tmp_path / "a.html"), "cli.circuit_to"),
        ((TEXT, "--at", 99), "experiment.circuit_tokens"),
        (("--train",), "cli.transcoders_exist"),
    )
    for arguments, code in cases:
        done = of_note(capsys, file, *arguments)
        assert (done.code, done.error, done.out) == (2, code, ""), arguments
    done = of_note(capsys, tmp_path / "none", TEXT)
    assert (done.code, done.error) == (2, "cli.no_transcoders")
    done = call(capsys, "circuit", "note", "a b", "--at", 4, "--to", "c.html")
    assert 'jumok circuit note "a b" --at 4 --train --to c.html' in done.err.replace("'", '"')
    (tmp_path / "other").write_bytes(file.read_bytes()[:99])
    assert of_note(capsys, tmp_path / "other", TEXT).code != 0
    done = call(capsys, "circuit", "ko-small", TEXT, "--transcoders", file)
    assert done.error == "experiment.transcoders_of_model"
