"""Every family and variant against transformers, in one table (tests/pretrained/test_parity.py).

    python -m benchmarks.parity [--only WORD ...] [--random N] [--keep FOLDER]

Tiny random models, every weight redrawn, dropout 0. Differences are max|a-b| / max(1, max|b|) over
real tokens, of hidden states, logits and memories, the larger of eval and train mode: fp32 over
texts as long as the model holds, padded right and padded left; float64 over the padded ones. In
float64 two things of theirs are computed exactly first: T5's norm (they take float32) and the sines
of Marian and Pegasus (rounded by another library). gradients: the largest over all tensors of the
checkpoint, under its names. written: the same answers of all, first greedy, then with a beam of 4,
of which the two best; each also without two tokens in the same order twice (language models: beams
alone), where beams are ranked by sum. A tie is a difference with less than 1e-5 between the two.

Then N random configurations (default 200) of each family of tests/pretrained/random_llama.py and
random_encoders.py: the largest difference of outputs and of gradients, and how many are above 5e-6
and 1e-5; how far jumok and transformers in float32 are from the same weights in float64, each as
maximum and median; the largest difference in float64; the written texts, of which encoders have
none. With a window of one position transformers writes without its cache, which keeps no position
then.

With --keep each comparison is kept as a file in FOLDER, and a run that was interrupted goes on.
"""

import argparse
import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers

from jumok.atomic_io import write_atomically
from tests.pretrained.family_parity import (
    PADDINGS,
    FamilyComparison,
    RoundingErrors,
    compare_variant,
)
from tests.pretrained.generation_parity import (
    GENERATIVE_VARIANTS,
    GenerationComparison,
    compare_generation,
    search_cases,
)
from tests.pretrained.hf_variants import VARIANTS, Variant
from tests.pretrained.model_pairs import difference, gradient_difference, make_pair
from tests.pretrained.random_encoders import FAMILIES as ENCODERS
from tests.pretrained.random_encoders import random_encoder
from tests.pretrained.random_llama import FAMILIES as DECODERS
from tests.pretrained.random_llama import random_llama

RANDOM: dict[str, Callable[[str, int], Variant]] = {
    **dict.fromkeys(DECODERS, random_llama),
    **dict.fromkeys(ENCODERS, random_encoder),
}
RESULTS = Path(__file__).parent / "results" / "parity.txt"
HEADING = (
    f"{'variant':<24} {'architecture':<34} {'fp32':>8} {'float64':>8} {'gradients':>9} written"
)
FAMILY_HEADING = "\n".join(
    (
        f"{'':<17} {'outputs':^48} {'gradients':^48}",
        f"{'family':<12} {'n':>4} "
        + 2 * (f"{'max':>8} {'>':>3} {'jumok':>8} {'median':>8} {'transf.':>8} {'median':>8} ")
        + " float64 written",
    )
)


