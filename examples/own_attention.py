"""An attention of your own, in one file: sigmoid weights instead of softmax.

    python examples/own_attention.py runs/sigmoid

Each weight is decided alone, so that those of a query need not sum to 1 (Ramapuram et al. 2024,
"Theory, Analysis, and Best Practices for Sigmoid Self-Attention", section 2). The run records the
name of this file and its checksum: `jumok.load` refuses the run in a program that has not imported
it, and warns after a change. A distribution registers its attention with an entry point instead:

    [project.entry-points."jumok.attention"]
    sigmoid = "own_attention:SigmoidAttention"
"""

import math
import sys

from torch import Tensor

import jumok
from jumok.nn import MultiHeadAttention
from jumok.registry import register


@register("jumok.attention", "sigmoid")
class SigmoidAttention(MultiHeadAttention):
    """sigmoid(score - log S) for each of S keys: about 1 / S each at the beginning."""

    def weights(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        """The weights of scores (B, H, T, S), 0 where not `allowed`."""
        weights = (scores - math.log(scores.shape[-1])).sigmoid()
        return weights if allowed is None else weights.masked_fill(~allowed, 0)


if __name__ == "__main__":
    run = jumok.train("numbers", model__attention="sigmoid", training__steps=200, out=sys.argv[1])
    print(run.results)
