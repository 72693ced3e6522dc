"""Break attention, masks, cache, beam search and checkpoints on purpose: does a test detect it?

    python -m benchmarks.trust.mutants [--only WORDS] [--whole-suite] [--timeout SECONDS]

Each mutant (mutants.toml) replaces one snippet of one file, which must occur there exactly once, in
a temporary copy of the tree. Its tests run first, then those of its module; a failing test has
killed it. A survivor reveals a gap in the tests. At the end the tests that killed mutants run
without any mutant, and must pass.

Two mutants run in parallel, each in a process forked from one that has imported torch and pytest,
but not jumok: that is imported from the copy. A mutant whose tests time out counts as killed, and
is counted separately. `--whole-suite` runs all tests on survivors.
"""

import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from .mutants_list import MUTANTS, Mutant, own_tests
from .result import Proof, parser

TREE = Path(__file__).resolve().parents[2]
LANES = 2
FAILED, PASSED = 1, 0  # exit codes of pytest; others mean that no test was judged

_FAILED = re.compile(r"(?:FAILED|ERROR) (.*?)(?: - .*)?$")

End = Literal["killed", "killed, out of time", "survived", "error"]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant, how long it took, and which test said so."""

    end: End
    seconds: float
    by: str


class DoesNotApplyError(Exception):
    """The text of a mutant is not in its file exactly once."""


def mutated(mutant: Mutant, tree: Path = TREE) -> str:
    """The file of a mutant with its text replaced; DoesNotApplyError where that is impossible."""
    text = (tree / mutant.file).read_text(encoding="utf-8")
    times = text.count(mutant.old)
    if times != 1 or mutant.old == mutant.new:
        raise DoesNotApplyError(f"{mutant.file}: {mutant.old!r} is there {times} times, not once")
    return text.replace(mutant.old, mutant.new)


def copy_of_the_tree(folder: Path, tree: Path = TREE) -> Path:
    """What tests need of the tree, compiled files too: they are the same."""
    ignored = shutil.ignore_patterns(".*", "node_modules")
    at_the_top = shutil.ignore_patterns(".*", "runs", "web")  # src/jumok/tasks/runs is a package
    shutil.copytree(
        tree,
        folder,
        ignore=lambda path, names: (at_the_top if Path(path) == tree else ignored)(path, names),
    )
    return folder


@contextmanager
def applied(mutant: Mutant, copy: Path) -> Iterator[None]:
    """Inside, the copy has the mutant; afterwards it is as it was."""
    path = copy / mutant.file
    before, times = path.read_bytes(), path.stat()
    path.write_text(mutated(mutant, copy), encoding="utf-8")
    os.utime(path, (times.st_atime, times.st_mtime + 60))  # what was compiled is out of date
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, (times.st_atime, times.st_mtime))  # and fits again


class Run:
    """Tests in a process of their own, over a copy of the tree."""

    def __init__(self, copy: Path, tests: Sequence[str], log: Path, *, keeps: bool) -> None:
        self.log, self.begun = log, time.monotonic()
        sys.stdout.flush()
        self._child = os.fork()
        if self._child == 0:
            sys.dont_write_bytecode = not keeps
            _test(copy, tests, log)

    def code(self) -> int | None:
        """The exit code of pytest, or None while it runs."""
        done, status = os.waitpid(self._child, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if done else None

    def stop(self) -> None:
        """End it, and what it began."""
        os.killpg(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)

    def failure(self) -> str:
        """The first test that failed, as pytest names it."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        failed = [match[1] for line in lines if (match := _FAILED.match(line))]
        return failed[0] if failed else " ".join(lines[-3:]) or "nothing was said"


def _test(copy: Path, tests: Sequence[str], log: Path) -> NoReturn:
    """The life of the process that tests; never returns."""
    code = 99
    try:
        os.setpgid(0, 0)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(out, stream)
        for name in [n for n in sys.modules if n.split(".")[0] in ("jumok", "tests", "benchmarks")]:
            del sys.modules[name]
        places = [str(copy / "src"), str(copy)]
        sys.path[:0] = places
        os.environ["PYTHONPATH"] = os.pathsep.join(places)
        if sys.dont_write_bytecode:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.chdir(copy)
        import pytest

        words = ["-x", "-q", "-m", "", "-p", "no:cacheprovider", "--tb=line"]
        words += ["--rootdir", str(copy)]
        code = int(pytest.main([*words, *tests]))
        import jumok

        if not Path(jumok.__file__).is_relative_to(copy):
            code = 98
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Lane:
    """One of those side by side: a copy of the tree, and one mutant after another in it."""

    def __init__(self, copy: Path, whole_suite: bool, timeout: float) -> None:
        self._copy, self._timeout = copy, timeout
        self._whole_suite = whole_suite

    def judge(self, mutant: Mutant) -> Iterator[Outcome | None]:
        """None while it goes on, then what became of the mutant."""
        begun = time.monotonic()
        rounds = [list(mutant.killers), list(own_tests(mutant.file))]
        rounds += [["tests"]] if self._whole_suite else []
        with applied(mutant, self._copy):
            for tests in rounds:
                run = Run(self._copy, tests, self._copy / "log.txt", keeps=False)
                while (code := run.code()) is None:
                    if time.monotonic() - run.begun > self._timeout:
                        run.stop()
                        name = " ".join(tests)
                        yield Outcome("killed, out of time", time.monotonic() - begun, name)
                        return
                    yield None
                if code != PASSED:
                    end: End = "killed" if code == FAILED else "error"
                    yield Outcome(end, time.monotonic() - begun, run.failure())
                    return
        yield Outcome("survived", time.monotonic() - begun, "")


