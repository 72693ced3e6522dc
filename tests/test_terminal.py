"""Text of others on a terminal, in a pipe and in JSON; commands that are printed to be typed."""

import ast
import io
import json
import logging
import os
import re
import shlex
import sys
import time
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from jumok import terminal
from jumok.terminal import (
    command_line,
    counted,
    escape_control,
    make_console,
    print_json,
    safe_streams,
    stderr_lines_to,
    to_json_line,
)
from jumok.training.reporting.progress_bar import ProgressBar
from tests.source_trees import SOURCE, source_nodes
from tests.terminals import HOSTILE, check_harmless, on_terminal


def test_every_control_character_and_mark_of_direction_is_escaped() -> None:
    """TAB and LF pass. Joiners and variation selectors, which emoji need, pass too."""
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        escaped = escape_control(char) != char
        if unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs"):
            assert escaped == (char not in "\t\n"), hex(code)
        elif unicodedata.bidirectional(char) in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
        ) or unicodedata.bidirectional(char) in ("LRI", "RLI", "FSI", "PDI"):
            assert escaped, hex(code)
        elif escaped:
            assert unicodedata.category(char) in ("Cf", "Cn"), hex(code)
    text = "한국어 ▁영화 👩‍👩‍👧 ❤️ שלום café\t!\n"
    assert escape_control(text) == text


def test_json_is_the_same_value_without_control_characters() -> None:
    tree = {"label": HOSTILE, HOSTILE: ["\ud800", "긍정 👍", 0.5]}
    line = to_json_line(tree)
    assert json.loads(line) == tree
    assert escape_control(line) == line
    assert "긍정 👍" in line


@contextmanager
def _streams(
    monkeypatch: pytest.MonkeyPatch, encoding: str, *, terminal: bool
) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Context in which stdout and stderr are files, or a terminal, of this encoding."""

    class Bytes(io.BytesIO):
        def isatty(self) -> bool:
            return terminal

    out, err = Bytes(), Bytes()
    stdout = io.TextIOWrapper(out, encoding, write_through=True)
    stderr = io.TextIOWrapper(err, encoding, write_through=True)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", stdout)
        patch.setattr("sys.stderr", stderr)
        with safe_streams():
            yield out, err
    stdout.detach()
    stderr.detach()


def test_a_pipe_gets_the_text_itself_in_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even in a locale that lacks its characters; the bytes of file names are kept."""
    with _streams(monkeypatch, "cp949", terminal=False) as (out, err):
        print("▁주목 👍", HOSTILE, os.fsdecode(b"caf\xe9"))
        print("▁주목 👍\x1b[2J", file=sys.stderr)
    assert out.getvalue() == f"▁주목 👍 {HOSTILE} ".encode() + b"caf\xe9\n"
    assert err.getvalue().decode("cp949") == "\\u2581주목 \\U0001f44d\\x1b[2J\n"


def test_a_terminal_that_lacks_a_character_gets_its_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    with _streams(monkeypatch, "cp949", terminal=True) as (out, _):
        print("▁주목 👍")
        print_json({"text": "▁주목 👍"})
    escaped, line = out.getvalue().decode("cp949").splitlines()
    assert escaped == "\\u2581주목 \\U0001f44d"
    assert json.loads(line) == {"text": "▁주목 👍"}


def test_streams_that_are_closed_or_not_files(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", text)
    with safe_streams(), stderr_lines_to(print):
        print("nowhere")
    with safe_streams():
        sys.stderr.writelines(["a\x1b", "b\n"])
    assert text.getvalue() == "a\\x1bb\n"
    monkeypatch.setattr("sys.stderr", None)
    with safe_streams(), stderr_lines_to(print):
        print("nowhere", file=sys.stderr)


def test_whatever_prints_to_a_terminal_is_escaped() -> None:
    """Print, logs, warnings, tracebacks, rich's tables and its progress bar."""

    def everything() -> None:
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
        sys.stdout.writelines([HOSTILE, "\n"])
        logger = logging.Logger("others")
        logger.addHandler(logging.StreamHandler())
        logger.warning("%s", HOSTILE)
        sys.stderr.write(warnings.formatwarning(HOSTILE, UserWarning, HOSTILE, 1))
        sys.excepthook(ValueError, ValueError(HOSTILE), None)
        table = Table(HOSTILE, title=HOSTILE)
        table.add_row(Text(HOSTILE, "bold"))
        console = make_console()
        console.print(table)
        console.print(HOSTILE)
        with ProgressBar() as bar:
            bar.update(0.5, 1, 0.1, 10.0)
            bar.log(HOSTILE, HOSTILE)
            logging.StreamHandler().emit(logging.makeLogRecord({"msg": HOSTILE}))
            print(HOSTILE, file=sys.stderr)
            bar.update(0.6, 1, 0.1, 10.0)

    shown = on_terminal(everything)
    check_harmless(shown)
    assert shown.count("PWNED") > 12
    assert "\x1b[1m" in shown  # the console's own bold
    assert "50%" in shown  # the bar


def test_a_line_written_while_a_bar_is_drawn_appears_once() -> None:
    def write() -> None:
        with ProgressBar() as bar:
            bar.update(0.5, 1, 0.1, 10.0)
            sys.stderr.write("half ")
            sys.stderr.write("a line\nthe last one")

    shown = on_terminal(write)
    assert shown.count("half a line\n") == 1
    assert shown.count("the last one\n") == 1


def test_a_console_prints_text_as_it_is() -> None:
    assert ":smile: [1]" in on_terminal(lambda: make_console().print(Text(":smile: [1]")))


def test_a_printed_command_can_be_typed() -> None:
    for path in ("runs/내 실험", "a'b", "$HOME", "~", "-", "runs/실험", "a;b", "가\u00a0나", ""):
        typed = command_line("jumok", "predict", Path(path) if path else path)
        expected = os.fspath(Path(path)) if path else path
        assert shlex.split(typed) == ["jumok", "predict", expected]
    assert command_line("jumok", "predict", "runs/실험") == "jumok predict runs/실험"


def test_no_other_module_writes_around_the_streams() -> None:
    """Rich consoles come from `make_console`, and print goes through sys.stdout."""
    for path, nodes in source_nodes().items():
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            call = ast.unparse(node.func)
            place = f"{path.relative_to(SOURCE)}:{node.lineno}: {call}"
            assert call.split(".")[-1] != "Console" or path.name == "terminal.py", place
            assert call not in ("os.write", "rich.print", "sys.stdout.buffer.write"), place
            assert not call.startswith(("sys.__std", "sys.stderr.buffer")), place
            if path.parent.name == "cli":  # typer.echo drops escape sequences; JSON is escaped
                assert call not in ("typer.echo", "json.dumps"), place


def test_a_running_count_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "COUNT_AFTER", 0.0)

    def rows() -> Iterator[int]:
        yield from range(1_000)
        time.sleep(0.15)  # the count is drawn ten times a second
        yield from range(2)

    def count() -> None:
        assert len(list(counted(rows(), "read {n:,} rows"))) == 1_002

    shown = on_terminal(count)
    assert re.search("read 1,00[0-2] rows", shown), ascii(shown)
    count()
    assert capsys.readouterr().err == ""
