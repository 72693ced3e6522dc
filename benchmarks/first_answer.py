"""The time and memory from starting a command to its first answer, with PyTorch and without.

    python benchmarks/first_answer.py RUN [--bin FOLDER] [--rounds 7]

RUN is a trained run that reads Korean numbers, such as that of `make demo`. FOLDER has the commands
of an environment with the installed wheel; without it the environment of this script is measured.
The commands take turns. Their files are in memory: the first round is not counted.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "first_answer.txt"
TEXT = "이천이십육 년"
PAIR = "비가 옵니다\t비가 와요"
NOTE = "겨울은 추워요."
VECTOR = "import {module}; {module}.load('ko-small-vectors').encode(['비가 와요'])"
GENERATED = "import sys, {module}; {module}.load(sys.argv[1])(sys.argv[2])"
# As installed: the compiled code of the modules is kept.
ENVIRONMENT = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}


def commands(folder: Path, run: Path) -> dict[str, list[str]]:
    """What is measured: the name of each row and its command."""
    python, jumok = str(folder / "python"), str(folder / "jumok")
    predict = [jumok, "predict", str(run), TEXT]
    return {
        "python -c pass": [python, "-c", "pass"],
        "python -c 'import torch'": [python, "-c", "import torch"],
        "jumok --help": [jumok, "--help"],
        "jumok predict note TEXT": [jumok, "predict", "note", NOTE],
        "the same with beam=4": [jumok, "predict", "note", NOTE, "--decoding", "beam=4"],
        "the same with kernel=torch": [
            jumok,
            "predict",
            "note",
            NOTE,
            "--decoding",
            "kernel=torch",
        ],
        "jumok predict RUN TEXT": predict,
        "RUN with kernel=torch": [*predict, "--decoding", "kernel=torch"],
        "jumok predict ko-small-vectors": [jumok, "predict", "ko-small-vectors", PAIR],
        "the same in bfloat16 (PyTorch)": [
            *(jumok, "predict", "ko-small-vectors", PAIR, "--precision", "bfloat16")
        ],
        "a vector, jumok.engine.load": [python, "-c", VECTOR.format(module="jumok.engine")],
        "a vector, jumok.load": [python, "-c", VECTOR.format(module="jumok")],
        "a text of RUN, jumok.engine.load": [
            *(python, "-c", GENERATED.format(module="jumok.engine"), str(run), TEXT)
        ],
        "a text of RUN, jumok.load": [
            *(python, "-c", GENERATED.format(module="jumok"), str(run), TEXT)
        ],
    }


def cost(command: list[str]) -> tuple[float, float, float]:
    """Seconds of time and of processor time until a command ends, and the most MiB it had."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with exit code {process.returncode}")
    processor = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - begin, processor, usage.ru_maxrss / 1024


def version_of(folder: Path) -> str:
    """The version of torch and Python of an environment."""
    code = (
        "import platform, torch; print('torch', torch.__version__, 'and Python', "
        "platform.python_version())"
    )
    done = subprocess.run(
        [folder / "python", "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def main() -> None:
    """Measure the commands in turns and save the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    chosen = commands(given.bin.absolute(), given.run.absolute())
    rounds = [{n: cost(words) for n, words in chosen.items()} for _ in range(given.rounds + 1)]
    lines = [
        f"{'seconds from start to end':<33} {'min':>6} {'median':>7} {'max':>6} {'processor':>10} "
        f"{'MiB':>5}"
    ]
    for name in chosen:
        times = [measured[name][0] for measured in rounds[1:]]
        processor = statistics.median(measured[name][1] for measured in rounds[1:])
        lines.append(
            f"{name:<33} {min(times):6.2f} {statistics.median(times):7.2f} {max(times):6.2f} "
            f"{processor:10.2f} {max(measured[name][2] for measured in rounds[1:]):5.0f}"
        )
    from turns import command_line, heading  # with torch: a process begins with this one's memory

    top = heading(command_line()) + f"measured: {version_of(given.bin)}, load of others {load:.1f}"
    text = "\n".join([top, "", *lines])
    print(text)
    RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
