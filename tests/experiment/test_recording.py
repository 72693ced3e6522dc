"""Activations of data equal those of traces and hooks, in full precision, in memory or in files."""

from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.experiment import activations, points, read
from jumok.models import EncoderDecoder, LanguageModel, TextClassifier, TransformerConfig
from jumok.models.points import attention_modules
from tests.errors import raises
from tests.experiment.models import KINDS, data_of, model_of, rows_of
from tests.tiny_runs import reviews

SMALL = TransformerConfig(
    vocabulary_size=30, d_model=16, n_heads=2, d_ff=32, n_layers=2, norm_first=True
)


@pytest.mark.parametrize("kind", KINDS)
def test_activations_are_those_of_a_trace(kind: str) -> None:
    """One row at a time in the trace, all rows of different lengths in the experiment."""
    model, rows = model_of(kind), rows_of(kind)
    found = activations(model, rows, "*")
    assert list(found) == list(points(model))
    for i, row in enumerate(rows):
        text, target = row if isinstance(row, tuple) else (row, None)
        if kind == "language model":
            target = ""
        made = jumok.trace(model, text, target=target, explain=False)
        for name, point in found.points.items():
            own = found[name][i]
            for axis, letter in enumerate(point.axes[1:]):
                if letter in "TS":
                    side = point.sides["TS".index(letter)]
                    assert not own.take(
                        range(found.data.lengths(side)[i], own.shape[axis]), axis
                    ).any()
                    own = own.take(range(found.data.lengths(side)[i]), axis)
            np.testing.assert_allclose(own, made.tensor(name)[0], atol=2e-5, err_msg=name)


def test_relative_positions_have_one_bias_for_all_rows() -> None:
    torch.manual_seed(0)
    model = TextClassifier(
        TransformerConfig(
            vocabulary_size=30, d_model=16, n_heads=2, d_ff=32, n_layers=2, positions="relative"
        ),
        n_labels=2,
    )
    found = activations(model, [[5, 6, 7], [8, 9]], ["encoder.bias", "encoder.1.scores"])
    assert found["encoder.bias"].shape == (2, 2, 3, 3)
    assert np.array_equal(found["encoder.bias"][0, :, :2, :2], found["encoder.bias"][1, :, :2, :2])


def test_numbers_keep_the_precision_of_the_model() -> None:
    torch.manual_seed(0)
    model, ids = LanguageModel(SMALL), torch.randint(30, (3, 5))
    exact = activations(model.double(), ids, "target.hidden.2")["target.hidden.2"]
    assert exact.dtype == np.float64
    with torch.no_grad():
        expected = model.eval().hidden_states(ids)
    assert np.abs(exact - expected.numpy()).max() < 1e-14
    rounded = activations(model.bfloat16(), ids, "target.hidden.2")["target.hidden.2"]
    assert rounded.dtype == np.float32


