"""One table for source, target and output (3.4): one storage, one gradient, counted once."""

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


def test_one_storage() -> None:
    model = EncoderDecoder(small())
    tables = (
        model.encoder.embedding.tokens.weight,
        model.decoder.embedding.tokens.weight,
        model.output.weight,
    )
    assert len({table.data_ptr() for table in tables}) == 1
    assert len({id(table) for table in tables}) == 1
    assert sum(parameter is tables[0] for parameter in model.parameters()) == 1


def test_one_gradient_is_the_sum_of_three() -> None:
    """Against the same model with three tables of its own."""
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
def test_heads_share_the_table_where_the_config_says_so(kind: Any) -> None:
    def table(model: Any) -> torch.Tensor:
        tower = model.decoder if kind is LanguageModel else model.encoder
        weight = tower.embedding.tokens.weight
        assert isinstance(weight, torch.Tensor)
        return weight

    tied, apart = kind(small()), kind(small(tie_embeddings=False))
    assert tied.output.weight is table(tied)
    assert apart.output.weight is not table(apart)
    assert close(tied.output(torch.eye(8)), F.linear(torch.eye(8), table(tied), tied.output.bias))


def test_tied_tables_stay_tied_when_the_model_moves() -> None:
    model = EncoderDecoder(small()).to(torch.float64)
    assert model.output.weight is model.encoder.embedding.tokens.weight
    assert model.output.weight is model.decoder.embedding.tokens.weight


def test_a_tied_table_begins_as_an_embedding() -> None:
    """Width^-0.5, not Xavier's: the scaled embedding then begins at 1."""
    torch.manual_seed(0)
    model = LanguageModel(small(vocabulary_size=500, d_model=64))
    assert abs(model.output.weight.std().item() - 1 / 8) < 0.01


def test_two_vocabularies_cannot_share_one_table() -> None:
    with pytest.raises(InputError) as error:
        EncoderDecoder(small(target_vocabulary_size=7, tie_embeddings="all"))
    assert str(error.value) == (
        "vocabularies that share one embedding must have the same size, got "
        '11 and 7; set tie_embeddings = "target"'
    )


@pytest.mark.parametrize("tied", [True, "target", False, "none"])
def test_two_vocabularies_and_the_tables_of_the_target(tied: bool | str) -> None:
    model = EncoderDecoder(small(target_vocabulary_size=7, tie_embeddings=tied))
    assert model(IDS, TARGET % 7).shape == (2, 2, 7)
    assert len(model.encoder.embedding.tokens.weight) == VOCABULARY
    table = model.decoder.embedding.tokens.weight
    assert len(table) == 7
    assert (model.output.weight is table) == (tied in (True, "target"))


def test_the_source_may_stay_apart_in_one_vocabulary() -> None:
    model = EncoderDecoder(small(tie_embeddings="target"))
    table = model.decoder.embedding.tokens.weight
    assert model.output.weight is table
    assert model.encoder.embedding.tokens.weight is not table
