"""The recipe fingerprint of a run, for any version of jumok."""

import hashlib
import json
from pathlib import Path

import pytest

from jumok.tasks.runs.run import Run

EARLIER = """\
# written by a jumok that knew fewer keys
task = "classification"
seed = 3
[training]
steps = 40
sharding = "none"
learning_rate = 1e-3
"""


def fingerprint(folder: Path, text: str) -> str:
    (folder / "recipe.toml").write_text(text)
    return Run(folder).recipe_fingerprint()


def test_the_fingerprint_ignores_missing_keys(tmp_path: Path) -> None:
    """A run can be resumed after an upgrade: only the keys in its file are compared."""
    learnt = {"task": "classification", "seed": 3, "training": {"steps": 40, "learning_rate": 1e-3}}
    wanted = hashlib.sha256(json.dumps(learnt, sort_keys=True).encode()).hexdigest()
    assert fingerprint(tmp_path, EARLIER) == wanted


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ('sharding = "none"', 'sharding = "full"'),
        ('sharding = "none"', "timeout = 30.0"),
        ("1e-3", "0.001"),
        ('task = "classification"\nseed = 3', 'seed = 3\ntask = "classification"'),
    ],
)
def test_mutable_keys(tmp_path: Path, words: str, others: str) -> None:
    changed = EARLIER.replace(words, others)
    assert changed != EARLIER
    assert fingerprint(tmp_path, changed) == fingerprint(tmp_path, EARLIER)


@pytest.mark.parametrize(
    ("words", "others"),
    [("seed = 3", "seed = 4"), ("1e-3", "2e-3"), ("steps = 40", ""), ("[training]", "[other]")],
)
def test_immutable_keys(tmp_path: Path, words: str, others: str) -> None:
    changed = EARLIER.replace(words, others)
    assert fingerprint(tmp_path, changed) != fingerprint(tmp_path, EARLIER)
