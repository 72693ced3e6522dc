"""The `jumok` command. Each subcommand is a module of this package, imported when it runs."""

import errno
import keyword
import os
import sys
import traceback
from importlib import import_module

COMMANDS = {
    "train": "train a recipe, or resume a run:  train RECIPE [key=value ...] [--out DIR]",
    "evaluate": "score a run on a test set:  evaluate RUN [--data FILE]",
    "predict": "predict for texts:  predict RUN [TEXT ...]; without TEXT, the lines of stdin",
    "import": "convert a Hugging Face checkpoint:  import CHECKPOINT OUT",
    "check": "compare a model's outputs across equivalent computations:  check RUN",
    "export": "convert a run to another format:  export RUN --to FORMAT OUT",
    "average": "average the last checkpoints of a run:  average RUN --last N",
    "serve": "answer over HTTP:  serve RUN ... [--port N] [--precision int8]",
    "view": "show the attention heads in the browser:  view RUN [TEXT] [--export FILE]",
    "plot": "plot positional encodings, a run's history, or attention",
    "models": "list the models that ship with jumok",
    "vocab": "train, use and examine a SentencePiece vocabulary",
    "data": "list, download and verify the known corpora",
}

MAX_MESSAGE_CHARS = 8_000
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its code: see `jumok.errors`.

    With `--debug` anywhere in `argv`, errors also print a traceback.
    """
    argv = sys.argv[1:] if argv is None else argv
    debug = "--debug" in argv
    argv = [argument for argument in argv if argument != "--debug"]
    if not argv or argv[0] in ("--help", "-h", "help"):
        print(help_text())
        sys.exit(0)
    if argv[0] == "--version":
        from jumok import __version__

        print(f"jumok {__version__}")
        sys.exit(0)
    sys.exit(_run(argv, debug))


def help_text() -> str:
    """The output of `jumok --help`."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {line}" for name, line in COMMANDS.items())
    return (
        "jumok (주목): Transformers you can read, train and see\n\n"
        f"usage: jumok COMMAND ...\n\n{commands}\n\n"
        "  jumok COMMAND --help   show the arguments and options of a command\n"
        "  jumok --version        show the version\n"
        "  --debug                print a traceback when a command fails"
    )


def _run(argv: list[str], debug: bool) -> int:
    from jumok.errors import InputError, JumokError, StorageError

    command, *rest = argv
    try:
        if command not in COMMANDS:
            from jumok.config_io import suggest

            raise InputError(f"unknown command {command!r}; {suggest(command, list(COMMANDS))}")
        module = f"{command}_" if keyword.iskeyword(command) else command
        import_module(f"jumok.cli.{module}").app(rest, prog_name=f"jumok {command}")
    except JumokError as error:
        if debug:
            traceback.print_exc()
        _print_error(str(error))
        return error.exit_code
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # the reader of the pipe has exited
            _discard_stdout()
            return 0
        raise
    except KeyboardInterrupt:
        _print_error("stopped by Ctrl-C")
        return 130
    except OSError as error:
        if debug:
            traceback.print_exc()
        _print_error(_os_error_message(error))
        try:
            if sys.stdout is not None:  # None: the process was started with stdout closed
                sys.stdout.flush()
        except OSError:  # without this, Python flushes again at exit and returns 120
            _discard_stdout()
        return StorageError.exit_code
    except Exception as error:
        if debug:
            traceback.print_exc()
        if _is_out_of_memory(error):
            _print_error(
                "out of memory; process less at once: fewer or shorter texts, a narrower beam, "
                "a smaller training.batch_tokens"
            )
        else:
            _print_error(
                f"{type(error).__name__}: {error}; this is a bug in jumok, use --debug for a "
                "traceback"
            )
        return 1
    return 0


def _os_error_message(error: OSError) -> str:
    """A message for a path given on the command line, or for stdin and stdout, which have none."""
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{ascii(error.filename)[:80]}: {why}; check the path"
    if error.errno in DISK_FULL_ERRNOS:
        return f"stdout: {why}; free some space, or write the output to another place"
    return f"stdin or stdout: {why}; check the redirections"


def _discard_stdout() -> None:
    """Redirect stdout to the null device: what it still buffers cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, on the CPU or on a device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _print_error(message: str) -> None:
    """Print a message to stderr; if stderr is closed or full, only the exit code reports it."""
    if sys.stderr is None:  # started with stderr closed; print would write to stdout
        return
    try:
        print(f"jumok: {_escape_control(message)}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _escape_control(message: str) -> str:
    r"""A message that is safe to print to a terminal; it may quote untrusted input.

    Control characters, and characters that change the direction of text, are escaped; the middle
    of a very long message is removed.

    >>> _escape_control("no split '\x1b[2Jtest\u202e'")
    "no split '\\x1b[2Jtest\\u202e'"
    """
    if len(message) > MAX_MESSAGE_CHARS:
        half = MAX_MESSAGE_CHARS // 2
        left_out = len(message) - 2 * half
        message = f"{message[:half]} ({left_out:,} characters left out) {message[-half:]}"
    return "".join(
        char if char == "\n" or not _is_control(char) else ascii(char)[1:-1] for char in message
    )


def _is_control(char: str) -> bool:
    """Whether a character is a control, a bidirectional mark, or half of a surrogate pair."""
    code = ord(char)
    return (
        code < 0x20
        or 0x7F <= code <= 0x9F
        or code in (0x061C, 0x200E, 0x200F)
        or 0x2028 <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or 0xD800 <= code <= 0xDFFF
    )
