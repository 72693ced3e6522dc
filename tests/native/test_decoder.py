"""NativeDecoder gives the logits of the PyTorch decoders, step by step, for every config."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jumok.decoding.incremental.decoder import CausalLMDecoder, IncrementalDecoder, Seq2SeqDecoder
from jumok.errors import InputError
from jumok.models import LanguageModel
from jumok.native import DecoderPrecision, NativeDecoder, NativeModel, round_to_blocks
from jumok.native.gguf_quantize import BlockName
from tests.combinations import pairwise, singly
from tests.errors import raises
from tests.native.conftest import (
    KINDS,
    NOTES,
    POSITIONS,
    config,
    encoder_decoder,
    language_model,
    randomize_vectors,
)

pytestmark = pytest.mark.usefixtures("compiled")

# Relative to the largest logit. float32 differs only in the order of summation; bfloat16 keeps
# 8 bits of each weight and input, int8 7 bits of the largest in a row, in six linear maps a layer,
# q8_0 and q4_0 7 bits of the largest of 32, compared with a model of the same weights.
TOLERANCE: dict[DecoderPrecision, float] = {
    "float32": 1e-5,
    "bfloat16": 0.05,
    "int8": 0.2,
    "q8_0": 0.1,
    "q4_0": 0.2,
}
SOURCE = torch.arange(3, 24).view(3, 7)
SOURCE_MASK = torch.tensor([[1] * 7, [1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]]).bool()
PADDING = torch.tensor([0, 3, 1])
every_model = pytest.mark.parametrize(
    ("kind", "positions", "precision"),
    pairwise(KINDS, POSITIONS, ["float32"]) + singly(KINDS, POSITIONS, list(TOLERANCE)[1:]),
)


def difference(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).abs().max() / max(1.0, float(expected.abs().max())))


def with_weights_of(model: nn.Module, precision: DecoderPrecision) -> Any:
    """The model, or for blocks a copy with their values: 4 bits are far from the weights."""
    return round_to_blocks(model, precision) if precision in ("q8_0", "q4_0") else model


def tokens(*shape: int) -> Tensor:
    return torch.randint(0, 77, shape)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def check_same_steps(
    native: IncrementalDecoder, reference: IncrementalDecoder, first: Tensor, tolerance: float
) -> None:
    """Step, reorder, step several tokens at once, rewind, step again."""
    torch.manual_seed(2)
    assert difference(native.step(first), reference.step(first)) < tolerance
    ids = tokens(3, 1)
    assert difference(native.step(ids), reference.step(ids)) < tolerance
    rows = torch.tensor([0, 0, 2, 2, 1])
    native.reorder(rows)
    reference.reorder(rows)
    ids = tokens(5, 3)
    assert difference(native.step_all(ids), reference.step_all(ids)) < tolerance
    native.rewind(2)
    reference.rewind(2)
    ids = tokens(5, 1)
    assert difference(native.step(ids), reference.step(ids)) < tolerance
    assert native.length == reference.length == first.shape[1] + 3
    native.reorder(torch.tensor([3]))
    reference.reorder(torch.tensor([3]))
    ids = tokens(1, 1)
    assert difference(native.step(ids), reference.step(ids)) < tolerance


@every_model
def test_encoder_decoder_logits_match(
    kind: str, positions: str, precision: DecoderPrecision
) -> None:
    model = encoder_decoder(kind, positions)
    native = NativeDecoder(NativeModel(model, precision), SOURCE, SOURCE_MASK, capacity=12)
    model = with_weights_of(model, precision)
    reference = Seq2SeqDecoder(model, SOURCE, SOURCE_MASK, capacity=12)
    check_same_steps(native, reference, tokens(3, 1), TOLERANCE[precision])


@every_model
def test_language_model_logits_match(
    kind: str, positions: str, precision: DecoderPrecision
) -> None:
    model = language_model(kind, positions)
    native = NativeDecoder(NativeModel(model, precision), padding=PADDING, capacity=12)
    reference = CausalLMDecoder(with_weights_of(model, precision), PADDING, capacity=12)
    check_same_steps(native, reference, tokens(3, 4), TOLERANCE[precision])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_positions_from_1_convolutions_and_fused_projections(positions: str) -> None:
    model = encoder_decoder("vaswani", positions, **NOTES)
    native = NativeDecoder(NativeModel(model, "float32"), SOURCE, SOURCE_MASK, capacity=12)
    reference = Seq2SeqDecoder(model, SOURCE, SOURCE_MASK, capacity=12)
    check_same_steps(native, reference, tokens(3, 1), TOLERANCE["float32"])


def test_source_of_padding_only() -> None:
    model = encoder_decoder()
    real = SOURCE_MASK.clone()
    real[1] = False
    ids = tokens(3, 1)
    native = NativeDecoder(NativeModel(model, "float32"), SOURCE, real, capacity=2)
    reference = Seq2SeqDecoder(model, SOURCE, real, capacity=2)
    assert difference(native.step(ids), reference.step(ids)) < 1e-5


def test_top_k_matches_log_softmax() -> None:
    model = NativeModel(encoder_decoder(), "int8")
    one, other = (NativeDecoder(model, SOURCE, SOURCE_MASK, capacity=4) for _ in range(2))
    ids = tokens(3, 1)
    log_p, top = one.top_k(ids, 5)
    expected = other.step(ids).log_softmax(-1).topk(5)
    assert torch.equal(top, expected.indices)
    torch.testing.assert_close(log_p, expected.values, rtol=0, atol=1e-5)
    assert one.length == other.length == 1


def test_top_k_resolves_ties_by_smaller_id() -> None:
    model = language_model("untied")
    with torch.no_grad():
        model.output.weight.zero_()
    _, top = NativeDecoder(NativeModel(model, "float32"), capacity=4).top_k(tokens(2, 2), 3)
    assert top.tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.usefixtures("two_threads")
def test_batch_and_threads_do_not_change_a_bit(precision: DecoderPrecision) -> None:
    model = NativeModel(encoder_decoder("t5", "relative"), precision)
    ids = tokens(3, 2)
    batched = NativeDecoder(model, SOURCE, SOURCE_MASK, capacity=4).step_all(ids)
    torch.set_num_threads(1)
    for row in range(3):
        real = SOURCE[row][SOURCE_MASK[row]][None]
        assert torch.equal(
            NativeDecoder(model, real, capacity=4).step_all(ids[row, None])[0], batched[row]
        )


def test_slots_of_dropped_beams_are_reused() -> None:
    model = language_model()
    native = NativeDecoder(NativeModel(model, "float32"), capacity=40)
    reference = CausalLMDecoder(model, capacity=40)
    torch.manual_seed(3)
    first = tokens(30, 1)
    for ids in (first, *(tokens(30, 1) for _ in range(38))):  # 1,170 slots, 256 per block
        assert difference(native.step(ids), reference.step(ids)) < 1e-5
        rows = torch.randint(0, 30, (30,))
        native.reorder(rows)
        reference.reorder(rows)


def test_int8_weights_and_blocks_are_smaller() -> None:
    model = encoder_decoder("untied")
    sizes = {precision: NativeModel(model, precision).weight_bytes for precision in TOLERANCE}
    exact = sizes["float32"]
    assert sum(4 * weight.numel() for weight in model.parameters()) <= exact
    assert sizes["int8"] < exact / 2  # small models have many bytes of scales, norms and padding
    assert sizes["q4_0"] < sizes["q8_0"] < exact / 2


@pytest.mark.parametrize("name", ["q8_0", "q4_0"])
def test_blocks_differ_from_the_rounded_model_by_their_inputs_only(name: BlockName) -> None:
    """Inputs have 7 bits of the largest of 32, in six linear maps of three layers."""
    for kind in ("untied", "t5"):
        model = language_model(kind, "rotary")
        ids = tokens(3, 9)
        logits = NativeDecoder(NativeModel(model, name), capacity=9).step_all(ids)
        with torch.inference_mode():
            assert difference(logits, round_to_blocks(model, name)(ids)) < 0.05
            assert difference(logits, model(ids)) > 1e-4


def test_frozen_weights_are_counted() -> None:
    for kind in ("learned", "sinusoidal"):
        model = language_model(positions=kind)
        trainable = NativeModel(model).weight_bytes
        assert NativeModel(model.requires_grad_(False)).weight_bytes == trainable


def test_reorder_before_the_first_step() -> None:
    decoder = NativeDecoder(NativeModel(language_model()), capacity=4)
    decoder.reorder(torch.tensor([0, 0]))
    assert decoder.step(tokens(2, 1)).shape[0] == 2


def test_a_claimed_length_has_no_tables() -> None:
    """A file of 100 kB may claim 2^31 positions: the tables of a rotation end before."""
    torch.manual_seed(1)
    long = config("vaswani", "rotary", max_length=2**31 - 1)
    model = randomize_vectors(LanguageModel(long)).eval()
    native = NativeModel(model, "float32")
    assert native.max_length == 2**17
    with pytest.raises(InputError, match=r"at most 131072 tokens, got 131073; use less, decoding"):
        NativeDecoder(native, capacity=2**17 + 1)
    ids = tokens(1, 9)
    expected = model(ids)
    torch.testing.assert_close(
        NativeDecoder(native, capacity=9).step_all(ids), expected, atol=1e-5, rtol=1e-5
    )


def test_invalid_arguments_raise_input_error() -> None:
    language, seq2seq = NativeModel(language_model()), NativeModel(encoder_decoder())
    with raises(InputError, "kernel.source_of_decoder"):
        NativeDecoder(seq2seq, capacity=4)
    with raises(InputError, "kernel.source_of_decoder"):
        NativeDecoder(language, SOURCE, capacity=4)
    with raises(InputError, "kernel.capacity_too_large"):
        NativeDecoder(language, capacity=41)
    with raises(InputError, "kernel.source_too_long"):
        NativeDecoder(seq2seq, tokens(1, 41), capacity=4)
    with raises(InputError, "kernel.token_id_range"):
        NativeDecoder(seq2seq, torch.tensor([[77]]), capacity=4)
    with raises(InputError, "kernel.source_shape"):
        NativeDecoder(seq2seq, SOURCE, SOURCE_MASK[:2], capacity=4)
    with raises(InputError, "kernel.negative_padding"):
        NativeDecoder(language, padding=torch.tensor([0, -1]), capacity=4)
    decoder = NativeDecoder(language, capacity=4)
    decoder.step(tokens(2, 3))
    for wrong in (tokens(3, 1), tokens(2, 0), tokens(2)):
        with raises(InputError, "kernel.ids_shape"):
            decoder.step(wrong)
    with raises(InputError, "kernel.token_id_range"):
        decoder.step(torch.tensor([[5], [-1]]))
    with raises(InputError, "kernel.capacity_exceeded"):
        decoder.step(tokens(2, 2))
    with raises(InputError, "kernel.not_on_cpu"):
        decoder.step(tokens(2, 1).to("meta"))
    with raises(InputError, "kernel.rows_range"):
        decoder.reorder(torch.tensor([0, 2]))
    with raises(InputError, "config.out_of_range"):
        decoder.rewind(4)
    with raises(InputError, "config.out_of_range"):
        decoder.top_k(tokens(2, 1), 78)
    assert decoder.length == 3
    decoder.step(tokens(2, 1))
