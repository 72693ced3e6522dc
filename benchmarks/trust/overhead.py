"""What trust costs: how long a checkpoint stops a training, and what its guards take of a step.

    python -m benchmarks.trust.overhead [--millions 100]

A checkpoint: weights, gradients and AdamW of so many million parameters take steps while commits
are written behind their back, on a disk; what is measured is how long each call of `commit` held
the training up. The guards: the same steps of one model, once by the trainer, with its looks at
every loss and norm, at signals and at the clock, and once in the barest loop that learns the same.
"""

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.models.weights import weights_of
from jumok.tasks.batches import Batches
from jumok.training.behind import CommitsBehind
from jumok.training.checkpoint import CheckpointStore
from jumok.training.config import TrainingConfig
from jumok.training.optimizer import Optimizer
from jumok.training.trainer import Trainer
from tests.training.points import Circle, Points, points

from .result import Proof, parser

PAUSE = 0.3  # seconds
SHARE = 0.02  # of a step
ROUNDS = 5


class Wide(Circle):
    """Points in the plane, learnt by far too many weights; notes when each loss is computed."""

    def __init__(self) -> None:
        super().__init__(points(1_024, seed=1), batch=128)
        layers = [nn.Linear(512, 512), nn.ReLU()] * 4
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(2, 512), nn.ReLU(), *layers, nn.Linear(512, 2))
        self.times: list[float] = []

    def loss(self, batch: Points) -> Tensor:
        """The loss of a batch."""
        self.times.append(time.perf_counter())
        return super().loss(batch)

    def step_seconds(self) -> float:
        """The median time from one loss to the next."""
        return statistics.median(b - a for a, b in zip(self.times, self.times[1:], strict=False))


CONFIG = TrainingConfig(
    steps=60,
    warmup_steps=5,
    batch_tokens=256,
    precision="float32",
    evaluate_every=60,
    report_every=20,
)


def guarded() -> float:
    """Seconds a step of the trainer."""
    job = Wide()
    with tempfile.TemporaryDirectory() as folder:
        cpu = torch.device("cpu")
        Trainer(job, CONFIG, Path(folder), seed=0, device=cpu, facts={}).fit()
    return job.step_seconds()


def bare() -> float:
    """Seconds a step of a loop that only learns."""
    job = Wide()
    parameters = weights_of(job.model)
    optimizer = Optimizer(parameters, CONFIG)
    assert CONFIG.steps is not None
    batches: Batches[Points] = job.epoch(0)
    for step in range(CONFIG.steps):
        batch = batches[step % len(batches)]
        loss = job.loss(batch) / batch.units
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters.values(), CONFIG.clip_norm)
        optimizer.step(CONFIG.learning_rate)
    return job.step_seconds()


def pauses(millions: float, proof: Proof) -> tuple[list[float], float]:
    """How long each commit held the training up, in s; how long the longest took to be written."""
    width = 1_000
    rows = int(millions * 1e6 / width / 50)
    parameters = {f"layer.{n}": nn.Parameter(torch.randn(rows, width)) for n in range(50)}
    optimizer = Optimizer(parameters, replace(CONFIG, steps=1))
    for parameter in parameters.values():
        parameter.grad = torch.randn_like(parameter)

    def step() -> float:
        begun = time.perf_counter()
        optimizer.adam.step()
        return time.perf_counter() - begun

    plain = statistics.median(step() for _ in range(4))
    held, written = [], []
    with tempfile.TemporaryDirectory() as folder, CommitsBehind(CheckpointStore(Path(folder))) as b:
        states = {
            "model": {name: p.detach() for name, p in parameters.items()},
            "optimizer": optimizer.state(),
        }
        b.prepare(states)  # as the trainer does after its first step
        while b.under_way:
            step()
        for number in range(ROUNDS):
            begun = time.perf_counter()
            b.commit(number, states, {})
            held.append(time.perf_counter() - begun)
            meanwhile = [step()]
            while b.under_way:
                meanwhile.append(step())
            written.append(time.perf_counter() - begun)
            proof.say(
                f"commit {number}: held up for {held[-1]:.3f} s, written in {written[-1]:.1f} s; "
                f"a step of AdamW took {statistics.median(meanwhile):.3f} s meanwhile, "
                f"{plain:.3f} s alone"
            )
    return held, max(written)


def main() -> int:
    """Measure both."""
    words = parser("What trust costs.")
    words.add_argument("--millions", type=float, default=100.0, help="of parameters")
    options = words.parse_args()
    proof = Proof("overhead", f"a checkpoint of {options.millions:g} million parameters; a step")
    held, written = pauses(options.millions, proof)
    rounds = [(guarded(), bare()) for _ in range(ROUNDS)]
    for number, (with_all, without) in enumerate(rounds):
        share = with_all / without - 1
        proof.say(
            f"round {number}: {1e3 * with_all:.2f} ms a step guarded, {1e3 * without:.2f} bare: "
            f"{share:+.1%}"
        )
    share = min(a for a, _ in rounds) / min(b for _, b in rounds) - 1
    proof.figures |= {"longest_pause": round(max(held), 3), "written_after": round(written, 1)}
    proof.figures |= {"step_share": round(share, 4), "threads": torch.get_num_threads()}
    return proof.end(
        {
            f"a checkpoint holds the training up for {PAUSE} s at most": max(held) <= PAUSE,
            f"the guards take {SHARE:.0%} of a step at most": share <= SHARE,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
