"""Initialization: Xavier uniform for linear layers, zero biases, embeddings unchanged."""

import math

import pytest
import torch
from torch import nn

from jumok.models import EncoderDecoder, MaskedLanguageModel
from tests.models.small_models import small


def test_linear_layers_are_xavier_uniform() -> None:
    torch.manual_seed(0)
    model = EncoderDecoder(small(d_model=32, d_ff=64))
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and module is not model.output:
            edge = math.sqrt(6 / sum(module.weight.shape))
            assert module.weight.abs().max() <= edge, name
            assert abs(module.weight.std().item() - edge / math.sqrt(3)) < 0.1 * edge, name
            assert not module.bias.any(), name


@pytest.mark.parametrize("tied", [True, False])
def test_output_biases_start_at_zero(tied: bool) -> None:
    model = MaskedLanguageModel(small(tie_embeddings=tied))
    assert not model.output.bias.any()


def test_equal_seeds_give_equal_models() -> None:
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(MaskedLanguageModel(small()).state_dict())
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
