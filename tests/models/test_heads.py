"""Heads: dropout in training, shapes of the outputs."""

from typing import Any

import pytest
import torch

from jumok.models import (
    Encoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    TokenClassifier,
)
from jumok.nn import AttentionMask
from tests.models.small_models import VOCABULARY, set_seed, small
from tests.nn.strategies import sequence_mask, tokens
from tests.nn.tolerances import close, gradients, randomized

IDS = tokens(2, 4, size=VOCABULARY)


def test_shapes() -> None:
    config = small()
    assert TextClassifier(config, 3)(IDS).shape == (2, 3)
    assert EncoderDecoderClassifier(config, 3)(IDS, IDS[:, :1]).shape == (2, 3)
    assert LanguageModel(config)(IDS).shape == (2, 4, VOCABULARY)
    assert MaskedLanguageModel(config)(IDS).shape == (2, 4, VOCABULARY)
    assert EncoderDecoder(config)(IDS, IDS[:, :2]).shape == (2, 2, VOCABULARY)


def test_the_encoder_decoder_classifier_max_pools_the_decoder() -> None:
    model = randomized(EncoderDecoderClassifier(small(), 2)).eval()
    target = tokens(2, 3, size=VOCABULARY, seed=1)
    memory = model.encoder(IDS)
    hidden = model.decoder(target, memory=memory)
    assert torch.equal(model(IDS, target), hidden.max(1).values @ model.output.weight.T)


def test_every_model_has_dropout_only_in_training() -> None:
    config = small(attention_dropout=0.0, activation_dropout=0.0)
    for model in (TextClassifier(config, 3), LanguageModel(config), MaskedLanguageModel(config)):
        model.train()
        set_seed(1)
        first, second = model(IDS), model(IDS)
        set_seed(1)
        assert torch.equal(model(IDS), first), type(model)
        assert not torch.equal(second, first), type(model)
        model.eval()
        assert torch.equal(model(IDS), model(IDS)), type(model)


@pytest.mark.parametrize("head", [TextClassifier, TokenClassifier])
def test_a_head_has_dropout_on_its_input(head: Any) -> None:
    """Only in training; the encoder is in eval mode here."""
    model = randomized(head(small(dropout=0.5), 3)).eval()
    assert torch.equal(model(IDS), model(IDS))
    model.train().encoder.eval()
    set_seed()
    assert not torch.equal(model(IDS), model(IDS))


def test_without_dropout_training_and_eval_agree() -> None:
    config = small(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
    model = randomized(EncoderDecoder(config))
    assert torch.equal(model.train()(IDS, IDS), model.eval()(IDS, IDS))


def test_segments_are_added_and_default_to_the_first() -> None:
    model = randomized(Encoder(small(n_segments=3))).eval()
    segments = torch.tensor([[0, 0, 1, 2], [0, 1, 1, 2]])
    assert torch.equal(model(IDS), model(IDS, segments=torch.zeros_like(IDS)))
    assert not torch.allclose(model(IDS), model(IDS, segments=segments))


def test_embedding_norm() -> None:
    model = Encoder(small(embedding_norm=True)).eval()
    x = model.embedding(IDS, torch.arange(4)[None])
    assert close(x.mean(-1), torch.zeros(2, 4))
    assert close(x.var(-1, correction=0), torch.ones(2, 4), 1e-3)


def test_half_precision_is_close() -> None:
    """bfloat16 has 8 bits: two layers stay within 0.05 of float32, relative to the largest."""
    model = randomized(EncoderDecoder(small())).eval()
    mask = AttentionMask.from_padding(sequence_mask([4, 2], 4))
    exact = model(IDS, IDS, mask)
    with torch.autocast("cpu", torch.bfloat16):
        assert close(model(IDS, IDS, mask), exact, 0.05)
    assert close(model.bfloat16()(IDS, IDS, mask), exact, 0.05)


def test_gradients_under_autocast_are_close() -> None:
    """As in training on a CPU: float32 weights, bfloat16 products, the same dropout."""
    model = randomized(TextClassifier(small(), 3, "mean")).train()
    results = []
    for lowered in (False, True):
        model.zero_grad()
        set_seed()
        with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
            loss = model(IDS, sequence_mask([4, 2], 4)).float().logsumexp(-1).sum()
        loss.backward()
        results.append(torch.cat([g.flatten() for g in gradients(model).values()]))
    exact, near = results
    assert near.dtype == torch.float32
    assert (near - exact).norm() < 0.05 * exact.norm()
