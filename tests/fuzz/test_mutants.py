"""Every mutant applies, and the runner distinguishes killed mutants from survivors.

`python -m benchmarks.trust.mutants` runs all of them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.trust.mutants import TREE, DoesNotApplyError, applied, mutated
from benchmarks.trust.mutants_list import MUTANTS, Mutant, own_tests

TWO = """
import sys
from benchmarks.trust import mutants
from benchmarks.trust.mutants_list import Mutant

file, test = "src/jumok/training/schedules.py", "tests/training/test_schedules.py"
mutants.MUTANTS = (
    Mutant(file, "return step / warmup_steps", "return 1.0", "no warm-up", (test,)),
    Mutant(file, "Learning rate", "Learning rate x", "nothing", (test,)),
)
sys.exit(mutants.main())
"""


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_every_mutant_applies(file: str) -> None:
    for mutant in MUTANTS:
        if mutant.file == file:
            compile(mutated(mutant), mutant.file, "exec")
            for test in (*mutant.killers, *own_tests(mutant.file)):
                path, _, name = test.partition("::")
                text = (TREE / path).read_text(encoding="utf-8")
                assert not name or re.search(rf"^def {name}\(", text, re.M), test


def test_the_mutants_are_distinct() -> None:
    assert len(MUTANTS) >= 60
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("old", ["no such text", "real"])
def test_a_snippet_must_occur_exactly_once(old: str) -> None:
    mutant = Mutant("src/jumok/nn/masks.py", old, "something else", "nothing", ())
    with pytest.raises(DoesNotApplyError, match="times, not once"):
        mutated(mutant)


def test_the_copy_is_restored(tmp_path: Path) -> None:
    mutant = MUTANTS[0]
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    before = (TREE / mutant.file).read_bytes()
    copy.write_bytes(before)
    with applied(mutant, tmp_path):
        assert copy.read_text(encoding="utf-8") == mutated(mutant)
    assert copy.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
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
