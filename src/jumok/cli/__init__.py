"""The words on the command line. Each verb is a file, imported when it is called."""

import errno
import keyword
import os
import sys
import traceback
from importlib import import_module

VERBS = {
    "train": "train a recipe, or go on with a run:  train RECIPE [key=value ...] [--out DIR]",
    "evaluate": "score a run:  evaluate RUN [--data FILE]",
    "predict": "answer texts:  predict RUN [TEXT ...]; without TEXT the lines of stdin",
    "import": "bring somebody else's checkpoint into a folder:  import CHECKPOINT OUT",
    "check": "ask a run the same in many ways and compare:  check RUN",
    "export": "write a run for other programs:  export RUN --to FORMAT OUT",
    "average": "make one run of the last checkpoints of another:  average RUN --last N",
    "view": "see every head at work, on a page:  view RUN [TEXT] [--export FILE]",
    "plot": "draw positions, a run's history, or the attention to a text",
    "vocab": "train, use and examine a SentencePiece vocabulary",
    "data": "list, get and verify the known corpora",
}


def main(words: list[str] | None = None) -> None:
    """Run one command and exit with its code: see `jumok.errors`.

    `--debug` anywhere shows the traceback of an error instead of one sentence.
    """
    words = sys.argv[1:] if words is None else words
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("--help", "-h", "help"):
        print(help_text())
        sys.exit(0)
    if words[0] == "--version":
        from jumok import __version__

        print(f"jumok {__version__}")
        sys.exit(0)
    sys.exit(_run(words, debug))


def help_text() -> str:
    """What `jumok --help` prints."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {line}" for verb, line in VERBS.items())
    return (
        "jumok (주목): Transformers you can read, train and see\n\n"
        f"usage: jumok VERB ...\n\n{verbs}\n\n"
        "  jumok VERB --help   the words of a verb\n"
        "  jumok --version     the version\n"
        "  --debug             show where an error came from"
    )


def _run(words: list[str], debug: bool) -> int:
    from jumok.errors import InputError, JumokError, StorageError

    verb, *rest = words
    try:
        if verb not in VERBS:
            from jumok.config_io import suggest

            raise InputError(f"{verb!r} is no verb of jumok; {suggest(verb, list(VERBS))}")
        module = f"{verb}_" if keyword.iskeyword(verb) else verb
        import_module(f"jumok.cli.{module}").app(rest, prog_name=f"jumok {verb}")
    except JumokError as error:
        if debug:
            traceback.print_exc()
        _say(str(error))
        return error.exit_code
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # the reader has seen enough
            _say_no_more()
            return 0
        raise
    except KeyboardInterrupt:
        _say("stopped by Ctrl-C")
        return 130
    except OSError as error:
        if debug:
            traceback.print_exc()
        _say(_told(error))
        try:
            if sys.stdout is not None:  # closed from the beginning
                sys.stdout.flush()
        except OSError:  # Python would try once more, and end with 120
            _say_no_more()
        return StorageError.exit_code
    except Exception as error:
        if debug:
            traceback.print_exc()
        if _is_of_memory(error):
            _say(
                "there is not enough memory for this; ask for less at once: fewer or shorter "
                "texts, a narrower beam, a smaller training.batch_tokens"
            )
        else:
            _say(f"{type(error).__name__}: {error}; this is a fault of jumok, --debug shows where")
        return 1
    return 0


def _told(error: OSError) -> str:
    """The sentence of a name given on the command line, or of stdout, which has no name."""
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{ascii(error.filename)[:80]}: {why}; check the path"
    if error.errno in FULL:
        return f"stdout: {why}; free some space, or send the answers somewhere else"
    return f"stdin or stdout: {why}; check where they come from and go to"


def _say_no_more() -> None:
    """Let what stdout still holds go nowhere: it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_of_memory(error: Exception) -> bool:
    """Whether memory was asked for that is not there, on the CPU or on a device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


MOST_SAID = 8_000  # characters of a message
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _say(message: str) -> None:
    """Tell it on stderr; where that is a full disk or closed, the exit code has to be enough."""
    if sys.stderr is None:  # closed from the beginning; print would take stdout
        return
    try:
        print(f"jumok: {_harmless(message)}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _harmless(message: str) -> str:
    r"""A message as a terminal may be given it: what came from outside may hold anything.

    Characters that would command the terminal, or turn the direction of the line, are written as
    their numbers; of a message without measure the middle is left out.

    >>> _harmless("no split '\x1b[2Jtest\u202e'")
    "no split '\\x1b[2Jtest\\u202e'"
    """
    if len(message) > MOST_SAID:
        half = MOST_SAID // 2
        left_out = len(message) - 2 * half
        message = f"{message[:half]} ({left_out:,} characters left out) {message[-half:]}"
    return "".join(
        letter if letter == "\n" or not _commands(letter) else ascii(letter)[1:-1]
        for letter in message
    )


def _commands(letter: str) -> bool:
    """Whether a character is a control, a sign of direction, or half of a pair."""
    code = ord(letter)
    return (
        code < 0x20
        or 0x7F <= code <= 0x9F
        or code in (0x061C, 0x200E, 0x200F)
        or 0x2028 <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or 0xD800 <= code <= 0xDFFF
    )
