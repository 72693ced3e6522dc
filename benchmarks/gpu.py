"""One GPU: training speed and its share of the peak, decoding, strict mode, sharding, a soak.

    python benchmarks/gpu.py [--only NAME] [--soak-minutes 5] [--peak 989]
    python benchmarks/gpu.py --device cpu --tiny      # the same code without a GPU, in seconds

Each part runs by itself and stops within 8 minutes. The share of the peak (MFU) counts the products
of the model: 6 for each weight of a linear map and token, and 12 T d for each layer of attention
over T tokens, whatever is recomputed. The peak is that of dense bfloat16 products, in TFLOP/s.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from turns import heading

from jumok.decoding.api import GenerationRequest, generate_seq2seq
from jumok.decoding.config import DecodingConfig
from jumok.device import set_deterministic
from jumok.models import EncoderDecoder, TextClassifier, TransformerConfig
from jumok.models.weights import named_weights
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.nn.losses import cross_entropy
from jumok.processes import TorchProcessGroup
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.config import TrainingConfig
from jumok.training.mixed_precision import autocast_model
from jumok.training.optimizer import Optimizer
from jumok.training.parallel.fsdp import FullyShardedDataParallel

RESULTS = Path(__file__).parent / "results" / "gpu.txt"
PEAKS = {  # TFLOP/s of dense bfloat16 products, from the makers' data sheets
    "H200": 989.0,
    "H100 PCIe": 756.0,
    "H100": 989.0,
    "A100": 312.0,
    "L40S": 362.0,
    "L4": 121.0,
    "4090": 165.0,
}
BOS, END = 2, 3


@dataclass(frozen=True)
class Place:
    """Where to compute, and how much of it."""

    device: torch.device
    tiny: bool
    peak: float | None  # TFLOP/s
    soak_minutes: float

    def size(self, full: int, tiny: int) -> int:
        """A number of the full or of the tiny measurement."""
        return tiny if self.tiny else full

    def wait(self) -> None:
        """Until the device has finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def ids(self, *shape: int, vocabulary: int) -> Tensor:
        """Random tokens without special ones."""
        return torch.randint(4, vocabulary, shape, device=self.device)


def encoder_config(place: Place) -> TransformerConfig:
    """BERT base."""
    return TransformerConfig(
        vocabulary_size=place.size(32_000, 100),
        n_layers=place.size(12, 2),
        d_model=place.size(768, 16),
        n_heads=place.size(12, 2),
        d_ff=place.size(3072, 32),
        activation="gelu",
        positions="learned",
        embedding_norm=True,
        max_length=place.size(512, 32),
        dropout=0.0,
    )


def translator_config(place: Place) -> TransformerConfig:
    """The base model of the paper."""
    return TransformerConfig(
        vocabulary_size=place.size(32_000, 100),
        n_layers=place.size(6, 1),
        d_model=place.size(512, 16),
        n_heads=place.size(8, 2),
        d_ff=place.size(2048, 32),
        max_length=place.size(512, 64),
        dropout=0.1,
    )


def products_per_token(config: TransformerConfig, length: int, *, decoder: bool = False) -> float:
    """Floating-point operations of forward and backward for one token of the layers."""
    d, d_ff = config.d_model, config.d_ff
    weights = (8 if decoder else 4) * d * d + (3 if config.gated else 2) * d * d_ff
    attention = 12 * length * d * (1.5 if decoder else 1.0)  # causal: half; and cross-attention
    return config.n_layers * (6 * weights + attention)


class Stepper:
    """A model with its optimizer; `step` does what a step of the trainer does."""

    def __init__(
        self, model: nn.Module, loss: Callable[[], Tensor], device: torch.device, dtype: torch.dtype
    ) -> None:
        self.model, self.loss, self.device, self.dtype = model, loss, device, dtype
        self.parameters = named_weights(model)
        self.optimizer = Optimizer(self.parameters, TrainingConfig(steps=1))

    def step(self) -> Tensor:
        """Forward, backward, clipping and AdamW; the loss, which stays on the device."""
        with autocast_model(self.model, self.device, self.dtype):
            loss = self.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters.values(), 1.0)
        self.optimizer.step(1e-4)
        return loss.detach()


def seconds_of(place: Place, turn: Callable[[], object], repeats: int, warmup: int = 3) -> float:
    """The median time of a turn."""
    for _ in range(warmup):
        turn()
    times = []
    for _ in range(repeats):
        place.wait()
        begin = time.perf_counter()
        turn()
        place.wait()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def rate(place: Place, name: str, tokens: int, flops: float, seconds: float) -> str:
    """Tokens a second and the share of the peak."""
    line = f"{name:<44} {tokens / seconds:12,.0f} tokens/s  {flops / seconds / 1e12:8.2f} TFLOP/s"
    return line if place.peak is None else f"{line}  {flops / seconds / 1e12 / place.peak:6.1%} MFU"


