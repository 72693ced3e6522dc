"""Greedy, beam and speculative decoding with the kernel match the PyTorch model."""

from itertools import product

import pytest
import torch

from jumok.decoding import DecodingConfig, Hypothesis
from jumok.decoding.generate import generate
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

LIMITS, EOS, CAPACITY = [9, 4, 12], 5, 20
CONFIGS = [
    DecodingConfig(),
    DecodingConfig(beam=4, n_best=3),
    DecodingConfig(beam=3, early_stopping="never", length_penalty=0.6),
    DecodingConfig(sample=True, seed=3, n_best=2),
]


def ids(results: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.ids for hypothesis in text] for text in results]


@pytest.mark.parametrize("processors", [[], [MinLength(3, EOS)]])
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("seq2seq", [True, False])
def test_generate_matches_the_pytorch_model(
    config: DecodingConfig, processors: list, seq2seq: bool
) -> None:
    source, first = torch.arange(3, 24).view(3, 7), torch.arange(30, 36).view(3, 2)
    inputs = GenerationInputs(first, StoppingCriteria(EOS, LIMITS), sample_keys=[1, 2, 3])
    decoders: list[IncrementalDecoder]
    if seq2seq:
        model = encoder_decoder()
        native = NativeDecoder(NativeModel(model, "float32"), source, capacity=CAPACITY)
        decoders = [native, Seq2SeqDecoder(model, source, capacity=CAPACITY)]
    else:
        language = language_model()
        native = NativeDecoder(NativeModel(language, "float32"), capacity=CAPACITY)
        decoders = [native, CausalLMDecoder(language, capacity=CAPACITY)]
    assert isinstance(decoders[0], SupportsTopK)
    assert not isinstance(decoders[1], SupportsTopK)
    actual, expected = (generate(decoder, inputs, config, processors) for decoder in decoders)
    assert ids(actual) == ids(expected)
    for text, reference in zip(actual, expected, strict=True):
        for hypothesis, other in zip(text, reference, strict=True):
            assert hypothesis.score == pytest.approx(other.score, abs=1e-4)
            assert hypothesis.finished == other.finished


def test_speculative_decoding_with_the_kernel() -> None:
    """The kernel as target, draft or both: the output of the PyTorch model."""
    model, small = language_model(), language_model("gpt2")
    inputs = GenerationInputs(torch.tensor([[30, 31]]), StoppingCriteria(EOS, [12]))
    config = DecodingConfig(max_length=12)
    [[expected]] = generate(CausalLMDecoder(model, capacity=CAPACITY), inputs, config)

    def decoders(language_model: LanguageModel) -> list[IncrementalDecoder]:
        native = NativeDecoder(NativeModel(language_model, "float32"), capacity=CAPACITY)
        return [native, CausalLMDecoder(language_model, capacity=CAPACITY)]

    for i, j in product(range(2), range(2)):
        for draft in (small, model):
            found = speculative(decoders(model)[i], decoders(draft)[j], inputs, config)
            assert found.hypothesis.ids == expected.ids
            assert found.hypothesis.score == pytest.approx(expected.score, abs=1e-4)
