"""Training speed against transformers: tokens per second, without padding, of the same classifier.

    python benchmarks/training_speed.py --data DATA [--rounds 5]

Each system is a process of its own with two threads; they take turns, a few steps each, so that
other load on the machine affects all of them equally. All see the same reviews and run the whole
step: forward, backward, clipping, AdamW. Sizes: 4 layers, d 256, 4 heads, d_ff 1024, GELU, dropout
0.1 also on the attention weights, learned positions, 8,000 pieces.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from turns import Speeds, answer, heading, speed_lines, take_turns

RESULTS = Path(__file__).parent / "results" / "training_speed.txt"
LAYERS, WIDTH, HEADS, D_FF, PIECES, LONGEST = 4, 256, 4, 1024, 8000, 160
BATCH_TOKENS, REVIEWS = 4096, 128  # of a sorted batch; reviews of a shuffled batch, as is usual
STEPS = 4  # per round


@dataclass(frozen=True)
class Reviews:
    """One padded batch."""

    ids: np.ndarray  # (B, T)
    real: np.ndarray  # (B, T) bool
    labels: np.ndarray  # (B,)


Step = Callable[[Reviews], None]


@dataclass(frozen=True)
class System:
    """A library with its settings, and how its batches are formed."""

    name: str
    make: Callable[[], Step]
    form: Literal["shuffled", "sorted"] = "sorted"


def ours(dtype: torch.dtype, *, medium: bool = False) -> Step:
    """jumok's model and its training step."""
    from jumok.allocator import tune_allocator
    from jumok.models import TextClassifier, TransformerConfig
    from jumok.models.weights import named_weights
    from jumok.native.training import cpu_training_kernel
    from jumok.nn.losses import cross_entropy
    from jumok.nn.training_kernel import use_training_kernel
    from jumok.training.config import TrainingConfig
    from jumok.training.fused_adamw import gradient_norm
    from jumok.training.mixed_precision import autocast_model
    from jumok.training.optimizer import Optimizer

    tune_allocator()
    use_training_kernel(cpu_training_kernel()).__enter__()  # for the whole process
    if medium:
        torch.set_float32_matmul_precision("medium")
    config = TransformerConfig(
        vocabulary_size=PIECES,
        n_layers=LAYERS,
        d_model=WIDTH,
        n_heads=HEADS,
        d_ff=D_FF,
        activation="gelu",
        positions="learned",
        embedding_norm=True,
        max_length=LONGEST,
        dropout=0.1,
        attention_dropout=0.1,
    )
    model = TextClassifier(config, n_labels=2).train()
    parameters = named_weights(model)
    optimizer = Optimizer(parameters, TrainingConfig(steps=1))
    cpu = torch.device("cpu")

    def logits_of(batch: Reviews) -> Tensor:
        ids = torch.from_numpy(batch.ids)
        mask = None if batch.real.all() else torch.from_numpy(batch.real)
        return model(ids, mask)  # type: ignore[no-any-return]

    def step(batch: Reviews) -> None:
        with autocast_model(model, cpu, dtype):
            labels = torch.from_numpy(batch.labels)
            loss = cross_entropy(logits_of(batch), labels) / len(labels)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = gradient_norm([p.grad for p in parameters.values() if p.grad is not None])
        optimizer.step(1e-3, clip_norm=1.0, norm=norm)

    return step


def theirs(dtype: torch.dtype, *, medium: bool = False, allocator: bool = False) -> Step:
    """transformers' BertForSequenceClassification in a minimal loop with the fused AdamW."""
    from transformers import BertConfig, BertForSequenceClassification

    if allocator:  # jumok's allocator settings, for a fair comparison
        from jumok.allocator import tune_allocator

        tune_allocator()
    if medium:
        torch.set_float32_matmul_precision("medium")
    config = BertConfig(
        vocab_size=PIECES,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=D_FF,
        max_position_embeddings=LONGEST,
        num_labels=2,  # type: ignore[call-arg, unused-ignore]
    )
    model = BertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step(batch: Reviews) -> None:
        with torch.autocast("cpu", dtype, dtype != torch.float32):
            loss = model(
                input_ids=torch.from_numpy(batch.ids),
                attention_mask=torch.from_numpy(batch.real.astype(np.int64)),
                labels=torch.from_numpy(batch.labels),
            ).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


BF16, FP32 = torch.bfloat16, torch.float32
SYSTEMS = [
    System("transformers fp32 shuffled (its usual way)", lambda: theirs(FP32), "shuffled"),
    System("transformers fp32 sorted", lambda: theirs(FP32)),
    System("transformers fp32 sorted, medium", lambda: theirs(FP32, medium=True)),
    System("transformers bf16 sorted (its best way)", lambda: theirs(BF16)),
    System("transformers bf16 sorted + our allocator", lambda: theirs(BF16, allocator=True)),
    System("jumok fp32", lambda: ours(FP32)),
    System("jumok fp32, medium", lambda: ours(FP32, medium=True)),
    System("jumok bf16", lambda: ours(BF16)),
]


