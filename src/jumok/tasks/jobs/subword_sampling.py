"""The same texts in other pieces: a regularisation that costs nothing at answering time."""

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
    """How texts are cut at random: which share of them, how boldly, by which seed."""

    ratio: float  # of the texts; the others are cut the best way
    alpha: float  # as `Tokenizer.sample_batch` has it
    seed: int


def sample_some(texts: Sequence[str], vocabulary: Tokenizer, cut: SubwordSampling) -> Ragged:
    """The ids of each text, a share of them cut at random: a pure function of its arguments."""
    if cut.ratio >= 1.0:
        return sample_all(texts, vocabulary, cut.alpha, cut.seed)
    rng = np.random.Generator(np.random.Philox(derive_seed(cut.seed, "chosen")))
    chosen = np.flatnonzero(rng.random(len(texts)) < cut.ratio)
    others = sample_all([texts[int(i)] for i in chosen], vocabulary, cut.alpha, cut.seed)
    return replace_rows(encode_cached(texts, vocabulary), chosen, others)


def sample_all(texts: Sequence[str], vocabulary: Tokenizer, alpha: float, seed: int) -> Ragged:
    """Every text in pieces sampled from all ways to cut it (Kudo 2018), a part at a time."""
    parts = []
    for start in range(0, len(texts), SAMPLE_BATCH):
        part = texts[start : start + SAMPLE_BATCH]
        ids = vocabulary.sample_batch(part, alpha=alpha, seed=derive_seed(seed, start))
        parts.append(Ragged.from_lists(ids))
    return Ragged.concat(parts) if parts else Ragged.from_lists([])


def replace_rows(rows: Ragged, chosen: NDArray[np.int64], others: Ragged) -> Ragged:
    """The rows, those `chosen` replaced by `others` in order."""
    both = Ragged.concat([rows, others])
    source = np.arange(len(rows))
    source[chosen] = len(rows) + np.arange(len(chosen))
    return both.take(source)
