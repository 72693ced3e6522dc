"""Subword regularization of rows: random segmentations of the training texts (Kudo 2018)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.data.token_cache import encode_cached
from jumok.seeding import derive_seed
from jumok.tasks.recipe.tables import AugmentationConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

SAMPLE_BATCH = 8_192  # texts; lists of ids take ten times the memory of rows


def sample_some(
    texts: Sequence[str], tokenizer: Tokenizer, augmentation: AugmentationConfig, seed: int
) -> Ragged:
    """The ids of each text, a fraction of them sampled: a pure function of the arguments."""
    ratio, alpha = augmentation.subword_sampling, augmentation.sampling_alpha
    if ratio >= 1.0:
        return sample_all(texts, tokenizer, alpha, seed)
    rng = np.random.Generator(np.random.Philox(derive_seed(seed, "chosen")))
    chosen = np.flatnonzero(rng.random(len(texts)) < ratio)
    sampled = sample_all([texts[int(i)] for i in chosen], tokenizer, alpha, seed)
    return replace_rows(encode_cached(texts, tokenizer), chosen, sampled)


def sample_all(texts: Sequence[str], tokenizer: Tokenizer, alpha: float, seed: int) -> Ragged:
    """The ids of a random segmentation of every text, batch by batch."""
    parts = []
    for start in range(0, len(texts), SAMPLE_BATCH):
        batch = texts[start : start + SAMPLE_BATCH]
        ids = tokenizer.sample_batch(batch, alpha=alpha, seed=derive_seed(seed, start))
        parts.append(Ragged.from_lists(ids))
    return Ragged.concat(parts) if parts else Ragged.from_lists([])


def replace_rows(rows: Ragged, indices: NDArray[np.int64], replacements: Ragged) -> Ragged:
    """The rows, with those at `indices` replaced in order."""
    source = np.arange(len(rows))
    source[indices] = len(rows) + np.arange(len(indices))
    return Ragged.concat([rows, replacements]).take(source)
