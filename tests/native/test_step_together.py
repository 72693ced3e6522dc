"""Steps of several requests in one pass have the bytes of steps apart."""

import pytest
import torch

from jumok.errors import InputError
from jumok.native import NativeDecoder, NativeModel
from jumok.native.decoder import DecoderStep, step_together
from jumok.native.packed_weights import PRECISIONS
from tests.combinations import pairwise
from tests.errors import raises
from tests.native.conftest import KINDS, encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")


def start(model: NativeModel) -> list[NativeDecoder]:
    """Five requests of different sizes, of an encoder-decoder with their sources."""
    torch.manual_seed(3)
    if not model.weights.has_encoder:
        padded = NativeDecoder(model, padding=torch.tensor([2, 0]), capacity=30)
        return [NativeDecoder(model, capacity=30) for _ in range(4)] + [padded]
    sources = [torch.randint(3, 77, (n, s)) for n, s in ((1, 5), (1, 9), (1, 2), (1, 7), (2, 6))]
    return [NativeDecoder(model, source, capacity=30) for source in sources]


@pytest.mark.parametrize(
    ("make", "kind", "precision"), pairwise([encoder_decoder, language_model], KINDS, PRECISIONS)
)
def test_bytes_do_not_depend_on_other_requests(make, kind: str, precision: str) -> None:
    model = NativeModel(make(kind, "rotary"), precision)
    together, apart = start(model), start(model)
    for round_number in range(4):
        steps = []
        for number, decoder in enumerate(together):
            if round_number < number - 2:
                continue  # joins later: the lengths differ
            rows = 2 if number == 4 else 1
            new = 3 if decoder.length == 0 else 1
            steps.append((number, torch.randint(3, 77, (rows, new))))
        found = step_together([DecoderStep(together[n], ids) for n, ids in steps])
        for (number, ids), result in zip(steps, found, strict=True):
            assert torch.equal(result, apart[number].step(ids))
            assert together[number].length == apart[number].length
        order = torch.tensor([1, 0])
        together[4].reorder(order)
        apart[4].reorder(order)


def test_wrong_arguments_change_no_decoder() -> None:
    model = NativeModel(language_model(), "float32")
    first, second = (NativeDecoder(model, capacity=4) for _ in range(2))
    ids = torch.tensor([[5]])
    with raises(InputError, "kernel.token_id_range"):
        step_together([DecoderStep(first, ids), DecoderStep(second, torch.tensor([[99]]))])
    with raises(InputError, "kernel.capacity_exceeded"):
        step_together([DecoderStep(first, ids), DecoderStep(second, ids.expand(1, 5))])
    with raises(InputError, "kernel.decoder_twice"):
        step_together([DecoderStep(first, ids), DecoderStep(first, ids)])
    other = NativeDecoder(NativeModel(language_model(), "float32"), capacity=4)
    with raises(InputError, "kernel.decoders_of_several_models"):
        step_together([DecoderStep(first, ids), DecoderStep(other, ids)])
    assert first.length == second.length == 0
    fresh = NativeDecoder(model, capacity=4)
    assert torch.equal(first.step(ids), fresh.step(ids))
