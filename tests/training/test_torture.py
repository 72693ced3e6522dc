"""Short versions of the proofs in benchmarks/trust: they pass, and they can fail."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trust import corrupt, powerloss
from benchmarks.trust.powerloss import Call, Tree, examine, states, two_committed

ROOT = Path(__file__).resolve().parents[2]


def prove(name: str, *overrides: str, good: bool = True) -> dict[str, Any]:
    """Run a proof, which must pass or not, in a separate process; its figures."""
    command = [sys.executable, "-m", f"benchmarks.trust.{name}", *overrides, "--unrecorded"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == (0 if good else 1), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["good"] is good
    return found


@pytest.mark.slow
def test_killed_trainings_resume_bit_for_bit() -> None:
    found = prove("kills", "--kills", "5")
    assert (found["kills"], found["stuck"], found["lost"], found["different"]) == (5, 0, 0, 0)


@pytest.mark.slow
def test_stopped_and_starved_trainings_resume_bit_for_bit() -> None:
    found = prove("signals", "--stops", "2")
    assert found["ended_well"] == found["troubles"] == 11


@pytest.mark.slow
def test_different_bits_are_detected() -> None:
    """Without strict, the sums depend on the number of processes."""
    found = prove("elastic", "--paths", "0", "--ordinary", good=False)
    assert (found["different"], found["stuck"]) == (2, 0)


def test_every_damage_is_detected(tmp_path: Path) -> None:
    made, noticed, wrong = corrupt.damaged(tmp_path, 250, seed=1)
    assert made == noticed
    assert made.total() == 250
    assert wrong == 0


# The states that a power cut can leave, from a given sequence of calls

STEPS: list[Call] = [
    Call("mkdir", "checkpoints/.tmp"),
    *(
        call
        for name in ("manifest.json", "state-model.safetensors", "state-optimizer.safetensors")
        for call in (
            Call("create", f"checkpoints/.tmp/{name}"),
            Call("write", f"checkpoints/.tmp/{name}", size=1 << 20),
            Call("fsync", f"checkpoints/.tmp/{name}"),
        )
    ),
    Call("fsync", "checkpoints/.tmp"),
    Call("rename", "checkpoints/.tmp", "checkpoints/step-3"),
    Call("fsync", "checkpoints"),
]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tree, Tree]:
    """A run before and after the commit of step 3."""
    store = two_committed(tmp_path_factory.mktemp("power") / "run")
    before = powerloss.tree_of(store.folder)
    store.commit(3, states(3), {"step": 3})
    return before, powerloss.tree_of(store.folder)


def without(*names: str) -> list[Call]:
    return [call for call in STEPS if f"{call.name} {call.path}" not in names]


def test_no_power_cut_loses_a_checkpoint(tmp_path: Path, trees: tuple[Tree, Tree]) -> None:
    count = examine(STEPS, *trees, tmp_path / "state", 60, forcing=True)
    assert count.states > 50
    assert (count.unusable, count.forgotten) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "left_out",
    [
        "fsync checkpoints/.tmp/state-model.safetensors",
        "fsync checkpoints/.tmp/manifest.json",
        "fsync checkpoints/.tmp",
    ],
)
def test_a_missing_fsync_is_detected(
    tmp_path: Path, trees: tuple[Tree, Tree], left_out: str
) -> None:
    calls = without(left_out)
    assert len(calls) == len(STEPS) - 1
    assert examine(calls, *trees, tmp_path / "state", 60, forcing=True).unusable > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of open files")
def test_a_real_commit_survives_power_cuts() -> None:
    found = prove("powerloss", "--most", "20")
    assert found["unusable"] == found["forgotten"] == 0
    assert found["bad_without_fsync"] > 0
