"""jumok circuit: which tokens and features of a model write an answer, as a graph of one text."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import DeviceOption, InputText, TargetOption, json_option, run_argument
from jumok.errors import InputError, UsageError
from jumok.extras import check_installed
from jumok.language import translate
from jumok.terminal import (
    command_line,
    pad,
    pad_left,
    print_json,
    print_line,
    print_message,
    text_width,
    to_json_line,
)

if TYPE_CHECKING:
    from jumok.experiment import Data, Transcoders
    from jumok.interpret.schema import CircuitGraph, GraphEdge
    from jumok.tasks.pipeline.pipeline import Pipeline

app = typer.Typer(rich_markup_mode=None, add_completion=False)

TRAIN_ROWS, DEV_ROWS = 4_000, 300
FORMATS = (".html", ".json", ".safetensors")
MANY_ERRORS = 0.3  # of the influence; untrained transcoders of `note` leave 0.6 to errors


@app.command()
def circuit(
    model: Annotated[Path, run_argument("A run, or the name of a model.", metavar="MODEL")],
    text: InputText = None,
    target: TargetOption = None,
    at: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            help="Position whose largest logit is explained, -1 the last. Repeatable. "
            "[default: all of a translator, each mask, else the last]",
        ),
    ] = None,
    transcoders: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file of the transcoders. [default: MODEL/transcoders.safetensors]",
        ),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train transcoders and write their file first.")
    ] = False,
    steps: Annotated[int, typer.Option(min=0, help="With --train: updates.")] = 200,
    features: Annotated[int, typer.Option(min=1, help="With --train: features a layer.")] = 512,
    active: Annotated[
        int, typer.Option(min=1, help="With --train: active features at a token.")
    ] = 32,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Texts to train on, and examples of features. [default: the run's]"
        ),
    ] = None,
    through_norms: Annotated[
        bool, typer.Option("--through-norms", help="Weights are derivatives, through norms too.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Nodes and edges to print.")] = 12,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the page .html, or .json, or a .safetensors."),
    ] = None,
    as_json: Annotated[bool, json_option("Print the graph as one JSON object.")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Print the attribution graph of a text: what each token and feature adds to the next ones.

    The graph needs transcoders, sparse features for the feed-forward layers, which do not ship:
    jumok circuit MODEL TEXT --train --to circuit.html trains them once and writes the graph, later
    without --train. Each weight is followed by what an ablation of the model measures.
    """
    check_installed("jumok circuit", "torch")
    if text is None and not train:
        raise UsageError(
            "cli.circuit_needs_a_text", "circuit must have TEXT or --train, got neither; add TEXT"
        )
    if to is not None and (to.suffix not in FORMATS or text is None):
        raise UsageError(
            "cli.circuit_to",
            "--to must be a file for the graph of TEXT that ends with {formats}, got {to}",
            formats=", ".join(FORMATS),
            to=to,
        )
    file = transcoders or _default_file(model)
    if not train and not file.is_file():
        raise UsageError(
            "cli.no_transcoders",
            "{file} must be the transcoders of the model, got no file; train them first, in one "
            "command: {command}",
            file=file,
            command=command_line(
                *("jumok", "circuit", model, *(() if text is None else (text,))),
                *(() if target is None else ("--target", target)),
                *(part for position in at or () for part in ("--at", position)),
                *(() if transcoders is None else ("--transcoders", transcoders)),
                *("--train", *(() if data is None else ("--data", data))),
                *(() if to is None else ("--to", to)),
            ),
        )
    if train and file.exists():
        raise UsageError(
            "cli.transcoders_exist",
            "--train must write a new file, and {file} exists; delete it, or choose another one "
            "with --transcoders",
            file=file,
        )
    from jumok.atomic_io import write_atomically
    from jumok.experiment import Transcoders, trace_circuit
    from jumok.tasks.runs.load import load

    pipeline = load(model, device)
    own = pipeline.recipe.data
    if train and data is None and not (own.corpus or own.train):
        raise UsageError(
            "cli.circuit_needs_data",
            "transcoders must have texts to be trained on, and {model} has none; add --data FILE",
            model=model,
        )
    if train:
        coders = _train(pipeline, data, (features, active, steps))
        coders.save(file)
        print_message("cli.wrote", "jumok: wrote {out}", out=file)
    else:
        coders = Transcoders.load(file).to(pipeline.device)
    if text is None:
        return
    examples = _examples(pipeline, data)
    traced = trace_circuit(
        pipeline, coders, text, target, at, examples=examples, freeze_norms=not through_norms
    )
    graph = traced.info.circuit
    assert graph is not None
    n_cut = 0 if pipeline.task.reads_source else traced.info.tokens("target").truncated
    if n_cut:  # of a source there is a warning already
        print_message(
            "cli.circuit_text_cut",
            "jumok: the text is longer than the model's max_length: its first {n} tokens are "
            "not in the graph",
            n=n_cut,
        )
    if 1 - graph.replacement > MANY_ERRORS:
        print_message(
            "cli.many_errors",
            "jumok: errors have {share} of the influence: the transcoders do not fit this "
            "model and text; train them on more steps or features, or on texts like this",
            share=f"{1 - graph.replacement:.0%}",
        )
    if to is not None:
        if to.suffix == ".html":
            traced.html(to, "v=circuit")
        elif to.suffix == ".json":
            write_atomically(to, f"{to_json_line(asdict(graph))}\n".encode())
        else:
            traced.save(to)
        print_message("cli.wrote", "jumok: wrote {out}", out=to)
    if as_json:
        print_json(asdict(graph))
    else:
        _print_graph(graph, top)


