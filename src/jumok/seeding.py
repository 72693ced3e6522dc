"""Stateless random seeds: the random numbers of a step follow from the seed and the step alone.

So a checkpoint contains no generator state: a resumed training draws the same numbers as an
uninterrupted one. Dropout, sampling and the order of the data have separate streams, by name.
"""

import hashlib
import json

import numpy as np
import torch
from numpy.typing import NDArray


def derive_seed(seed: int, *names: int | str) -> int:
    """A seed from 0 to 2**63 - 1 for the purpose that the names describe.

    Other names, another order or another division into names give an unrelated seed; the same names
    give the same seed on every machine and in every version.

    >>> derive_seed(0, "step", 1)
    7426281450441659682
    >>> derive_seed(0, "step", 1) == derive_seed(0, "step1")
    False
    """
    text = json.dumps([seed, *names], ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def set_step_seed(seed: int, step: int, microbatch: int = 0) -> None:
    """Seed torch's generators for one microbatch of a step, on the CPU and the accelerator in use.

    All random numbers that torch draws until the next call (dropout above all) are then a function
    of (seed, step, microbatch), whatever was drawn before.

    >>> set_step_seed(0, 7); first = torch.rand(3)
    >>> _ = torch.rand(100); set_step_seed(0, 7); bool((torch.rand(3) == first).all())
    True
    """
    number = derive_seed(seed, "step", step, microbatch)
    # As torch.manual_seed, without a formatted traceback for each accelerator that is not in use.
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)


def permutation(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order in which an epoch visits n items: each of 0..n-1 once, int64 (n,).

    Sorts n raw 64-bit numbers of a Philox generator, whose stream numpy guarantees never to change
    (its own `permutation` has no such guarantee).

    >>> permutation(5, seed=0, epoch=0).tolist()
    [3, 2, 0, 4, 1]
    """
    draws = np.random.Philox(key=derive_seed(seed, "order", epoch)).random_raw(n)
    return np.argsort(draws, kind="stable").astype(np.int64, copy=False)
