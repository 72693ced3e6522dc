"""Randomness without memory: what is random at a step follows from the seed and the step alone.

So a checkpoint holds no generator: a resumed training draws the numbers of the uninterrupted one.
Dropout, sampling and the order of the data each have a stream of their own, kept apart by words.
"""

import hashlib
import json

import numpy as np
import torch
from numpy.typing import NDArray


def derive_seed(seed: int, *words: int | str) -> int:
    """A seed from 0 to 2**63 - 1 for the purpose that the words name.

    Another word, another order or another division of the words gives an unrelated seed; the same
    words give the same seed on every machine and in every version.

    >>> derive_seed(0, "step", 1)
    7426281450441659682
    >>> derive_seed(0, "step", 1) == derive_seed(0, "step1")
    False
    """
    text = json.dumps([seed, *words], ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def set_step_seed(seed: int, step: int, shard: int = 0) -> None:
    """Start torch's random numbers anew for one step, on the CPU and the accelerator in use.

    Called before each step it makes all that torch draws in it (dropout above all) a function of
    (seed, step, shard), whatever was drawn before; `shard` numbers the parts of a large batch.

    >>> set_step_seed(0, 7); first = torch.rand(3)
    >>> _ = torch.rand(100); set_step_seed(0, 7); bool((torch.rand(3) == first).all())
    True
    """
    number = derive_seed(seed, "step", step, shard)
    # As torch.manual_seed, without a formatted traceback for each accelerator that is not in use.
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)


def permutation(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order in which an epoch visits n items: each of 0..n-1 once, int64 (n,).

    Sorts n raw 64-bit numbers of a Philox generator, whose stream numpy promises never to change
    (its own `permutation` is under no such promise).

    >>> permutation(5, seed=0, epoch=0).tolist()
    [3, 2, 0, 4, 1]
    """
    draws = np.random.Philox(key=derive_seed(seed, "order", epoch)).random_raw(n)
    return np.argsort(draws, kind="stable").astype(np.int64, copy=False)
