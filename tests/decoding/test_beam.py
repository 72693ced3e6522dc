"""Beam search against exhaustive search, against plain Python lists, and by property."""

import math
from functools import cache
from itertools import product

import pytest
import torch

from jumok.decoding import (
    CausalLMDecoder,
    DecodingConfig,
    GenerationInputs,
    GenerationRequest,
    Seq2SeqDecoder,
    StoppingCriteria,
    align,
    beam_search,
    generate_seq2seq,
)
from jumok.decoding.beam import length_norm
from jumok.decoding.config import EarlyStopping, LengthNorm
from jumok.decoding.generate import generate
from jumok.decoding.incremental.decoder import left_pad
from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel
from tests.combinations import pairwise, singly
from tests.decoding.tiny_models import (
    BOS,
    EOS,
    KINDS,
    POSITIONS,
    SIDES,
    MarkovDecoder,
    Model,
    Side,
    all_tokens,
    alone,
    bos_inputs,
    log_p_of,
    model_of,
    rescored,
    texts,
    write,
)
from tests.errors import raises

TEXT = [0, 1, 2]
Ranked = list[tuple[float, list[int]]]
every_kind = pytest.mark.parametrize("kind", KINDS)


def every_sequence(n_tokens: int, limit: int) -> list[list[int]]:
    """All that end with the end token, or at the limit."""
    others = [token for token in range(n_tokens) if token != EOS]
    ended = [[*some, EOS] for n in range(limit) for some in product(others, repeat=n)]
    return ended + [list(some) for some in product(others, repeat=limit)]


@cache
def every_score(kind: str, positions: str, limit: int) -> Ranked:
    """The score of every sequence of four tokens for one text."""
    model = model_of(kind, positions, vocabulary_size=4)
    return [(sum(rescored(model, TEXT, tokens)), tokens) for tokens in every_sequence(4, limit)]


@pytest.mark.parametrize(
    ("kind", "positions", "ranking"),
    singly(KINDS, POSITIONS, [("power", 0.0), ("power", 1.0), ("power", -0.7), ("gnmt", 0.8)]),
)
def test_a_wide_beam_finds_the_global_optimum(
    kind: str, positions: str, ranking: tuple[LengthNorm, float]
) -> None:
    model, limit = model_of(kind, positions, vocabulary_size=4), 3
    norm, alpha = ranking
    config = DecodingConfig(
        beam=64, n_best=10, max_length=limit, length_norm=norm, length_penalty=alpha
    )
    ranks = sorted(
        (score / length_norm(len(tokens), config), tokens)
        for score, tokens in every_score(kind, positions, limit)
    )[::-1]
    [found] = write(model, torch.tensor([TEXT]), None, config)
    assert [all_tokens(one) for one in found] == [tokens for _, tokens in ranks[:10]]
    assert [one.rank for one in found] == pytest.approx([rank for rank, _ in ranks[:10]], abs=1e-5)


def plain_search(model: Model, text: list[int], config: DecodingConfig) -> Ranked:
    """The algorithm of beam.py's docstring for one text, with lists, without batch or cache."""
    K = config.beam
    living: Ranked = [(0.0, [])]
    finished: Ranked = []
    for t in range(1, config.max_length + 1):
        continued = [
            (score + gain, [*tokens, token])
            for score, tokens in living
            for token, gain in enumerate(log_p_of(model, text, tokens).tolist())
        ]
        candidates = sorted(continued, key=lambda pair: -pair[0])[: 2 * K]
        over = [tokens[-1] == EOS or t == config.max_length for _, tokens in candidates]
        norm = length_norm(t, config)
        for (score, tokens), ends in zip(candidates[:K], over, strict=False):
            if ends:
                finished.append((score / norm + covered(model, text, tokens, config), tokens))
        finished = sorted(finished, key=lambda pair: -pair[0])[:K]
        pairs = zip(candidates, over, strict=True)
        living = [candidate for candidate, ends in pairs if not ends][:K]
        if not living:
            break
        if len(finished) == K:
            longest = config.max_length if config.length_penalty > 0 else t
            length = longest if config.early_stopping == "never" else t
            best = living[0][0] / length_norm(length, config)
            if config.early_stopping is False:
                best = max(s / norm + covered(model, text, tokens, config) for s, tokens in living)
            hopeless = best <= finished[-1][0]
            if config.early_stopping is True or hopeless:
                break
    return finished[: config.n_best]


