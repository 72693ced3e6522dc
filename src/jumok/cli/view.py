"""jumok view: the page that shows what a model does while it reads, and its exports."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from jumok.interpret.trace import Trace
    from jumok.viewer.request_schema import TraceRequest
    from jumok.viewer.server import Shown
    from jumok.viewer.trace_store import Shelf

app = typer.Typer(rich_markup_mode=None, add_completion=False)

LESSON = ("겨울은 추워요.", "감기 조심하세요.")
LESSON_STATE = "v=calculation"


@app.command()
def view(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run, an imported checkpoint, a Hugging Face folder or a trace."
        ),
    ],
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What the model is to read.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it is to write, given, not chosen.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write .html, .svg, .png, .pdf, .csv or .safetensors instead."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="An .html with everything, however large.")
    ] = False,
    state: Annotated[
        str, typer.Option(metavar="STATE", help="What is shown, as the page's address says it.")
    ] = "",
    lesson: Annotated[
        bool, typer.Option("--lesson", help="Two sentences, calculated step by step.")
    ] = False,
    decode: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="How it writes: beam=4 ... Repeatable."),
    ] = None,
    mute: Annotated[
        list[str] | None,
        typer.Option(metavar="BLOCK.LAYER.HEAD", help="Switch a head off. Repeatable."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="0: a free one.")] = 0,
    host: Annotated[
        str, typer.Option(metavar="H", help="For other machines, too; needs --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(metavar="T", help="The page's secret, instead of a random one.")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, open nothing.")
    ] = False,
) -> None:
    """Show every head while a model reads a text; on the page the text can be edited.

    Ctrl-C ends the page.
    """
    from jumok.viewer.view_state import State, checked_state

    wanted = _wanted(run, text, target, lesson, decode or [], mute or [])
    state = checked_state(state) or (LESSON_STATE if lesson else "")
    State.parse(state)
    if export is not None:
        from jumok.viewer.export import export as write

        typer.echo(os.fsencode(write(_trace(run, wanted), export, state, full)))  # any name
        return
    _serve(run, wanted, state, Place(host, port, token), browse=not no_browser)


class Place(NamedTuple):
    """Where the page is to be."""

    host: str
    port: int
    token: str | None


def _wanted(
    run: Path,
    text: str | None,
    target: str | None,
    lesson: bool,
    decode: list[str],
    mute: list[str],
) -> "TraceRequest | None":
    """What the model is asked, None when nothing; a file is a trace already."""
    from jumok.errors import InputError

    said = [word for word in (text, target, *decode, *mute) if word is not None]
    if run.is_file():
        if said:
            raise InputError(
                f"{run} is a trace, made already; to ask something new, name the run it is of"
            )
        return None
    texts = LESSON if lesson and text is None else () if text is None else (text,)
    if not texts:
        if said:
            raise InputError("a target, decoding or muted heads came without a text; add TEXT")
        return None
    from jumok.config_io import apply_overrides
    from jumok.viewer.request_schema import TraceRequest
    from jumok.viewer.view_state import read_place

    return TraceRequest(
        texts, target, apply_overrides({}, decode) or None, tuple(map(read_place, mute))
    )


def _trace(run: Path, wanted: "TraceRequest | None") -> "Trace":
    """The trace in a file, or that of a text."""
    from jumok.errors import InputError

    if run.is_file():
        from jumok.interpret.trace import Trace

        return Trace.open(run)
    if wanted is None:
        raise InputError("an export shows a text being read; add TEXT after the run")
    from jumok.tasks.runs.load import load
    from jumok.viewer.live_model import Live

    return Live(load(run)).traced(wanted)


def _serve(
    run: Path, wanted: "TraceRequest | None", state: str, place: Place, browse: bool
) -> None:
    """The page until Ctrl-C."""
    from jumok.viewer.address import has_screen, listen
    from jumok.viewer.security import is_loopback
    from jumok.viewer.trace_store import open_shelf

    listener, address = listen(*place)
    with listener, open_shelf() as shelf:
        shown = _shown(run, wanted, shelf)
        from jumok.viewer.serve import serve, server_of
        from jumok.viewer.server import Tickets

        tickets = Tickets()
        server = server_of(address, shown, tickets)
        page = address.with_state(state)
        print(page, flush=True)
        if not is_loopback(place.host):
            print(
                f"jumok: whoever reaches {place.host} and has the token sees this page and asks "
                "this model; nothing on the way is encrypted",
                file=sys.stderr,
            )
        print("jumok: Ctrl-C ends the page", file=sys.stderr)
        if browse and has_screen():
            webbrowser.open(f"{address.origin}open/{tickets.issue(page)}")
        serve(listener, server)


def _shown(run: Path, wanted: "TraceRequest | None", shelf: "Shelf") -> "Shown":
    """What the server shows: a file as it is, or a model and its first trace."""
    from jumok.viewer.server import Shown

    if run.is_file():
        from jumok.interpret.trace_file import read_info
        from jumok.viewer.request_schema import ModelCard

        info = read_info(run)
        card = ModelCard(title=info.title, task=info.task, kind=info.model.kind)
        return Shown(shelf, card, shelf.give(run.resolve()))
    from jumok.tasks.runs.load import load
    from jumok.viewer.live_model import Live

    live = Live(load(run), wanted.decode if wanted is not None else None)
    first = None if wanted is None else shelf.keep(live.trace(wanted))
    return Shown(shelf, live.card, first, live)
