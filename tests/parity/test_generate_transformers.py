"""The same greedy and beam output as transformers' `generate`, on the same weights."""

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from jumok.decoding import (
    DecodingConfig,
    GenerationRequest,
    Hypothesis,
    generate_lm,
    generate_seq2seq,
)
from jumok.decoding.processors import BannedSequences, Processor
from jumok.models import EncoderDecoder
from tests.parity.hf_models import EOS, PAD, SHAPES, Pair, V

LIMIT = 12
EARLY_STOPPING = (False, True, "never")


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest) -> Pair:
    return SHAPES[request.param]()


def texts(n: int = 6, longest: int = 7) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(2, longest + 1, (n,), generator=draw)
    real = (torch.arange(longest) < lengths[:, None]).flip(-1)  # prompts are padded on the left
    return torch.randint(4, V, (n, longest), generator=draw).masked_fill(~real, PAD), real


def theirs(pair: Pair, ids: Tensor, real: Tensor, **settings: Any) -> tuple[list[list[int]], list]:
    """The tokens that transformers generates, and its scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pair.theirs.generate(
            ids, attention_mask=real.long(), max_new_tokens=LIMIT, do_sample=False,
            return_dict_in_generate=True, output_scores=True, **settings,
        )  # fmt: skip
    begun = 1 if isinstance(pair.ours, EncoderDecoder) else ids.shape[1]
    rows = [row[begun:] for row in found.sequences.tolist()]
    rows = [row[: row.index(EOS)] if EOS in row else row for row in rows]
    scores = found.get("sequences_scores")
    return rows, [] if scores is None else scores.tolist()


def ours(
    pair: Pair,
    ids: Tensor,
    real: Tensor,
    config: DecodingConfig,
    constraints: Sequence[Processor] = (),
) -> list[Hypothesis]:
    if isinstance(pair.ours, EncoderDecoder):
        answers = generate_seq2seq(
            pair.ours,
            ids,
            real,
            GenerationRequest(config, end_id=EOS, constraints=constraints),
            bos_id=pair.bos_id,
        )
    else:
        answers = generate_lm(
            pair.ours, ids, real, GenerationRequest(config, end_id=EOS, constraints=constraints)
        )
    return [one for several in answers for one in several]


def sources(pair: Pair) -> tuple[Tensor, Tensor]:
    """Sources are padded on the right: transformers counts encoder positions from the left."""
    ids, real = texts()
    if isinstance(pair.ours, EncoderDecoder):
        return ids.flip(-1), real.flip(-1)
    return ids, real


def test_greedy(pair: Pair) -> None:
    ids, real = sources(pair)
    wanted, _ = theirs(pair, ids, real)
    found = ours(pair, ids, real, DecodingConfig(max_length=LIMIT))
    assert [one.ids for one in found] == wanted
    assert {one.finished for one in found} == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("early", EARLY_STOPPING)
@pytest.mark.parametrize("alpha", [0.0, 1.0, 0.6, -0.5])
def test_beam(pair: Pair, early: Any, alpha: float) -> None:
    ids, real = sources(pair)
    config = DecodingConfig(
        beam=4, n_best=3, max_length=LIMIT, length_penalty=alpha, early_stopping=early
    )
    wanted, scores = theirs(
        pair, ids, real, num_beams=4, num_return_sequences=3, length_penalty=alpha,
        early_stopping=early,
    )  # fmt: skip
    found = ours(pair, ids, real, config)
    assert [one.rank for one in found] == pytest.approx(scores, abs=1e-4)
    assert [one.ids for one in found] == wanted
    assert {one.finished for one in found} == {True, False}


@pytest.mark.parametrize("beam", [1, 3])
def test_with_settings(pair: Pair, beam: int) -> None:
    """No repeated bigram, at least four tokens, forbidden words.

    No padding: theirs would take it for text in which 2-grams stand.
    """
    ids = torch.randint(4, V, (6, 7), generator=torch.Generator().manual_seed(1))
    real = torch.ones_like(ids, dtype=torch.bool)
    words = [[5], [6, 7], [8, 9, 10], *([i, 20] for i in range(12, 20))]
    config = DecodingConfig(beam=beam, max_length=LIMIT, min_length=4, no_repeat_ngram=2)
    wanted, _ = theirs(
        pair, ids, real, num_beams=beam, no_repeat_ngram_size=2, min_new_tokens=4,
        bad_words_ids=words,
    )  # fmt: skip
    found = ours(pair, ids, real, config, [BannedSequences(words)])
    assert [one.ids for one in found] == wanted
    assert wanted != theirs(pair, ids, real, num_beams=beam)[0]


@pytest.mark.parametrize("beam", [1, 3])
def test_repetition_penalty(pair: Pair, beam: int) -> None:
    """As their greedy search applies it, on logits, and their beam search, on log-probabilities."""
    ids, real = sources(pair)
    ids = ids.masked_fill(~real, V - 1)  # transformers counts padding as text
    config = DecodingConfig(beam=beam, max_length=LIMIT, repetition_penalty=1.7)
    wanted, _ = theirs(
        pair, ids, real, num_beams=beam, repetition_penalty=1.7, bad_words_ids=[[V - 1]]
    )
    found = ours(pair, ids, real, config, [BannedSequences([[V - 1]])])
    assert [one.ids for one in found] == wanted