def train_encoder(place: Place) -> Iterator[str]:
    """A classifier of the size of BERT base in bfloat16, eager and compiled."""
    config = encoder_config(place)
    B, T = place.size(64, 2), place.size(512, 32)
    ids, labels = place.ids(B, T, vocabulary=config.vocabulary_size), torch.arange(B) % 2
    labels = labels.to(place.device)
    flops = B * T * products_per_token(config, T)
    for compiled in (False, True):
        model = TextClassifier(config, 2).to(place.device).train()
        if compiled:
            if place.device.type != "cuda":
                continue  # the compiler of CPUs needs minutes and is not what is measured
            for child in model.children():
                child.compile()

        def loss(model: nn.Module = model) -> Tensor:
            return cross_entropy(model(ids), labels) / B

        trainer = Stepper(model, loss, place.device, torch.bfloat16)
        seconds = seconds_of(place, trainer.step, place.size(20, 2))
        name = f"encoder, {B} x {T}, {'compiled' if compiled else 'eager'}"
        yield rate(place, name, B * T, flops, seconds)


def train_translator(place: Place) -> Iterator[str]:
    """The base translator in bfloat16 on full rows, with the loss of the sequence-to-sequence job.

    Padding would only lower the count of tokens.
    """
    config = translator_config(place)
    B, T = place.size(256, 2), place.size(64, 8)
    source, target = (place.ids(B, T, vocabulary=config.vocabulary_size) for _ in range(2))
    model = EncoderDecoder(config).to(place.device).train()

    def loss() -> Tensor:
        hidden = model.decode(target, model.encode(source)).flatten(0, 1)
        total = fused_linear_cross_entropy(
            hidden, model.output, target.flatten(), label_smoothing=0.1
        )
        return total / target.numel()

    trainer = Stepper(model, loss, place.device, torch.bfloat16)
    seconds = seconds_of(place, trainer.step, place.size(20, 2))
    layers = products_per_token(config, T) + products_per_token(config, T, decoder=True)
    flops = B * T * (layers + 6 * config.d_model * config.vocabulary_size)
    yield rate(place, f"translator, {B} x ({T} + {T})", 2 * B * T, flops, seconds)


@torch.no_grad()
def decoding(place: Place) -> Iterator[str]:
    """Output tokens a second of the base translator with random weights, which never ends early."""
    config = translator_config(place)
    S, T = place.size(32, 5), place.size(64, 6)
    for dtype in (torch.float32, torch.bfloat16):
        model = EncoderDecoder(config).to(place.device, dtype).eval()
        for n, beam in ((1, 1), (32, 1), (32, 4)):
            n = min(n, place.size(n, 2))
            source = place.ids(n, S, vocabulary=config.vocabulary_size)
            how = DecodingConfig(beam=beam, min_length=T, max_length=T)
            request = GenerationRequest(how, end_id=END)
            made = 0

            def turn() -> None:
                nonlocal made
                found = generate_seq2seq(model, source, None, request, bos_id=BOS)  # noqa: B023
                made = sum(len(best.ids) for (best,) in found)

            seconds = seconds_of(place, turn, place.size(5, 1), warmup=1)
            name = f"decoding, {str(dtype)[6:]}, {n} texts, beam {beam}"
            yield f"{name:<44} {made / seconds:12,.0f} tokens/s"


def strict(place: Place) -> Iterator[str]:
    """Two trainings of some steps in strict mode end with the same bits."""
    config = encoder_config(place)

    def weights() -> dict[str, Tensor]:
        torch.manual_seed(0)
        model = TextClassifier(config, 2).to(place.device).train()
        ids = place.ids(4, place.size(128, 16), vocabulary=config.vocabulary_size)
        labels = torch.tensor([0, 1, 1, 0], device=place.device)
        trainer = Stepper(
            model, lambda: cross_entropy(model(ids), labels) / 4, place.device, torch.bfloat16
        )
        for _ in range(5):
            trainer.step()
        return {name: weight.detach().clone() for name, weight in trainer.parameters.items()}

    threads = torch.get_num_threads()
    try:
        set_deterministic()
        first, second = weights(), weights()
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    differ = [name for name in first if not torch.equal(first[name], second[name])]
    assert not differ, f"strict mode: {differ} differ between two runs"
    yield f"strict mode: {len(first)} weights have the same bits after 5 steps, twice"


@contextmanager
def one_process(device: torch.device) -> Iterator[TorchProcessGroup]:
    """A process group of this process alone."""
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=0, world_size=1)
    try:
        yield TorchProcessGroup(0, 1, 60.0)
    finally:
        dist.destroy_process_group()


