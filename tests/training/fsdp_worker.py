"""Processes that shard a model and gather it again, with pickle under an audit hook.

python -m tests.training.fsdp_worker FOLDER SIZE

Prints the exit code of each process by rank: 0 if everything is correct.
"""

import copy
import os
import signal
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.models import TextClassifier, TransformerConfig
from jumok.models.weights import named_weights
from jumok.processes import ProcessGroup, microbatches_of_rank
from jumok.training.checkpoints.resharding import local_rows
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.ema import EMA
from jumok.training.parallel.fsdp import FullyShardedDataParallel
from tests.training.sharded_checkpoint_worker import run_workers

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
            rows = local_rows(len(gradients[name]), processes.rank, processes.size)
            expected_rows = gradients[name][rows.start : rows.stop]
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, expected_rows, rtol=1e-5, atol=1e-6)
    weights = {name: parameter.detach() for name, parameter in strategy.parameters.items()}
    strategy.checkpoint_writer(store).commit(1, {"model": weights}, {})
    for local in weights.values():
        local.zero_()
    strategy.load_best(store.checkpoint(1))
    assert torch.equal(model(ids), expected)
    assert torch.equal(copy.deepcopy(model)(ids), expected)
    assert attributes == {name: set(vars(module)) for name, module in model.named_modules()}
    return 0


if __name__ == "__main__":
    signal.alarm(570)
    run_workers(int(sys.argv[2]), lambda processes: _work(processes, Path(sys.argv[1])))
