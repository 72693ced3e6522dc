"""jumok serve: models over HTTP."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from jumok.cli.options import run_argument

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(context_settings={"auto_envvar_prefix": "JUMOK_SERVE"})
def serve(
    models: Annotated[
        list[str],
        run_argument("Runs, imported checkpoints or Hugging Face folders.", metavar="RUN ..."),
    ],
    host: Annotated[
        str,
        typer.Option(
            metavar="H",
            help="Address to listen on; one that other machines reach needs --token-file.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 for a free one.")
    ] = 8000,
    workers: Annotated[
        int,
        typer.Option(
            min=0,
            max=64,
            metavar="N",
            help="Processes per model, which share the cores; 0 for models in the server's own "
            "process, except those that need PyTorch.",
        ),
    ] = 0,
    precision: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME:]TYPE",
            help="Use an optimized encoder: float32, bfloat16 or int8; in all models, or in the "
            "one of this name. Repeatable.",
        ),
    ] = None,
    decoding: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME:]KEY=VALUE",
            help="Override [decoding] of all recipes, or of the model of this name, e.g. beam=5. "
            "Repeatable.",
        ),
    ] = None,
    max_wait: Annotated[
        float,
        typer.Option(
            min=0.0, max=600.0, metavar="SECONDS", help="Refuse requests that would wait longer."
        ),
    ] = 2.0,
    request_timeout: Annotated[
        float,
        typer.Option(
            min=1.0,
            max=86_400.0,
            metavar="SECONDS",
            help="Time of a request that sets none itself.",
        ),
    ] = 60.0,
    max_body: Annotated[
        int, typer.Option(min=1, max=1_024, metavar="MIB", help="Largest body of a request.")
    ] = 4,
    keep_alive: Annotated[
        int,
        typer.Option(
            min=1,
            max=86_400,
            metavar="SECONDS",
            help="How long a connection without a request stays open.",
        ),
    ] = 5,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Let pages of this origin (SCHEME://HOST:PORT) send requests; * for all. "
            "Repeatable.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the token that every request must have."),
    ] = None,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces", help="Let the page show the attention of a text; slow for long texts."
        ),
    ] = False,
    log: Annotated[str, typer.Option(metavar="FORMAT", help="text or json.")] = "text",
    debug: Annotated[
        bool, typer.Option("--debug", help="Log the requests of probes and of /metrics too.")
    ] = False,
) -> None:
    """Serve models over HTTP, with the answers of jumok predict.

    SIGTERM and Ctrl-C finish the requests in progress; SIGHUP loads the models again.
    """
    from jumok.errors import InputError
    from jumok.extras import check_installed

    if traces:
        check_installed("jumok serve --traces", "torch", "fontTools")
    if sys.platform == "win32":
        raise InputError(
            "server.unsupported_system", "jumok serve needs Linux or macOS; use WSL on Windows"
        )
    if log not in ("text", "json"):
        raise InputError(
            "server.unknown_log",
            "--log must be text or json, got {log!r}; choose one of them",
            log=log,
        )
    from jumok.serving.limits import limits_of
    from jumok.serving.server import ServeOptions, read_token
    from jumok.serving.server import serve as run

    run(
        ServeOptions(
            folders=models,
            host=host,
            port=port,
            workers=workers,
            precision=precision,
            decoding=tuple(decoding or ()),
            token=None if token_file is None else read_token(token_file),
            traces=traces,
            cors_origins=tuple(cors_origin or ()),
            log="json" if log == "json" else "text",
            log_level="debug" if debug else "info",
            limits=limits_of(max_wait, request_timeout, max_body, keep_alive),
        )
    )