def _default_file(model: Path) -> Path:
    """In the folder of a run; of a model that is not a folder here, in the working directory.

    >>> _default_file(Path("note")).as_posix()
    'note-transcoders.safetensors'
    """
    name = "transcoders.safetensors"
    return model / name if model.is_dir() else Path(f"{model.name}-{name}")


def _train(pipeline: "Pipeline", data: Path | None, sizes: tuple[int, int, int]) -> "Transcoders":
    """Transcoders, with a row for each layer about other texts than those they are trained on."""
    from jumok.experiment import train_transcoders
    from jumok.experiment.inputs import read, read_split, split_rows

    if data is None:
        rows = read_split(pipeline, "train", TRAIN_ROWS)
        others = read_split(pipeline, "dev", DEV_ROWS)
    else:
        rows, others = split_rows(read(pipeline, data))
    n_features, k, steps = sizes
    coders = train_transcoders(pipeline, rows, n_features=n_features, k=k, steps=steps)
    width = max(map(len, coders.coders))
    columns = [translate("explained variance"), translate("active features")]
    print_line(pad("", width) + "".join(f"  {name}" for name in columns))
    for name, fit in coders.fit(pipeline, others).items():
        cells = zip(columns, (f"{fit.explained:.3f}", f"{fit.active:.1f}"), strict=True)
        print_line(
            pad(name, width) + "".join(pad_left(cell, 2 + text_width(c)) for c, cell in cells)
        )
    return coders


def _examples(pipeline: "Pipeline", data: Path | None) -> "Data | None":
    """Texts in which features are looked for; None, with a notice, where the run's are missing."""
    from jumok.experiment.inputs import read, read_split

    if data is not None:
        return read(pipeline, data)
    try:
        return read_split(pipeline, "dev", DEV_ROWS)
    except InputError as error:
        print_message(
            "cli.no_examples",
            "jumok: no examples of features, add --data FILE: {error}",
            error=error,
        )
        return None


def _print_graph(graph: "CircuitGraph", top: int) -> None:
    """Print the shares, then the strongest nodes and edges."""
    print_line(
        translate(
            "{:,} nodes, {:,} edges; {:.1%} of the influence is from tokens, {:.1%} from errors",
            graph.total_nodes,
            graph.total_edges,
            graph.replacement,
            1 - graph.replacement,
        )
    )
    inner = [node for node in graph.nodes if node.kind != "logit"]
    nodes = sorted(inner, key=lambda node: -node.influence)[:top]
    _print_rows(
        (translate("node"), translate("influence"), translate("value")),
        [(node.name, f"{node.influence:.3f}", f"{node.value:.2f}") for node in nodes],
    )

    def through(edge: "GraphEdge") -> str:
        return "" if edge.head is None else ".".join(map(str, edge.head))

    _print_rows(
        (translate("edge"), translate("weight"), translate("measured"), translate("head")),
        [
            (
                f"{graph.nodes[edge.source].name} → {graph.nodes[edge.target].name}",
                f"{edge.weight:+.2f}",
                f"{edge.measured:+.2f}",
                through(edge),
            )
            for edge in graph.edges[:top]
        ],
    )


def _print_rows(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """A table whose first column is text and the others are numbers, after an empty line."""
    widths = [max(map(text_width, column)) for column in zip(header, *rows, strict=True)]
    print_line("")
    for first, *others in (header, *rows):
        cells = (pad_left(c, 2 + w) for c, w in zip(others, widths[1:], strict=True))
        print_line((pad(first, widths[0]) + "".join(cells)).rstrip())
