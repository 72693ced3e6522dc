"""Our logits processors equal those of transformers on random scores."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.decoding.processors import (
    NEG_INF,
    MinP,
    NoRepeatNgram,
    Processor,
    ProcessorContext,
    RepetitionPenalty,
    TopK,
    TopP,
    TypicalP,
    apply_processors,
)
from tests.nn.strategies import noise, seeds, tokens

V = 17
CASES: list[tuple[str, tuple[Any, ...], Processor]] = [
    ("TopKLogitsWarper", (5,), TopK(5)),
    ("TopPLogitsWarper", (0.7,), TopP(0.7)),
    ("MinPLogitsWarper", (0.1,), MinP(0.1)),
    ("TypicalLogitsWarper", (0.6,), TypicalP(0.6)),
    ("NoRepeatNGramLogitsProcessor", (2,), NoRepeatNgram(2)),
    ("RepetitionPenaltyLogitsProcessor", (1.4,), RepetitionPenalty(1.4)),
]


@pytest.mark.parametrize(("name", "settings", "ours"), CASES, ids=[case[0] for case in CASES])
@given(seed=seeds, spread=st.sampled_from([0.5, 2.0, 5.0]))
def test_the_same(
    name: str, settings: tuple[Any, ...], ours: Processor, seed: int, spread: float
) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = getattr(transformers, name)(*settings)
    scores = (noise(4, V, seed=seed) * spread).log_softmax(-1)
    written = tokens(4, 9, size=V, seed=seed)
    wanted = theirs(written, scores.clone())
    found = apply_processors(scores, ProcessorContext(written, 1, torch.arange(4)), [ours])
    assert torch.equal(found == NEG_INF, wanted == NEG_INF)
    assert torch.equal(found, wanted)
