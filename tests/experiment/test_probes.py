"""Probes against scikit-learn, their control, and the similarity of heads against scipy."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from jumok.errors import InputError
from jumok.experiment import activations, head_similarity, probe
from jumok.models import TextClassifier, TransformerConfig
from tests.errors import raises

IDS = [[1, 2, 3, 4], [5, 6, 7]]


def encoder(seed: int, n_heads: int = 2) -> TextClassifier:
    torch.manual_seed(seed)
    config = TransformerConfig(vocabulary_size=10, d_model=16, n_heads=n_heads, d_ff=16, n_layers=2)
    return TextClassifier(config, n_labels=2).double()


def test_a_probe_finds_what_is_linear_and_its_control_does_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 8))
    labels = np.where(x @ rng.standard_normal(8) > 0, "here", "there")
    found = probe(x[:400], labels[:400], x[400:], labels[400:])
    assert found.accuracy > 0.95
    assert abs(found.control - 0.5) < 0.07
    assert found.selectivity == found.accuracy - found.control
    noise = rng.standard_normal((600, 8))
    assert probe(noise[:400], labels[:400], noise[400:], labels[400:]).selectivity < 0.1


def test_a_probe_is_logistic_regression() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 300)
    x = rng.standard_normal((300, 5)) + np.eye(3, 5)[labels]
    found = probe(x[:200], labels[:200], x[200:], labels[200:], controls=0)
    other = linear.LogisticRegression(C=1.0).fit(x[:200], labels[:200])
    assert found.accuracy == pytest.approx(other.score(x[200:], labels[200:]), abs=0.03)
    common = np.bincount(labels[:200]).argmax()
    assert found.majority == pytest.approx((labels[200:] == common).mean())
    assert np.isnan(found.control)


def test_a_probe_needs_labels_for_its_rows() -> None:
    x = np.zeros((4, 2))
    for labels, test in (([0, 1, 0], [0, 1, 0, 1]), ([0] * 4, [0] * 4), ([0] * 4, [0, 1] * 2)):
        with raises(InputError, "experiment.probe_rows"):
            probe(x, np.array(labels), x, np.array(test))


def test_the_similarity_of_heads_is_that_of_scipy() -> None:
    first, second = encoder(0), encoder(1, n_heads=4)
    found = head_similarity(first, second, IDS)
    assert found.shape == (2, 2, 2, 4)
    a, b = (activations(model, IDS, "*.weights") for model in (first, second))
    for at in ((0, 1, 1, 3), (1, 0, 0, 2)):
        p = np.concatenate(
            [
                a[f"encoder.{at[0]}.weights"][i, at[1], : len(ids), : len(ids)].T
                for i, ids in enumerate(IDS[:1])
            ],
            1,
        )
        rows = []
        for i, ids in enumerate(IDS):
            n = len(ids)
            p = a[f"encoder.{at[0]}.weights"][i, at[1], :n, :n]
            q = b[f"encoder.{at[2]}.weights"][i, at[3], :n, :n]
            rows += list(jensenshannon(p, q, base=2, axis=1) ** 2)
        assert found[at] == pytest.approx(1 - np.mean(rows))


def test_a_model_is_most_similar_to_itself() -> None:
    model = encoder(0)
    found = head_similarity(model, model, IDS)
    for layer in range(2):
        for head in range(2):
            assert found[layer, head, layer, head] == pytest.approx(1)
    assert np.allclose(found, found.transpose(2, 3, 0, 1))
    assert found.min() > 0
    with raises(InputError, "experiment.unknown_point"):
        head_similarity(model, model, IDS, "cross")
