"""Where a training step goes: the processor time of each kind of operation, for shipped recipes.

    python benchmarks/step_profile.py numbers nsmc koen [--batches 6] [--repeats 6] [--save NAME]

The recipe's own data, model, batches and trainer; one thread. Each step is repeated, and each of
its operations counts with its shortest time: so other programs, which interrupt some of them, do
not count. Operations in a backward pass belong to the operation of the forward pass that they are
the gradient of. "Python" is what the step takes without a profiler, less its operations. With
--turns the kernel for training and the operations of PyTorch take turns, step by step, and the
shortest processor time of each batch counts; without a profiler. --torch profiles the latter.
Overrides of a recipe as NAME:KEY=VALUE,... (nsmc:training.precision=bfloat16).
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.profiler_util import FunctionEvent
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.profiler import ProfilerActivity, profile, record_function
from turns import command_line, heading

from jumok.device import find_device
from jumok.native.training import cpu_training_kernel
from jumok.nn.attention import MultiHeadAttention
from jumok.nn.training_kernel import use_training_kernel
from jumok.processes import SINGLE_PROCESS
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.setup import prepare_training
from jumok.training import trainer as trainer_module
from jumok.training.trainer import Trainer

RESULTS = Path(__file__).parent / "results"
PRODUCTS = {"aten::mm", "aten::addmm", "aten::linear", "mkl::_mkl_linear", "mkldnn::_linear"}
SCOPES = {  # the innermost scope around an operation: its kind
    "Linear": "products with weights",
    "MultiHeadAttention": "attention",
    "RotaryPositions": "attention",
    "LayerNorm": "norm",
    "ResidualNorm": "residual and dropout",
    "Dropout": "residual and dropout",
    "GELU": "activation",
    "ReLU": "activation",
    "InputEmbedding": "embedding",
    "TokenEmbedding": "embedding",
    "_FusedLinearCrossEntropy": "cross-entropy",
    "_Attention": "attention",
    "_FeedForward": "activation",
    "clipping": "clipping",
    "moving average": "moving average",
    "optimizer": "optimizer",
    "data": "data",
    "seed": "seed",
}


@contextmanager
def scopes(trainer: Trainer[Any]) -> Iterator[None]:
    """Name the parts of a step for the profiler: modules by their class, the rest by a table."""
    open_scopes: list[Any] = []

    def enter(module: nn.Module, inputs: object) -> None:
        scope = record_function(type(module).__name__)
        scope.__enter__()  # type: ignore[no-untyped-call]
        open_scopes.append(scope)

    def leave(module: nn.Module, inputs: object, output: object) -> None:
        open_scopes.pop().__exit__(None, None, None)

    def named(owner: Any, method: str, name: str) -> Callable[[], None]:
        function = getattr(owner, method)

        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            with record_function(name):
                return function(*arguments, **options)

        setattr(owner, method, call)
        return lambda: setattr(owner, method, function)

    with ExitStack() as stack:
        stack.callback(register_module_forward_pre_hook(enter).remove)
        stack.callback(register_module_forward_hook(leave).remove)
        for owner, method, name in (
            (trainer.strategy, "gradient_norm", "clipping"),
            (nn.utils, "clip_grads_with_norm_", "clipping"),
            (trainer.ema, "update", "moving average"),
            (trainer.optimizer, "step", "optimizer"),
            (trainer.loader, "next_batches", "data"),
            (MultiHeadAttention, "project_self", "MultiHeadAttention"),
            (MultiHeadAttention, "project", "MultiHeadAttention"),
            (MultiHeadAttention, "attend_queries", "MultiHeadAttention"),
            (trainer_module, "set_step_seed", "seed"),
        ):
            stack.callback(named(owner, method, name))
        yield


def kinds_of(events: list[FunctionEvent]) -> list[str]:
    """The kind of each event: its innermost scope, or that of its operation of the forward pass."""
    forward: dict[int, str] = {}
    kinds = []
    for event in events:
        kind = ""
        at: FunctionEvent | None = event
        while at is not None and not kind:
            kind, at = SCOPES.get(at.name, ""), at.cpu_parent
        number = event.sequence_nr
        if event.scope != 1 and number >= 0 and kind:
            forward.setdefault(number, kind)
        kinds.append(kind)
    for i, event in enumerate(events):
        at = event
        while at is not None and not kinds[i]:
            if at.scope == 1 or "Backward" in at.name:
                kinds[i] = forward.get(at.sequence_nr, "")
            at = at.cpu_parent
        if event.name == "aten::bmm":
            kinds[i] = "products of attention"
        elif event.name in PRODUCTS or (kinds[i] == "cross-entropy" and event.name == "aten::mm"):
            kinds[i] = "products with weights"
        elif "AccumulateGrad" in event.name:
            kinds[i] = "accumulated gradients"
    return kinds


def is_operation(event: FunctionEvent) -> bool:
    """Whether it is an operation of PyTorch, no scope of Python."""
    return "::" in event.name or event.name.endswith("Backward0") or event.name.startswith("_")


def make_trainer(name: str, overrides: str, folder: Path) -> Trainer[Any]:
    """The trainer of a recipe, ready for its first step."""
    recipe = load_recipe(name, [each for each in overrides.split(",") if each])
    device = find_device("cpu")
    setup = prepare_training(recipe, device)
    return Trainer(
        setup.job,
        setup.recipe.training,
        folder,
        seed=0,
        device=device,
        metadata={},
        processes=SINGLE_PROCESS,
    )


def compare_in_turns(name: str, options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The processor time of a step with and without the kernel."""
    name, _, overrides = name.partition(":")
    trainer = make_trainer(name, overrides, folder)
    totals = {"torch": 0.0, "kernel": 0.0}
    tokens = 0
    for number in range(options.batches + 1):
        position = trainer.loader.state
        times: dict[str, list[float]] = {"torch": [], "kernel": []}
        for turn in range(options.repeats * 2):
            system = ("torch", "kernel")[turn % 2]
            trainer.loader.state = position
            with use_training_kernel(cpu_training_kernel() if system == "kernel" else None):
                begin = time.thread_time()
                trainer.train_step()
                times[system].append(time.thread_time() - begin)
        if number:  # the first batch warms up
            for system in totals:
                totals[system] += min(times[system])
            trainer.loader.state = position
            tokens += trainer.loader.next_batches(range(1), 1)[0].tokens
    torch_ms, kernel_ms = (1000 * totals[each] / options.batches for each in totals)
    precision = str(trainer.dtype).removeprefix("torch.")
    yield (
        f"{name:<12} {precision:<9} {overrides:<30} {tokens / options.batches:7,.0f} tokens  torch "
        f"{torch_ms:8.1f} ms  kernel {kernel_ms:8.1f} ms  {torch_ms / kernel_ms:.2f} x"
    )


