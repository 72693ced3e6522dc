"""The step of decoding under torch.compile: does it pay, beside the plain model and the kernel?

    python benchmarks/compiled_step.py [--rounds 5]

The models and inputs of `decoding_speed.py` in float32, with weights of our own. What is compiled
is the decoder, as `training.compile` does; sizes are left to torch, which compiles anew where the
first ones do not come again. The first turn of each way, in which that happens, is told apart.
All ways take turns in one process.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from decoding_speed import CASES, NO_END, OUTPUT, PAD, PROMPT, Case, ours, padded, shaken
from torch import Tensor
from turns import heading, speed_lines

from jumok.decoding import (
    CausalLMDecoder,
    DecodingConfig,
    GenerationInputs,
    IncrementalDecoder,
    Seq2SeqDecoder,
    StoppingCriteria,
    generate,
)
from jumok.models import EncoderDecoder, LanguageModel
from jumok.native import NativeDecoder, NativeModel
from jumok.nn.hooks import shared_copy

RESULTS = Path(__file__).parent / "results" / "compiled_step.txt"
MEASURED = ("base V8000 b1 greedy", "base V8000 b32 greedy", "gpt2 b1 greedy")

Start = Callable[
    [Tensor, Tensor], IncrementalDecoder
]  # of inputs, and which of their tokens are real


def main() -> None:
    """Measure each case, print the table and keep it."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--rounds", type=int, default=5)
    given = words.parse_args()
    torch.set_num_threads(2)
    text = heading(f"python benchmarks/compiled_step.py --rounds {given.rounds}")
    for case in CASES:
        if case.name in MEASURED:
            text += f"\n{table(case, given.rounds)}\n"
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def table(case: Case, rounds: int) -> str:
    """Tokens a second of each way, and what compiling costs at first."""
    starts = ways(case)
    speeds: dict[str, list[float]] = {name: [] for name in starts}
    first, written = {}, {}
    for turn in range(rounds + 1):
        for name, start in starts.items():
            begin = time.perf_counter()
            written[name] = write(case, start)
            seconds = time.perf_counter() - begin
            if turn == 0:
                first[name] = seconds
            else:
                speeds[name].append(case.batches * case.batch * OUTPUT / seconds)
    plain = statistics.median(speeds["plain"])
    lines = [case.name, *speed_lines(speeds, "tokens/s")]
    for name, found in speeds.items():
        same = "the same tokens" if written[name] == written["plain"] else "other tokens"
        times = statistics.median(found) / plain
        lines.append(f"{name}: {times:.2f} x plain, first turn {first[name]:.0f} s, {same}")
    return "\n".join(lines)


def ways(case: Case) -> dict[str, Start]:
    """How to start writing: plainly, with the decoder compiled, with the kernel."""
    torch.manual_seed(0)
    model = shaken(ours(case))
    assert isinstance(model, EncoderDecoder | LanguageModel)
    view = shared_copy(model)
    view.decoder.compile()
    native = NativeModel(model, "float32")
    return {
        "plain": plainly(model),
        "decoder compiled": plainly(view),
        "kernel": lambda ids, real: (
            NativeDecoder(native, ids, real, capacity=OUTPUT + 1)
            if case.model == "base"
            else NativeDecoder(native, capacity=PROMPT + OUTPUT)
        ),
    }


def plainly(model: EncoderDecoder | LanguageModel) -> Start:
    """With the modules as they are."""
    if isinstance(model, LanguageModel):
        return lambda ids, real: CausalLMDecoder(model, capacity=PROMPT + OUTPUT)
    return lambda ids, real: Seq2SeqDecoder(model, ids, real, capacity=OUTPUT + 1)


def write(case: Case, start: Start) -> list[list[int]]:
    """A turn: every batch of the case."""
    written = []
    for batch in case.inputs():
        ids, real = padded(batch)
        first = ids if case.model == "gpt2" else torch.full((len(ids), 1), PAD)
        opening = GenerationInputs(first, StoppingCriteria(NO_END, [OUTPUT] * len(ids)))
        answers = generate(start(ids, real), opening, DecodingConfig(max_length=OUTPUT))
        written += [answer[0].ids for answer in answers]
    return written


if __name__ == "__main__":
    main()
