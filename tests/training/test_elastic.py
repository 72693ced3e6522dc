"""Short versions of the proofs about several processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def proof(name: str, *overrides: str) -> tuple[int, dict[str, Any]]:
    """Run a proof in a separate process; its exit code and figures."""
    command = [sys.executable, "-m", f"benchmarks.trust.{name}", *overrides, "--unrecorded"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["good"] is (done.returncode == 0)
    return done.returncode, found


@pytest.mark.slow
def test_strict_bits_survive_a_change_of_processes() -> None:
    code, found = proof("elastic", "--paths", "1", "--seed", "3")
    assert (code, found["different"], found["stuck"]) == (0, 0, 0)
    assert found["changes"] >= 1


@pytest.mark.slow
def test_different_bits_are_detected() -> None:
    """Without strict, the sums depend on the number of processes."""
    code, found = proof("elastic", "--paths", "0", "--ordinary")
    assert (code, found["different"], found["stuck"]) == (1, 2, 0)
