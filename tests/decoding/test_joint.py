"""Joint search: a text that joins others at any step has the result of `generate` alone."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jumok.decoding import (
    DecodingConfig,
    GenerationInputs,
    Hypothesis,
    IncrementalDecoder,
    Seq2SeqDecoder,
    StoppingCriteria,
)
from jumok.decoding import joint as joint_module
from jumok.decoding.build import build_processors
from jumok.decoding.generate import generate
from jumok.decoding.joint import JointSearch, can_join, joint_search
from jumok.decoding.processors import BannedSequences
from jumok.errors import NonFiniteError
from jumok.models import EncoderDecoder
from tests.decoding.tiny_models import BOS, EOS, model_of

LONGEST = 40
CONFIGS = [
    DecodingConfig(),
    DecodingConfig(min_length=6),
    DecodingConfig(repetition_penalty=1.7, no_repeat_ngram=2),
    DecodingConfig(beam=4, n_best=3),
    DecodingConfig(beam=3, length_penalty=0.6, length_norm="gnmt", early_stopping=True),
    DecodingConfig(beam=2, n_best=2, length_penalty=1.4, early_stopping="never"),
    DecodingConfig(beam=3, n_best=2, min_length=5),
    DecodingConfig(beam=3, min_length=4, no_repeat_ngram=1),  # every token is banned in the end
]


def step(
    decoders: Sequence[IncrementalDecoder], ids: Tensor, k: int = 0
) -> Tensor | tuple[Tensor, Tensor]:
    """Each decoder alone: all have the same number of rows, or 1 before their first step."""
    logits, at = [], 0
    for decoder in decoders:
        assert isinstance(decoder, Counted)
        logits.append(decoder.step(ids[at : at + decoder.rows]))
        at += decoder.rows
    assert at == len(ids)
    found = torch.cat(logits)
    if not k:
        return found
    top = found.log_softmax(-1).topk(k)
    return top.values, top.indices


class Counted(Seq2SeqDecoder):
    """A decoder that counts its rows."""

    rows = 1

    def reorder(self, rows: Tensor) -> None:
        super().reorder(rows)
        self.rows = len(rows)


def model() -> EncoderDecoder:
    found = model_of("encoder_decoder")
    assert isinstance(found, EncoderDecoder)
    return found


def request(number: int, limit: int) -> tuple[Counted, GenerationInputs]:
    """The decoder and the inputs of a text."""
    draw = torch.Generator().manual_seed(number)
    source = torch.randint(4, 12, (1, 1 + number % 5), generator=draw)
    stopping = StoppingCriteria(EOS, limits=[limit])
    inputs = GenerationInputs(torch.tensor([[BOS]]), stopping)
    return Counted(MODEL, source, capacity=LONGEST), inputs


MODEL = model()


@settings(max_examples=60, deadline=None)
@given(
    config=st.sampled_from(CONFIGS),
    texts=st.lists(st.tuples(st.integers(0, 9), st.integers(1, LONGEST)), min_size=1, max_size=9),
)
def test_texts_that_join_at_any_step_have_the_result_of_each_alone(
    config: DecodingConfig, texts: list[tuple[int, int]]
) -> None:
    """`texts`: after how many steps each one joins, and its limit."""
    processors = build_processors(config, EOS)
    search = joint_search(config, processors, step)
    waiting = dict(enumerate(texts))
    found: dict[int, list[Hypothesis]] = {}
    t = 0
    while len(found) < len(texts):
        for number, (after, limit) in list(waiting.items()):
            if after <= t or len(found) + len(waiting) == len(texts):
                search.add(number, *request(number, limit))
                del waiting[number]
        found |= search.step()
        t += 1
    for number, (_, limit) in enumerate(texts):
        decoder, inputs = request(number, limit)
        assert can_join(inputs, config, processors, decoder.vocabulary_size)
        assert found[number] == generate(decoder, inputs, config, processors)[0]


@pytest.mark.parametrize("config", CONFIGS[1:4])
def test_a_removed_text_does_not_change_the_others(config: DecodingConfig) -> None:
    processors = build_processors(config, EOS)
    search = joint_search(config, processors, step)
    for number in range(4):
        search.add(number, *request(number, 9))
    found = search.step()
    search.add(4, *request(4, 9))
    search.add(5, *request(5, 9))
    for number in (1, 4):  # one has begun, the other has not
        if number not in found:
            search.remove(number)
    while len(found.keys() - {1, 4}) < 4:
        found |= search.step()
    for number in (0, 2, 3, 5):
        assert found[number] == generate(*request(number, 9), config, processors)[0]


def test_texts_wait_where_there_are_no_free_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_module, "MAX_ROWS", 9)
    config, sizes = DecodingConfig(beam=4), []

    def counted(
        decoders: Sequence[IncrementalDecoder], ids: Tensor, k: int = 0
    ) -> Tensor | tuple[Tensor, Tensor]:
        sizes.append(len(decoders))
        return step(decoders, ids, k)

    search = joint_search(config, [], counted)
    found: dict[int, list[Hypothesis]] = {}
    for number in range(7):
        search.add(number, *request(number, 6))
    while len(found) < 7:
        found |= search.step()
    assert max(sizes) == 2
    assert [found[number] for number in range(7)] == [
        generate(*request(number, 6), config)[0] for number in range(7)
    ]


@pytest.mark.parametrize("config", CONFIGS[:4])
def test_scores_that_are_not_finite_are_refused(config: DecodingConfig) -> None:
    def broken(
        decoders: Sequence[IncrementalDecoder], ids: Tensor, k: int = 0
    ) -> Tensor | tuple[Tensor, Tensor]:
        found = step(decoders, ids, k)
        return (found[0] * torch.nan, found[1]) if isinstance(found, tuple) else found * torch.nan

    search: JointSearch = joint_search(config, build_processors(config, EOS), broken)
    search.add(0, *request(0, 5))
    with pytest.raises(NonFiniteError):
        search.step()


def test_which_searches_are_joined() -> None:
    decoder, inputs = request(0, 5)
    size = decoder.vocabulary_size
    assert can_join(inputs, DecodingConfig(beam=4), [], size)
    assert not can_join(inputs, DecodingConfig(beam=size), [], size)
    assert not can_join(inputs, DecodingConfig(sample=True), [], size)
    assert not can_join(inputs, DecodingConfig(beam=2, coverage=0.2), [], size)
    assert not can_join(inputs, DecodingConfig(), [BannedSequences([[4]])], size)
    prompt = replace(inputs, prompt_ids=torch.tensor([[BOS, 5]]))
    assert not can_join(prompt, DecodingConfig(), [], size)
    padded = replace(inputs, padding=torch.tensor([0]))
    assert not can_join(padded, DecodingConfig(), [], size)
