"""Vectors of texts: pooled hidden states, alone as in company."""

from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.models import Decoder, TextClassifier
from jumok.pretrained.sentence_encoding import SentenceEncoding
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.pipeline.text_inputs import check_pooling
from jumok.tasks.pipeline.text_vectors import text_vectors
from tests.errors import raises
from tests.tasks.tiny_jobs import CPU, recipe, review_vocabulary

TEXTS = ["재미있어요", "", "정말 지루한 영화였다 그래도 배우는 좋았다", "최고"]


@pytest.fixture(scope="module")
def model() -> TextClassifier:
    torch.manual_seed(0)
    plan = recipe("classification", {}).with_vocabulary(len(review_vocabulary()))
    return TextClassifier(plan.model, n_labels=2).eval()


def vectors(
    model: torch.nn.Module, texts: list[str], pooling: str = "mean", *, normalize: bool = True
) -> np.ndarray:
    encoding = SentenceEncoding(check_pooling(pooling))
    vocabulary = review_vocabulary()
    return text_vectors(model, texts, vocabulary, 32, CPU, encoding=encoding, normalize=normalize)


def test_mean_of_the_real_tokens(model: TextClassifier) -> None:
    """Against the hidden states of each text alone; padding and company change nothing."""
    together = vectors(model, TEXTS, normalize=False)
    rows = TextEncoder(review_vocabulary(), 32)(TEXTS)
    for i, row in enumerate(rows):
        with torch.inference_mode():
            hidden = model.hidden_states(torch.from_numpy(row.astype(np.int64))[None])[0]
        np.testing.assert_allclose(together[i], hidden.mean(0), atol=1e-6)  # float32 sums
    np.testing.assert_allclose(
        vectors(model, TEXTS, pooling="first", normalize=False)[3], hidden[0], atol=1e-6
    )
    np.testing.assert_allclose(
        vectors(model, TEXTS, pooling="last", normalize=False)[3], hidden[-1], atol=1e-6
    )


def test_normalized_vectors_have_length_one(model: TextClassifier) -> None:
    unit = vectors(model, TEXTS)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    assert vectors(model, []).shape[0] == 0


def test_wrong_requests(model: TextClassifier) -> None:
    with raises(InputError, "config.wrong_type"):
        vectors(model, TEXTS, pooling="cls")
    plan = recipe("classification", {}).with_vocabulary(len(review_vocabulary()))
    with raises(InputError, "pipeline.vectors_need_encoder"):
        vectors(Decoder(plan.model), TEXTS)


def test_a_pipeline_encodes(review_run: Path) -> None:
    pipeline = jumok.load(review_run, device="cpu")
    both = pipeline.encode(["재미있어요", "최고"])
    assert both.shape == (2, pipeline.recipe.model.d_model)
    np.testing.assert_allclose(pipeline.encode("최고"), both[1], atol=1e-6)
