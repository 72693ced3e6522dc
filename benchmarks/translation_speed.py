"""Training speed of translation against transformers' Marian: the same weights' shapes and batches.

    python benchmarks/translation_speed.py --data DATA [--rounds 5]

Each system is a process of its own with two threads; they take turns, a few steps each. All see
the same pairs of the Korean-English documentation sentences, sorted by length into batches of
4,096 tokens, and do the whole step: forward, backward, clipping, AdamW; dropout 0.1 as Marian has
it (none on the attention weights), 8,000 shared pieces, tied embeddings. Real tokens of both
sides count.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from turns import Speeds, answer, heading, speed_lines, take_turns

from jumok.tasks.inputs.seq2seq_encoder import SentencePairs, Seq2SeqBatch
from jumok.tasks.jobs.seq2seq import Seq2SeqJob

RESULTS = Path(__file__).parent / "results" / "translation_speed.txt"
PIECES, LONGEST, BATCH_TOKENS, PAIRS = 8000, 160, 4096, 20_000
STEPS = 4  # a turn
CPU, BF16, FP32 = torch.device("cpu"), torch.bfloat16, torch.float32

Step = Callable[[Seq2SeqBatch], None]


@dataclass(frozen=True)
class Size:
    """The measures of a model: as many layers on either side."""

    name: str
    layers: int
    width: int
    heads: int
    d_ff: int
    wanted: float  # how many times as quick as transformers' bfloat16


SIZES = (Size("3+3 d=256", 3, 256, 4, 1024, 1.7), Size("6+6 d=512", 6, 512, 8, 2048, 1.3))


def job_of(size: Size, data: Path) -> Seq2SeqJob:
    """jumok's model and job on the first pairs of the corpus."""
    os.environ["JUMOK_DATA"] = str(data)
    from jumok.data.config import DataConfig
    from jumok.data.load import load_splits
    from jumok.data.splits import SEQUENCES
    from jumok.models import EncoderDecoder
    from jumok.tasks.recipe.recipe import Recipe
    from jumok.tasks.recipe.tables import ModelConfig
    from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
    from jumok.training.config import TrainingConfig

    train = load_splits(DataConfig(corpus="koen"), SEQUENCES, only=["train"]).train
    pairs = SentencePairs(
        list(train.column("source")[:PAIRS]), list(train.column("target")[:PAIRS])
    )
    both = [*pairs.sources, *pairs.targets]
    vocabulary = SentencePieceTokenizer.train(both, VocabularyConfig(size=PIECES))
    model = ModelConfig(
        kind="encoder_decoder",
        vocabulary_size=PIECES,
        n_layers=size.layers,
        d_model=size.width,
        n_heads=size.heads,
        d_ff=size.d_ff,
        positions="sinusoidal_halves",
        max_length=LONGEST,
        dropout=0.1,
    )
    recipe = Recipe(
        name="speed",
        task="sequence_to_sequence",
        model=model,
        training=TrainingConfig(steps=1, batch_tokens=BATCH_TOKENS),
    )
    return Seq2SeqJob(
        recipe, EncoderDecoder(model).train(), vocabulary, pairs, SentencePairs([], []), CPU
    )


def ours(size: Size, job: Seq2SeqJob, dtype: torch.dtype) -> Step:
    """jumok's training step."""
    from jumok.device import tune_allocator
    from jumok.models.weights import named_weights
    from jumok.training.mixed_precision import autocast_model
    from jumok.training.optimizer import Optimizer

    tune_allocator()
    parameters = named_weights(job.model)
    optimizer = Optimizer(parameters, job.recipe.training)

    def step(batch: Seq2SeqBatch) -> None:
        with autocast_model(job.model, CPU, dtype):
            loss = job.loss(batch) / batch.n_targets
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters.values(), 1.0).item()
        optimizer.step(1e-4)

    return step


def theirs(size: Size, job: Seq2SeqJob, dtype: torch.dtype) -> Step:
    """transformers' MarianMTModel in a plain loop with the fastest AdamW."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=PIECES,
        d_model=size.width,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff,
        activation_function="relu",
        max_position_embeddings=LONGEST,
        dropout=0.1,
        scale_embedding=True,
        pad_token_id=job.tokenizer.pad_id,
        eos_token_id=job.tokenizer.eos_id,
        decoder_start_token_id=job.tokenizer.bos_id,
    )
    model = MarianMTModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batch: Seq2SeqBatch) -> None:
        real = batch.target.attention_mask
        labels = batch.labels if real is None else batch.labels.masked_fill(~real, -100)
        with torch.autocast("cpu", dtype, dtype != FP32):
            loss = model(
                input_ids=batch.source.input_ids,
                attention_mask=None
                if batch.source.attention_mask is None
                else batch.source.attention_mask.long(),
                decoder_input_ids=batch.target.input_ids,
                labels=labels,
            ).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


@dataclass(frozen=True)
class System:
    """One way to train one size."""

    name: str
    size: Size
    make: Callable[[Size, Seq2SeqJob, torch.dtype], Step]
    dtype: torch.dtype


SYSTEMS = [
    System(f"{name}, {size.name}", size, make, dtype)
    for size in SIZES
    for name, make, dtype in (
        ("transformers Marian fp32", theirs, FP32),
        ("transformers Marian bf16", theirs, BF16),
        ("jumok fp32", ours, FP32),
        ("jumok bf16", ours, BF16),
    )
]


def main() -> None:
    """Take turns, print the table, keep it."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--data", type=Path, required=True, help="a folder with koen/")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--only", default="", help="systems whose name holds this")
    words.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    given = words.parse_args()
    torch.set_num_threads(2)
    if given.worker is not None:
        work(SYSTEMS[given.worker], given.data)
        return
    speeds: Speeds = {}
    for size in SIZES:  # one size after the other: less memory at a time
        chosen = [i for i, s in enumerate(SYSTEMS) if given.only in s.name and s.size is size]
        speeds |= take_turns(__file__, chosen, given.rounds, ["--data", str(given.data)])
    text = table(speeds)
    print(text)
    if given.only:
        return
    command = f"python benchmarks/translation_speed.py --data DATA --rounds {given.rounds}"
    RESULTS.write_text(f"{heading(command, 'transformers')}\n{text}\n", encoding="utf-8")


def work(system: System, data: Path) -> None:
    """Train a few steps for every turn."""
    job = job_of(system.size, data)
    step = system.make(system.size, job, system.dtype)
    epoch = job.epoch(0)
    numbers = iter(range(len(epoch)))

    def turn() -> int:
        tokens = 0
        for _ in range(STEPS):
            batch = epoch[next(numbers)]
            step(batch)
            tokens += batch.tokens
        return tokens

    answer(turn)


def table(speeds: Speeds) -> str:
    """The speeds, and how many times as quick as the other side we are."""
    median = {SYSTEMS[i].name: statistics.median(s) for i, s in speeds.items()}
    lines = speed_lines({SYSTEMS[i].name: s for i, s in speeds.items()}, "real tokens/s")
    for size in SIZES:
        for dtype, bar in (("bf16", f"wanted {size.wanted}"), ("fp32", "no bar")):
            us, them = (f"{name} {dtype}, {size.name}" for name in ("jumok", "transformers Marian"))
            if us in median and them in median:
                lines.append(f"{median[us] / median[them]:5.2f}x  {us} / {them}  ({bar})")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
