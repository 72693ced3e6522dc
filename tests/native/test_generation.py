"""Greedy, beam and speculative decoding with the kernel match the PyTorch model."""

from itertools import product

import pytest
import torch

from jumok.decoding import DecodingConfig, Hypothesis
from jumok.decoding.generate import generate
from jumok.decoding.incremental.decoder import (
    CausalLMDecoder,
    IncrementalDecoder,
)
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.speculative import speculative
from jumok.decoding.stopping import StoppingCriteria
from jumok.models import LanguageModel
from jumok.native import NativeDecoder, NativeModel
from tests.native.conftest import language_model

pytestmark = pytest.mark.usefixtures("compiled")

LIMITS, EOS, CAPACITY = [9, 4, 12], 5, 20


def ids(results: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.ids for hypothesis in text] for text in results]


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
