"""EncoderSession: from ids to outputs, against the PyTorch models of the same weights."""

from itertools import product

import numpy as np
import pytest
import torch

from jumok.errors import InputError
from jumok.inference.text_session import head_of
from jumok.models import PairClassifier, TextClassifier, TransformerConfig
from jumok.models.config import OWN_POSITIONS
from jumok.native import layout
from jumok.native.packed_weights import quantize_rows
from jumok.native.quantize import quantize_rows as quantize_rows_in_torch
from jumok.native.session import EncoderSession, Head
from jumok.native.threads import set_kernel_threads
from jumok.native.torch_weights import TensorArrays
from jumok.nn import sinusoids
from jumok.nn.positions import POSITIONS, RelativePositionBias
from jumok.text.ragged import Ragged
from tests.errors import raises
from tests.inference.encoders import CONFIGS, DISENTANGLED, MODERN, config, error, seeded

pytestmark = pytest.mark.usefixtures("compiled")

LENGTHS = (1, 40, 7, 17, 3)
MORE = {"n_segments": 2, "d_embedding": 10, "embedding_norm": True, "max_length": 40}


def rows() -> Ragged:
    ids = np.random.default_rng(1).integers(0, 77, sum(LENGTHS), np.int32)
    return Ragged.from_lengths(ids, np.array(LENGTHS))


def segments() -> np.ndarray:
    """The second half of each text is segment 1."""
    return np.concatenate([np.arange(n) * 2 >= n for n in LENGTHS]).astype(np.int32)


def session(model: torch.nn.Module, plan: TransformerConfig, **arrays: object) -> EncoderSession:
    made = EncoderSession(layout.encoder_dims(plan), "float32")
    made.add_encoder(plan, {**TensorArrays(model), **arrays})  # type: ignore[dict-item]
    return made


def torch_inputs(of: Ragged, types: np.ndarray, row: int) -> dict[str, torch.Tensor]:
    part = slice(of.offsets[row], of.offsets[row + 1])
    return {
        "ids": torch.from_numpy(of.ids[part].astype(np.int64))[None],
        "segments": torch.from_numpy(types[part].astype(np.int64))[None],
    }


@pytest.mark.parametrize(
    ("kind", "positions"), [*CONFIGS, MODERN, *product(DISENTANGLED, ["none", "learned"])]
)
@torch.inference_mode()
def test_hidden_states_are_those_of_the_model(kind: str, positions: str) -> None:
    plan = config(kind, positions, **(MORE if positions == "learned" else {"max_length": 40}))
    model = seeded(TextClassifier, plan, 3)
    assert layout.unsupported_encoder(plan) is None
    stored = TensorArrays(model).items()
    assert {
        name: array.shape for name, array in stored if name.startswith("encoder.")
    } == layout.encoder_shapes(plan)
    types = segments() if plan.n_segments else None
    found = session(model, plan).hidden_states(rows(), types)
    for row, length in enumerate(LENGTHS):
        inputs = torch_inputs(rows(), segments(), row)
        expected = model.hidden_states(
            inputs["ids"], segments=inputs["segments"] if plan.n_segments else None
        )
        start = rows().offsets[row]
        assert error(torch.from_numpy(found[start : start + length]), expected[0]) < 1e-5


@torch.inference_mode()
def test_pairs_are_compared_as_in_the_model() -> None:
    plan = config("vaswani", "learned", n_segments=2)
    model = seeded(PairClassifier, plan, 3, "tanh")
    model.output.weight.normal_()
    model.similarity.weight.normal_()
    made = session(model, plan)
    made.add_head(Head("compare", "output", "pooler.0", "tanh"), TensorArrays(model))
    found = made.outputs(rows(), segments())
    for row in range(len(LENGTHS)):
        inputs = torch_inputs(rows(), segments(), row)
        expected = model(inputs["ids"], segments=inputs["segments"])
        assert error(torch.from_numpy(found[row : row + 1]), expected) < 1e-5
        text = rows().take([row])
        own = inputs["segments"][0].numpy()
        np.testing.assert_array_equal(made.outputs(text, own)[0], found[row])


