"""Scores of heads: 1 for ideal heads, and as plain loops for random ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from jumok.interpret.head_patterns import PATTERNS, Pattern, has_repeats, score_heads
from jumok.interpret.schema import Tokens, TraceInfo
from jumok.interpret.trace import Trace
from tests.interpret.random_traces import plain_tokens, random_info, random_tensors

IDS = (1, 5, 6, 9, 5, 6, 7, 2)  # [BOS] 5 6 9 5 6 7 [EOS]
Floats = NDArray[np.float32]


def tokens(ids: tuple[int, ...] = IDS, padding: int = 0) -> Tokens:
    n = len(ids)
    special = tuple(int(i in (0, 1, 2)) for i in ids)
    return replace(plain_tokens(n, padding), ids=ids, special=special)


def traced(weights: Floats, *rows: Tokens, causal: bool = False) -> Trace:
    """A trace of one layer with these weights (B, H, T, S)."""
    B, H, T, _ = weights.shape
    info = random_info(B=B, L=1, H=H, G=H, T=T)
    block = replace(info.blocks[0], causal=causal)
    info = replace(info, blocks=(block,), sides={"source": rows})
    return Trace.from_tensors(random_tensors(info) | {"encoder.0.weights": weights}, info)


def ideal(targets: tuple[int, ...]) -> Floats:
    """Weights (1, 1, T, T) with which query i attends to targets[i] alone."""
    return np.eye(len(targets), dtype=np.float32)[list(targets)][None, None]


@pytest.mark.parametrize(
    ("pattern", "targets"),
    [
        ("previous_token", (0, 0, 1, 2, 3, 4, 5, 6)),
        ("duplicate_token", (0, 4, 5, 3, 1, 2, 6, 7)),
        ("induction", (0, 5, 6, 3, 2, 3, 6, 7)),
        ("positional", (2, 3, 4, 5, 6, 7, 7, 7)),
        ("separator", (0, 0, 7, 0, 7, 0, 0, 0)),
        ("rare_word", (0, 3, 3, 3, 3, 3, 3, 0)),
    ],
)
def test_an_ideal_head_has_score_one(pattern: Pattern, targets: tuple[int, ...]) -> None:
    (head,) = score_heads([traced(ideal(targets), tokens())])
    expected = 5 / 6 if pattern == "positional" else 1.0  # the last letter cannot look two ahead
    assert head.scores[pattern] == pytest.approx(expected)
    assert (head.block, head.layer, head.head) == ("encoder", 0, 0)


@pytest.mark.parametrize("causal", [False, True])
def test_the_scores_are_those_of_plain_loops(causal: bool) -> None:
    rng = np.random.default_rng(3)
    rows = (tokens(), tokens((1, 5, 5, 8, 5, 2, 0, 0), padding=2))
    weights = rng.random((2, 3, 8, 8)).astype(np.float32) ** 4
    weights[1, :, :, 6:] = 0
    weights = np.tril(weights) if causal else weights
    weights /= weights.sum(-1, keepdims=True)
    found = score_heads([traced(weights, *rows, causal=causal)])
    for head in range(3):
        expected = by_loops(weights[:, head], rows, causal)
        assert {name: expected[name] for name in PATTERNS} == pytest.approx(found[head].scores)
        assert all(0 <= score <= 1 for score in found[head].scores.values())


def test_queries_before_the_rarest_token_of_a_causal_block_do_not_count() -> None:
    (head,) = score_heads([traced(ideal((0, 0, 1, 3, 3, 3, 3, 3)), tokens(), causal=True)])
    assert head.scores["rare_word"] == 1.0  # 9 is at position 3


def test_the_first_token_follows_the_padding_on_the_left() -> None:
    row = replace(tokens((0, 0, 5, 6, 9, 5, 6, 7)), real=(0, 0, 1, 1, 1, 1, 1, 1))
    row = replace(row, special=(0,) * 8)
    (head,) = score_heads([traced(ideal((0, 1, 2, 2, 2, 2, 2, 2)), row)])
    assert head.scores["separator"] == 1.0


def by_loops(weights: Floats, rows: tuple[Tokens, ...], causal: bool) -> dict[str, float]:
    values: dict[str, list[float]] = {name: [] for name in PATTERNS}
    distances = []
    for A, row in zip(weights, rows, strict=True):
        T = len(row)
        plain = [bool(row.real[i] and not row.special[i]) for i in range(T)]
        rarest = max(row.ids[i] for i in range(T) if plain[i])
        for i in range(T):
            if i and row.real[i]:
                values["previous_token"].append(A[i, i - 1])
            if not plain[i]:
                continue
            seen = range(i) if causal else [j for j in range(T) if j != i]
            same = [j for j in seen if plain[j] and row.ids[j] == row.ids[i]]
            after = [j + 1 for j in same if j + 1 < T and row.real[j + 1]]
            if same:
                values["duplicate_token"].append(sum(A[i, j] for j in same))
            if after:
                values["induction"].append(sum(A[i, j] for j in after))
            distances.append(int(np.argmax(A[i])) - i)
            sinks = {row.real.index(1), *(j for j in range(T) if row.special[j])}
            values["separator"].append(sum(A[i, j] for j in sinks))
            if causal and i < min(j for j in range(T) if plain[j] and row.ids[j] == rarest):
                continue
            best = max((A[i, j], -j) for j in range(T) if plain[j])
            values["rare_word"].append(float(row.ids[-best[1]] == rarest))
    most = max(distances.count(d) for d in distances)
    means = {name: float(np.mean(found)) for name, found in values.items() if found}
    return means | {"positional": most / len(distances)}


def test_scores_of_cross_attention_and_of_texts_without_repeats() -> None:
    info = random_info(B=1, L=1, H=2, G=2, T=5)
    trace = Trace.from_tensors(random_tensors(info), info)
    assert not has_repeats([trace])
    for head in score_heads([trace]):
        assert head.scores["duplicate_token"] == head.scores["induction"] == 0
    assert has_repeats([traced(ideal(tuple(range(8))), tokens())])
    cross = replace(info.blocks[0], name="cross", queries="target", keys="source")
    both: TraceInfo = replace(
        info, blocks=(cross,), sides=dict.fromkeys(("source", "target"), info.sides["source"])
    )
    tensors = random_tensors(info)
    named = {name.replace("encoder", "cross"): tensor for name, tensor in tensors.items()}
    for head in score_heads([Trace.from_tensors(named, both)]):
        assert [head.scores[name] for name in PATTERNS[:3]] == [0, 0, 0]
        assert head.scores["positional"] > 0


WEB = Path(__file__).parents[2] / "web" / "src"


def test_the_page_has_the_same_scores() -> None:
    """Its own test compares its scores with the same file."""
    found: dict[str, dict[str, list[float]]] = {}
    for path in sorted((WEB / "testing").glob("*.safetensors")):
        trace = Trace.open(path)
        of_first: dict[str, list[float]] = {}
        for head in score_heads([trace], sequences=[0]):
            for name in PATTERNS:
                of_first.setdefault(f"{head.block}.{name}", []).append(round(head.scores[name], 6))
        found[path.stem] = of_first
    golden = WEB / "trace" / "headPatterns.golden.json"
    assert json.loads(golden.read_text(encoding="utf-8")) == found