def sharding(place: Place) -> Iterator[str]:
    """FSDP2 on one device has the gradients of the plain model, and costs some time."""
    config = encoder_config(place)
    B, T = place.size(32, 2), place.size(256, 16)
    ids = place.ids(B, T, vocabulary=config.vocabulary_size)
    torch.manual_seed(0)
    model = TextClassifier(config, 2).to(place.device).eval()

    def loss(batch: Tensor) -> Tensor:
        return model(batch).float().square().sum() / B  # type: ignore[no-any-return]

    def plain() -> None:
        model.zero_grad()
        loss(ids).backward()  # type: ignore[no-untyped-call]

    before = seconds_of(place, plain, place.size(10, 1))
    gradients = [p.grad for p in named_weights(model).values() if p.grad is not None]
    expected = nn.utils.get_total_norm(gradients).item()
    with one_process(place.device) as processes:
        strategy = FullyShardedDataParallel(
            model, loss, processes, 1, device=place.device, dtype=torch.float32
        )

        def sharded() -> None:
            strategy.zero_grad()
            strategy.loss(ids).backward()  # type: ignore[no-untyped-call]
            strategy.reduce_gradients()

        after = seconds_of(place, sharded, place.size(10, 1))
        norm = strategy.gradient_norm().item()
    assert abs(norm - expected) < 1e-3 * expected, f"the norm must be {expected}, got {norm}"
    yield f"FSDP2 on one device: norm {norm:.4f} of {expected:.4f}, time x {after / before:.2f}"


def checkpoints(place: Place) -> Iterator[str]:
    """A training goes on from the device to the CPU and back, with the same weights and moments."""
    cpu = torch.device("cpu")
    config = TransformerConfig(vocabulary_size=100, d_model=32, n_heads=2, d_ff=64, n_layers=2)
    torch.manual_seed(0)
    ids, labels = torch.randint(4, 100, (8, 12)), torch.arange(8) % 2

    def training(device: torch.device) -> Stepper:
        model = TextClassifier(config, 2).to(device).eval()
        return Stepper(
            model,
            lambda: cross_entropy(model(ids.to(device)), labels.to(device)) / 8,
            device,
            torch.float32,
        )

    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(Path(folder))
        for number, (start, end) in enumerate(((place.device, cpu), (cpu, place.device))):
            first, second = training(start), training(end)
            for _ in range(3):
                first.step()
            states: dict[str, dict[str, Tensor]] = {
                "model": dict(first.parameters),
                "optimizer": first.optimizer.state(),
            }
            store.commit(number, states, {})
            read = store.checkpoint(number).load()
            with torch.no_grad():
                for name, weight in second.parameters.items():
                    weight.copy_(read["model"][name])
            second.optimizer.load(read["optimizer"])
            ours, theirs = float(first.step()), float(second.step())
            assert abs(ours - theirs) < 1e-5, f"{start} to {end}: loss {ours} and {theirs}"
            for name, weight in first.parameters.items():
                torch.testing.assert_close(
                    weight.cpu(), second.parameters[name].cpu(), rtol=1e-3, atol=2e-5
                )
            yield f"checkpoint {start.type} to {end.type}: the next step agrees, loss {ours:.6f}"


def soak(place: Place) -> Iterator[str]:
    """Training with changing shapes for some minutes: the memory of the device does not grow."""
    config = encoder_config(place)
    model = TextClassifier(config, 2).to(place.device).train()
    shape = (1, 1)

    def loss() -> Tensor:
        ids = place.ids(*shape, vocabulary=config.vocabulary_size)
        labels = torch.arange(shape[0], device=place.device) % 2
        return cross_entropy(model(ids), labels) / shape[0]

    trainer = Stepper(model, loss, place.device, torch.bfloat16)
    generator = torch.Generator().manual_seed(0)
    end = time.monotonic() + 60 * place.soak_minutes
    held: list[int] = []
    losses: list[float] = []
    while time.monotonic() < end or len(losses) < 8:
        T = int(torch.randint(8, place.size(512, 32), (), generator=generator))
        shape = (max(1, place.size(16_384, 64) // T), T)
        losses.append(float(trainer.step()))
        if place.device.type == "cuda":
            held.append(torch.cuda.memory_allocated(place.device))
    assert all(value == value for value in losses), "a loss is not a number"
    line = f"soak: {len(losses):,} steps in {place.soak_minutes:g} minutes"
    if held:
        early, late = max(held[: len(held) // 2]), max(held[len(held) // 2 :])
        assert late <= early * 1.01, f"memory grew from {early:,} to {late:,} bytes"
        line += f", {early / 2**20:,.0f} MiB in the first half, {late / 2**20:,.0f} in the second"
    yield line


PARTS: Mapping[str, Callable[[Place], Iterator[str]]] = {
    "encoder": train_encoder,
    "translator": train_translator,
    "decoding": decoding,
    "strict": strict,
    "sharding": sharding,
    "checkpoints": checkpoints,
    "soak": soak,
}


def main() -> None:
    """Run the parts and write their lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes; no file")
    parser.add_argument("--only", choices=PARTS, help="one part; no file")
    parser.add_argument("--soak-minutes", type=float, default=5.0)
    parser.add_argument("--peak", type=float, help="TFLOP/s of dense bfloat16 products")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("skipped")
        return
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    known = next((peak for part, peak in PEAKS.items() if part in name), None)
    minutes = 0.0 if options.tiny else options.soak_minutes
    place = Place(device, options.tiny, options.peak or known, minutes)
    lines = [heading("python benchmarks/gpu.py", "numpy") + name, ""]
    print("\n".join(lines))
    for part in [options.only] if options.only else PARTS:
        torch.manual_seed(0)
        for line in PARTS[part](place):
            print(line, flush=True)
            lines.append(line)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    if not options.tiny and not options.only:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
