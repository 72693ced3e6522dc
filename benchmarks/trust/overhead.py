"""The cost of reliability: the pause of a checkpoint, and the checks of each step.

    python -m benchmarks.trust.overhead [--millions 100]

A checkpoint: a model of so many million parameters learns (forward and backward pass, AdamW, the
running average) while commits are written behind its back, on a disk; what is measured is how long
each of them held the training up: in the call of `commit`, and before the optimizer, which waits
until the copy is made. It also reports how much longer the steps during a commit took, and how much
memory the copy took. The guards: step by step in turn, one model learns in the trainer, with its
looks at every loss and norm, at signals and at the clock, and another in the barest loop that
learns the same. Guards take the same time however long a step is; these steps are about as long as
those of `make demo`, the shortest that jumok ships (3,600 in two and a half minutes).
"""

import statistics
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.allocator import release_memory, tune_allocator
from jumok.models.weights import named_weights
from jumok.training.checkpoints.async_writer import AsyncCheckpointWriter
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.config import TrainingConfig
from jumok.training.ema import EMA
from jumok.training.optimizer import Optimizer
from jumok.training.trainer import Trainer
from tests.training.toy_job import Circle, Points, points

from .result import Proof, parser

MAX_PAUSE = 0.3  # seconds
MAX_OVERHEAD = 0.02  # of a step
ROUNDS = 5
WIDTH = 2_048  # of the large model
ROWS = 512  # of its batches: an eighth of the tokens of a batch by default

CONFIG = TrainingConfig(
    steps=150,
    warmup_steps=5,
    batch_tokens=256,
    precision="float32",
    evaluate_every=150,
    log_every=20,
)


def layers(n: int, width: int) -> nn.Module:
    """Points in the plane for a model with far too many weights."""
    torch.manual_seed(0)
    inside = [part for _ in range(n) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), *inside, nn.Linear(width, 2))


class Large:
    """A model with this many million parameters, and everything for a training step."""

    def __init__(self, millions: float) -> None:
        self.job = Circle(points(ROWS, seed=1), batch=ROWS)
        self.job.model = layers(max(1, round(millions * 1e6 / WIDTH / WIDTH)), WIDTH)
        self.parameters = named_weights(self.job.model)
        self.optimizer = Optimizer(self.parameters, CONFIG)
        self.average = EMA(self.parameters, decay=0.999)
        self.batch = self.job.epoch(0)[0]

    def step(self, behind: AsyncCheckpointWriter | None = None) -> tuple[float, float]:
        """The seconds of a step, and of waiting for the staging copy."""
        begun, waited = time.perf_counter(), 0.0
        (self.job.loss(self.batch) / self.batch.n_targets).backward()  # type: ignore[no-untyped-call]
        if behind is not None:
            asked = time.perf_counter()
            behind.wait_for_staging()
            waited = time.perf_counter() - asked
        self.optimizer.step(1e-3)
        self.average.update(1)
        return time.perf_counter() - begun, waited

    def states(self) -> dict[str, dict[str, Tensor]]:
        """The states of a checkpoint."""
        return {
            "model": {name: p.detach() for name, p in self.parameters.items()},
            "optimizer": self.optimizer.state(),
            "average": self.average.values,
        }


def memory() -> int:
    """The resident memory of this process in bytes."""
    fields = Path("/proc/self/status").read_text(encoding="utf-8").split("VmRSS:")[1].split()
    return int(fields[0]) * 1024


