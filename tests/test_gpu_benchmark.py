"""All parts of benchmarks/gpu.py run, here in tiny sizes on the CPU."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_all_parts() -> None:
    script = Path(__file__).parent.parent / "benchmarks" / "gpu.py"
    done = subprocess.run(
        [sys.executable, script, "--device", "cpu", "--tiny"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("tokens/s") == 8  # two trainings and six ways of decoding
    for part in ("strict mode: ", "FSDP2 on one device: ", "checkpoint ", "soak: "):
        assert part in done.stdout
