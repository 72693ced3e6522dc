"""One random configuration of a family against transformers, and both against float64.

A random network can multiply a rounding error a thousand times from layer to layer. What such a
configuration may differ by is measured: the difference of transformers in float32 from the same
weights in float64.
"""

from dataclasses import dataclass, field

import torch

from tests.pretrained.generation_parity import compare_generation, search_cases
from tests.pretrained.hf_variants import Variant
from tests.pretrained.model_pairs import (
    Padding,
    difference,
    gradients,
    hf_outputs,
    in_float64,
    jumok_outputs,
    make_batch,
    pair_of,
    relative_error,
)

PADDINGS: tuple[Padding, ...] = ("none", "right", "left")


@dataclass(frozen=True)
class RoundingErrors:
    """Differences, each max|a-b| / max(1, max|b|): jumok and its reference; each and float64."""

    both: float
    jumok: float
    reference: float

    def within(self, bar: float) -> bool:
        """Whether the two agree within `bar`, or about as well as the reference with float64.

        Two rounding errors of one size are draws at random: jumok's may be 3 times as large.
        """
        return self.both <= max(bar, 4 * self.reference)


@dataclass(frozen=True)
class FamilyComparison:
    """The comparison of one configuration."""

    outputs: RoundingErrors
    gradients: RoundingErrors
    float64: tuple[float, float]  # outputs and gradients
    hypotheses: int
    ended: int
    ties: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


def compare_variant(variant: Variant) -> FamilyComparison:
    """Outputs with three kinds of padding, gradients, and tokens of a greedy and a beam search.

    Encoders generate none.
    """
    pair = pair_of(variant)
    exact = in_float64(pair)
    both = max(max(difference(pair, padding).values()) for padding in PADDINGS)
    both64 = max(max(difference(exact, padding).values()) for padding in PADDINGS)
    ours, theirs = 0.0, 0.0
    for padding in PADDINGS:
        batch = make_batch(pair, padding)
        with torch.no_grad():
            reference = hf_outputs(exact, batch, padding).at_real_tokens(batch)
            jumok = jumok_outputs(pair, batch).at_real_tokens(batch)
            hf = hf_outputs(pair, batch, padding).at_real_tokens(batch)
        ours = max(ours, *(relative_error(jumok[n].double(), reference[n]) for n in reference))
        theirs = max(theirs, *(relative_error(hf[n].double(), reference[n]) for n in reference))
    single, double = gradients(pair), gradients(exact)
    cases = search_cases(pair) if pair.hf_model.can_generate() else []
    searches = [compare_generation(pair, case) for case in cases]
    return FamilyComparison(
        outputs=RoundingErrors(both, ours, theirs),
        gradients=RoundingErrors(
            max(relative_error(*each) for each in single.values()),
            max(relative_error(single[n][0].double(), double[n][1]) for n in single),
            max(relative_error(single[n][1].double(), double[n][1]) for n in single),
        ),
        float64=(both64, max(relative_error(*each) for each in double.values())),
        hypotheses=sum(each.n for each in searches),
        ended=sum(each.ended for each in searches),
        ties=[line for each in searches for line in each.ties],
        different=[line for each in searches for line in each.different],
    )
