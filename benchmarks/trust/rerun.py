"""Train twice with one seed: the two folders are the same, byte for byte, but for the times.

python -m benchmarks.trust.rerun
"""

import re
import sys
from pathlib import Path

from .result import Proof, parser
from .training import TrainingRun, temp_folder, write_corpus
from .worker_processes import preload_modules

# Fields with times and machines; the rest of such a file must be identical.
TOLD = re.compile(
    rb'"(seconds|tokens_per_second|training_seconds|wall_seconds|peak_memory_bytes|process|sha256)"'
    rb":\s*[^,}\n]+"
)
PICTURES = (".png", ".html", ".csv")  # of those same times


def contents(run: Path) -> dict[str, bytes]:
    """The files of a run by name, without the times in them; pictures by name alone."""
    return {
        str(path.relative_to(run)): b""
        if path.suffix in PICTURES
        else path.read_bytes()
        if path.suffix == ".safetensors"
        else TOLD.sub(b"", path.read_bytes())
        for path in run.rglob("*")
        if path.is_file()
    }


def main() -> int:
    """Train twice, compare."""
    parser(str(__doc__).splitlines()[0]).parse_args()
    proof = Proof("rerun", "one recipe, one seed, trained twice")
    preload_modules()
    with temp_folder() as folder:
        recipe = write_corpus(folder / "corpus")
        runs = [TrainingRun(recipe, folder / name, "training.steps=60") for name in ("one", "two")]
        for training in runs:
            if training.start().end():
                raise SystemExit(f"a training failed: {training.log.read_text()}")
        one, two = (contents(training.run) for training in runs)
    different = [name for name in one.keys() | two.keys() if one.get(name) != two.get(name)]
    for name in sorted(one.keys() | two.keys()):
        alike = "DIFFERENT" if name in different else "the same"
        what = " but for times" if name.endswith((".json", ".jsonl")) else ""
        seen = "is there" if name.endswith(PICTURES) else f"{alike}{what}"
        proof.say(f"{name:<52} {seen}")
    proof.figures |= {"files": len(one), "different": len(different)}
    return proof.end({f"{len(one)} files the same": not different})


if __name__ == "__main__":
    sys.exit(main())