def judged(mutants: Sequence[Mutant], lanes: Sequence[Lane]) -> Iterator[tuple[Mutant, Outcome]]:
    """Every mutant with what became of it, as they end."""
    waiting = deque(mutants)
    at_work: list[tuple[Mutant, Iterator[Outcome | None]] | None] = [None] * len(lanes)
    while waiting or any(at_work):
        for place, lane in enumerate(lanes):
            if at_work[place] is None and waiting:
                mutant = waiting.popleft()
                at_work[place] = mutant, lane.judge(mutant)
            work = at_work[place]
            if work is None:
                continue
            outcome = next(work[1])
            if outcome is not None:
                for _ in work[1]:  # let it put the file back
                    pass
                at_work[place] = None
                yield work[0], outcome
        time.sleep(0.01)


def collected(mutants: Sequence[Mutant], copy: Path) -> str:
    """See that all tests are there that are named; what is wrong, empty if nothing is.

    What is compiled for it is kept, for all that follow.
    """
    tests = {test for mutant in mutants for test in (*mutant.killers, *own_tests(mutant.file))}
    return _alone(copy, ["--collect-only", *sorted(tests)], keeps=True)


def sound(tests: Sequence[str], copy: Path) -> str:
    """Run the tests that killed, without any mutant; what failed, empty if nothing did."""
    return _alone(copy, sorted(set(tests)), keeps=False) if tests else ""


def _alone(copy: Path, words: Sequence[str], *, keeps: bool) -> str:
    run = Run(copy, words, copy / "log.txt", keeps=keeps)
    while (code := run.code()) is None:
        time.sleep(0.05)
    return "" if code == PASSED else f"exit code {code}: {run.failure()}"


def prepare() -> None:
    """Import what all test processes need, except jumok itself, once."""
    import pytest  # noqa: F401
    import safetensors.torch  # noqa: F401
    import sentencepiece  # noqa: F401
    import torch
    import torch.distributed  # noqa: F401


def main() -> int:
    """Break, test, count."""
    words = parser("Mutants, and the tests that kill them.")
    words.add_argument("--only", default="", help="mutants whose file or line holds these words")
    words.add_argument("--whole-suite", action="store_true", help="all tests for the survivors")
    words.add_argument("--timeout", type=float, default=600, help="seconds for tests to end")
    words.add_argument("--remark", help="what else the machine did meanwhile")
    asked = words.parse_args()
    proof = Proof("mutants", "Code broken on purpose, one place at a time: a test notices.")
    mutants = [one for one in MUTANTS if asked.only in f"{one.file} {one.breaks}"]
    for mutant in mutants:
        mutated(mutant)  # before anything runs
    prepare()
    ends: Counter[End] = Counter()
    with tempfile.TemporaryDirectory(prefix="jumok-mutants-") as name:
        first = copy_of_the_tree(Path(name) / "0")
        wrong = collected(mutants, first)
        others = [copy_of_the_tree(Path(name) / str(n), first) for n in range(1, LANES)]
        lanes = [Lane(copy, asked.whole_suite, asked.timeout) for copy in (first, *others)]
        killers = []
        for mutant, outcome in judged([] if wrong else mutants, lanes):
            ends[outcome.end] += 1
            place = mutant.file.removeprefix("src/jumok/")
            proof.say(f"{outcome.end:<10}{outcome.seconds:>5.0f} s  {place}: {mutant.breaks}")
            proof.say(f"{'':<19}by {outcome.by}" if outcome.by else f"{'':<19}NO TEST NOTICES")
            if outcome.end == "killed":
                killers.append(outcome.by)
        wrong = wrong or sound(killers, first)
    killed = ends["killed"] + ends["killed, out of time"]
    proof.figures |= {"mutants": len(mutants), "killed": killed, "survived": ends["survived"]}
    proof.figures |= {"out_of_time": ends["killed, out of time"], "errors": ends["error"]}
    if asked.remark:
        proof.say(f"\n{asked.remark}")
    return proof.end(
        {
            f"without a mutant the tests that killed pass {wrong}".strip(): not wrong,
            f"{killed} of {len(mutants)} killed": killed == len(mutants),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
