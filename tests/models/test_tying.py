"""Tied weights of source, target and output (3.4): one storage, one gradient, one name."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel, MaskedLanguageModel
from tests.models.small_models import VOCABULARY, small
from tests.nn.strategies import tokens
from tests.nn.tolerances import FLOAT64, close, randomized

IDS, TARGET = tokens(2, 3, size=VOCABULARY), tokens(2, 2, size=VOCABULARY, seed=1)


def test_tied_weights_share_one_storage() -> None:
    model = EncoderDecoder(small())
    tables = (
        model.encoder.embedding.tokens.weight,
        model.decoder.embedding.tokens.weight,
        model.output.weight,
    )
    assert len({table.data_ptr() for table in tables}) == 1
    assert len({id(table) for table in tables}) == 1
    assert sum(parameter is tables[0] for parameter in model.parameters()) == 1


def test_the_tied_gradient_is_the_sum_of_three() -> None:
    """Against the same model with three separate weights."""
    tied, apart = EncoderDecoder(small()), EncoderDecoder(small(tie_embeddings=False))
    randomized(tied).double().eval()
    apart.double().eval()
    apart.output.weight = torch.nn.Parameter(apart.output.weight.detach().clone())
    apart.load_state_dict(tied.state_dict())
    for model in (tied, apart):
        model(IDS, TARGET).log_softmax(-1)[..., 0].sum().backward()
    table = tied.output.weight.grad
    parts = [
        apart.encoder.embedding.tokens.weight.grad,
        apart.decoder.embedding.tokens.weight.grad,
        apart.output.weight.grad,
    ]
    assert table is not None
    assert all(part is not None and part.any() for part in parts)
    assert close(table, torch.stack([part for part in parts if part is not None]).sum(0), FLOAT64)


@pytest.mark.parametrize("kind", [LanguageModel, MaskedLanguageModel])
def test_heads_tie_their_output_if_configured(kind: Any) -> None:
    def table(model: Any) -> torch.Tensor:
        tower = model.decoder if kind is LanguageModel else model.encoder
        weight = tower.embedding.tokens.weight
        assert isinstance(weight, torch.Tensor)
        return weight

    tied, apart = kind(small()), kind(small(tie_embeddings=False))
    assert tied.output.weight is table(tied)
    assert apart.output.weight is not table(apart)
    assert close(tied.output(torch.eye(8)), F.linear(torch.eye(8), table(tied), tied.output.bias))


def test_tied_weights_stay_tied_on_another_device() -> None:
    model = EncoderDecoder(small()).to(torch.float64)
    assert model.output.weight is model.encoder.embedding.tokens.weight
    assert model.output.weight is model.decoder.embedding.tokens.weight


def test_a_tied_weight_is_initialized_as_an_embedding() -> None:
    """Standard deviation d_model^-0.5, not Xavier: scaled vectors then start at 1."""
    torch.manual_seed(0)
    model = LanguageModel(small(vocabulary_size=500, d_model=64))
    assert abs(model.output.weight.std().item() - 1 / 8) < 0.01


def test_vocabularies_of_different_size_cannot_be_tied() -> None:
    with pytest.raises(InputError) as error:
        EncoderDecoder(small(target_vocabulary_size=7, tie_embeddings="all"))
    assert str(error.value) == (
        "vocabularies that share one embedding must have the same size, got "
        '11 and 7; set tie_embeddings = "target"'
    )


@pytest.mark.parametrize("tied", [True, "target", False, "none"])
def test_tying_with_two_vocabularies(tied: bool | str) -> None:
    model = EncoderDecoder(small(target_vocabulary_size=7, tie_embeddings=tied))
    assert model(IDS, TARGET % 7).shape == (2, 2, 7)
    assert len(model.encoder.embedding.tokens.weight) == VOCABULARY
    table = model.decoder.embedding.tokens.weight
    assert len(table) == 7
    assert (model.output.weight is table) == (tied in (True, "target"))


def test_only_the_target_tied_in_one_vocabulary() -> None:
    model = EncoderDecoder(small(tie_embeddings="target"))
    table = model.decoder.embedding.tokens.weight
    assert model.output.weight is table
    assert model.encoder.embedding.tokens.weight is not table