def pauses(millions: float, proof: Proof) -> list[float]:
    """The pause of the training by each commit, in seconds."""
    large = Large(millions)
    plain = statistics.median(large.step()[0] for _ in range(6))
    states = large.states()
    size = sum(t.nbytes for tensors in states.values() for t in tensors.values())
    held, beside, written = [], [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        AsyncCheckpointWriter(CheckpointStore(Path(folder))) as b,
    ):
        release_memory()
        before = memory()
        b.allocate(states)  # as the trainer after its first step
        b.wait()
        copied = memory() - before
        for number in range(ROUNDS):
            begun = time.perf_counter()
            b.commit(number, large.states(), {})
            called = time.perf_counter() - begun
            took, waited = large.step(b)
            meanwhile = [took]
            while b.in_progress:
                meanwhile.append(large.step()[0])
            written.append(time.perf_counter() - begun)
            held.append(called + waited)
            beside.append(called + took - plain)
            proof.say(
                f"commit {number}: held up for {held[-1]:.3f} s, written in {written[-1]:.1f} s; "
                f"the step during the copy took {took:.2f} s, those during the writing "
                f"{statistics.median(meanwhile):.2f} s, alone {plain:.2f} s"
            )
    proof.say(f"the copy of {size / 2**20:,.0f} MB took {copied / 2**20:,.0f} MB of memory")
    proof.figures |= {
        "longest_pause": round(max(held), 3),
        "longer_step_beside_the_copy": round(statistics.median(beside), 3),
        "written_after": round(max(written), 1),
        "copy_share_of_states": round(copied / size, 3),
    }
    return held


class InTurn(Circle):
    """A job that runs a step of a minimal loop before each loss, and times both."""

    def __init__(self) -> None:
        super().__init__(points(2_048, seed=1), batch=256)
        self.model = layers(4, 1_024)
        self.guarded: list[float] = []
        self.bare: list[float] = []
        self._other = Circle(points(2_048, seed=1), batch=256)
        self._other.model = layers(4, 1_024)
        self._parameters = named_weights(self._other.model)
        self._optimizer = Optimizer(self._parameters, CONFIG)
        epoch = self._other.epoch(0)
        self._batches = cycle([epoch[i] for i in range(len(epoch))])
        self._since: float | None = None

    def loss(self, batch: Points) -> Tensor:
        """The loss of a batch: the start of a trainer's step."""
        now = time.perf_counter()
        if self._since is not None:
            self.guarded.append(now - self._since)
        self._step()
        self._since = time.perf_counter()
        self.bare.append(self._since - now)
        return super().loss(batch)

    def _step(self) -> None:
        """One step of a minimal training loop."""
        batch = next(self._batches)
        loss = self._other.loss(batch) / batch.n_targets
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters.values(), CONFIG.clip_norm)
        self._optimizer.step(CONFIG.learning_rate)


def guarded_and_bare() -> tuple[float, float]:
    """Median seconds of a step of the trainer and of the minimal loop, in turns."""
    job = InTurn()
    with tempfile.TemporaryDirectory() as folder:
        cpu = torch.device("cpu")
        Trainer(job, CONFIG, Path(folder), seed=0, device=cpu, metadata={}).fit()
    return statistics.median(job.guarded[5:]), statistics.median(job.bare[5:])


def main() -> int:
    """Measure the pause and the overhead."""
    arguments = parser("What trust costs.")
    arguments.add_argument("--millions", type=float, default=100.0, help="of parameters")
    options = arguments.parse_args()
    proof = Proof("overhead", f"a checkpoint of {options.millions:g} million parameters; a step")
    tune_allocator()
    held = pauses(options.millions, proof)
    rounds = [guarded_and_bare() for _ in range(ROUNDS)]
    shares = [guarded / bare - 1 for guarded, bare in rounds]
    for number, (guarded, bare) in enumerate(rounds):
        proof.say(
            f"round {number}: {1e3 * guarded:.2f} ms a step guarded, {1e3 * bare:.2f} bare: "
            f"{shares[number]:+.1%}"
        )
    share = statistics.median(shares)
    proof.figures |= {"step_share": round(share, 4), "threads": torch.get_num_threads()}
    return proof.end(
        {
            f"a checkpoint holds the training up for {MAX_PAUSE} s at most": max(held) <= MAX_PAUSE,
            f"the guards take {MAX_OVERHEAD:.0%} of a step at most": share <= MAX_OVERHEAD,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
