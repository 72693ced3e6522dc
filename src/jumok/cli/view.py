"""jumok view: the page that shows the attention heads of a model on a text, and its exports."""

import socket
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import DeviceOption, InputText, TargetOption, refuse_with_trace, run_argument
from jumok.errors import UsageError
from jumok.terminal import print_line, print_message

if TYPE_CHECKING:
    from jumok.interpret.trace import Trace
    from jumok.viewer.request_schema import TraceRequest
    from jumok.viewer.serve import Address
    from jumok.viewer.server import ServerContent
    from jumok.viewer.trace_store import TraceStore

app = typer.Typer(rich_markup_mode=None, add_completion=False)

LESSON_STATE = "v=calculation"


@app.command()
def view(
    run: Annotated[
        Path, run_argument("A run, an imported checkpoint, a Hugging Face folder or a trace.")
    ],
    text: InputText = None,
    target: TargetOption = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write .html, .svg, .png, .pdf, .csv or .safetensors and exit."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="With --export FILE.html: include the whole trace.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="With --export FILE.html: the page runs the model.")
    ] = False,
    state: Annotated[
        str, typer.Option(metavar="STATE", help="What to show, as in the address of the page.")
    ] = "",
    lesson: Annotated[
        bool,
        typer.Option(
            "--lesson", help="Show the attention computation of two sentences step by step."
        ),
    ] = False,
    decode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Override decoding settings, e.g. beam=4. Repeatable."
        ),
    ] = None,
    mute: Annotated[
        list[str] | None, typer.Option(metavar="BLOCK.LAYER.HEAD", help="Mute a head. Repeatable.")
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Trace the text with each checkpoint of the run.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 for a free one.")
    ] = 0,
    host: Annotated[
        str,
        typer.Option(
            metavar="H", help="Address to listen on; one that other machines reach needs --token."
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(metavar="T", help="Access token. [default: random]")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address only.")
    ] = False,
    device: DeviceOption = "auto",
) -> None:
    """Show the attention heads of a model on a text, in the browser.

    The text can be edited on the page. Ctrl-C stops the server.
    """
    from jumok.extras import check_installed
    from jumok.viewer.view_state import ViewState, normalize_state

    if not run.is_file():
        check_installed("jumok view", "torch")
    request = _trace_request(run, text, target, lesson, decode or [], mute or [])
    if checkpoints and (request is None or not request.texts):
        raise UsageError(
            "cli.checkpoints_need_a_text",
            "--checkpoints needs a run and a text; add TEXT after the run",
        )
    state = normalize_state(state) or (LESSON_STATE if lesson else "")
    ViewState.parse(state)
    if export is not None:
        from jumok.viewer.export import export as write

        traced = _trace(run, request, device, checkpoints)
        print_line(str(write(traced, export, state, full, live)))
        return
    from jumok.viewer.serve import listen

    listener, address = listen(host, port, token)
    with listener:
        _serve(listener, address, run, request, state, device, checkpoints, not no_browser)


def _trace_request(
    run: Path,
    text: str | None,
    target: str | None,
    lesson: bool,
    decode: list[str],
    mute: list[str],
) -> "TraceRequest | None":
    """The requested trace; None without a text, and for a trace file."""
    given = [word for word in (text, target, *decode, *mute) if word is not None]
    if run.is_file():
        refuse_with_trace(run, given)
        return None
    if text is None and not lesson:
        if given:
            raise UsageError(
                "cli.target_decode_and_mute_need_a_text",
                "--target, --decode and --mute need a text; add TEXT",
            )
        return None
    from jumok.config_io import apply_overrides
    from jumok.viewer.request_schema import TraceRequest
    from jumok.viewer.view_state import parse_head

    return TraceRequest(
        () if text is None else (text,),  # none: the texts of the lesson
        target,
        apply_overrides({}, decode) or None,
        tuple(map(parse_head, mute)),
    )


def _trace(
    run: Path, request: "TraceRequest | None", device: str, checkpoints: bool = False
) -> "Trace":
    """A saved trace, or a new trace of the model on the text, or of its checkpoints."""
    if checkpoints and request is not None:
        from jumok.interpret.checkpoint_trace import trace_checkpoints

        (text,) = request.texts
        return trace_checkpoints(run, text, request.target, request.decode, request.mute, device)
    if run.is_file():
        from jumok.interpret.trace import Trace

        return Trace.open(run)
    if request is None:
        raise UsageError("cli.export_needs_text", "--export needs a text; add TEXT after the run")
    from jumok.tasks.runs.load import load
    from jumok.viewer.live_model import LiveModel

    live = LiveModel(load(run, device))
    return live.make_trace(request if request.texts else live.lesson(request))


def _serve(
    listener: socket.socket,
    address: "Address",
    run: Path,
    request: "TraceRequest | None",
    state: str,
    device: str,
    checkpoints: bool,
    browse: bool,
) -> None:
    """Serve the page until Ctrl-C."""
    from jumok.viewer.serve import has_display, make_server, serve
    from jumok.viewer.server import OneTimeTokens
    from jumok.viewer.trace_store import open_trace_store
    from jumok.web.access import is_loopback

    with open_trace_store() as store:
        content = _content(run, request, store, device, checkpoints)
        tickets = OneTimeTokens()
        server = make_server(address, content, tickets)
        page = address.with_state(state)
        print_line(page)
        if not is_loopback(address.host):
            print_message(
                "cli.page_is_reachable",
                "jumok: warning: anyone who reaches {host} and has the token can use this "
                "page and this model; the connection is not encrypted",
                host=address.host,
            )
        print_message("cli.press_ctrl_c", "jumok: press Ctrl-C to stop")
        if browse and has_display():
            webbrowser.open(f"{address.origin}open/{tickets.issue(page)}")
        serve(listener, server)


def _content(
    run: Path, request: "TraceRequest | None", store: "TraceStore", device: str, checkpoints: bool
) -> "ServerContent":
    """What the server shows: a trace file or checkpoints, or a model and its first trace."""
    from jumok.viewer.request_schema import ModelCard
    from jumok.viewer.server import ServerContent

    if run.is_file():
        from jumok.interpret.trace_file import read_info

        info = read_info(run)
        card = ModelCard(title=info.title, task=info.task, kind=info.model.kind)
        return ServerContent(store, card, store.register(run.resolve()))
    if checkpoints:  # a trace, as from a file: the run may not have ended
        traced = _trace(run, request, device, checkpoints=True)
        card = ModelCard(
            title=traced.info.title, task=traced.info.task, kind=traced.info.model.kind
        )
        return ServerContent(store, card, store.add(traced.to_bytes()))
    from jumok.tasks.runs.load import load
    from jumok.viewer.live_model import LiveModel

    live = LiveModel(load(run, device), request.decode if request is not None else None, run)
    if request is not None and not request.texts:
        request = live.lesson(request)
    first = None if request is None else store.add(live.trace(request))
    return ServerContent(store, live.card, first, live)