def main() -> None:
    """Measure in turns, print the table and write the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--data", type=Path, required=True, help="a folder with nsmc/")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", default="", help="systems whose name holds this")
    arguments.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    torch.set_num_threads(2)
    if given.worker is not None:
        work(SYSTEMS[given.worker], given.data, given.rounds)
        return
    chosen = [i for i, system in enumerate(SYSTEMS) if given.only in system.name]
    words_on = ["--data", str(given.data), "--rounds", str(given.rounds)]
    speeds = take_turns(__file__, chosen, given.rounds, words_on)
    text = table(speeds)
    print(text)
    if given.only:
        return
    command = f"python benchmarks/training_speed.py --data DATA --rounds {given.rounds}"
    RESULTS.write_text(f"{heading(command, 'transformers', 'numpy')}\n{text}\n", encoding="utf-8")


def work(system: System, data: Path, rounds: int) -> None:
    """Train a few steps per round."""
    step = system.make()
    batches = batches_of(data, system.form, STEPS * (rounds + 1))

    def turn() -> int:
        tokens = 0
        for _ in range(STEPS):
            batch = next(batches)
            step(batch)
            tokens += int(batch.real.sum())
        return tokens

    answer(turn)


def batches_of(data: Path, form: str, n: int) -> Iterator[Reviews]:
    """n batches of reviews, the same for every system of one form."""
    os.environ["JUMOK_DATA"] = str(data)
    from jumok.data.config import DataConfig
    from jumok.data.load import load_splits
    from jumok.data.packing import length_batches, pad
    from jumok.data.splits import CLASSIFICATION
    from jumok.tasks.inputs.text_encoder import TextEncoder
    from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig

    train = load_splits(DataConfig(corpus="nsmc"), CLASSIFICATION, only=["train"]).train
    texts = train.column("text")[:30_000]
    labels = np.array([label == "positive" for label in train.column("label")[:30_000]], np.int64)
    vocabulary = SentencePieceTokenizer.train(texts, VocabularyConfig(size=PIECES))
    rows = TextEncoder(vocabulary, LONGEST)(texts)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(rows))
    plan: Sequence[np.ndarray] = (
        length_batches(rows.lengths, order, BATCH_TOKENS, rng)
        if form == "sorted"
        else np.array_split(order, len(order) // REVIEWS)
    )
    for chosen_rows in plan[:n]:
        box = pad([rows[i] for i in chosen_rows], vocabulary.pad_id)
        yield Reviews(box.ids, box.mask, labels[chosen_rows])


def bf16_peak() -> float:
    """GFLOP/s of a bfloat16 matrix product of the sizes at hand."""
    x = torch.randn(4096, WIDTH, dtype=BF16)
    w = torch.randn(D_FF, WIDTH, dtype=BF16)
    best = 0.0
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(10):
            nn.functional.linear(x, w)
        best = max(best, 10 * 2 * 4096 * WIDTH * D_FF / (time.perf_counter() - begin) / 1e9)
    return best


def table(speeds: Speeds) -> str:
    """Lowest, median and highest speed of each system, and ratios of the medians."""
    median = {SYSTEMS[i].name: statistics.median(s) for i, s in speeds.items()}
    lines = speed_lines({SYSTEMS[i].name: s for i, s in speeds.items()}, "real tokens/s")
    pairs = [
        ("jumok bf16", "transformers fp32 shuffled (its usual way)", "wanted 8"),
        ("jumok bf16", "transformers bf16 sorted (its best way)", "wanted 1.5, aim 1.6"),
        ("jumok bf16", "transformers bf16 sorted + our allocator", "no bar"),
        ("jumok fp32", "transformers fp32 sorted", "wanted 2"),
        ("jumok fp32, medium", "transformers fp32 sorted", "wanted 2"),
        ("jumok fp32, medium", "transformers fp32 sorted, medium", "wanted 1.3"),
    ]
    for us, them, bar in pairs:
        if us in median and them in median:
            lines.append(f"{median[us] / median[them]:5.2f}x  {us} / {them}  ({bar})")
    if "jumok bf16" in median:
        matrices = LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * D_FF)
        useful = 6 * matrices * median["jumok bf16"] / 1e9  # without the products of attention
        peak = bf16_peak()
        lines.append(
            f"jumok bf16: {useful:.0f} GFLOP/s of {peak:.0f} at the peak = {useful / peak:.0%} "
            "(aim 45 %)"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
