"""Greedy, beam and speculative decoding with the kernel match the PyTorch model."""

from itertools import product

import pytest
import torch

from jumok.decoding import DecodingConfig, Hypothesis, generate
from jumok.decoding.incremental.decoder import (
    CausalLMDecoder,
    IncrementalDecoder,
    Seq2SeqDecoder,
    SupportsTopK,
)
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import MinLength
from jumok.decoding.speculative import speculative
from jumok.decoding.stopping import StoppingCriteria
from jumok.models import LanguageModel
from jumok.native import NativeDecoder, NativeModel
from tests.native.conftest import encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")

LIMITS, END, ROOM = [9, 4, 12], 5, 20
CONFIGS = [
    DecodingConfig(),
    DecodingConfig(beam=4, n_best=3),
    DecodingConfig(beam=3, early_stopping="never", length_penalty=0.6),
    DecodingConfig(sample=True, seed=3, n_best=2),
]


def ids(answers: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[answer.ids for answer in text] for text in answers]


@pytest.mark.parametrize("processors", [[], [MinLength(3, END)]])
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("reads", [True, False])
def test_generate_matches_the_pytorch_model(
    config: DecodingConfig, processors: list, reads: bool
) -> None:
    source, first = torch.arange(3, 24).view(3, 7), torch.arange(30, 36).view(3, 2)
    opening = GenerationInputs(first, StoppingCriteria(END, LIMITS), sample_keys=[1, 2, 3])
    writers: list[IncrementalDecoder]
    if reads:
        model = encoder_decoder()
        native = NativeDecoder(NativeModel(model, "float32"), source, capacity=ROOM)
        writers = [native, Seq2SeqDecoder(model, source, capacity=ROOM)]
    else:
        speaker = language_model()
        native = NativeDecoder(NativeModel(speaker, "float32"), capacity=ROOM)
        writers = [native, CausalLMDecoder(speaker, capacity=ROOM)]
    assert isinstance(writers[0], SupportsTopK)
    assert not isinstance(writers[1], SupportsTopK)
    ours, plain = (generate(writer, opening, config, processors) for writer in writers)
    assert ids(ours) == ids(plain)
    for text, expected in zip(ours, plain, strict=True):
        for answer, other in zip(text, expected, strict=True):
            assert answer.score == pytest.approx(other.score, abs=1e-4)
            assert answer.finished == other.finished


def test_speculative_decoding_with_the_kernel() -> None:
    """The kernel as target, draft or both: the output of the PyTorch model."""
    model, small = language_model(), language_model("gpt2")
    start = GenerationInputs(torch.tensor([[30, 31]]), StoppingCriteria(END, [12]))
    config = DecodingConfig(max_length=12)
    [[plain]] = generate(CausalLMDecoder(model, capacity=ROOM), start, config)

    def writers(each: LanguageModel) -> list[IncrementalDecoder]:
        native = NativeDecoder(NativeModel(each, "float32"), capacity=ROOM)
        return [native, CausalLMDecoder(each, capacity=ROOM)]

    for of_target, of_draft in product(range(2), range(2)):
        for guesser in (small, model):
            found = speculative(
                writers(model)[of_target], writers(guesser)[of_draft], start, config
            )
            assert found.hypothesis.ids == plain.ids
            assert found.hypothesis.score == pytest.approx(plain.score, abs=1e-4)
