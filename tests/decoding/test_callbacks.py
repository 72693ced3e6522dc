"""Callbacks change nothing, and their step results add up to the hypothesis."""

import pytest
import torch
from torch import Tensor

from jumok.decoding import (
    DecodingConfig,
    GenerationInputs,
    StepResult,
    StoppingCriteria,
)
from jumok.decoding.build import build_processors
from jumok.decoding.generate import generate
from jumok.decoding.processors import NEG_INF
from tests.decoding.tiny_models import EOS, MarkovDecoder, V, all_tokens, bos_inputs

CONFIGS = {
    "greedy": DecodingConfig(),
    "beam": DecodingConfig(beam=3, n_best=3),
    "beam with filters": DecodingConfig(beam=4, min_length=3, no_repeat_ngram=2),
    "narrow beam": DecodingConfig(beam=4, top_k=2),
    "draws": DecodingConfig(sample=True, n_best=3, temperature=0.7, top_k=5),
}


class Notes:
    """Records every call of a callback."""

    def __init__(self) -> None:
        self.cached: list[int] = []
        self.log_p: list[Tensor] = []
        self.scores: list[Tensor] = []
        self.came: list[StepResult] = []

    def on_scores(self, cached: int, log_p: Tensor, scores: Tensor) -> None:
        self.cached.append(cached)
        self.log_p.append(log_p.clone())
        self.scores.append(scores.clone())

    def on_step(self, continuations: StepResult) -> None:
        self.came.append(continuations)


def chain(seed: int) -> MarkovDecoder:
    return MarkovDecoder(2 * torch.randn(V, V, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CONFIGS)
def test_a_callback_changes_nothing_and_gets_every_step(name: str, seed: int) -> None:
    config, notes = CONFIGS[name], Notes()
    processors = build_processors(config, EOS)
    plain = generate(chain(seed), bos_inputs(), config, processors)
    watched = generate(chain(seed), bos_inputs(), config, processors, callback=notes)
    assert watched == plain

    assert notes.cached == list(range(len(notes.came)))  # one token a step
    texts: list[list[int]] = [[]] * len(notes.log_p[0])  # of every row
    complete: list[list[int]] = []
    for log_p, scores, came in zip(notes.log_p, notes.scores, notes.came, strict=True):
        assert len(log_p) == len(scores) == len(texts)
        assert torch.allclose(log_p.exp().sum(-1), torch.ones(len(log_p)))
        parts = (came.row, came.token, came.score, came.ended)
        going = []
        for row, token, score, ended in zip(*(part.tolist() for part in parts), strict=True):
            text = [*texts[row], token]
            if score > NEG_INF:
                assert scores[row, token] > NEG_INF
                complete += [text] if ended else []
            if not ended:
                going.append(text)
        texts = going
    for answer in plain[0]:
        assert all_tokens(answer) in complete


def test_beam_scores_are_sums_of_processed_scores() -> None:
    notes = Notes()
    config = DecodingConfig(beam=3, repetition_penalty=1.5)
    generate(chain(1), bos_inputs(), config, build_processors(config, EOS), callback=notes)
    totals = [0.0]
    for scores, came in zip(notes.scores, notes.came, strict=True):
        expected = torch.tensor(totals)[came.row] + scores[came.row, came.token]
        there = came.score > NEG_INF  # the others fill the batch
        assert there.any()
        torch.testing.assert_close(came.score[there], expected[there])
        totals = came.score[~came.ended].tolist()


def test_a_step_without_allowed_tokens_has_no_score() -> None:
    notes = Notes()

    def forbid(scores: Tensor, context: object) -> Tensor:
        return scores.fill_(NEG_INF)

    first = GenerationInputs(torch.tensor([[2]]), StoppingCriteria(EOS, [4]))
    generate(chain(0), first, DecodingConfig(), [forbid], callback=notes)
    assert [came.score.tolist() for came in notes.came] == [[NEG_INF]]
    assert notes.came[0].ended.tolist() == [True]
