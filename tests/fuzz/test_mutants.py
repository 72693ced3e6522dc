"""Mutants: each still has its place, and one that is killed is told from one that lives.

All of them are run by `python -m benchmarks.trust.mutants`.
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
    Mutant(file, "a warm-up, then", "a warming up, then", "nothing", (test,)),
)
sys.exit(mutants.main())
"""


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_every_mutant_still_has_its_place(file: str) -> None:
    for mutant in MUTANTS:
        if mutant.file == file:
            compile(mutated(mutant), mutant.file, "exec")
            for test in (*mutant.killers, *own_tests(mutant.file)):
                path, _, name = test.partition("::")
                text = (TREE / path).read_text(encoding="utf-8")
                assert not name or re.search(rf"^def {name}\(", text, re.M), test


def test_there_are_sixty_and_no_two_alike() -> None:
    assert len(MUTANTS) >= 60
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("old", ["no such text", "real"])
def test_a_text_that_is_not_there_once_is_an_error(old: str) -> None:
    mutant = Mutant("src/jumok/nn/masks.py", old, "something else", "nothing", ())
    with pytest.raises(DoesNotApplyError, match="times, not once"):
        mutated(mutant)


def test_a_copy_is_as_it_was_afterwards(tmp_path: Path) -> None:
    mutant = MUTANTS[0]
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    before = (TREE / mutant.file).read_bytes()
    copy.write_bytes(before)
    with applied(mutant, tmp_path):
        assert copy.read_text(encoding="utf-8") == mutated(mutant)
    assert copy.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_a_mutant_is_killed_and_one_that_breaks_nothing_is_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO, "--unrecorded"],
        cwd=TREE,
        capture_output=True,
        text=True,
        timeout=280,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["killed"], told["survived"], told["errors"]) == (1, 1, 0), done.stdout
    assert done.returncode == 1
    assert "NO TEST NOTICES" in done.stdout
