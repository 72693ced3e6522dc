"""The training that is killed, stopped and starved here: tiny and real, everything switched on."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jumok.atomic_io import sha256_of
from jumok.training.checkpoints.store import CheckpointStore
from tests.tiny_runs import REVIEWS, reviews, write_tsv

from .worker_processes import WorkerProcess, start_jumok

ROWS = 4_200  # a few more than what is worth a place in the cache of tokens
TIMES = {"seconds", "tokens_per_second", "training_seconds", "wall_seconds", "peak_memory_bytes"}

ALL_OPTIONS = (  # accumulation, an average, clipping, warm-up, dropout; commits within epochs
    "training.gradient_accumulation_steps=2",
    "training.ema_decay=0.9",
    "training.clip_norm=0.5",
    "training.batch_tokens=200",
    "training.label_smoothing=0.1",
    "training.log_every=3",
    "training.evaluate_every=20",
    "training.checkpoint_every=3",
    "model.dropout=0.2",
)


@contextmanager
def temp_folder() -> Iterator[Path]:
    """A temporary folder, in memory if available.

    What SIGKILL leaves is in the hands of the system, be it on a disk or not; a disk only costs
    time. What a power cut leaves is another question: see powerloss.py.
    """
    memory = Path("/dev/shm")
    home = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="jumok-trust-", dir=home) as name:
        yield Path(name)


def write_corpus(folder: Path, train_rows: int = ROWS) -> Path:
    """Reviews to learn from in `folder`, and their recipe."""
    folder.mkdir(parents=True)
    for seed, (split, n) in enumerate([("train", train_rows), ("dev", 30), ("test", 40)]):
        write_tsv(folder / f"{split}.tsv", ("text", "label"), reviews(n, seed))
    recipe = folder / "recipe.toml"
    recipe.write_text(REVIEWS.format(folder=folder), encoding="utf-8")
    return recipe


class TrainingRun:
    """A training of `recipe` in `run`, in as many lives as it takes, with a cache of its own."""

    def __init__(self, recipe: Path, run: Path, *words: str) -> None:
        self.recipe, self.run, self.words = recipe, run, words
        self.cache = run.with_name(f"{run.name}-cache")
        self.log = run.with_name(f"{run.name}.log")

    @property
    def command(self) -> list[str]:
        """The command of a supervisor: resume the run if there is one, otherwise start it."""
        if (self.run / "recipe.toml").exists():
            return ["train", "--resume", str(self.run)]
        return ["train", str(self.recipe), *ALL_OPTIONS, *self.words, "--out", str(self.run)]

    def start(self) -> WorkerProcess:
        """Start or resume the training in a new process."""
        return start_jumok(self.command, self.log, self.prepared())

    def prepared(self, then: Callable[[], None] = lambda: None) -> Callable[[], None]:
        """What its process does before it begins: it takes the training's own cache; `then`."""

        def first() -> None:
            os.environ["XDG_CACHE_HOME"] = str(self.cache)
            then()

        return first

    def committed(self) -> int:
        """The last step whose checkpoint has its name; 0 when there is none."""
        return max(
            (int(n[5:]) for n in self._names("checkpoints") if n.startswith("step-")), default=0
        )

    def unfinished(self) -> set[str]:
        """The checkpoints that are being written, or were left half written."""
        return {name for name in self._names("checkpoints") if name.startswith(".tmp-")}

    def caching(self) -> bool:
        """Whether a cache file is being written, or was left half written."""
        return any(path.name.startswith(".tmp-") for path in self.cache.glob("jumok/tokens/.tmp-*"))

    def newest(self) -> int:
        """The newest step that can be resumed; damaged checkpoints end everything."""
        checkpoint = CheckpointStore(self.run).newest()
        if checkpoint is None:
            return 0
        if checkpoint.invalid:
            raise SystemExit(f"a damaged checkpoint was left behind: {checkpoint.invalid}")
        return checkpoint.step

    def story(self) -> dict[str, Any]:
        """All that must come out the same: sums of tensors, metrics and results without times."""
        last = CheckpointStore(self.run).newest()
        assert last is not None, f"{self.run} is over and has no checkpoint"
        tensors = [*sorted(last.path.glob("state-*.safetensors")), self.run / "model.safetensors"]
        results = json.loads((self.run / "results.json").read_text(encoding="utf-8"))
        lines = (self.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return {
            **{path.name: sha256_of(path) for path in tensors},
            "step": last.step,
            "progress": _timeless(last.metadata["progress"]),
            "metrics": [_timeless(json.loads(line)) for line in lines],
            "results": _timeless(results),
        }

    def _names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self.run / folder)
        except OSError:
            return []


def differences(story: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names under which two trainings tell different stories."""
    return [name for name in story.keys() | other.keys() if story.get(name) != other.get(name)]


def _timeless(record: Any) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in TIMES}
