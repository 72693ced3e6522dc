"""Latency: `jumok --help`, and `jumok predict` from its start to the first answer.

python benchmarks/first_answer.py RUN [--times 7]

After the first repetition the files are in the page cache.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "first_answer.txt"


def main() -> None:
    """Time both commands and keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("run", type=Path)
    words.add_argument("--times", type=int, default=7)
    given = words.parse_args()
    jumok = str(Path(sys.executable).with_name("jumok"))
    commands = {
        "jumok --help": [jumok, "--help"],
        "jumok predict RUN TEXT": [jumok, "predict", str(given.run), "이 영화 정말 재미있어요"],
    }
    lines = [
        "python benchmarks/first_answer.py RUN",
        f"{date.today()}, jumok {version('jumok')}, torch {version('torch')}, "
        f"Python {platform.python_version()}",
        "",
        f"{'seconds from start to end':<26} {'min':>6} {'median':>7} {'max':>6}",
    ]
    for name, command in commands.items():
        seconds = [timed(command) for _ in range(given.times)]
        lines.append(
            f"{name:<26} {min(seconds):6.2f} {statistics.median(seconds):7.2f} {max(seconds):6.2f}"
        )
    text = "\n".join(lines)
    print(text)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def timed(command: list[str]) -> float:
    """Seconds the command takes, its answer thrown away."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
