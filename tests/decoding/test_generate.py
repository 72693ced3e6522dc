"""The same output with and without a cache, single and batched, streamed and whole."""

import pytest
import torch

from jumok.decoding import (
    DecodingConfig,
    GenerationInputs,
    GenerationRequest,
    Hypothesis,
    StoppingCriteria,
    generate_lm,
    generate_seq2seq,
)
from jumok.decoding.generate import generate
from jumok.decoding.processors import ProcessorContext
from jumok.errors import InputError
from jumok.models import EncoderDecoder
from tests.combinations import pairwise
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
    log_p_of,
    model_of,
    rescored,
    texts,
    write,
)
from tests.errors import raises

CONFIGS = {
    "greedy": DecodingConfig(max_length=14),
    "beam": DecodingConfig(beam=3, n_best=3, max_length=14),
    "sample": DecodingConfig(sample=True, n_best=3, max_length=14, temperature=0.8, top_k=6),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_config = pytest.mark.parametrize("name", CONFIGS)


def loop(model: Model, text: list[int], limit: int) -> Hypothesis:
    """Greedy search without cache, batch or padding."""
    ids: list[int] = []
    gains: list[float] = []
    while len(ids) < limit:
        log_p = log_p_of(model, text, ids)
        ids.append(int(log_p.argmax()))
        gains.append(log_p[ids[-1]].item())
        if ids[-1] == EOS:
            return Hypothesis(ids[:-1], sum(gains), True, gains)
    return Hypothesis(ids, sum(gains), False, gains)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "positions", "side"), pairwise(KINDS, POSITIONS, SIDES))
def test_cached_is_uncached(kind: str, positions: str, side: Side) -> None:
    model = model_of(kind, positions)
    ids, real = texts(side=side)
    for row, [found] in enumerate(write(model, ids, real, CONFIGS["greedy"])):
        plain = loop(model, alone(ids, real, row)[0].tolist(), limit=14)
        assert found.ids == plain.ids
        assert found.finished == plain.finished
        assert found.log_probabilities == pytest.approx(plain.log_probabilities, abs=1e-4)
        assert found.score == pytest.approx(plain.score, abs=1e-4)  # float32 sums of 14 terms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "positions", "name", "side"), pairwise(KINDS, POSITIONS, CONFIGS, SIDES)
)
def test_single_equals_batched(kind: str, positions: str, name: str, side: Side) -> None:
    model = model_of(kind, positions)
    ids, real = texts(side=side)
    together = write(model, ids, real, CONFIGS[name])
    for row, several in enumerate(together):
        [single] = write(model, alone(ids, real, row), None, CONFIGS[name])
        assert [one.ids for one in several] == [one.ids for one in single]
        assert [one.finished for one in several] == [one.finished for one in single]
        scores = [one.score for one in single]
        assert [one.score for one in several] == pytest.approx(scores, abs=1e-4)
    some = [4, 1, 6]  # another batch, another order
    others = write(model, ids[some], real[some], CONFIGS[name])
    assert [[one.ids for one in several] for several in others] == [
        [one.ids for one in together[row]] for row in some
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "side", "name"), pairwise(KINDS, SIDES, ["greedy", "beam"]))
def test_an_ensemble_alone_equals_batched(kind: str, side: Side, name: str) -> None:
    """Two different models, whose common output is not that of either."""
    model, other = model_of(kind), model_of(kind, d_ff=48)
    ids, real = texts(side=side)
    together = write(model, ids, real, CONFIGS[name], others=[other])
    for row, several in enumerate(together):
        [single] = write(model, alone(ids, real, row), None, CONFIGS[name], others=[other])
        assert [one.ids for one in several] == [one.ids for one in single]
        ranks = [one.rank for one in single]
        assert [one.rank for one in several] == pytest.approx(ranks, abs=1e-4)
    for each in (model, other):
        plain = write(each, ids, real, CONFIGS[name])
        assert [[one.ids for one in row] for row in plain] != [
            [one.ids for one in row] for row in together
        ]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "positions", "name"), pairwise(KINDS, POSITIONS, CONFIGS))
def test_scores_equal_teacher_forcing(kind: str, positions: str, name: str) -> None:
    model = model_of(kind, positions)
    ids, real = texts(side="both")
    for row, several in enumerate(write(model, ids, real, CONFIGS[name])):
        for one in several:
            gains = rescored(model, alone(ids, real, row)[0].tolist(), all_tokens(one))
            assert one.log_probabilities == pytest.approx(gains, abs=1e-4)
            assert one.score == pytest.approx(sum(gains), abs=1e-4)
            assert one.rank == pytest.approx(sum(gains) / len(gains), abs=1e-4) or name == "sample"


@every_kind
@every_config
def test_streamed_is_whole(kind: str, name: str) -> None:
    model = model_of(kind)
    ids, real = texts(side="both")
    config = CONFIGS[name]
    streamed: dict[int, list[int]] = {}

    def on_token(row: int, token: int) -> None:
        streamed.setdefault(row, []).append(token)

    if isinstance(model, EncoderDecoder):
        answers = generate_seq2seq(
            model, ids, real, GenerationRequest(config, end_id=EOS, on_token=on_token), bos_id=BOS
        )
    else:
        answers = generate_lm(
            model, ids, real, GenerationRequest(config, end_id=EOS, on_token=on_token)
        )
    assert answers == write(model, ids, real, config)
    whole = [one.ids for several in answers for one in several]
    assert [streamed.get(row, []) for row in range(len(whole))] == whole


