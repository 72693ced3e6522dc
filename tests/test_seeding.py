"""Random numbers follow from the seed and the names, whatever was drawn before."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from jumok.seeding import derive_seed, permutation, set_step_seed


def test_seeds_never_change() -> None:
    """Old checkpoints must resume with the same numbers: these values may never change."""
    assert derive_seed(0, "step", 1) == 7426281450441659682
    assert permutation(5, seed=0, epoch=0).tolist() == [3, 2, 0, 4, 1]


def test_other_names_give_other_seeds() -> None:
    overrides = [
        (0, "a", 1),
        (0, "a1"),
        (0, 1, "a"),
        (1, "a"),
        (0, "a"),
        (0,),
        (-1, "a"),
        (0, "가"),
    ]
    seeds = {derive_seed(*word) for word in overrides}
    assert len(seeds) == len(overrides)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_step_draws_what_torch_draws_from_its_seed() -> None:
    set_step_seed(5, 4, microbatch=3)
    drawn = torch.randn(9)
    torch.manual_seed(derive_seed(5, "step", 4, 3))
    assert torch.equal(drawn, torch.randn(9))


@pytest.mark.parametrize("before", [0, 1, 7, 1000])
def test_a_step_does_not_depend_on_earlier_draws(before: int) -> None:
    set_step_seed(3, 10)
    uninterrupted = torch.randn(9), torch.nn.functional.dropout(torch.ones(99))
    set_step_seed(3, 9, microbatch=1)
    torch.randn(before)  # an odd count leaves one of a pair of normal numbers unused
    set_step_seed(3, 10)
    again = torch.randn(9), torch.nn.functional.dropout(torch.ones(99))
    assert all(torch.equal(a, b) for a, b in zip(uninterrupted, again, strict=True))


def test_seed_step_and_microbatch_each_matter() -> None:
    draws = set()
    for seed, step, shard in ((0, 1, 0), (1, 0, 0), (0, 0, 1), (0, 0, 0)):
        set_step_seed(seed, step, shard)
        draws.add(tuple(torch.rand(4).tolist()))
    assert len(draws) == 4


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_an_order_visits_everything_once(n: int) -> None:
    order = permutation(n, seed=0, epoch=5)
    assert order.dtype == np.int64
    assert order.shape == (n,)
    assert sorted(order.tolist()) == list(range(n))


def test_orders_differ_by_seed_and_epoch() -> None:
    orders = {tuple(permutation(50, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


@pytest.mark.slow
def test_another_process_draws_the_same() -> None:
    program = (
        "import torch; from jumok.seeding import permutation, set_step_seed;"
        "set_step_seed(5, 6); print(torch.rand(3).tolist(), permutation(9, 5, 6).tolist())"
    )
    set_step_seed(5, 6)
    here = f"{torch.rand(3).tolist()} {permutation(9, 5, 6).tolist()}"
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert there.stdout.strip() == here
