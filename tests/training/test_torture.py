"""The proofs of benchmarks/trust in short: they run, they are kept, and they can fail."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trust import corrupt, powerloss
from benchmarks.trust.commit_calls import has_strace, sound, states, two_committed
from benchmarks.trust.powerloss import Call, Tree, examine, parsed
from benchmarks.trust.soak import Look, slope
from jumok.training.checkpoints.store import CheckpointStore

ROOT = Path(__file__).resolve().parents[2]


def prove(name: str, *words: str) -> dict[str, Any]:
    """The figures of a proof that is good, in a process of its own."""
    command = [sys.executable, "-m", f"benchmarks.trust.{name}", *words, "--unrecorded"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["good"] is True
    return found


def test_trainings_that_are_killed_go_on_to_the_same_bits() -> None:
    found = prove("kills", "--kills", "5")
    assert (found["kills"], found["stuck"], found["lost"], found["different"]) == (5, 0, 0, 0)


def test_trainings_that_are_stopped_and_starved_go_on_to_the_same_bits() -> None:
    found = prove("signals", "--stops", "2")
    assert found["ended_well"] == found["troubles"] == 11


def test_every_damage_is_noticed(tmp_path: Path) -> None:
    made, noticed, wrong = corrupt.damaged(tmp_path, 250, seed=1)
    assert made == noticed
    assert made.total() == 250
    assert wrong == 0


def test_a_damage_that_no_sum_would_show_is_noticed(tmp_path: Path) -> None:
    """The harness can see a wrong load: one whose manifest was written anew for it."""
    store = CheckpointStore(tmp_path)
    wrong = store.commit(1, corrupt.states(1), {})
    assert not corrupt.same(store.checkpoint(1).load(), corrupt.states(2))
    assert corrupt.same(store.checkpoint(1).load(), corrupt.states(1))
    corrupt.flip(wrong, random.Random(0))
    assert sound(store) == 0


# The states that a power cut leaves, from calls that are written out here

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


def test_no_power_cut_breaks_the_protocol(tmp_path: Path, trees: tuple[Tree, Tree]) -> None:
    count = examine(STEPS, *trees, tmp_path / "state", 60, forcing=True)
    assert count.states > 50
    assert (count.unusable, count.forgotten) == (0, 0)


@pytest.mark.parametrize(
    "left_out",
    [
        "fsync checkpoints/.tmp/state-model.safetensors",
        "fsync checkpoints/.tmp/manifest.json",
        "fsync checkpoints/.tmp",
    ],
)
def test_a_protocol_that_forgets_to_force_something_is_found_out(
    tmp_path: Path, trees: tuple[Tree, Tree], left_out: str
) -> None:
    calls = without(left_out)
    assert len(calls) == len(STEPS) - 1
    assert examine(calls, *trees, tmp_path / "state", 60, forcing=True).unusable > 0


def test_a_name_that_is_promised_too_early_is_found_out(
    tmp_path: Path, trees: tuple[Tree, Tree]
) -> None:
    count = examine(STEPS, *trees, tmp_path / "state", 60, forcing=False)
    assert count.forgotten > 0


def test_lines_of_strace_are_read() -> None:
    lines = [
        'mkdir("/r/checkpoints/.tmp", 0777) = 0',
        'openat(AT_FDCWD</x>, "/r/checkpoints/.tmp/a", O_WRONLY|O_CREAT|O_EXCL, 0666) = 4</r/a>',
        'openat(AT_FDCWD</x>, "/r/checkpoints", O_RDONLY|O_CLOEXEC) = 4</r/checkpoints>',
        'write(4</r/checkpoints/.tmp/a>, ""..., 80) = 80',
        "fsync(4</r/checkpoints>) = 0",
        'write(1</elsewhere>, ""..., 80) = 80',
        'rename("/r/checkpoints/.tmp", "/r/checkpoints/step-3") = 0',
        'unlinkat(4</r/checkpoints/.del>, "a", 0) = 0',
    ]
    assert list(parsed(lines, Path("/r"))) == [
        Call("mkdir", "checkpoints/.tmp"),
        Call("create", "checkpoints/.tmp/a"),
        Call("write", "checkpoints/.tmp/a", size=80),
        Call("fsync", "checkpoints"),
        Call("rename", "checkpoints/.tmp", "checkpoints/step-3"),
        Call("unlink", "checkpoints/.del/a"),
    ]
    with pytest.raises(SystemExit, match="may be overwritten"):
        list(parsed(['openat(AT_FDCWD</>, "/r/a", O_WRONLY|O_CREAT, 0666) = 4'], Path("/r")))
    with pytest.raises(SystemExit, match="does not know"):
        list(parsed(["ftruncate(4</r/a>, 0) = 0"], Path("/r")))


@pytest.mark.skipif(not has_strace(), reason="needs strace")
def test_the_calls_of_a_real_commit_are_survived() -> None:
    found = prove("powerloss", "--most", "20")
    assert found["unusable"] == found["forgotten"] == 0
    assert found["bad_without_fsync"] > 0


def test_a_commit_is_killed_and_fails_at_each_call_of_python() -> None:
    found = prove("crashpoints", "--python")
    assert (found["by"], found["lost"], found["acknowledged_but_lost"]) == ("Python", 0, 0)
    assert found["kills"] > 15
    assert found["errors_survived"] == found["errors"] > 78


def test_the_slope_of_a_leak_is_found() -> None:
    looks = [Look(step, 1_000_000 + 2_048 * step, 10, 2) for step in range(0, 1_000, 100)]
    assert slope(looks) == pytest.approx(2_048)
    assert slope(looks[:1]) == 0.0
