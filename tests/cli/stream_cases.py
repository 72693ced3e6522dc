"""A program that runs commands whose standard streams are closed, full, sockets or read-only.

python -m tests.cli.stream_cases < CASES

CASES is a JSON list of [streams, words of the command]. Prints a line of JSON for each: its exit
code and what it wrote to stderr. Each command runs in a child process, forked from one that has
imported torch, with streams that Python would make of its file descriptors.
"""

import io
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import NoReturn

PATIENCE = 120  # seconds of one command


def _full(number: int) -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), number)


def _read_only(number: int) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), number)


def _socket(number: int) -> None:
    """A socket that takes what is written; what is read from it are two lines."""
    own, other = socket.socketpair()
    other.sendall(LINES)
    other.shutdown(socket.SHUT_WR)
    os.dup2(own.fileno(), number)
    own.detach(), other.detach()


LINES = "안녕\n재미있어요\n".encode()
STREAMS: dict[str, dict[int, Callable[[int], None]]] = {
    "stdout closed": {1: os.close},
    "all closed": {0: os.close, 1: os.close, 2: os.close},
    "sockets": {0: _socket, 1: _socket},
    "stdout full": {1: _full},
    "stderr full": {2: _full},
    "outputs read-only": {1: _read_only, 2: _read_only},
}


def _standard_stream(number: int) -> io.TextIOWrapper | None:
    """The stream that Python makes of a file descriptor at its start; None if it is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None
    raw = open(number, "wb" if number else "rb", buffering=0, closefd=False)  # noqa: SIM115
    buffer = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
    return io.TextIOWrapper(buffer, "utf-8", line_buffering=number == 2)


def _child(streams: str, words: Sequence[str], err: int) -> NoReturn:
    """Run a command, and end as Python does."""
    from jumok.cli import main

    signal.alarm(PATIENCE)
    with tempfile.TemporaryFile() as texts:
        texts.write(LINES)
        texts.seek(0)
        os.dup2(texts.fileno(), 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(err, 2)
    for number, change in STREAMS[streams].items():
        change(number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, _standard_stream(number))
    code = 70
    try:
        main(list(words))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 71
    except BaseException:  # anything else is a traceback
        if sys.stderr is not None:
            sys.excepthook(*sys.exc_info())
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except OSError:
            code = 120
        os._exit(code)


def _run(streams: str, words: Sequence[str]) -> tuple[int, str]:
    with tempfile.TemporaryFile() as err:
        process = os.fork()
        if process == 0:
            _child(streams, words, err.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        err.seek(0)
        return code, err.read().decode()


def _main() -> None:
    from importlib import import_module

    import torch

    from jumok.cli import COMMANDS, command_app

    torch.set_num_threads(1)
    modules = ("matplotlib.pyplot", "pandas", "rich.progress", "torch._dynamo")
    for module in (*modules, "jumok.tasks.runs.train"):
        import_module(module)
    for command in COMMANDS:
        command_app(command)
    for streams, words in json.load(sys.stdin):
        print(json.dumps(_run(streams, words)), flush=True)


if __name__ == "__main__":
    _main()
