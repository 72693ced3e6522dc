"""Vehicles of code at the public doors: nothing runs, nothing is imported or called.

All of them are opened by `python -m benchmarks.trust.hostile`; here are those that need no process
of their own, and one that does.
"""

import os
import pickle
import sys
from pathlib import Path

import pytest

from benchmarks.trust.hostile import open_vehicle, warm_up, watching
from benchmarks.trust.hostile_vehicles import MARKER, SECRET, VEHICLES, Call, Vehicle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pickles are read on Linux only")

CHILDREN = ("bin, reduce", "bin, protocol", "bin of", "opcodes")  # checked, then a child looks
QUICK = [vehicle for vehicle in VEHICLES if not vehicle.name.startswith(CHILDREN)]


@pytest.fixture(scope="module", autouse=True)
def _hooked() -> None:
    warm_up()


@pytest.mark.parametrize("vehicle", QUICK, ids=lambda vehicle: vehicle.name)
def test_nothing_runs(vehicle: Vehicle) -> None:
    for opened in open_vehicle(vehicle):
        assert opened.seen == (), opened
        assert opened.foreign is None, opened


def test_nothing_runs_in_the_child_either() -> None:
    vehicle = next(vehicle for vehicle in VEHICLES if vehicle.name == "bin, reduce to exec")
    (opened,) = open_vehicle(vehicle, ["jumok.load"])
    assert opened.refused
    assert opened.seen == ()


def test_there_are_sixty_and_no_two_alike() -> None:
    assert len(VEHICLES) >= 60
    assert len({vehicle.name for vehicle in VEHICLES}) == len(VEHICLES)


def test_the_watch_would_tell(tmp_path: Path) -> None:
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
    told = "\n".join(watch.seen)
    for what in ("pickle.find_class", "os.system", SECRET, "/etc/passwd", "exec ", "compile "):
        assert what in told, what
    assert (tmp_path / MARKER).exists()


def test_a_vehicle_that_gets_in_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a door to unpickle, both the watch and the folder it makes would tell."""
    monkeypatch.setitem(
        sys.modules["benchmarks.trust.hostile"].DOORS,  # type: ignore[arg-type]
        "rows",
        lambda folder: pickle.loads((folder / "rows.tsv").read_bytes()),
    )
    (opened,) = open_vehicle(next(v for v in VEHICLES if v.name == "rows, pickle"))
    assert "its code ran" in opened.seen
    assert any("pickle.find_class" in event for event in opened.seen)
