"""Subword regularization of rows: random segmentations of the training texts (Kudo 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jumok.data.token_cache import encode_cached
from jumok.seeding import derive_seed
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

SAMPLE_BATCH = 8_192  # texts; lists of ids take ten times the memory of rows


@dataclass(frozen=True)
class SubwordSampling:
    """Which fraction of the texts is sampled, how strongly, and the seed."""

    ratio: float  # of the texts; the others have their best segmentation
    alpha: float  # as in `Tokenizer.sample_batch`
    seed: int


def sample_some(texts: Sequence[str], tokenizer: Tokenizer, sampling: SubwordSampling) -> Ragged:
    """The ids of each text, some of them sampled: a pure function of its arguments."""
    if sampling.ratio >= 1.0:
        return sample_all(texts, tokenizer, sampling.alpha, sampling.seed)
    rng = np.random.Generator(np.random.Philox(derive_seed(sampling.seed, "chosen")))
    chosen = np.flatnonzero(rng.random(len(texts)) < sampling.ratio)
    sampled = sample_all([texts[int(i)] for i in chosen], tokenizer, sampling.alpha, sampling.seed)
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