def covered(model: Model, text: list[int], tokens: list[int], config: DecodingConfig) -> float:
    """cp of one hypothesis, from one pass over the whole sequence."""
    if not config.coverage:
        return 0.0
    assert isinstance(model, EncoderDecoder)
    (seen,) = align(model, torch.tensor([text]), None, [tokens], bos_id=BOS)
    return float(config.coverage * seen.weights.sum(0).clamp(max=1.0).log().sum())


@pytest.mark.slow
@pytest.mark.parametrize("early", [True, False, "never"])
@pytest.mark.parametrize("beta", [0.3, 3.0])
def test_coverage_penalty_as_documented(early: EarlyStopping, beta: float) -> None:
    model, (ids, real) = model_of("encoder_decoder"), texts(n=4)
    config = DecodingConfig(beam=3, n_best=3, max_length=6, early_stopping=early, coverage=beta)
    for row, found in enumerate(write(model, ids, real, config)):
        expected = plain_search(model, alone(ids, real, row)[0].tolist(), config)
        assert [all_tokens(one) for one in found] == [tokens for _, tokens in expected]
        assert [one.rank for one in found] == pytest.approx([r for r, _ in expected], abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "early", "ranking"),
    pairwise(KINDS, [True, False, "never"], [("power", 1.0), ("gnmt", 0.6), ("power", -0.5)]),
)
def test_beam_search_as_documented(
    kind: str, early: EarlyStopping, ranking: tuple[LengthNorm, float]
) -> None:
    model, (ids, real) = model_of(kind), texts(n=2)
    norm, alpha = ranking
    config = DecodingConfig(
        beam=3, n_best=3, max_length=6, early_stopping=early, length_norm=norm, length_penalty=alpha
    )
    for row, found in enumerate(write(model, ids, real, config)):
        expected = plain_search(model, alone(ids, real, row)[0].tolist(), config)
        assert [all_tokens(one) for one in found] == [tokens for _, tokens in expected]
        assert [one.rank for one in found] == pytest.approx([r for r, _ in expected], abs=1e-4)
        assert [one.finished for one in found] == [tokens[-1] == EOS for _, tokens in expected]


def test_the_values_of_early_stopping_differ() -> None:
    """The wider the question, the longer the search: a table where the three part."""
    p = torch.full((6, 6), 1e-9)
    p[BOS, EOS], p[BOS, 4] = 0.5, 0.5  # ends at once, rank log 0.5
    p[4, EOS], p[4, 5] = 0.1, 0.9  # a low second end, and a better continuation: True stops here
    p[5, EOS], p[5, 1] = 0.5, 0.5  # a better second end
    p[1, [0, 1, 4, 5]] = 0.25  # low scores from here on: False stops
    p[0, [0, 1, 4, 5]] = 0.25
    table = p.log()
    steps = {}
    for early in (True, False, "never"):
        decoder = MarkovDecoder(table)
        config = DecodingConfig(beam=2, early_stopping=early, length_penalty=1.0, max_length=40)
        beam_search(decoder, bos_inputs(limit=40), config)
        steps[early] = decoder.length
    assert steps[True] < steps[False] < steps["never"]


@pytest.mark.parametrize(("kind", "positions", "side"), pairwise(KINDS, POSITIONS, SIDES))
def test_every_positional_encoding_and_padding(kind: str, positions: str, side: Side) -> None:
    model, (ids, real) = model_of(kind, positions), texts(n=2, side=side)
    config = DecodingConfig(beam=3, n_best=3, max_length=5)
    for row, found in enumerate(write(model, ids, real, config)):
        expected = plain_search(model, alone(ids, real, row)[0].tolist(), config)
        assert [all_tokens(one) for one in found] == [tokens for _, tokens in expected]
        assert [one.rank for one in found] == pytest.approx([r for r, _ in expected], abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "positions", "side", "ranking"),
    pairwise(KINDS, POSITIONS, SIDES, [(True, 0.0), (False, 1.0)]),
)
def test_one_beam_is_greedy(
    kind: str, positions: str, side: Side, ranking: tuple[EarlyStopping, float]
) -> None:
    early, alpha = ranking
    model, (ids, real) = model_of(kind, positions), texts(side=side)
    config = DecodingConfig(max_length=10, early_stopping=early, length_penalty=alpha)
    stopping = StoppingCriteria(EOS, [10] * len(ids))
    if isinstance(model, EncoderDecoder):
        one = GenerationInputs(torch.full((len(ids), 1), BOS), stopping)
        decoders = [Seq2SeqDecoder(model, ids, real, capacity=10) for _ in range(2)]
    else:
        first, padding = left_pad(ids, real)
        one = GenerationInputs(first, stopping, padding=padding)
        decoders = [CausalLMDecoder(model, padding, capacity=18) for _ in range(2)]
    searched = beam_search(decoders[0], one, config)
    for [beam], [greedy] in zip(searched, generate(decoders[1], one, config), strict=True):
        assert (beam.ids, beam.finished) == (greedy.ids, greedy.finished)
        assert beam.log_probabilities == pytest.approx(greedy.log_probabilities, abs=1e-5)
        assert beam.rank == pytest.approx(greedy.rank, abs=1e-5)


