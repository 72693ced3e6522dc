"""How much a model's certainty can be believed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BINS = 15


def calibration_error(
    confidence: Sequence[float] | NDArray[np.float64],
    correct: Sequence[bool] | NDArray[np.bool_],
    bins: int = BINS,
) -> float:
    """The expected calibration error (Guo et al. 2017, equation 3), from 0 to 1.

    `certainty` (n,) is the probability of each answer given, `right` (n,) whether it was right.
    Answers are put into `bins` equally wide bins (a, b] by certainty; the error is the mean over
    all answers of how far the accuracy of their bin is from its mean certainty.

    >>> round(calibration_error([0.9, 0.9, 0.9, 0.9], [True, True, True, False]), 3)
    0.15
    """
    sure, hit = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    if sure.shape != hit.shape:
        raise ValueError(f"{len(sure)} certainties, {len(hit)} answers; pair them")
    if not len(sure):
        return 0.0
    which = np.clip(np.ceil(sure * bins).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.bincount(which, hit - sure, minlength=bins)  # (bins,): sums over each bin
    return float(np.abs(gaps).sum() / len(sure))
