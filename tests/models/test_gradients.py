"""Gradients of whole models: equal to finite differences, finite, one per tied weight."""

import pytest
import torch
from torch import Tensor, nn

from jumok.models import (
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
)
from jumok.nn import AttentionMask
from tests.models.small_models import POSITIONS, VOCABULARY, small
from tests.nn.strategies import sequence_mask, tokens
from tests.nn.tolerances import randomized

IDS, TARGET = tokens(2, 3, size=VOCABULARY), tokens(2, 2, size=VOCABULARY, seed=1)
REAL = sequence_mask([3, 1], 3)


@pytest.mark.slow
@pytest.mark.parametrize("positions", POSITIONS)
def test_gradcheck_of_tiny_models(positions: str) -> None:
    norm_first = POSITIONS.index(positions) % 2 == 1
    config = small(
        positions=positions,
        norm_first=norm_first,
        activation="gelu",  # smooth, as finite differences require
        gated=norm_first,
        vocabulary_size=VOCABULARY,
        d_model=4,
        d_ff=5,
    )
    mask, causal = AttentionMask.from_padding(REAL), AttentionMask.from_padding(REAL, causal=True)
    models: list[tuple[nn.Module, tuple[object, ...]]] = [
        (TextClassifier(config, 2, "mean"), (IDS, REAL)),
        (LanguageModel(config), (IDS, causal)),
        (MaskedLanguageModel(config), (IDS, mask)),
        (EncoderDecoder(config), (IDS, TARGET, mask)),
        (EncoderDecoderClassifier(config, 2), (IDS, TARGET, REAL)),
    ]
    for model, inputs in models:
        model = randomized(model).double().eval()

        def result(
            *parameters: Tensor, model: nn.Module = model, inputs: object = inputs
        ) -> Tensor:
            assert isinstance(inputs, tuple)
            y = model(*inputs)
            assert isinstance(y, Tensor)
            return y

        parameters = tuple(model.parameters())
        assert torch.autograd.gradcheck(result, parameters, fast_mode=True), type(model)
