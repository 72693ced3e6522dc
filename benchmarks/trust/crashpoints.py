"""Kill a commit at each of its system calls, then let each of them fail in five ways.

    python -m benchmarks.trust.crashpoints [--python]

After a kill there must be a sound checkpoint: the one before, or the new one; the new one for
certain once the commit was acknowledged. The next life must tidy up and commit. A call that fails
(ENOSPC, EIO, EDQUOT, EMFILE, EINTR) must end the commit with exit code 3 and a sentence, or not
matter to it; the checkpoint before stays. With strace it is the calls of the kernel, otherwise
those of Python that change the disk.
"""

import errno
import itertools
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from jumok.training.checkpoints.store import CheckpointStore

from .commit_calls import (
    Ending,
    commit_under,
    commit_under_strace,
    fail_at,
    has_strace,
    kill_at,
    sound,
    states,
    two_committed,
)
from .result import Proof, parser
from .training import temp_folder
from .worker_processes import preload_modules

ERRORS = ("ENOSPC", "EIO", "EDQUOT", "EMFILE", "EINTR")

# The calls with which a commit looks at files and changes them; a call fails as it can fail.
MAY_FAIL = {
    "ENOSPC": "mkdir,openat,write,fsync,close,rename",
    "EIO": "mkdir,openat,read,write,fsync,close,rename,unlinkat,rmdir,getdents64,newfstatat,fstat",
    "EDQUOT": "mkdir,openat,write,fsync,close",
    "EMFILE": "openat",
    "EINTR": "openat,write,fsync,close,read",
}


def calls_of_a_commit(folder: Path) -> list[tuple[str, int]]:
    """Every system call of a commit: its name, and the how manieth of that name it is."""
    record = folder / "record"
    commit_under_strace(two_committed(folder / "whole"), folder / "log", "-o", str(record))
    count, calls = Counter[str](), []
    for name in re.findall(r"^(\w+)\(", record.read_text(encoding="utf-8"), re.MULTILINE):
        count[name] += 1
        calls.append((name, count[name]))
    return calls


def kills(folder: Path, strace: bool) -> Iterator[tuple[CheckpointStore, Ending]]:
    """One commit after the other, killed at its first call, its second, ..."""
    log = folder / "log"
    if strace:
        for number, (name, nth) in enumerate(calls_of_a_commit(folder)):
            store = two_committed(folder / f"kill-{number}")
            inject = f"inject={name}:signal=SIGKILL:when={nth}"
            words = ("-o", "/dev/null", "-e", f"trace={name}", "-e", inject)
            yield store, commit_under_strace(store, log, *words)
    else:
        for point in itertools.count(1):
            store = two_committed(folder / f"kill-{point}")
            ending = commit_under(store, log, kill_at(point))
            yield store, ending
            if ending.code == 0:
                return


def killed(folder: Path, strace: bool, proof: Proof) -> tuple[int, int, int]:
    """A kill at each call: how many there are, after how many nothing was left, or the ack lied."""
    points = lost = lied = 0
    for store, ending in kills(folder, strace):
        points += ending.code == -signal.SIGKILL
        if ending.code not in (0, -signal.SIGKILL):
            raise SystemExit(f"a commit ended with {ending.code}: {ending.said}")
        newest = sound(store)
        lost += newest not in (2, 3)
        lied += ending.acknowledged and newest != 3
        store.commit(4, states(4), {"step": 4})  # the next life tidies up and goes on
        tidy = sorted(path.name for path in store.checkpoints.iterdir())
        lost += tidy not in (["step-2", "step-4"], ["step-3", "step-4"])
        shutil.rmtree(store.folder)
    proof.say(f"killed at each of {points} calls: {lost} without a sound one, {lied} lies")
    return points, lost, lied


def failures(
    folder: Path, strace: bool, error: str
) -> Iterator[tuple[str, CheckpointStore, Ending]]:
    """One commit after the other in which one call answers with this error."""
    for call in MAY_FAIL[error].split(",") if strace else ("a call",):
        for point in itertools.count(1):
            store = two_committed(folder / f"{error}-{call}-{point}")
            log, record = folder / f"{store.folder.name}.log", folder / "calls"
            if strace:
                inject = f"inject={call}:error={error}:when={point}"
                words = ("-o", str(record), "-e", f"trace={call}", "-e", inject)
                ending = commit_under_strace(store, log, *words)
                came = "(INJECTED)" in record.read_text(encoding="utf-8")
            else:
                ending = commit_under(store, log, fail_at(point, getattr(errno, error)))
                came = ending.code != 0  # in Python every one of them matters
            if not came:
                break
            yield f"{call} {point}", store, ending


def fails(folder: Path, strace: bool, error: str, proof: Proof) -> tuple[int, int]:
    """One error at each call that may give it: how many there were, how many ended badly."""
    bad, codes = 0, Counter[int]()
    for call, store, ending in failures(folder, strace, error):
        codes[ending.code] += 1
        if not survived(ending, store):
            bad += 1
            proof.say(f"{error} at {call}: {ending}, newest {sound(store)}")
        shutil.rmtree(store.folder)
    ends = ", ".join(f"{codes[code]} with exit code {code}" for code in sorted(codes))
    proof.say(f"{error:<7} at {codes.total():>3} calls: {ends}; {bad} bad")
    return codes.total(), bad


def survived(ending: Ending, store: CheckpointStore) -> bool:
    """Whether a commit with an error in it went on, or ended in order, and lost nothing."""
    newest = sound(store)
    if ending.code == 0:
        return newest == 3
    sentence = re.fullmatch(r".+ \(.+\); .+\n", ending.said)
    return ending.code == 3 and newest in (2, 3) and sentence is not None


def main() -> int:
    """Kill and fail."""
    words = parser("Kill a commit at each of its calls; let each of them fail.")
    words.add_argument("--python", action="store_true", help="calls of Python, strace or not")
    options = words.parse_args()
    proof = Proof("crashpoints", "a commit killed, or failing, at each of its system calls")
    preload_modules()
    strace = has_strace() and not options.python
    proof.say("calls of the kernel, by strace" if strace else "calls of Python")
    with temp_folder() as folder:
        points, lost, lied = killed(folder, strace, proof)
        found = [fails(folder, strace, error, proof) for error in ERRORS]
    cases, bad = sum(n for n, _ in found), sum(n for _, n in found)
    proof.figures |= {"by": "strace" if strace else "Python", "kills": points, "lost": lost}
    proof.figures |= {
        "acknowledged_but_lost": lied,
        "errors": cases,
        "errors_survived": cases - bad,
    }
    return proof.end(
        {
            f"a sound checkpoint after each of {points} kills": lost == 0
            and points > (75 if strace else 15),
            "no acknowledged commit lost": lied == 0,
            f"{cases} of {cases} errors survived": bad == 0 and cases >= 78,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
