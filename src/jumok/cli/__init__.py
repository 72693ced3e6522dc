"""The `jumok` command. Each subcommand is a module, imported when it runs."""

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from jumok.errors import Message, UsageError

if TYPE_CHECKING:
    import typer

COMMANDS = {
    "train": "train a recipe, or resume a run:  train RECIPE [key=value ...] [--out DIR]",
    "evaluate": "score a run on a test set:  evaluate RUN [--data FILE]",
    "compare": "compare runs on the same rows:  compare RUN RUN [--data FILE]",
    "sweep": "train a grid of recipe values and seeds:  sweep RECIPE key=a,b [--seeds N]",
    "table": "print scores of runs over their seeds:  table RUN ... [--markdown|--latex]",
    "predict": "predict for texts:  predict RUN [TEXT ...]; without TEXT, the lines of stdin",
    "translate": "translate a document:  translate MODEL FILE [--to FILE] [--glossary TSV]",
    "chat": "chat with an imported model:  chat MODEL [--system TEXT]",
    "import": "convert a Hugging Face checkpoint:  import CHECKPOINT OUT",
    "check": "compare a model's outputs across equivalent computations:  check RUN",
    "export": "convert a run to another format:  export RUN --to FORMAT OUT",
    "average": "average the last checkpoints of a run:  average RUN --last N",
    "serve": "answer over HTTP:  serve RUN ... [--port N] [--precision int8]",
    "view": "show the attention heads in the browser:  view RUN [TEXT] [--export FILE]",
    "heads": "score each attention head for known patterns:  heads MODEL [TEXT ...]",
    "circuit": "show which features of a model write an answer:  circuit MODEL TEXT [--train]",
    "plot": "plot positional encodings, a run's history, or attention",
    "embed": "one vector per line of stdin, as a .npy file:  embed RUN --out FILE",
    "search": "the lines of a file that are nearest to a text:  search RUN FILE TEXT",
    "lesson": "show a lesson of the course:  lesson [N] [--lang ko|en] [--notebook FILE]",
    "models": "list the models that ship with jumok",
    "vocab": "train, use and examine a SentencePiece vocabulary",
    "data": "check own files, or get and verify the known corpora:  data check FILE",
}

OPTIONS = {
    "jumok COMMAND --help": "show the arguments and options of a command",
    "jumok --version": "show the version",
    "--install-completion": "write the completion of a shell into its folder: bash, zsh or fish",
    "--show-completion": "print the completion of a shell: bash, zsh or fish",
    "--debug": "print a traceback when a command fails",
}

