"""Subword sampling: a fraction of the texts, each decoding to the same text."""

import numpy as np
import pytest

from jumok.tasks.recipe.tables import AugmentationConfig
from jumok.tasks.shared.subword_sampling import sample_some
from tests.tasks.tiny_jobs import review_vocabulary
from tests.tiny_runs import reviews

N = 400
TEXTS = [" ".join(text for text, _ in reviews(20, seed)) for seed in range(N)]  # with many cuts


def anew(share: float, seed: int) -> list[bool]:
    """Which texts have another segmentation than the best one; each must decode to its text."""
    vocabulary = review_vocabulary()
    augmentation = AugmentationConfig(subword_sampling=share, sampling_alpha=0.01)
    rows = [row.tolist() for row in sample_some(TEXTS, vocabulary, augmentation, seed)]
    assert vocabulary.decode_batch(rows) == TEXTS
    return [row != best for row, best in zip(rows, vocabulary.encode_batch(TEXTS), strict=True)]


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_fraction_of_the_texts_is_sampled(share: float) -> None:
    """Within 0.1, 4 standard deviations of a fraction of 400."""
    first, again, other = (anew(share, seed) for seed in (0, 0, 1))
    assert np.mean(first) == pytest.approx(share, abs=0.1)
    assert first == again
    assert first != other


def test_a_ratio_of_one_samples_every_text() -> None:
    assert np.mean(anew(1.0, 0)) > 0.95  # the best cut may be drawn too
