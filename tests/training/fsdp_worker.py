"""Processes that shard a model and gather it again, with pickle under an audit hook.

python -m tests.training.fsdp_worker FOLDER SIZE

Prints the exit code of each process by rank: 0 if everything is correct.
"""

import copy
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.models import TextClassifier, TransformerConfig
from jumok.models.weights import named_weights
from jumok.processes import ProcessGroup, init_process_group, microbatches_of_rank
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.ema import EMA
from jumok.training.parallel.fsdp import FullyShardedDataParallel

CONFIG = TransformerConfig(vocabulary_size=50, d_model=16, n_heads=2, d_ff=32, n_layers=2)


def _forbid_pickle(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith("pickle"):
        print(f"{event} {arguments}", file=sys.stderr)
        os._exit(99)


def _work(processes: ProcessGroup, folder: Path) -> int:
    """Shard and gather the model several times: the same bits, and no trace at the end.

    In between, a step of 4 texts has the gradients and the norm of an unsharded model.
    """
    sys.addaudithook(_forbid_pickle)
    torch.manual_seed(0)
    model = TextClassifier(CONFIG, 2).eval()
    ids = torch.randint(50, (4, 7))
    expected = model(ids)
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}

    def loss(batch: Tensor) -> Tensor:
        return model(batch).square().sum()  # type: ignore[no-any-return]

    for text in ids.split(1):  # text by text as below: other shapes round differently
        loss(text).backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad for name, p in named_weights(model).items() if p.grad is not None}
    norm = nn.utils.get_total_norm(list(gradients.values()))
    model.zero_grad()
    cpu, store = torch.device("cpu"), CheckpointStore(folder)
    strategy = FullyShardedDataParallel(
        model, loss, processes, len(ids), device=cpu, dtype=torch.float32
    )
    held = sum(rows.numel() for rows in strategy.parameters.values())
    assert held < 1.2 / processes.size * sum(whole.numel() for whole in gradients.values())
    ema = EMA(strategy.parameters, 0.5)
    for value in ema.values.values():
        value.zero_()
    own = microbatches_of_rank(processes.rank, processes.size, len(ids))  # 1, 1 and 2 of the texts

    def backward(index: int, weight: float) -> None:
        (weight * strategy.loss(ids[index : index + 1])).backward()  # type: ignore[no-untyped-call]

    for _ in range(2):
        with strategy.unsharded():
            assert torch.equal(model(ids), expected)
        with strategy.with_ema(ema):
            assert not model(ids).any()
        strategy.zero_grad()
        for index in own:
            backward(index, 1.0)
            strategy.collect_gradients()
        for _ in range(strategy.n_idle_microbatches):
            backward(own[-1], 0.0)
        strategy.reduce_gradients()
        torch.testing.assert_close(strategy.gradient_norm(), norm, rtol=1e-6, atol=0)
        for name, parameter in strategy.parameters.items():
            expected_rows = strategy.local(gradients)[name]
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, expected_rows, rtol=1e-5, atol=1e-6)
    weights = {name: parameter.detach() for name, parameter in strategy.parameters.items()}
    moments = {f"exp_avg:{name}": rows + 1 for name, rows in weights.items()}
    whole = strategy.gather({"model": weights, "optimizer": {**moments, "step:x": torch.ones(())}})
    if processes.rank == 0:
        store.commit(1, whole, {})
    processes.all_gather_floats([0])  # the checkpoint is written
    saved = store.checkpoint(1).load()
    for name, rows in strategy.local(saved["model"]).items():
        assert torch.equal(rows, weights[name])
    for name, rows in strategy.local(saved["optimizer"]).items():
        assert torch.equal(rows, moments.get(name, torch.ones(())))
    for local in weights.values():
        local.zero_()
    strategy.load_best(store.checkpoint(1))
    assert torch.equal(model(ids), expected)
    assert torch.equal(copy.deepcopy(model)(ids), expected)
    assert attributes == {name: set(vars(module)) for name, module in model.named_modules()}
    return 0


def run_workers(size: int, work: Callable[[ProcessGroup], int]) -> None:
    """Run connected processes; print their exit codes."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    os.environ |= {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    workers = []
    for rank in range(size):
        process = os.fork()
        if process == 0:
            os.environ["RANK"] = str(rank)
            with init_process_group(torch.device("cpu"), 30.0) as processes:
                code = work(processes)
            os._exit(code)
        workers.append(process)
    print(*(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in workers))


if __name__ == "__main__":
    signal.alarm(570)
    run_workers(int(sys.argv[2]), lambda processes: _work(processes, Path(sys.argv[1])))