def profile_recipe(name: str, options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The lines of a recipe."""
    batches, repeats = options.batches, options.repeats
    name, _, overrides = name.partition(":")
    trainer = make_trainer(name, overrides, folder)
    for _ in range(3):
        trainer.train_step()
    times: dict[str, float] = defaultdict(float)
    names: dict[tuple[str, str], float] = defaultdict(float)
    whole = operations = tokens = 0.0
    for _ in range(batches):
        position = trainer.loader.state
        tokens += trainer.loader.next_batches(range(1), 1)[0].tokens
        steps, rows = [], []
        for _ in range(repeats):
            trainer.loader.state = position
            begin = time.thread_time()
            trainer.train_step()
            steps.append(time.thread_time() - begin)
        for _ in range(repeats):
            trainer.loader.state = position
            with profile(activities=[ProfilerActivity.CPU]) as found, scopes(trainer):
                trainer.train_step()
            rows.append([e for e in found.events() if e.device_type.name == "CPU"])
        rows = [row for row in rows if [e.name for e in row] == [e.name for e in rows[0]]]
        assert len(rows) > 1, "the steps differ"
        kinds = kinds_of(rows[0])
        for i, event in enumerate(rows[0]):
            if not is_operation(event):
                continue
            shortest = min(row[i].self_cpu_time_total for row in rows) * 1e-6
            operations += 1
            times[kinds[i] or "other"] += shortest
            names[kinds[i] or "other", event.name] += shortest
        whole += min(steps)
    times["Python"] = max(whole - sum(times.values()), 0.0)
    yield (
        f"{name} {overrides}: {trainer.dtype}, {1000 * whole / batches:.1f} ms a step, "
        f"{tokens / batches:,.0f} tokens, {operations / batches:,.0f} operations"
    )
    total = sum(times.values())
    for kind, seconds in sorted(times.items(), key=lambda each: -each[1]):
        top = sorted(((s, n) for (k, n), s in names.items() if k == kind), reverse=True)[:4]
        detail = ", ".join(f"{n.removeprefix('aten::')} {s / total:.1%}" for s, n in top)
        yield f"  {kind:<24} {1000 * seconds / batches:8.2f} ms {seconds / total:6.1%}   {detail}"
    yield ""


def main() -> None:
    """Profile the recipes and print or save the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipes", nargs="+", metavar="RECIPE[:KEY=VALUE,...]")
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--save", default="", help="the name of a results file")
    parser.add_argument("--turns", action="store_true", help="with the kernel and without")
    parser.add_argument("--torch", action="store_true", help="profile without the kernel")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = [heading(command_line())]
    for name in options.recipes:
        measure = compare_in_turns if options.turns else profile_recipe
        kernel = None if options.torch or options.turns else cpu_training_kernel()
        with tempfile.TemporaryDirectory() as folder, use_training_kernel(kernel):
            for line in measure(name, options, Path(folder)):
                print(line, flush=True)
                lines.append(line)
    if options.save:
        (RESULTS / f"{options.save}.txt").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
