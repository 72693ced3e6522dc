"""Every logits processor against its definition, token by token."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jumok.decoding import DecodingConfig, GenerationInputs, StoppingCriteria
from jumok.decoding.build import build_constraints, build_processors, build_stopping, n_forced
from jumok.decoding.generate import generate
from jumok.decoding.processors import (
    NEG_INF,
    BannedSequences,
    ForcedPrefix,
    ForcedToken,
    IgnoreFirst,
    MinLength,
    MinP,
    NoRepeatNgram,
    Processor,
    ProcessorContext,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    TypicalP,
    apply_processors,
)
from jumok.errors import InputError
from tests.decoding.tiny_models import Allowed, MarkovDecoder
from tests.errors import raises
from tests.nn.strategies import noise, seeds

V = 6
rows_of_tokens = st.lists(st.lists(st.integers(0, V - 1), max_size=9), min_size=1, max_size=3)

some_words = st.lists(
    st.lists(st.integers(0, V - 1), min_size=1, max_size=3), min_size=1, max_size=5
)


def context(rows: list[list[int]], start: int = 0) -> ProcessorContext:
    """Rows padded on the left with -1."""
    width = max(map(len, rows))
    tokens = [[-1] * (width - len(row)) + row for row in rows]
    return ProcessorContext(
        torch.tensor(tokens).view(len(rows), width), start, torch.arange(len(rows))
    )


def banned(processor: Processor, given: ProcessorContext) -> list[set[int]]:
    """The banned tokens of each row; the others keep their scores."""
    scores = noise(len(given.tokens), V)
    after = apply_processors(scores, given, [processor])
    never = after == NEG_INF
    assert torch.equal(after[~never], scores[~never])
    return [set(row.nonzero()[:, 0].tolist()) for row in never]


@given(rows_of_tokens, some_words)
def test_forbidden_words_are_never_completed(
    rows: list[list[int]], overrides: list[list[int]]
) -> None:
    for row, found in zip(rows, banned(BannedSequences(overrides), context(rows)), strict=True):
        ends = {word[-1] for word in overrides if row[len(row) - len(word) + 1 :] == word[:-1]
                and len(row) >= len(word) - 1}  # fmt: skip
        assert found == ends


def test_min_length_counts_generated_tokens() -> None:
    given = context([[1, 2, 3, 4]], start=2)
    assert banned(MinLength(3, end_id=5), given) == [{5}]
    assert banned(MinLength(2, end_id=5), given) == [set()]


def test_one_prefix_for_all_or_one_for_each() -> None:
    everyone = set(range(V))
    start_decoder = context([[9, 1], [9, 4]], start=1)
    assert banned(ForcedPrefix([[1, 5]]), start_decoder) == [everyone - {5}] * 2
    assert banned(ForcedPrefix([[1, 5], [4]]), start_decoder) == [everyone - {5}, set()]
    assert banned(ForcedPrefix([[1]]), start_decoder) == [set(), set()]
    beams = ProcessorContext(start_decoder.tokens, 1, torch.tensor([1, 1]))
    assert banned(ForcedPrefix([[1, 5], [4, 2]]), beams) == [everyone - {2}] * 2


@given(rows_of_tokens, st.sampled_from([0.5, 1.3]))
def test_repetition_penalty_uses_the_logits(rows: list[list[int]], penalty: float) -> None:
    """Keskar et al. 2019 with the sign that makes a penalty of every logit: as transformers."""
    logits = noise(len(rows), V) * 3
    given = replace(context(rows), logits=logits)
    found = apply_processors(logits.log_softmax(-1), given, [RepetitionPenalty(penalty)])
    for row, before, after in zip(rows, logits, found, strict=True):
        for token in range(V):
            factor = 1.0 if token not in row else penalty if before[token] < 0 else 1 / penalty
            assert after[token] == pytest.approx(float(before[token] * factor), rel=1e-6)


def test_a_penalty_breaks_a_loop_of_certain_tokens() -> None:
    table = torch.zeros(V, V)
    table[:, 4], table[4, 5] = 12.0, 10.0
    stopping = StoppingCriteria(3, [6])
    config = DecodingConfig(max_length=6, repetition_penalty=1.5)
    for settings, expected in ((DecodingConfig(max_length=6), [4] * 6), (config, [4, 5])):
        one = GenerationInputs(torch.tensor([[2]]), stopping)
        [[answer]] = generate(MarkovDecoder(table), one, settings, build_processors(settings, 3))
        assert answer.ids[: len(expected)] == expected


def test_processors_do_not_see_a_forced_first_token() -> None:
    everyone = set(range(V))
    late = IgnoreFirst(1, ForcedPrefix([[4, 5]]))
    assert banned(late, context([[9]], start=1)) == [set()]
    assert banned(late, context([[9, 7]], start=1)) == [everyone - {4}]
    assert banned(late, context([[9, 7, 4]], start=1)) == [everyone - {5}]
    assert n_forced([ForcedToken(7, 0), Allowed([1]), ForcedToken(3, 5)]) == 1


@given(seeds, st.sampled_from([0.05, 0.3, 0.5, 0.9, 0.999]))
def test_tokenizations_of_a_text(seed: int, p: float) -> None:
    scores = noise(3, V, seed=seed) * 2
    given = context([[0], [0], [0]])
    rows = zip(scores.softmax(-1), banned_of(TopP(p), scores, given),
               banned_of(MinP(p), scores, given), banned_of(TypicalP(p), scores, given),
               strict=True)  # fmt: skip
    for probability, top_p, min_p, typical in rows:
        entropy = -(probability * probability.log()).sum()
        surprise = (-probability.log() - entropy).abs()
        for order, found in (((-probability).argsort(), top_p), (surprise.argsort(), typical)):
            kept = [token for token in order.tolist() if token not in found]
            assert kept == order.tolist()[: len(kept)]  # the most probable ones
            mass = probability[kept].sum().item()
            assert mass >= p - 1e-6
            assert mass - probability[kept[-1]] < p + 1e-6  # and none too many
        assert min_p == {t for t in range(V) if probability[t] < p * probability.max()}


def banned_of(processor: Processor, scores: Tensor, given: ProcessorContext) -> list[set[int]]:
    never = apply_processors(scores, given, [processor]) == NEG_INF
    return [set(row.nonzero()[:, 0].tolist()) for row in never]


def test_truncations_in_sequence() -> None:
    """A truncation applies to the remaining tokens; banned ones stay banned."""
    scores = torch.tensor([[NEG_INF, 0.0, -1.0, -2.0, -3.0, NEG_INF]])
    for cut in (TopK(2), TopP(0.9), MinP(0.2), TypicalP(0.9), Temperature(2.0)):
        after = apply_processors(scores, context([[0]]), [cut])
        assert not after.isnan().any()
        assert (after[scores == NEG_INF] == NEG_INF).all()
        assert (after > NEG_INF).any()


def test_temperature() -> None:
    scores = noise(2, V)
    assert torch.equal(
        apply_processors(scores, context([[0]] * 2), [Temperature(0.5)]), scores / 0.5
    )


def test_input_scores_are_not_modified() -> None:
    scores = noise(1, V)
    before = scores.clone()
    apply_processors(scores, context([[0]]), [Allowed([1]), Temperature(2.0)])
    assert torch.equal(scores, before)


def test_processors_are_in_the_documented_order() -> None:
    config = DecodingConfig(
        sample=True, temperature=0.5, top_k=3, top_p=0.9, min_p=0.1, typical_p=0.9,
        repetition_penalty=1.2, no_repeat_ngram=3, min_length=2,
    )  # fmt: skip
    constraint = Allowed([1])
    kinds = [type(each) for each in build_processors(config, 3, constraints=[constraint])]
    assert kinds == [
        RepetitionPenalty, NoRepeatNgram, MinLength, Allowed, Temperature, TopK, TopP, MinP,
        TypicalP,
    ]  # fmt: skip
    assert build_processors(DecodingConfig(beam=5, n_best=2, length_penalty=0.3), 3) == []


def test_text_settings_need_a_tokenizer() -> None:
    with raises(InputError, "decoding.text_needs_tokenizer"):
        build_processors(DecodingConfig(forbidden=("가",)), 3)
    with raises(InputError, "decoding.text_needs_tokenizer"):
        build_constraints(DecodingConfig(allowed=("가",)), 3, [9])
    with raises(InputError, "decoding.text_needs_tokenizer"):
        build_processors(DecodingConfig(prefix="가"), 3)
    with raises(InputError, "decoding.text_needs_tokenizer"):
        build_stopping(DecodingConfig(stop=("가",)), 3, [1])


def test_empty_sequences_are_rejected() -> None:
    with raises(InputError, "decoding.no_sequences"):
        BannedSequences([])
    with raises(InputError, "decoding.no_sequences"):
        BannedSequences([[1], []])
