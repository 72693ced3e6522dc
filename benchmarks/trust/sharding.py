"""The memory of each process of a training with and without sharding (training.sharding).

    python -m benchmarks.trust.sharding [--layers 12] [--width 512] [--steps 3] [--processes 2 4]

Processes on this machine train an encoder on random texts with small batches, so that weights,
gradients and moments take nearly all of their memory. The figures are the peak resident memory of
the steps and a checkpoint, and of the evaluation and the end, minus the memory before the model is
built; the largest process counts. Prints a table and writes it to benchmarks/results/sharding.txt;
exit code 1 if sharding saves less than the size of the weights, kept or at the end. During the
steps the whole weights and gradients of some layers exist besides the parts, in float32 (where the
processor has no bfloat16) as much as a model of few layers saves.
"""

import argparse
import datetime
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed.fsdp  # imported before the measurement
from torch import nn

from jumok.atomic_io import write_atomically
from jumok.device import release_memory
from jumok.models.config import TransformerConfig
from jumok.processes import init_process_group
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.training.config import TrainingConfig
from jumok.training.trainer import Trainer

from .random_texts import RandomTextsJob

RESULT = Path(__file__).parents[1] / "results" / "sharding.txt"
CPU = torch.device("cpu")
ROWS, LENGTH, VOCABULARY = 4, 32, 8000
MEGABYTE = 2**20


class MeasuredTrainer(Trainer[LabelledBatch]):
    """A trainer that records the peak memory before the first evaluation."""

    peak_of_steps = 0.0

    def evaluate(self) -> None:
        """Record the peak, then evaluate."""
        self.peak_of_steps = resident("VmHWM")
        super().evaluate()


def resident(word: str) -> float:
    """A figure of /proc/self/status in MB: VmRSS (now) or VmHWM (peak since the reset)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(word):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"no {word} in /proc/self/status: run this on Linux")


def reset() -> None:
    """Reset the peak."""
    release_memory()
    Path("/proc/self/clear_refs").write_text("5")


def live(sharding: str, options: argparse.Namespace, folder: Path) -> None:
    """One process: train and print the memory."""
    torch.set_num_threads(1)
    training = TrainingConfig(
        steps=options.steps,
        gradient_accumulation_steps=max(options.processes),
        checkpoint_every=options.steps,
        sharding=sharding,  # type: ignore[arg-type]
        timeout=300,
    )
    with init_process_group(CPU, 300) as processes:
        nn.Linear(64, 64)(torch.ones(1, 64)).sum().backward()
        reset()
        before = resident("VmRSS")
        config = TransformerConfig(
            vocabulary_size=VOCABULARY,
            d_model=options.width,
            n_heads=options.width // 64,
            d_ff=4 * options.width,
            n_layers=options.layers,
            max_length=LENGTH,
        )
        job = RandomTextsJob(config, ROWS, LENGTH, 64)
        weights = sum(p.numel() for p in job.model.parameters())
        trainer = MeasuredTrainer(
            job, training, folder, seed=0, device=CPU, metadata={}, processes=processes
        )
        reset()
        begin = time.monotonic()
        trainer.fit()
        kept = [*trainer.parameters.values(), *trainer.optimizer.state().values()]
        found = {
            "weights": 4 * weights / MEGABYTE,
            "kept": sum(t.nbytes for t in kept) / MEGABYTE,
            "steps": trainer.peak_of_steps - before,
            "end": resident("VmHWM") - before,
            "seconds": (time.monotonic() - begin) / options.steps,
        }
        print(json.dumps(found), flush=True)


def measure(size: int, sharding: str, words: Sequence[str]) -> dict[str, float]:
    """The largest figures of `size` processes."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        listening.close()
        command = [sys.executable, "-m", "benchmarks.trust.sharding", *words]
        environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        workers = [
            subprocess.Popen(
                [*command, "--live", sharding, "--folder", folder],
                stdout=subprocess.PIPE,
                env=environment | {"RANK": str(rank), "WORLD_SIZE": str(size)},
            )
            for rank in range(size)
        ]
        said = [process.communicate()[0] for process in workers]
    if any(process.returncode for process in workers):
        raise SystemExit(f"{size} processes with sharding {sharding} failed")
    found = [json.loads(text.splitlines()[-1]) for text in said]
    return {key: max(each[key] for each in found) for key in found[0]}


def main() -> None:
    """Measure all kinds, print the table and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--live", default="")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.live:
        live(options.live, options, options.folder)
        return
    words = sys.argv[1:]
    kinds = [(size, kind) for size in options.processes for kind in ("none", "full")]
    found = {kind: measure(*kind, words) for kind in kinds}
    weights = found[kinds[0]]["weights"]
    lines = [
        f"python -m benchmarks.trust.sharding {' '.join(words)}".strip(),
        f"{datetime.date.today()}  torch {torch.__version__}  {platform.machine()}  "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        f"{options.layers} layers of width {options.width}: weights of {weights:,.0f} MB; "
        "MB of the largest process",
        "",
        f"{'processes':>9}  {'sharding':<8}  {'weights and moments':>19}  {'steps':>7}  "
        f"{'evaluation, end':>15}  {'s a step':>8}",
    ]
    for (size, kind), row in found.items():
        lines.append(
            f"{size:>9}  {kind:<8}  {row['kept']:>19,.0f}  {row['steps']:>7,.0f}  "
            f"{row['end']:>15,.0f}  {row['seconds']:>8.1f}"
        )
    text = "\n".join(lines) + "\n"
    print(text, end="")
    write_atomically(options.out, text.encode())
    for size in options.processes:
        whole, parts = found[size, "none"], found[size, "full"]
        if min(whole[moment] - parts[moment] for moment in ("kept", "end")) < weights:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
