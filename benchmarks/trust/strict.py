"""The cost of strict training: its step and the default one, with one process and with two.

    python -m benchmarks.trust.strict [--rounds 7]

The model is that of the recipe nsmc, its batches are of as many tokens, four per step; strict
and default training run some steps in turns, in the same processes of one thread each, connected by
gloo. The figure is the median over the rounds of the ratio of strict to default time; processor
time is printed too, because it is more reliable on a busy machine.
"""

import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from jumok.models.config import TransformerConfig
from jumok.processes import ProcessGroup, init_process_group
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.training.config import TrainingConfig
from jumok.training.trainer import Trainer

from .random_texts import RandomTextsJob
from .result import Proof, parser
from .training import temp_folder
from .worker_processes import preload_modules, start_process

MAX_COST = 0.10  # of a step
BATCHES = 4  # per step
WARM_UP = 2  # steps of a round that are not timed
MODEL = TransformerConfig(
    vocabulary_size=32_000,
    n_layers=2,
    d_model=128,
    n_heads=4,
    d_ff=512,
    activation="gelu",
    norm_first=True,
    positions="learned",
    scale_embedding=False,
    dropout=0.2,
    max_length=144,
)
CONFIG = TrainingConfig(
    steps=8,
    warmup_steps=5,
    gradient_accumulation_steps=BATCHES,
    precision="float32",
    evaluate_every=1_000,
    log_every=1_000,
    timeout=120,
)


class TimedJob(RandomTextsJob):
    """Records when each loss is computed: wall-clock time and processor time, in seconds."""

    def __init__(self) -> None:
        super().__init__(MODEL, 64, 64, BATCHES * (CONFIG.steps or 0))
        self.times: list[tuple[float, float]] = []

    def loss(self, batch: LabelledBatch) -> Tensor:
        """The summed loss."""
        self.times.append((time.perf_counter(), time.process_time()))
        return super().loss(batch)


def seconds(strict: bool, processes: ProcessGroup, folder: Path) -> list[float]:
    """The median step of one round: wall-clock time and processor time."""
    folder.mkdir(exist_ok=True)
    job = TimedJob()
    Trainer(
        job,
        replace(CONFIG, strict=strict),
        folder,
        seed=0,
        device=torch.device("cpu"),
        metadata={},
        processes=processes,
    ).fit()
    torch.use_deterministic_algorithms(mode=False)
    begun = job.times[:: BATCHES // processes.size][WARM_UP:]
    return [statistics.median(b[which] - a[which] for a, b in pairwise(begun)) for which in (0, 1)]


def measured(size: int, rounds: int, folder: Path) -> list[list[list[float]]]:
    """Per round: the `seconds` of a default step and of a strict step."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]

    def process(rank: int) -> Callable[[], None]:
        def take() -> None:
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            with init_process_group(torch.device("cpu"), CONFIG.timeout) as processes:
                found = [
                    [seconds(strict, processes, folder / f"{number}-{strict}") for strict in order]
                    for number in range(rounds)
                    for order in [(False, True)]
                ]
            (folder / f"{rank}.json").write_text(json.dumps(found))

        return take

    workers = [start_process(process(rank), folder / f"{rank}.log") for rank in range(size)]
    for worker in workers:
        worker.patience = 60.0 * rounds + 600
    if any(worker.end() for worker in workers):
        raise SystemExit(f"the training failed: {workers[0].said[-2000:]}")
    return json.loads((folder / "0.json").read_text())  # type: ignore[no-any-return]


def main() -> int:
    """One process, then two."""
    arguments = parser("What strict training costs.")
    arguments.add_argument("--rounds", type=int, default=7)
    options = arguments.parse_args()
    proof = Proof("strict", "a step of strict training and a default one")
    preload_modules()
    expected = {}
    for size in (1, 2):
        with temp_folder() as home, tempfile.TemporaryDirectory(dir=home) as folder:
            rounds = measured(size, options.rounds, Path(folder))
        ratios = [strict[0] / plain[0] for plain, strict in rounds]
        worked = [strict[1] / plain[1] for plain, strict in rounds]
        for number, (plain, strict) in enumerate(rounds):
            proof.say(
                f"{size} {'process  ' if size == 1 else 'processes'} round {number}: "
                f"{1e3 * plain[0]:6.0f} ms a step, strict {1e3 * strict[0]:6.0f}: "
                f"{strict[0] / plain[0] - 1:+.1%} (processor {strict[1] / plain[1] - 1:+.1%})"
            )
        cost, work = statistics.median(ratios) - 1, statistics.median(worked) - 1
        name = "one_process" if size == 1 else "two_processes"
        proof.figures |= {name: round(cost, 4), f"{name}_processor": round(work, 4)}
        expected[f"with {size} costs {MAX_COST:.0%} of a step at most"] = cost <= MAX_COST
    return proof.end(expected)


if __name__ == "__main__":
    sys.exit(main())
