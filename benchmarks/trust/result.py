"""What a proof found: a table for people, one JSON line for programs, an exit code for both."""

import argparse
import json
import platform
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from jumok.atomic_io import write_atomically

RESULTS = Path(__file__).resolve().parents[1] / "results"
UNRECORDED = "--unrecorded"


def parser(description: str) -> argparse.ArgumentParser:
    """The words of a proof's command line; what is its own is to be added."""
    words = argparse.ArgumentParser(description=description)
    words.add_argument(
        UNRECORDED, action="store_true", help="print only; benchmarks/results stays as it is"
    )
    return words


@dataclass
class Proof:
    """The figures of one proof as they come; `wanted` says which of them must be what."""

    name: str
    claim: str
    begun: float = field(default_factory=time.monotonic)
    figures: dict[str, float | int | str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        """A line of the table, on stderr at once as these things take time."""
        self.lines.append(line)
        print(line, file=sys.stderr, flush=True)

    def end(self, wanted: Mapping[str, bool]) -> int:
        """Print it all, keep it in results/trust_NAME.txt; 0 when all that was wanted is so."""
        words = sys.argv[1:]
        missed = [bar for bar, reached in wanted.items() if not reached]
        seconds = round(time.monotonic() - self.begun, 1)
        content = {"proof": self.name, "good": not missed, **self.figures, "seconds": seconds}
        line = json.dumps(content, ensure_ascii=False)
        command = ["python", "-m", f"benchmarks.trust.{self.name}", *words]
        text = "\n".join(
            [
                self.claim,
                f"command   {shlex.join(command)}",
                f"versions  jumok {version('jumok')}, torch {version('torch')}, "
                f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
                f"date      {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {seconds} s in all",
                "",
                *self.lines,
                "",
                *(f"{'met' if reached else 'MISSED':<8}{bar}" for bar, reached in wanted.items()),
                "",
                line,
                "",
            ]
        )
        print(text, end="")
        if UNRECORDED not in words:
            RESULTS.mkdir(exist_ok=True)
            write_atomically(RESULTS / f"trust_{self.name}.txt", text.encode())
        return 1 if missed else 0