def main() -> None:
    """Measure each variant, print its line, and write the table when it is complete."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument(
        "--only", nargs="*", default=[], help="variants with this in their names"
    )
    arguments.add_argument("--random", type=int, default=200, help="configurations of a family")
    arguments.add_argument("--keep", type=Path, help="a folder of comparisons, to go on with later")
    asked = arguments.parse_args()
    only: list[str] = asked.only
    kept = Kept(asked.keep)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    lines = [
        "python -m benchmarks.parity" + (" --keep FOLDER" if asked.keep else ""),
        f"{date.today()}, jumok {version('jumok')}, transformers {version('transformers')}, "
        f"torch {version('torch')}, Python {platform.python_version()}, {processor()}",
        "",
        HEADING,
    ]
    print("\n".join(lines))
    worst = [0.0, 0.0, 0.0]
    notes: list[str] = []
    for variant in VARIANTS:
        if only and not any(word in variant.name for word in only):
            continue
        found = _compare_variant(kept, variant.name)
        numbers = found.differences
        worst = [max(pair) for pair in zip(worst, numbers, strict=True)]
        notes += found.notes
        lines.append(
            f"{variant.name:<24} {variant.architecture:<34} "
            f"{numbers[0]:8.1e} {numbers[1]:8.1e} {numbers[2]:9.1e} {found.written}"
        )
        print(lines[-1].rstrip(), flush=True)
    end = [
        "",
        f"{len(lines) - 4} variants; worst: fp32 {worst[0]:.1e}, float64 {worst[1]:.1e}, "
        f"gradients {worst[2]:.1e}",
        "Answers that differ: " + ("; ".join(notes) if notes else "none"),
    ]
    print("\n".join(end))
    end += ["", FAMILY_HEADING]
    print("\n" + FAMILY_HEADING)
    for family in RANDOM:
        if only and not any(word in family for word in only):
            continue
        end += family_lines(
            family,
            [_compare_random(kept, family, seed) for seed in range(asked.random)],
        )
    if not only:
        text = "\n".join(line.rstrip() for line in (*lines, *end))
        RESULTS.write_text(text + "\n", encoding="utf-8")


class Kept:
    """Comparisons as JSON files in a folder; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The comparison of this name, computed unless it was kept."""
        path = None if self._folder is None else self._folder / f"{name}.json"
        if path is None or not path.exists():
            found = compute()
            if path is None:
                return found
            write_atomically(path, json.dumps(found).encode())
        return dict(json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class VariantComparison:
    """The three differences of a variant, its written texts, and those that differ."""

    differences: list[float]
    written: str
    notes: list[str]


def _compare_variant(kept: Kept, name: str) -> VariantComparison:
    def compute() -> dict[str, Any]:
        pair = make_pair(name)
        exact = make_pair(name, torch.float64)
        generated = (
            [compare_generation(pair, way) for way in search_cases(pair)]
            if name in GENERATIVE_VARIANTS
            else []
        )
        differences = [
            max(max(difference(pair, padding).values()) for padding in PADDINGS),
            max(max(difference(exact, padding).values()) for padding in PADDINGS[1:]),
            gradient_difference(pair)[0],
        ]
        notes = [note for each in generated for note in (*each.ties, *each.different)]
        return asdict(VariantComparison(differences, " ".join(map(_same, generated)), notes))

    return VariantComparison(**kept.get(name, compute))


def _compare_random(kept: Kept, family: str, seed: int) -> FamilyComparison:
    variant = RANDOM[family](family, seed)
    found = kept.get(variant.name, lambda: asdict(compare_variant(variant)))
    errors = {name: RoundingErrors(**found[name]) for name in ("outputs", "gradients")}
    return FamilyComparison(**{**found, **errors})


def family_lines(family: str, found: list[FamilyComparison]) -> list[str]:
    """The line of a family, printed, and a line for each text that differs."""
    cells = [f"{family:<12} {len(found):4d}"]
    for each, bar in (
        ([one.outputs for one in found], 5e-6),
        ([one.gradients for one in found], 1e-5),
    ):
        cells.append(f"{max(one.both for one in each):8.1e} {sum(o.both > bar for o in each):3d}")
        for errors in ([one.jumok for one in each], [one.reference for one in each]):
            cells.append(f"{max(errors):8.1e} {median(errors):8.1e}")
    cells.append(f"{max(max(one.float64) for one in found):8.1e}")
    different = [line for one in found for line in one.different]
    ties = sum(len(one.ties) for one in found)
    n = sum(one.hypotheses for one in found)
    ended = sum(one.ended for one in found)
    cells.append(f"{n - ties - len(different)}/{n} ({ties} ties, {ended} ended)")
    lines = [" ".join(cells), *(f"    {line}" for line in different)]
    print("\n".join(lines), flush=True)
    return lines


def processor() -> str:
    """The name of the processor, or of the architecture where the system has no name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _same(found: GenerationComparison) -> str:
    return f"{found.n - len(found.ties) - len(found.different)}/{found.n}"


if __name__ == "__main__":
    main()
