"""Transcoders: they start as the layer, learn few features of it, and take its place."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError, ModelFileError
from jumok.experiment import Subject, activations, read
from jumok.experiment.transcoders import (
    TopK,
    Transcoder,
    Transcoders,
    hidden_point,
    train_transcoders,
)
from jumok.native import unsupported_reason
from jumok.safetensors_io import serialize
from tests.errors import raises
from tests.experiment.models import data_of, model_of

ROWS = [("겨울은 추워요.", "Winter is cold."), ("감기 조심하세요.", "Watch out for colds.")]


@pytest.fixture(scope="module")
def coders() -> Transcoders:
    return train_transcoders(jumok.load("note", device="cpu"), ROWS, n_features=96, k=8, steps=60)


@pytest.mark.parametrize("kind", ["sequences", "language model", "tagging"])
def test_with_all_features_active_a_transcoder_is_its_layer(kind: str) -> None:
    model, data = model_of(kind), data_of(kind)  # with ReLU, biased or not, pre-norm and post-norm
    whole = train_transcoders(model, data, n_features=1000, k=1000, steps=0)
    for fit in whole.fit(model, data).values():
        assert fit.explained > 1 - 1e-9
    batch = data.batch(torch.arange(len(data)).numpy(), torch.device("cpu"))
    expected, found = (
        Subject(each).run(batch)[0] for each in (model, model.with_models(whole.splice))
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)  # float32 sums of other order


def test_at_the_start_further_features_take_no_place_of_a_neuron() -> None:
    model = jumok.load("note", device="cpu")
    d_ff = model.recipe.model.d_ff
    alone, more = (
        train_transcoders(model, ROWS, n_features=n, k=8, steps=0).fit(model, ROWS)
        for n in (d_ff, 8 * d_ff)
    )
    for name, fit in more.items():
        assert fit.explained == pytest.approx(alone[name].explained, abs=1e-3)
        assert fit.explained > 0.5


def test_few_features_explain_most_after_some_steps(coders: Transcoders) -> None:
    model = jumok.load("note", device="cpu")
    before = train_transcoders(model, ROWS, n_features=96, k=8, steps=0).fit(model, ROWS)
    for name, fit in coders.fit(model, ROWS).items():
        assert 0.95 < fit.explained < 1
        assert fit.explained > before[name].explained
        assert 4 < fit.active <= 8


def test_features_are_a_point_of_the_spliced_model(coders: Transcoders) -> None:
    model = jumok.load("note", device="cpu")
    name = "source.steps.0.feed_forward"
    spliced = model.with_models(coders.splice)
    found = activations(spliced, ROWS, hidden_point(name)).tokens(hidden_point(name))  # (N, F)
    x = activations(model, ROWS, "source.steps.0.after_self_attention")
    expected = coders.coders[name].features(
        torch.from_numpy(x.tokens("source.steps.0.after_self_attention"))
    )
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=1e-5)
    assert model.predict(ROWS[0][0]) != spliced.predict("")  # the model itself has its own layers
    assert read(model, ROWS).lengths("source").sum() == len(found)


def test_the_kernel_does_not_compute_transcoders(coders: Transcoders) -> None:
    spliced = coders.splice(jumok.load("note", device="cpu").model)
    reason = unsupported_reason(spliced)
    assert reason is not None
    assert reason.code == "kernel.unsupported_module"


def test_a_file_has_the_same_transcoders(coders: Transcoders, tmp_path: Path) -> None:
    model = jumok.load("note", device="cpu")
    coders.save(tmp_path / "coders.safetensors")
    loaded = Transcoders.load(tmp_path / "coders.safetensors")
    assert loaded.fit(model, ROWS) == coders.fit(model, ROWS)


def test_training_never_explains_less_than_the_start() -> None:
    model, data = model_of("tagging"), data_of("tagging")  # ReLU: with all active it is exact
    sizes: dict[str, int] = {"n_features": 256, "k": 256, "batch_tokens": 64}
    trained = train_transcoders(model, data, steps=3, learning_rate=0.1, **sizes)
    for fit in trained.fit(model, data).values():
        assert fit.explained > 1 - 1e-6


def test_transcoders_of_another_model_are_refused(coders: Transcoders, tmp_path: Path) -> None:
    model = jumok.load("note", device="cpu").model
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(p for name, p in other.named_parameters() if "feed_forward.up" in name).mul_(1.5)
    coders.save(tmp_path / "coders.safetensors")
    loaded = Transcoders.load(tmp_path / "coders.safetensors")
    loaded.splice(model)
    loaded.splice(copy.deepcopy(model).double())
    with raises(InputError, "experiment.transcoders_of_another_model"):
        loaded.splice(other)
    Transcoders(coders.coders).save(tmp_path / "older.safetensors")  # without a hash
    Transcoders.load(tmp_path / "older.safetensors").splice(other)


def test_a_seed_repeats_a_training() -> None:
    model = jumok.load("note", device="cpu")
    first, second, other = (
        train_transcoders(model, ROWS, k=4, steps=5, batch_tokens=16, seed=seed).fit(model, ROWS)
        for seed in (1, 1, 2)  # of batches of one row
    )
    assert first == second != other


def test_the_largest_positive_features_are_active() -> None:
    x = torch.tensor([[-3.0, 2.0, 5.0, 1.0], [-1.0, -2.0, 3.0, -4.0]])
    assert TopK(2)(x).tolist() == [[0, 2, 5, 0], [0, 0, 3, 0]]
    assert TopK(9)(x).tolist() == x.relu().tolist()


def test_what_is_refused(coders: Transcoders, tmp_path: Path) -> None:
    with raises(InputError, "config.out_of_range"):
        train_transcoders(model_of("sequences"), data_of("sequences"), k=0)
    with raises(InputError, "experiment.transcoders_of_model"):
        coders.splice(model_of("language model").model)
    other = Transcoders({name: Transcoder(8, 16, 2) for name in coders.coders})  # another width
    with raises(InputError, "experiment.transcoders_of_model"):
        other.splice(jumok.load("note", device="cpu").model)
    (tmp_path / "x").write_bytes(serialize({"weight": torch.zeros(2)}))
    with raises(ModelFileError, "experiment.transcoders_file"):
        Transcoders.load(tmp_path / "x")


def test_peaks_are_the_rows_and_tokens_where_a_feature_is_largest(coders: Transcoders) -> None:
    model, name = jumok.load("note", device="cpu"), "source.steps.0.feed_forward"
    rows = [*ROWS, ("겨울은", "Winter")]  # shorter than the others: there is padding
    spliced = activations(model.with_models(coders.splice), rows, hidden_point(name))
    features = spliced[hidden_point(name)]  # (n, T, F), 0 on padding
    numbers = features.max((0, 1)).argsort()[-3:].tolist()
    for number, peaks in zip(
        numbers, coders.peaks(model, rows, [(name, i) for i in numbers], n=2), strict=True
    ):
        expected = np.sort(features[:, :, number].max(1))[::-1][:2]
        assert [peak.value for peak in peaks] == pytest.approx(expected[expected > 0].tolist())
        for peak in peaks:
            assert features[peak.row, peak.token, number] == pytest.approx(peak.value, abs=1e-5)
