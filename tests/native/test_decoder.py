"""The kernel writes what the plain model writes: step by step, in every shape it may have."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import jumok
from jumok.decoding.incremental.decoder import CausalLMDecoder, IncrementalDecoder, Seq2SeqDecoder
from jumok.errors import InputError
from jumok.native import NativeDecoder, NativeModel
from tests.native.conftest import KINDS, POSITIONS, encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")

# Of the largest logit. float32 differs in the order of sums alone; bfloat16 keeps 8 bits of each
# weight and input, int8 7 bits of the largest of a row, in six linear maps a layer.
TOLERANCE = {"float32": 1e-5, "bfloat16": 0.05, "int8": 0.2}
SOURCE = torch.arange(3, 24).view(3, 7)
REAL = torch.tensor([[1] * 7, [1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]]).bool()
PADDING = torch.tensor([0, 3, 1])


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / max(1.0, float(theirs.abs().max())))


def tokens(*shape: int) -> Tensor:
    return torch.randint(0, 77, shape)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def same_course(
    native: IncrementalDecoder, plain: IncrementalDecoder, first: Tensor, tolerance: float
) -> None:
    """Step, go on with other rows, take several tokens at once, forget some, go on."""
    torch.manual_seed(2)
    assert difference(native.step(first), plain.step(first)) < tolerance
    ids = tokens(3, 1)
    assert difference(native.step(ids), plain.step(ids)) < tolerance
    rows = torch.tensor([0, 0, 2, 2, 1])
    native.reorder(rows)
    plain.reorder(rows)
    ids = tokens(5, 3)
    assert difference(native.step_all(ids), plain.step_all(ids)) < tolerance
    native.rewind(2)
    plain.rewind(2)
    ids = tokens(5, 1)
    assert difference(native.step(ids), plain.step(ids)) < tolerance
    assert native.length == plain.length == first.shape[1] + 3
    native.reorder(torch.tensor([3]))
    plain.reorder(torch.tensor([3]))
    ids = tokens(1, 1)
    assert difference(native.step(ids), plain.step(ids)) < tolerance


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_decoder_writes_the_same(kind: str, positions: str, precision: str) -> None:
    model = encoder_decoder(kind, positions)
    native = NativeDecoder(NativeModel(model, precision), SOURCE, REAL, capacity=12)
    plain = Seq2SeqDecoder(model, SOURCE, REAL, capacity=12)
    same_course(native, plain, tokens(3, 1), TOLERANCE[precision])


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_language_model_writes_the_same(kind: str, positions: str, precision: str) -> None:
    model = language_model(kind, positions)
    native = NativeDecoder(NativeModel(model, precision), padding=PADDING, capacity=12)
    plain = CausalLMDecoder(model, PADDING, capacity=12)
    same_course(native, plain, tokens(3, 4), TOLERANCE[precision])


def test_without_padding() -> None:
    model = language_model()
    prompt = tokens(2, 5)
    native = NativeDecoder(NativeModel(model, "float32"), capacity=8)
    assert difference(native.step(prompt), CausalLMDecoder(model, capacity=8).step(prompt)) < 1e-5


def test_a_source_of_padding_alone_says_nothing() -> None:
    model = encoder_decoder()
    real = REAL.clone()
    real[1] = False
    ids = tokens(3, 1)
    native = NativeDecoder(NativeModel(model, "float32"), SOURCE, real, capacity=2)
    plain = Seq2SeqDecoder(model, SOURCE, real, capacity=2)
    assert difference(native.step(ids), plain.step(ids)) < 1e-5


def test_the_best_are_those_of_the_log_probabilities() -> None:
    model = NativeModel(encoder_decoder(), "int8")
    one, other = (NativeDecoder(model, SOURCE, REAL, capacity=4) for _ in range(2))
    ids = tokens(3, 1)
    log_p, best = one.top_k(ids, 5)
    expected = other.step(ids).log_softmax(-1).topk(5)
    assert torch.equal(best, expected.indices)
    torch.testing.assert_close(log_p, expected.values, rtol=0, atol=1e-5)
    assert one.length == other.length == 1


def test_of_equally_likely_tokens_the_first_is_the_best() -> None:
    model = language_model("untied")
    with torch.no_grad():
        model.output.weight.zero_()
    _, best = NativeDecoder(NativeModel(model, "float32"), capacity=4).top_k(tokens(2, 2), 3)
    assert best.tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.usefixtures("two_threads")
def test_neither_company_nor_threads_change_a_bit(precision: str) -> None:
    model = NativeModel(encoder_decoder("T5's", "relative"), precision)
    ids = tokens(3, 2)
    together = NativeDecoder(model, SOURCE, REAL, capacity=4).step_all(ids)
    torch.set_num_threads(1)
    for row in range(3):
        real = SOURCE[row][REAL[row]][None]
        assert torch.equal(
            NativeDecoder(model, real, capacity=4).step_all(ids[row, None])[0], together[row]
        )


def test_places_of_beams_that_died_are_used_again() -> None:
    model = language_model()
    native = NativeDecoder(NativeModel(model, "float32"), capacity=40)
    plain = CausalLMDecoder(model, capacity=40)
    torch.manual_seed(3)
    first = tokens(30, 1)
    for ids in (first, *(tokens(30, 1) for _ in range(38))):  # 1,170 places, 256 to a block
        assert difference(native.step(ids), plain.step(ids)) < 1e-5
        rows = torch.randint(0, 30, (30,))
        native.reorder(rows)
        plain.reorder(rows)


@pytest.mark.parametrize("precision", TOLERANCE)
def test_a_trained_model_writes_the_same_tokens(reading_run: Path, precision: str) -> None:
    loaded = jumok.load(reading_run)
    model, vocabulary = loaded.model, loaded.vocabulary
    native_model = NativeModel(model, precision)
    for spoken in ("삼 일 사", "구 영 오 이", "칠"):
        source = torch.tensor([vocabulary.encode(spoken)])
        native = NativeDecoder(native_model, source, capacity=12)
        plain = Seq2SeqDecoder(model, source, capacity=12)
        ids = torch.tensor([[vocabulary.bos_id]])
        for _ in range(10):
            chosen = plain.step(ids).argmax(-1)
            assert native.top_k(ids, 1)[1].item() == chosen.item()
            ids = chosen[:, None]


def test_the_weights_take_a_quarter_in_int8() -> None:
    model = encoder_decoder("untied")
    exact, small = (NativeModel(model, precision).weight_bytes for precision in ("float32", "int8"))
    assert sum(4 * weight.numel() for weight in model.parameters()) <= exact
    assert small < exact / 2  # of such a small model's bytes many are scales, norms and fillers


def test_frozen_weights_count_as_others_do() -> None:
    for kind in ("learned", "sinusoidal"):
        model = language_model(positions=kind)
        free = NativeModel(model).weight_bytes
        assert NativeModel(model.requires_grad_(False)).weight_bytes == free


def test_rows_may_be_chosen_before_the_first_step() -> None:
    writer = NativeDecoder(NativeModel(language_model()), capacity=4)
    writer.reorder(torch.tensor([0, 0]))
    assert writer.step(tokens(2, 1)).shape[0] == 2


def test_what_cannot_be_done_is_refused() -> None:
    speaking, reading = NativeModel(language_model()), NativeModel(encoder_decoder())
    with pytest.raises(InputError, match="give the source"):
        NativeDecoder(reading, capacity=4)
    with pytest.raises(InputError, match="leave out the source"):
        NativeDecoder(speaking, SOURCE, capacity=4)
    with pytest.raises(InputError, match="room for 41 tokens was asked, the model holds 40"):
        NativeDecoder(speaking, capacity=41)
    with pytest.raises(InputError, match="41 tokens came, the model holds 40"):
        NativeDecoder(reading, tokens(1, 41), capacity=4)
    with pytest.raises(InputError, match="outside the vocabulary of 77"):
        NativeDecoder(reading, torch.tensor([[77]]), capacity=4)
    with pytest.raises(InputError, match=r"sources \(3, 7\) and a mask \(2, 7\) came"):
        NativeDecoder(reading, SOURCE, REAL[:2], capacity=4)
    with pytest.raises(InputError, match="padding of -1 tokens came"):
        NativeDecoder(speaking, padding=torch.tensor([0, -1]), capacity=4)
    writer = NativeDecoder(speaking, capacity=4)
    writer.step(tokens(2, 3))
    for wrong in (tokens(3, 1), tokens(2, 0), tokens(2)):
        with pytest.raises(InputError, match="came for 2 rows"):
            writer.step(wrong)
    with pytest.raises(InputError, match="outside the vocabulary of 77"):
        writer.step(torch.tensor([[5], [-1]]))
    with pytest.raises(InputError, match="5 positions do not fit a writer with room for 4"):
        writer.step(tokens(2, 2))
    with pytest.raises(InputError, match="tokens on meta came, the kernel writes on the CPU"):
        writer.step(tokens(2, 1).to("meta"))
    with pytest.raises(InputError, match="not among the 2"):
        writer.reorder(torch.tensor([0, 2]))
    with pytest.raises(InputError, match="4 of 3 positions"):
        writer.rewind(4)
    with pytest.raises(InputError, match="the best 78 of 77 tokens"):
        writer.top_k(tokens(2, 1), 78)
    assert writer.length == 3
    writer.step(tokens(2, 1))