def test_weights_that_float16_has_not_stay_as_they_are() -> None:
    """512 tokens of 8 heads are 8.4 MB, which a trace rounds by default."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocabulary_size=30, d_model=32, n_heads=8, d_ff=32, n_layers=1, max_length=512
    )
    model = TextClassifier(config, n_labels=2)
    with torch.no_grad():
        attention = attention_modules(model)[0].module
        attention.query.weight.mul_(12)
        attention.key.weight.mul_(12)
    ids = torch.randint(30, (1, 512))
    weights = activations(model, ids, "encoder.0.weights")["encoder.0.weights"]
    tiny = (weights > 0) & (weights < 2.0**-25)
    assert weights.dtype == np.float32
    assert tiny.sum() > 1000
    assert np.abs(weights.sum(-1) - 1).max() < 1e-5


def test_beyond_the_budget_arrays_are_files_of_the_same_bits(tmp_path: Path) -> None:
    data = data_of("classifier")
    model = model_of("classifier")
    small = activations(model, data, "encoder.*.weights")
    assert not any(isinstance(array, np.memmap) for array in small.values())
    assert small.folder is None
    large = activations(model, data, "encoder.*.weights", memory=small["encoder.0.weights"].nbytes)
    assert large.folder is not None
    folder = large.folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "encoder.0.weights.npy",
        "encoder.1.weights.npy",
    ]
    for name, array in small.items():
        assert isinstance(large[name], np.memmap)
        assert np.array_equal(np.load(folder / f"{name}.npy", mmap_mode="r"), array)
    del large
    assert not folder.exists()
    kept = activations(model, data, "encoder.0.q", folder=tmp_path / "kept")
    del kept
    assert (tmp_path / "kept" / "encoder.0.q.npy").is_file()


def test_tokens_and_means_leave_out_the_padding() -> None:
    model = LanguageModel(SMALL)
    found = activations(model, [[1, 2, 3], [4]], ["target.hidden.1", "decoder.0.mixed"])
    hidden, mixed = found["target.hidden.1"], found["decoder.0.mixed"]
    assert np.array_equal(found.tokens("target.hidden.1"), np.stack([*hidden[0], hidden[1, 0]]))
    assert np.array_equal(
        found.tokens("decoder.0.mixed"), np.stack([*mixed[0].swapaxes(0, 1), mixed[1, :, 0]])
    )
    np.testing.assert_allclose(
        found.means("target.hidden.1"), [hidden[0].mean(0), hidden[1, 0]], atol=1e-6
    )
    found = activations(model, [[1, 2]], "decoder.0.weights")
    with raises(InputError, "experiment.two_token_axes"):
        found.tokens("decoder.0.weights")


def test_texts_ids_and_data_sets_are_the_same_data(tmp_path: Path) -> None:
    model, rows = model_of("classifier"), reviews(4, 8)
    texts = read(model, [text for text, _ in rows])
    path = tmp_path / "rows.tsv"
    lines = "".join(f"{text}\t{label}\n" for text, label in rows)
    path.write_text(f"text\tlabel\n{lines}", encoding="utf-8")
    dicts = [{"text": text, "label": label} for text, label in rows]
    for other in (path, dicts, texts.ids["source"], texts):
        assert read(model, other).ids == texts.ids
    pairs = read(model_of("pairs"), [("좋아요", "별로예요")])
    assert pairs.ids == read(model_of("pairs"), ["좋아요\t별로예요"]).ids
    assert pairs.segments is not None
    assert set(pairs.segments[0]) == {0, 1}
    assert read(model_of("pairs"), pairs.ids["source"]).segments == pairs.segments


def test_data_of_another_vocabulary_are_refused() -> None:
    classifier, sequences = model_of("classifier"), model_of("sequences")
    data = read(classifier, ["좋아요"])
    assert read(classifier.model, data) is data  # the module alone knows its sizes
    for other in (sequences, sequences.model, LanguageModel(SMALL)):
        with raises(InputError, "experiment.data_of_another_model"):
            activations(other, data, "*")
    ids = read(LanguageModel(SMALL), [[1, 2]])
    with raises(InputError, "experiment.data_of_another_model"):
        read(classifier, ids)


def test_an_encoder_decoder_reads_two_sides() -> None:
    torch.manual_seed(0)
    model = EncoderDecoder(SMALL)
    sources, targets = [[3, 4, 5], [6]], [[1, 7], [1, 8]]
    found = activations(model, (sources, targets), ["cross.1.weights", "source.hidden.2"])
    assert found["cross.1.weights"].shape == (2, 2, 2, 3)
    model.eval()
    with torch.no_grad():
        alone = model.encode(torch.tensor([[6]]))
    assert np.abs(found["source.hidden.2"][1, :1] - alone[0].numpy()).max() < 1e-5
    assert read(model, (sources, targets)).labels == [[7, -1], [8, -1]]
    for wrong in (sources, (sources, targets[:1]), ([[], [6]], targets)):
        with raises(InputError, "experiment.ids_of_sides"):
            read(model, wrong)


def test_truncated_texts_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    model = model_of("classifier")
    data = read(model, ["재미있어요 " * 40, "좋아요"])
    assert data.lengths("source")[0] == model.recipe.model.max_length
    assert "texts truncated to 24 tokens: 1" in capsys.readouterr().err


def test_wrong_names_and_data_are_refused() -> None:
    model = LanguageModel(SMALL)
    with raises(InputError, "experiment.unknown_point"):
        activations(model, [[1]], "decoder.0.wieghts")
    with raises(InputError, "experiment.needs_pipeline"):
        read(model, ["a text"])
    with raises(InputError, "experiment.no_targets"):
        read(model_of("sequences"), ["삼 일"])
    with raises(InputError, "pipeline.ids_range"):
        read(model, [[1, 30]])
