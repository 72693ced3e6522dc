"""Samples are exact, belong to their text, and depend on the seed."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from jumok.decoding import DecodingConfig
from jumok.decoding.build import build_processors
from jumok.decoding.generate import generate
from jumok.decoding.random_numbers import draw_uniform, philox_stream, text_key
from jumok.decoding.sampling import CategoricalSampler, greedy, sample_inverse_cdf
from tests.decoding.tiny_models import (
    BOS,
    EOS,
    KINDS,
    MarkovDecoder,
    bos_inputs,
    model_of,
    texts,
    write,
)
from tests.nn.strategies import noise

N = 4_000
GIVEN = [1, BOS]  # after [BOS] one of them has a positive logit, the other a negative one


def p_value(counts: Tensor, expected: Tensor) -> float:
    """The probability of a chi-square statistic at least as large if the samples are exact."""
    there = expected > 0
    assert not counts[~there].any()
    statistic = ((counts - expected)[there] ** 2 / expected[there]).sum()
    freedom = int(there.sum()) - 1
    return float(torch.special.gammaincc(torch.tensor(freedom / 2.0).double(), statistic / 2))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 1.7},
        {"top_k": 4},
        {"top_p": 0.7},
        {"min_p": 0.2},
        {"typical_p": 0.6},
        {"repetition_penalty": 3.0},
        {"temperature": 1.7, "top_k": 5, "top_p": 0.8},
        {"repetition_penalty": 3.0, "temperature": 1.7, "top_k": 5, "top_p": 0.8},
        {"top_p": 0.9, "min_p": 0.12},
        {"min_p": 0.2, "typical_p": 0.8},
    ],
    ids=str,
)
def test_samples_have_the_right_distribution(settings: dict[str, float]) -> None:
    table = noise(8, 8, seed=3) * 1.5
    config = DecodingConfig(sample=True, n_best=N, max_length=1, seed=1, **settings)
    processors = build_processors(config, EOS)
    start = replace(bos_inputs(limit=1), prompt_ids=torch.tensor([GIVEN]))
    [found] = generate(MarkovDecoder(table), start, config, processors)
    first = [EOS if one.finished else one.ids[0] for one in found]
    probability = reference(table[BOS].double(), settings)
    counts = torch.bincount(torch.tensor(first), minlength=8).double()
    assert p_value(counts, probability * N) > 1e-6


def reference(logits: Tensor, settings: dict[str, float]) -> Tensor:
    """The distribution after the settings in sequence, token by token.

    Each setting that cuts sees what the one before it left.
    """
    logit_values = logits.tolist()
    penalty = settings.get("repetition_penalty", 1.0)
    for token in GIVEN:
        logit_values[token] *= penalty if logit_values[token] < 0 else 1 / penalty
    weights = [math.exp(logit / settings.get("temperature", 1.0)) for logit in logit_values]
    p = {token: weight / sum(weights) for token, weight in enumerate(weights)}
    for name in ("top_k", "top_p", "min_p", "typical_p"):
        if name in settings:
            kept = cut(p, name, settings[name])
            p = {token: p[token] / sum(p[each] for each in kept) for token in kept}
    return torch.tensor([p.get(token, 0.0) for token in range(8)], dtype=torch.float64)


def cut(p: dict[int, float], name: str, value: float) -> list[int]:
    """The tokens that one setting keeps of those that have a probability."""
    order = sorted(p, key=lambda token: -p[token])
    if name == "top_k":
        return order[: int(value)]
    if name == "min_p":
        return [token for token in order if p[token] >= value * p[order[0]]]
    if name == "typical_p":
        entropy = -sum(each * math.log(each) for each in p.values())
        order.sort(key=lambda token: abs(-math.log(p[token]) - entropy))
    kept: list[int] = []
    while sum(p[token] for token in kept) < value:
        kept.append(order[len(kept)])
    return kept


def test_texts_have_independent_samples() -> None:
    """Adjacent texts with different keys have independent samples."""
    draw = CategoricalSampler(range(N), seed=0, copies=1, steps=2)
    p = torch.tensor([0.5, 0.5]).log().expand(N, 2)
    first, second = (draw(p, torch.arange(N), step) for step in (0, 1))
    for pairs in (first * 2 + second, first[:-1] * 2 + first[1:]):
        counts = torch.bincount(pairs, minlength=4).double()
        assert p_value(counts, torch.full((4,), len(pairs) / 4).double()) > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides(kind: str) -> None:
    model, (ids, real) = model_of(kind), texts()
    config = DecodingConfig(sample=True, max_length=12, seed=3)
    first, again = (write(model, ids, real, config) for _ in range(2))
    assert first == again
    other = DecodingConfig(sample=True, max_length=12, seed=4)
    assert [one.ids for [one] in write(model, ids, real, other)] != [one.ids for [one] in first]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_twice_has_the_same_sample(kind: str) -> None:
    ids, real = texts()
    twice = torch.tensor([2, 5, 2])
    config = DecodingConfig(sample=True, n_best=2, max_length=12)
    found = write(model_of(kind), ids[twice], real[twice], config)
    assert [one.ids for one in found[0]] == [one.ids for one in found[2]]
    assert found[0][0].ids != found[0][1].ids


def test_an_impossible_token_is_never_sampled() -> None:
    """Not even by the smallest and the largest random number."""
    scores = torch.tensor([[float("-inf"), 0.0, float("-inf"), 0.0, float("-inf")]])
    draw = CategoricalSampler([0], seed=0, copies=1, steps=2)
    draw.uniform = torch.tensor([[0.0, 1 - 2.0**-52]], dtype=torch.float64)
    rows = torch.tensor([0])
    assert [draw(scores, rows, step).item() for step in (0, 1)] == [1, 3]


def test_without_any_weight_the_last_token_is_sampled() -> None:
    """A token of the vocabulary, not one beyond its end."""
    assert int(sample_inverse_cdf(torch.zeros(3, dtype=torch.float64), 0.5)) == 2


def test_single_numbers_equal_batches() -> None:
    rng = philox_stream(3, 5)
    found = [float(draw_uniform(rng, 1)[0]) for _ in range(9)]
    assert found == draw_uniform(philox_stream(3, 5), 9).tolist()
    assert all(0.0 <= number < 1.0 for number in found)
    others = (
        philox_stream(4, 5),
        philox_stream(3, 6),
        philox_stream(3, 5, 1),
        philox_stream(3, 5, for_draft=True),
    )
    assert all(draw_uniform(other, 9).tolist() != found for other in others)


def test_greedy_is_the_argmax() -> None:
    scores = torch.tensor([[0.0, 2.0, 2.0], [1.0, 0.0, 0.0]])
    assert greedy(scores, torch.arange(2), 0).tolist() == [1, 0]


def test_keys() -> None:
    assert text_key([]) != text_key([0]) != text_key([0, 0])
    assert 0 <= text_key([1, 2, 3]) < 2**64


def test_two_samples_are_independent() -> None:
    """Every pair of tokens is as frequent as the product of its probabilities."""
    table = noise(6, 6, seed=5)
    config = DecodingConfig(sample=True, n_best=N, max_length=2, seed=2)
    [found] = generate(MarkovDecoder(table), bos_inputs(limit=2, end_id=-1), config)
    counts = Counter(tuple(one.ids) for one in found)
    p = table.double().softmax(-1)
    pairs = [(a, b) for a in range(6) for b in range(6)]
    expected = torch.stack([p[BOS, a] * p[a, b] for a, b in pairs]) * N
    seen = torch.tensor([counts[pair] for pair in pairs]).double()
    assert p_value(seen, expected) > 1e-6
