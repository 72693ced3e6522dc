"""Loading and predicting import nothing from training but the config of a recipe."""

import subprocess
import sys

import pytest

CODE = """
import sys
import jumok
jumok.load
print(*sorted(name for name in sys.modules if name.startswith("jumok.training.")))
"""


@pytest.mark.slow
def test_load_imports_only_the_config_of_training() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    names = ("config", "optimizers", "schedules")  # the last two: registries, which load by name
    assert done.stdout.split() == [f"jumok.training.{name}" for name in names]