def test_tokens_are_streamed_before_the_end() -> None:
    model = model_of("encoder_decoder")
    source = torch.tensor([[5, 6, 7]])
    steps, seen = [], []
    model.decoder.register_forward_hook(lambda *_: steps.append(len(steps)))
    generate_seq2seq(
        model,
        source,
        None,
        GenerationRequest(
            DecodingConfig(max_length=6),
            end_id=-1,
            on_token=lambda row, token: seen.append(len(steps)),
        ),
        bos_id=BOS,
    )
    assert seen == [1, 2, 3, 4, 5, 6]


@every_kind
def test_finished_rows_leave_the_batch(kind: str) -> None:
    model = model_of(kind)
    ids, real = texts()
    sizes: list[int] = []
    model.decoder.register_forward_hook(lambda module, args, out: sizes.append(len(out)))
    written = write(model, ids, real, CONFIGS["greedy"])
    steps = [len(one.log_probabilities) for [one] in written]
    assert sizes == [sum(step > at for step in steps) for at in range(max(steps))]
    assert len(set(sizes)) > 1


@every_kind
@pytest.mark.parametrize("limit", [1, 4])
def test_not_longer_than_max_length(kind: str, limit: int) -> None:
    model = model_of(kind)
    ids, real = texts()
    short = write(model, ids, real, DecodingConfig(max_length=limit))
    long = write(model, ids, real, DecodingConfig(max_length=20))
    for [one], [other] in zip(short, long, strict=True):
        assert all_tokens(one) == all_tokens(other)[:limit]
        assert one.finished == (other.finished and len(other.ids) < limit)


def test_limits_follow_the_source() -> None:
    model = model_of("encoder_decoder")
    ids, real = texts()
    config = DecodingConfig(max_ratio=1.0, max_extra=2)
    for several in (config, DecodingConfig(beam=3, max_ratio=1.0, max_extra=2)):
        answers = generate_seq2seq(
            model, ids, real, GenerationRequest(several, end_id=-1), bos_id=BOS
        )
        lengths = [len(one.ids) for one, *_ in answers]
        assert lengths == [int(n) + 2 for n in real.sum(-1)]


def test_as_long_as_the_max_length_of_the_model() -> None:
    """[BOS] and 63 tokens fill the 64 positions; the last token is never an input."""
    source = torch.tensor([[5, 6, 7]])
    for beam in (1, 2):
        config = DecodingConfig(beam=beam, max_length=64)
        model = model_of("encoder_decoder")
        [[one, *_]] = generate_seq2seq(
            model, source, None, GenerationRequest(config, end_id=-1), bos_id=BOS
        )
        assert len(one.ids) == 64
        too_far = DecodingConfig(beam=beam, max_length=65)
        with raises(InputError, "model.cache_too_long"):
            generate_seq2seq(model, source, None, GenerationRequest(too_far, end_id=-1), bos_id=BOS)
    assert too_far.capped_at(64) == config


@every_kind
@every_config
def test_an_empty_batch(kind: str, name: str) -> None:
    ids, real = texts()
    assert write(model_of(kind), ids[:0], real[:0], CONFIGS[name]) == []


@every_kind
@every_config
def test_every_token_banned_ends_the_text(kind: str, name: str) -> None:
    """A processor that bans every token ends its text; the other texts continue."""
    model = model_of(kind)
    ids, real = texts(n=3)

    def nothing_after_two(scores: torch.Tensor, context: ProcessorContext) -> torch.Tensor:
        if context.generated.shape[1] == 2:
            scores[context.texts == 1] = float("-inf")
        return scores

    answers = write(model, ids, real, CONFIGS[name], (nothing_after_two,))
    free = write(model, ids, real, CONFIGS[name])
    assert [one.ids for one in answers[0]] == [one.ids for one in free[0]]
    assert answers[1]
    assert all(one.finished or len(one.log_probabilities) == 2 for one in answers[1])
    assert not any(one.finished and len(one.log_probabilities) > 2 for one in answers[1])
    assert all(one.score > float("-inf") for one in answers[1])


def test_invalid_generation_inputs() -> None:
    with raises(InputError, "decoding.prompt_ids_shape"):
        GenerationInputs(torch.zeros(2, 1, dtype=torch.int64), StoppingCriteria(EOS, [3]))
    with raises(InputError, "decoding.prompt_ids_shape"):
        GenerationInputs(torch.zeros(1, 1, dtype=torch.int64), StoppingCriteria(EOS, [0]))
    bare = GenerationInputs(torch.full((2, 1), BOS), StoppingCriteria(EOS, [3, 3]))
    with raises(InputError, "decoding.sample_keys_of_texts"):
        generate(MarkovDecoder(torch.zeros(12, 12)), bare, DecodingConfig(sample=True))
