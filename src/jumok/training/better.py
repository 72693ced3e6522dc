"""Which of two scores is the better one: accuracy grows, perplexity falls."""

import math

LOWER_IS_BETTER = frozenset({"loss", "perplexity", "bits_per_byte"})


def is_better(metric: str, score: float, best: float) -> bool:
    """Whether a score beats the best so far; anything beats NaN, and NaN beats nothing.

    >>> is_better("accuracy", 0.9, 0.8), is_better("perplexity", 9.0, 8.0)
    (True, False)
    """
    if math.isnan(score):
        return False
    if math.isnan(best):
        return True
    return score < best if metric in LOWER_IS_BETTER else score > best
