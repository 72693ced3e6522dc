"""Every mutant applies, and the runner distinguishes killed mutants from survivors.

`python -m benchmarks.trust.mutants` runs all of them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.trust.mutants import TREE, DoesNotApplyError, Mutant, applied, mutated, read_mutants

MUTANTS = tuple(read_mutants())

TWO = """
import sys
from benchmarks.trust import mutants

file, test = "src/jumok/training/schedules.py", ("tests/training/test_schedules.py",)
mutants.read_mutants = lambda: (
    mutants.Mutant(file, "lr_multiplier", "return step / warmup_steps", "return 1.0", "no", test),
    mutants.Mutant(file, "lr_multiplier", "The factor", "A factor", "nothing", test),
)
sys.exit(mutants.main())
"""


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_every_mutant_applies(file: str) -> None:
    for mutant in MUTANTS:
        if mutant.file == file:
            compile(mutated(mutant), mutant.file, "exec")
            assert all((TREE / test).is_file() for test in mutant.tests), mutant.tests


def test_the_mutants_are_distinct() -> None:
    assert len(MUTANTS) >= 60
    assert len({(each.file, each.function, each.old, each.new) for each in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("old", ["no such text", "self"])
def test_a_pattern_must_occur_exactly_once(old: str) -> None:
    mutant = Mutant("src/jumok/nn/masks.py", "AttentionMask", old, "something else", "nothing", ())
    with pytest.raises(DoesNotApplyError, match="not once"):
        mutated(mutant)


def test_white_space_stands_for_any_other(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    return (1 +\n        2)\n")
    assert "return 3" in mutated(Mutant("a.py", "f", "(1 + 2)", "3", "", ()), tmp_path)


def test_the_copy_is_restored(tmp_path: Path) -> None:
    mutant = MUTANTS[0]
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    before = (TREE / mutant.file).read_bytes()
    copy.write_bytes(before)
    with applied(mutant, tmp_path):
        assert copy.read_text(encoding="utf-8") == mutated(mutant)
    assert copy.read_bytes() == before


def test_a_mutant_is_killed_and_a_harmless_change_survives() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO, "--unrecorded"],
        cwd=TREE,
        capture_output=True,
        text=True,
        timeout=280,
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["killed"], result["survived"], result["errors"]) == (1, 1, 0), done.stdout
    assert done.returncode == 1
    assert "NO TEST NOTICES" in done.stdout
