"""Every entry point works on a device that is not `cpu`, without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch.utils.backend_registration


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no devices in Python",
)
def test_every_entry_point_places_its_tensors(tmp_path: Path) -> None:
    """`tests/host_device.py` is a device whose tensors do not mix with those of the CPU."""
    command = [sys.executable, "-m", "tests.placement", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert {name: how for name, how in found.items() if how != "ok"} == {}
    assert len(found) >= 34
