"""Attention from the kernel while it decodes, against the recorded weights of the model."""

import pytest
import torch
from torch import Tensor

from jumok.decoding import DecodingConfig
from jumok.decoding.alignment import align
from jumok.decoding.api import GenerationRequest, generate_seq2seq
from jumok.errors import InputError
from jumok.models import EncoderDecoder
from jumok.native import NativeDecoder, NativeModel
from jumok.native.recorded_alignment import AligningDecoder
from jumok.nn.hooks import record, shared_copy
from tests.errors import raises
from tests.native.conftest import encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")

SOURCE = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 0, 0], [0, 13, 14, 15, 0]])
MASK = SOURCE != 0
TARGET = torch.tensor([[2, 20, 21, 22], [2, 23, 24, 25], [2, 26, 27, 28]])
HEADS = [(0, 1), (1, 0), (1, 1)]


def recorded(model: EncoderDecoder, block: str) -> Tensor:
    """The weights (N, H, T, S) of every layer in a pass of the model, (L, N, H, T, S)."""
    view = shared_copy(model)
    memory = view.encode(SOURCE, MASK, positions=(MASK.cumsum(1) - 1).clamp(min=0))
    with record(view) as found, torch.no_grad():
        view.decode(TARGET, memory, MASK)
    names = [name for name in found if name.endswith(f"{block}_attention")]
    return torch.stack([found[name][0] for name in names])


@pytest.mark.parametrize("kind", ["vaswani", "t5"])
@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
def test_chosen_heads_are_those_of_the_model_at_each_step(kind: str, positions: str) -> None:
    model = encoder_decoder(kind, positions)
    for block in ("cross", "self"):
        expected = recorded(model, block)
        decoder = NativeDecoder(NativeModel(model, "float32"), SOURCE, MASK, capacity=8)
        decoder.record_attention("cross" if block == "cross" else "self", HEADS)
        for t, ids in enumerate((TARGET[:, :2], TARGET[:, 2:3], TARGET[:, 3:])):
            decoder.step(ids)
            weights = decoder.recorded_attention()  # (B, heads, S)
            mean = torch.from_numpy(decoder.mean_attention())
            torch.testing.assert_close(mean, weights.mean(1), rtol=0, atol=1e-6)
            position = min(t + 1, 3)
            for row in range(3):
                for i, (layer, head) in enumerate(HEADS):
                    whole = expected[layer, row, head, position]
                    real = whole[MASK[row]] if block == "cross" else whole[: position + 1]
                    # 1e-5: other orders of summation
                    found = weights[row, i, : len(real)]
                    torch.testing.assert_close(found, real, rtol=0, atol=1e-5)
                    assert weights[row, i, len(real) :].abs().sum() == 0


def test_self_attention_of_prompts_with_padding() -> None:
    model = language_model()
    ids, padding = torch.tensor([[4, 5, 6], [0, 7, 8]]), torch.tensor([0, 1])
    decoder = NativeDecoder(NativeModel(model, "float32"), padding=padding, capacity=8)
    decoder.record_attention("self", [(0, 0)])
    decoder.step(ids)
    weights = decoder.recorded_attention()
    assert weights.shape == (2, 1, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1))
    assert weights[1, 0, 2] == 0
    alone = NativeDecoder(NativeModel(model, "float32"), capacity=8)
    alone.record_attention("self", [(0, 0)])
    alone.step(ids[1:, 1:])
    assert torch.equal(alone.recorded_attention()[0, 0], weights[1, 0, :2])


def test_recording_does_not_change_logits() -> None:
    model = NativeModel(encoder_decoder(), "int8")
    plain, recording = (NativeDecoder(model, SOURCE, MASK, capacity=8) for _ in range(2))
    recording.record_attention("cross", HEADS)
    assert torch.equal(plain.step(TARGET[:, :1]), recording.step(TARGET[:, :1]))


@pytest.mark.parametrize("beam", [1, 4])
def test_alignments_of_a_search_are_those_of_a_second_pass(beam: int) -> None:
    model = encoder_decoder()
    native = NativeModel(model, "float32")
    made: list[AligningDecoder] = []

    def make(
        _: EncoderDecoder, source: Tensor, mask: Tensor | None, capacity: int
    ) -> AligningDecoder:
        made.append(AligningDecoder(NativeDecoder(native, source, mask, capacity=capacity), 3))
        return made[-1]

    config = DecodingConfig(beam=beam, n_best=beam, max_length=12)
    request = GenerationRequest(config, end_id=3)
    texts = generate_seq2seq(model, SOURCE, MASK, request, bos_id=2, make_decoder=make)
    for n, hypotheses in enumerate(texts):
        for hypothesis in hypotheses:
            tokens = [*hypothesis.ids, 3][: len(hypothesis.log_probabilities)]
            found = made[0].alignment(n, [2, *tokens[:-1]])
            assert found is not None
            (expected,) = align(model, SOURCE[n : n + 1], MASK[n : n + 1], [tokens], bos_id=2)
            width = int(MASK[n].sum())
            weights = torch.from_numpy(found[:, :width])
            torch.testing.assert_close(weights, expected.weights, rtol=0, atol=1e-5)
    assert made[0].alignment(0, [2, 76, 76, 76]) is None


def test_a_rewound_step_is_written_again() -> None:
    native = NativeModel(encoder_decoder(), "float32")
    decoder = AligningDecoder(NativeDecoder(native, SOURCE, MASK, capacity=8), 3)
    decoder.step(TARGET[:, :1])
    decoder.step(TARGET[:, 1:2])
    decoder.rewind(1)
    decoder.step(TARGET[:, 2:3])
    assert decoder.alignment(1, [2, 24]) is not None
    assert decoder.length == 2


@pytest.mark.parametrize(
    ("block", "heads", "sentence"),
    [
        ("cross", [(2, 0)], "kernel.heads_range"),
        ("self", [(0, -1)], "kernel.heads_range"),
        ("self", [(0, 0), (0, 0)], "kernel.head_twice"),
    ],
)
def test_heads_that_do_not_exist(block: str, heads: list[tuple[int, int]], sentence: str) -> None:
    decoder = NativeDecoder(NativeModel(encoder_decoder(), "float32"), SOURCE, MASK, capacity=8)
    with raises(InputError, sentence):
        decoder.record_attention("cross" if block == "cross" else "self", heads)
    lm = NativeDecoder(NativeModel(language_model(), "float32"), capacity=8)
    with raises(InputError, "kernel.cross_attention_needs_encoder_decoder"):
        lm.record_attention("cross", [(0, 0)])
