"""Vehicles of code at the public doors: nothing runs, nothing is imported or called.

All of them are opened by `python -m benchmarks.trust.hostile`; here are those that need no process
of their own, and some that do, at one door.
"""

import os
import pickle
import sys
from pathlib import Path

import pytest

from benchmarks.trust.hostile import open_payload, warm_up, watching
from benchmarks.trust.payloads import MARKER, PAYLOADS, SECRET, Call, Payload

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pickles are read on Linux only")

CHILDREN = ("bin, reduce", "bin, protocol", "bin of", "opcodes")  # checked, then a child looks
QUICK = [payload for payload in PAYLOADS if not payload.name.startswith(CHILDREN)]


@pytest.fixture(scope="module", autouse=True)
def _hooked() -> None:
    warm_up()


@pytest.mark.parametrize("payload", QUICK, ids=lambda payload: payload.name)
def test_no_code_is_executed(payload: Payload) -> None:
    for opened in open_payload(payload):
        assert opened.seen == (), opened
        assert opened.foreign is None, opened


@pytest.mark.parametrize(
    "payload",
    [each for each in PAYLOADS if each.name == "bin, reduce to exec" or "opcodes" in each.name],
    ids=lambda payload: payload.name,
)
def test_no_code_is_executed_in_the_child(payload: Payload) -> None:
    (opened,) = open_payload(payload, ["jumok.load"])
    assert opened.refused
    assert opened.seen == ()


def test_there_are_sixty_distinct_files() -> None:
    assert len(PAYLOADS) >= 60
    assert len({payload.name for payload in PAYLOADS}) == len(PAYLOADS)


def test_the_watch_detects_executed_code(tmp_path: Path) -> None:
    """Each kind of what is looked for, done here on purpose."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "evil.py").write_text("RAN = True\n", encoding="utf-8")
    (tmp_path / SECRET).write_bytes(b"")
    with watching(tmp_path) as watch:
        pickle.loads(pickle.dumps(Call(os.mkdir, str(tmp_path / MARKER))))
        os.system("true")
        (tmp_path / SECRET).read_bytes()
        Path("/etc/passwd").read_bytes()
        exec(compile("1", str(folder / "evil.py"), "exec"))
    events = "\n".join(watch.seen)
    for what in ("pickle.find_class", "os.system", SECRET, "/etc/passwd", "exec ", "compile "):
        assert what in events, what
    assert (tmp_path / MARKER).exists()


def test_executed_code_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point that unpickles is detected by the hook and by the created folder."""
    monkeypatch.setitem(
        sys.modules["benchmarks.trust.hostile"].ENTRY_POINTS,  # type: ignore[arg-type]
        "rows",
        lambda folder: pickle.loads((folder / "rows.tsv").read_bytes()),
    )
    (opened,) = open_payload(next(v for v in PAYLOADS if v.name == "rows, pickle"))
    assert "its code ran" in opened.seen
    assert any("pickle.find_class" in event for event in opened.seen)