@pytest.mark.parametrize("norm", ["layer", "layer_without_bias", "rms"])
@torch.inference_mode()
def test_a_transform_before_the_output(norm: str) -> None:
    changes = {"norm": norm, "head_transform": True, "head_activation": "silu"}
    plan = config("vaswani", "learned", **changes)
    model = seeded(TextClassifier, plan, 3, "mean")
    made = session(model, plan)
    head = head_of(model)
    assert head == Head("mean", "output", "pooler.0", "silu", norm="pooler.2")
    made.add_head(head, TensorArrays(model))
    found = made.outputs(rows())
    for row in range(len(LENGTHS)):
        expected = model(torch_inputs(rows(), segments(), row)["ids"])
        assert error(torch.from_numpy(found[row : row + 1]), expected) < 1e-5
        np.testing.assert_array_equal(made.outputs(rows().take([row]))[0], found[row])


@pytest.mark.parametrize("threads", [1, 3])
def test_vectors_do_not_depend_on_the_batch(threads: int) -> None:
    plan = config("t5", "relative")
    made = session(seeded(TextClassifier, plan, 2), plan)
    many = Ragged.concat([rows()] * 12)
    set_kernel_threads(threads)
    try:
        for pooling in ("first", "mean", "max", "last"):
            together = made.vectors(many, pooling, normalize=True)
            for row in range(len(LENGTHS)):
                alone = made.vectors(rows().take([row]), pooling, normalize=True)
                np.testing.assert_array_equal(alone[0], together[row + 25])
    finally:
        set_kernel_threads(None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_token_vectors_stay_in_their_type(dtype: torch.dtype) -> None:
    plan = config("vaswani", "sinusoidal")
    model = seeded(TextClassifier, plan, 2)
    table = model.encoder.embedding.tokens
    with torch.no_grad():
        table.weight.copy_(table.weight.to(dtype))
    stored = TensorArrays(torch.nn.Embedding.from_pretrained(table.weight.to(dtype)))["weight"]
    small = session(model, plan, **{"encoder.embedding.tokens.weight": stored})
    expected = session(model, plan)
    np.testing.assert_array_equal(small.hidden_states(rows()), expected.hidden_states(rows()))
    assert small.weight_bytes == expected.weight_bytes


def test_ids_and_lengths_are_checked() -> None:
    plan = config("vaswani", "learned", n_segments=2)
    made = session(seeded(TextClassifier, plan, 2), plan)
    for ids in ([77], [-1]):
        with raises(InputError, "kernel.token_id_range"):
            made.hidden_states(Ragged.from_lists([ids]))
    with raises(InputError, "kernel.token_id_range"):
        made.hidden_states(Ragged.from_lists([[5]]), np.array([2], np.int32))
    with raises(InputError, "kernel.text_too_long"):
        made.hidden_states(Ragged.from_lists([[5] * 41]))
    assert made.hidden_states(Ragged.from_lists([])).shape == (0, 24)
    assert made.vectors(Ragged.from_lists([[], [5]]), "max", normalize=True)[0].tolist() == [0] * 24


def test_tables_are_those_of_the_modules() -> None:
    """Kinds of positions, sinusoids, buckets of distances and int8 weights exist in both."""
    assert {
        name: (POSITIONS.get(name).has_table, POSITIONS.get(name).rotates)
        for name in POSITIONS.builtin
    } == OWN_POSITIONS
    for halves in (False, True):
        expected = sinusoids(1000, 25, halves=halves).numpy()
        np.testing.assert_array_equal(layout.sinusoids(1000, 25, halves=halves), expected)
    for buckets, distance in ((32, 128), (8, 20), (64, 1000)):
        bias = RelativePositionBias(3, bidirectional=True, n_buckets=buckets, max_distance=distance)
        distances = torch.arange(-4999, 5000)
        found = layout.relative_table(5000, bias.bias.weight.detach().numpy(), distance)
        np.testing.assert_array_equal(found, bias.bias(bias.bucket(distances)).T.detach().numpy())
    x = torch.randn(7, 33)
    for mine, torchs in zip(quantize_rows(x.numpy()), quantize_rows_in_torch(x), strict=True):
        np.testing.assert_array_equal(mine, torchs.numpy())
