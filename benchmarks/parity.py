"""Every family and variant against transformers, in one table (tests/pretrained/test_parity.py).

    python -m benchmarks.parity [--only WORD ...]

Tiny random models, every weight redrawn, dropout 0. Differences are max|a-b| / max(1, max|b|) over
real tokens, of hidden states, logits and memories, the larger of eval and train mode: fp32 over
texts as long as the model holds, padded right and padded left; float64 over the padded ones. In
float64 two things of theirs are computed exactly first: T5's norm (they take float32) and the sines
of Marian and Pegasus (rounded by another library). gradients: the largest over all tensors of the
checkpoint, under its names. written: the same answers of all, first greedy, then with a beam of 4,
of which the two best; each also without two tokens in the same order twice (language models: beams
alone), where beams are ranked by sum. A tie is a difference with less than 1e-5 between the two.
"""

import argparse
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch
import transformers

from tests.pretrained.generation_parity import (
    GENERATIVE_VARIANTS,
    GenerationComparison,
    compare_generation,
    search_cases,
)
from tests.pretrained.hf_variants import VARIANTS
from tests.pretrained.model_pairs import difference, gradient_difference, make_pair

RESULTS = Path(__file__).parent / "results" / "parity.txt"
HEADING = (
    f"{'variant':<24} {'architecture':<34} {'fp32':>8} {'float64':>8} {'gradients':>9} written"
)


def main() -> None:
    """Measure each variant, print its line, and keep the table when it is whole."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--only", nargs="*", default=[], help="variants with this in their names")
    only = words.parse_args().only
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    lines = [
        "python -m benchmarks.parity",
        f"{date.today()}, jumok {version('jumok')}, transformers {version('transformers')}, "
        f"torch {version('torch')}, Python {platform.python_version()}, {platform.machine()}",
        "",
        HEADING,
    ]
    print("\n".join(lines))
    worst = [0.0, 0.0, 0.0]
    notes: list[str] = []
    for variant in VARIANTS:
        if only and not any(word in variant.name for word in only):
            continue
        pair = make_pair(variant.name)
        exact = make_pair(variant.name, torch.float64)
        numbers = [
            max(max(difference(pair, kind).values()) for kind in ("none", "right", "left")),
            max(max(difference(exact, kind).values()) for kind in ("right", "left")),
            gradient_difference(pair)[0],
        ]
        worst = [max(pair) for pair in zip(worst, numbers, strict=True)]
        written = (
            [compare_generation(pair, way) for way in search_cases(pair)]
            if variant.name in GENERATIVE_VARIANTS
            else []
        )
        notes += [note for each in written for note in (*each.ties, *each.different)]
        lines.append(
            f"{variant.name:<24} {variant.architecture:<34} "
            f"{numbers[0]:8.1e} {numbers[1]:8.1e} {numbers[2]:9.1e} "
            + " ".join(map(_same, written))
        )
        print(lines[-1].rstrip(), flush=True)
    end = [
        "",
        f"{len(lines) - 4} variants; worst: fp32 {worst[0]:.1e}, float64 {worst[1]:.1e}, "
        f"gradients {worst[2]:.1e}",
        "Answers that differ: " + ("; ".join(notes) if notes else "none"),
    ]
    print("\n".join(end))
    if not only:
        text = "\n".join(line.rstrip() for line in (*lines, *end))
        RESULTS.write_text(text + "\n", encoding="utf-8")


def _same(found: GenerationComparison) -> str:
    return f"{found.n - len(found.ties) - len(found.different)}/{found.n}"


if __name__ == "__main__":
    main()