MAX_MESSAGE_CHARS = 8_000
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its code: see `jumok.errors`.

    With `--debug` anywhere in `argv`, errors also print a traceback.
    """
    from jumok.terminal import safe_streams

    argv = sys.argv[1:] if argv is None else argv
    debug = "--debug" in argv
    argv = [argument for argument in argv if argument != "--debug"]
    with safe_streams():
        try:
            sys.exit(_run(argv or ["--help"], debug))
        finally:
            _flush_stderr()


def _version() -> str:
    from jumok import __version__

    return f"jumok {__version__}"


def help_text() -> str:
    """The output of `jumok --help`."""
    from jumok.language import translate

    width = max(map(len, COMMANDS))
    rows = {name: translate(line, section="help") for name, line in COMMANDS.items()}
    commands = "\n".join(f"  {name:<{width}}  {line}" for name, line in rows.items())
    title = "jumok (주목): Transformers you can read, train and see"
    options = "\n".join(
        f"  {name:<23}{translate(line, section='help')}" for name, line in OPTIONS.items()
    )
    usage = translate("Usage", section="help")
    return (
        f"{translate(title, section='help')}\n\n"
        f"{usage}: jumok COMMAND ...\n\n{commands}\n\n{options}"
    )


def command_app(name: str) -> "typer.Typer":
    """The application of one of `COMMANDS`."""
    from jumok.registry import Registry

    apps = {name: f"jumok.cli.{name}:app" for name in COMMANDS}
    apps |= {"import": "jumok.cli.import_:app", "serve": "jumok.serving.command:app"}
    return Registry["typer.Typer"]("jumok.commands", "command", apps).get(name)


def _run(argv: list[str], debug: bool) -> int:
    from jumok.cli import localized
    from jumok.errors import JumokError, StorageError
    from jumok.extras import naming_extras
    from jumok.threads import limit_threads
    from jumok.waiting import start_measuring

    command, *rest = argv
    try:
        if command in ("--help", "-h", "help", "--version"):
            with _flushed_stdout():
                print(_version() if command == "--version" else help_text())
            return 0
        start_measuring()
        limit_threads()  # before PyTorch is loaded
        if command in ("--complete", "--install-completion", "--show-completion"):
            with _flushed_stdout():
                _complete(command, rest)
            return 0
        if command not in COMMANDS:
            from jumok.config_io import suggest

            raise UsageError(
                "cli.unknown_command",
                "unknown command {command!r}; {suggest}",
                command=command,
                suggest=suggest(command, list(COMMANDS)),
            )
        with _flushed_stdout(), naming_extras(f"jumok {command}"):
            localized.run(command_app(command), rest, f"jumok {command}")
    except JumokError as error:
        if debug:
            traceback.print_exc()
        _print_error(error)
        raise SystemExit(error.exit_code) from error  # callers in the same process see the code
    except SystemExit as end:  # typer's for any failure to write to a pipe
        if isinstance(end.__context__, BrokenPipeError):
            _discard_stdout()
            return 0
        raise
    except BrokenPipeError:  # the reader of stdout has exited
        _discard_stdout()
        return 0
    except KeyboardInterrupt:
        _print_error(Message("cli.stopped_by_ctrl_c", "stopped by Ctrl-C"))
        return 130
    except OSError as error:
        if debug:
            traceback.print_exc()
        _print_error(_os_error_message(error))
        try:
            sys.stdout.flush()
        except OSError:  # without this, Python flushes again at exit and returns 120
            _discard_stdout()
        return StorageError.exit_code
    except Exception as error:
        if debug:
            traceback.print_exc()
        if _is_out_of_memory(error):
            _print_error(
                Message(
                    "cli.out_of_memory",
                    "out of memory; process less at once: fewer or shorter texts, a narrower "
                    "beam, a smaller training.batch_tokens",
                )
            )
        else:
            _print_error(
                Message(
                    "cli.bug",
                    "{type_error}: {error}; this is a bug in jumok, use --debug for a traceback",
                    type_error=type(error).__name__,
                    error=error,
                )
            )
        return 1
    return 0


def _complete(option: str, rest: list[str]) -> None:
    """Completion: install it, print its script, or print candidates for the shell."""
    from jumok.cli import completion
    from jumok.terminal import print_message

    shell = rest[0] if rest else None
    if option == "--show-completion":
        print(completion.script(shell), end="")
    elif option == "--install-completion":
        name, path = completion.install(shell)
        print_message(
            "cli.completion_installed",
            "jumok: completion for {name} is in {path}; open a new shell to use it",
            name=name,
            path=path,
        )
    elif shell is not None:
        completion.print_candidates(shell, rest[1:])


@contextmanager
def _flushed_stdout() -> Iterator[None]:
    """Context whose output is written at its end, so that a failure is reported as any other."""
    try:
        yield
    finally:
        sys.stdout.flush()


def _os_error_message(error: OSError) -> Message:
    """A message for a path given on the command line, or for stdin and stdout, which have none."""
    why = error.strerror or str(error)
    if error.filename is not None:
        return Message(
            "cli.unusable_path",
            "{path}: {why}; check the path",
            path=ascii(error.filename)[:80],
            why=why,
        )
    if error.errno in DISK_FULL_ERRNOS:
        return Message(
            "cli.stdout_full",
            "stdout: {why}; free some space, or write the output to another place",
            why=why,
        )
    return Message("cli.unusable_stream", "stdin or stdout: {why}; check the redirections", why=why)


def _discard_stdout() -> None:
    """Redirect stdout to the null device: what it still buffers cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, on the CPU or on a device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _flush_stderr() -> None:
    """Discard what a closed or full stderr cannot take: Python would end with 120 for it."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _print_error(message: object) -> None:
    """Print a message to stderr; if stderr is closed or full, only the exit code reports it."""
    from jumok.language import localize

    with suppress(OSError):
        print(f"jumok: {_shortened(localize(message))}", file=sys.stderr, flush=True)
    _flush_stderr()


def _shortened(message: str) -> str:
    """The message without the middle of a very long one, which quotes untrusted input."""
    if len(message) <= MAX_MESSAGE_CHARS:
        return message
    half = MAX_MESSAGE_CHARS // 2
    left_out = len(message) - 2 * half
    return f"{message[:half]} ({left_out:,} characters left out) {message[-half:]}"