@every_kind
def test_hypotheses_are_distinct_and_ordered(kind: str) -> None:
    model, (ids, real) = model_of(kind), texts()
    config = DecodingConfig(beam=5, n_best=5, max_length=9)
    for found in write(model, ids, real, config):
        ranks = [one.rank for one in found]
        assert ranks == sorted(ranks, reverse=True)
        assert len({tuple(all_tokens(one)) for one in found}) == len(found) == 5


def test_ties_go_to_the_smaller_token_and_the_better_beam() -> None:
    table = torch.full((6, 6), -50.0)
    table[:, [5, 4]] = 0.0  # alike
    config = DecodingConfig(beam=2, n_best=2, max_length=2)
    [found] = beam_search(MarkovDecoder(table), bos_inputs(limit=2), config)
    assert [one.ids for one in found] == [[4, 4], [4, 5]]


@every_kind
def test_finished_texts_leave_the_batch(kind: str) -> None:
    model, (ids, real) = model_of(kind), texts()
    config = DecodingConfig(beam=2, early_stopping=True, max_length=12)
    sizes: list[int] = []
    hook = model.decoder.register_forward_hook(lambda module, args, out: sizes.append(len(out)))
    write(model, ids, real, config)
    together = list(sizes)
    steps = []
    for row in range(len(ids)):
        sizes.clear()
        write(model, alone(ids, real, row), None, config)
        steps.append(len(sizes))
    hook.remove()
    width = [1] + [2] * 12
    assert together == [width[t] * sum(n > t for n in steps) for t in range(max(steps))]
    assert len(set(together)) > 2


def test_a_source_is_projected_once_and_not_repeated() -> None:
    model, (ids, real) = model_of("encoder_decoder"), texts()
    rows: list[int] = []
    cross = model.decoder.stack.layers[0].cross_attention
    cross.key.register_forward_hook(lambda module, args, out: rows.append(len(out)))
    write(model, ids, real, DecodingConfig(beam=4, max_length=10))
    assert rows == [len(ids)]


@pytest.mark.parametrize("beta", [0.3, 2.0])
def test_coverage_is_that_of_the_alignment(beta: float) -> None:
    model, (ids, real) = model_of("encoder_decoder"), texts(side="both")
    assert isinstance(model, EncoderDecoder)
    config = DecodingConfig(
        beam=4, n_best=4, coverage=beta, length_norm="gnmt", length_penalty=0.6, max_length=8
    )
    answers = generate_seq2seq(model, ids, real, GenerationRequest(config, end_id=EOS), bos_id=BOS)
    for several in zip(*answers, strict=True):
        tokens = [all_tokens(one) for one in several]
        for one, alignment in zip(
            several, align(model, ids, real, tokens, bos_id=BOS), strict=True
        ):
            missed = alignment.weights.sum(0).clamp(max=1.0).log().sum().item()
            length = length_norm(len(one.log_probabilities), config)
            assert one.rank == pytest.approx(one.score / length + beta * missed, abs=1e-4)
    without = write(model, ids, real, DecodingConfig(beam=4, n_best=4, max_length=8))
    assert [[o.ids for o in several] for several in answers] != [
        [o.ids for o in several] for several in without
    ]


def test_coverage_needs_a_source() -> None:
    model = model_of("language_model")
    assert isinstance(model, LanguageModel)
    with raises(InputError, "decoding.coverage_needs_attention"):
        write(model, *texts(), DecodingConfig(beam=2, coverage=1.0, max_length=4))


def test_length_norms() -> None:
    assert length_norm(9, DecodingConfig(length_penalty=0.5)) == 3.0
    gnmt = DecodingConfig(length_penalty=0.6, length_norm="gnmt")
    assert length_norm(13, gnmt) == pytest.approx(3**0.6)
    assert math.isclose(float(length_norm(torch.tensor(13), gnmt)), 3**0.6, rel_tol=1e-6)
