"""A fast copy answers as the plain model does, in every precision, for every config."""

import pytest
import torch
from torch import Tensor, nn

import jumok.inference.optimization
from jumok.errors import InputError
from jumok.inference import optimize
from jumok.inference.native import NativeBackend
from jumok.inference.unpadded_stack import TorchBackend
from jumok.models import (
    Encoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    ReplacedTokenDetector,
    TextClassifier,
    TokenClassifier,
)
from jumok.native import KernelError
from jumok.nn import AttentionMask, record
from jumok.nn.hooks import shared_copy
from tests.inference.encoders import CONFIGS, batch, config, error, seeded

# float32: other orders of sums, and the kernel's own exponential. bfloat16 keeps 8 bits, 4e-3 of
# each number, at some twenty places of two layers; int8 half of 1/127 of a row's largest number.
TOLERANCES = {"float32": 1e-5, "bfloat16": 4e-2, "int8": 4e-2}


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(("kind", "positions"), CONFIGS)
@torch.no_grad()
def test_an_encoder_reads_the_same(kind: str, positions: str, precision: str) -> None:
    model = seeded(Encoder, config(kind, positions))
    ids, real = batch()
    mask = AttentionMask.from_padding(real)
    fast = optimize(model, precision)(ids, mask)
    assert error(fast[real], model(ids, mask)[real]) < TOLERANCES[precision]
    assert not fast[~real].any()
    whole = optimize(model, precision)(ids)
    assert error(whole, model(ids)) < TOLERANCES[precision]
    assert fast.dtype == whole.dtype == torch.float32


@pytest.mark.parametrize("precision", TOLERANCES)
@torch.no_grad()
def test_positions_that_are_given(precision: str) -> None:
    ids, real = batch()
    places = (real.cumsum(-1) - 1).clamp(min=0)
    for positions in ("learned", "rotary"):
        model = seeded(Encoder, config("the paper's", positions))
        mask = AttentionMask.from_padding(real)
        fast = optimize(model, precision)(ids, mask, positions=places)
        plain = model(ids, mask, positions=places)
        assert error(fast[real], plain[real]) < TOLERANCES[precision]


@pytest.mark.parametrize("kind", ["the paper's", "T5's"])
@torch.no_grad()
def test_int8_without_a_compiler(kind: str, monkeypatch, caplog) -> None:
    def missing(*given: object) -> None:
        raise KernelError("no C++ compiler was found")

    monkeypatch.setattr(jumok.inference.optimization, "NativeEncoder", missing)
    model = seeded(Encoder, config(kind, "relative"))
    fast = optimize(model, "int8")
    assert isinstance(fast.stack.layers, TorchBackend)
    assert "no C++ compiler was found" in caplog.text
    ids, real = batch()
    mask = AttentionMask.from_padding(real)
    assert error(fast(ids, mask)[real], model(ids, mask)[real]) < TOLERANCES["int8"]


def heads() -> list[tuple[nn.Module, tuple[Tensor, ...]]]:
    """Every model with an encoder, and what it is called with."""
    ids, real = batch()
    mask = AttentionMask.from_padding(real)
    paper, bert = config("the paper's", "learned"), config("untied", "learned", n_segments=2)
    narrow = config("untied", "learned", d_embedding=12, n_decoder_layers=None)
    targets = torch.tensor([[5, 6]]).expand(len(ids), 2)
    return [
        (seeded(TextClassifier, bert, 3, "mean", "tanh"), (ids, real)),
        (seeded(TextClassifier, bert, 3, "compare"), (ids, real)),
        (seeded(TokenClassifier, paper, 3), (ids, mask)),
        (seeded(ReplacedTokenDetector, narrow), (ids, mask)),
        (seeded(MaskedLanguageModel, narrow), (ids, mask)),
        (seeded(EncoderDecoder, paper), (ids[:4], targets[:4], AttentionMask(mask.allowed[:4]))),
        (seeded(EncoderDecoderClassifier, paper, 3), (ids[:4], targets[:4], real[:4])),
    ]


@pytest.mark.parametrize("precision", TOLERANCES)
@torch.no_grad()
def test_every_model_with_an_encoder(precision: str) -> None:
    _, real = batch()
    for model, given in heads():
        plain, fast = model(*given), optimize(model, precision)(*given)
        if plain.shape[:2] == real.shape:  # of padding nothing is promised
            plain, fast = plain[real], fast[real]
        assert error(fast, plain) < TOLERANCES[precision], type(model).__name__


@torch.no_grad()
def test_a_large_vocabulary_is_read_in_the_precision_asked_for() -> None:
    model = seeded(MaskedLanguageModel, config("the paper's", "learned", vocabulary_size=300))
    ids, _ = batch()
    plain = model(ids)
    for precision, tolerance in TOLERANCES.items():
        fast = optimize(model, precision)
        assert error(fast(ids), plain) < tolerance
        assert type(fast.output) is not nn.Linear
    assert type(model.output) is nn.Linear


@torch.no_grad()
def test_masks_that_hide_more_than_padding() -> None:
    model = seeded(TextClassifier, config("the paper's", "learned"), 2)
    ids, texts = torch.randint(3, 77, (2, 6)), torch.tensor([[0, 0, 0, 1, 1, -1], [2] * 6])
    positions = torch.tensor([[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 4, 5]])
    plain = model.packed(ids, texts, positions, 3)
    for precision in ("float32", "bfloat16"):
        fast = optimize(model, precision).packed(ids, texts, positions, 3)
        assert error(fast, plain) < TOLERANCES[precision]
    kernel = optimize(model, "int8")
    if isinstance(kernel.encoder.stack.layers, NativeBackend):
        with pytest.raises(InputError, match="pad texts instead of packing them"):
            kernel.packed(ids, texts, positions, 3)


@torch.no_grad()
def test_alone_as_in_company() -> None:
    model = seeded(Encoder, config("the paper's", "learned"))
    ids, real = batch()
    fast = optimize(model, "int8")
    together = fast(ids, AttentionMask.from_padding(real))
    exactly = isinstance(fast.stack.layers, NativeBackend)
    for row in range(2):
        alone = fast(ids[row : row + 1, : int(real[row].sum())])
        assert error(alone[0], together[row][real[row]]) <= (0 if exactly else 1e-5)


def test_the_model_itself_stays_as_it_is_and_the_copy_does_not_follow() -> None:
    model = seeded(TextClassifier, config("the paper's", "learned"), 2).train()
    ids, real = batch()
    names = [name for name, _ in model.named_modules()]
    for precision in TOLERANCES:
        fast = optimize(model, precision)
        assert not fast.training
        before = fast(ids, real)
        assert not before.requires_grad
        view = shared_copy(fast)  # as a request that is watched takes one
        with torch.no_grad():
            kept = model.encoder.stack.layers[0].feed_forward.up.weight.clone()
            model.encoder.stack.layers[0].feed_forward.up.weight.zero_()
            assert torch.equal(fast(ids, real), before)
            assert torch.equal(view(ids, real), before)
            model.encoder.stack.layers[0].feed_forward.up.weight.copy_(kept)
    assert model.training
    assert [name for name, _ in model.named_modules()] == names


def test_what_cannot_be_optimized_is_told() -> None:
    with pytest.raises(InputError, match="a LanguageModel came, which has no encoder"):
        optimize(seeded(LanguageModel, config("the paper's", "learned")))
    model = seeded(Encoder, config("the paper's", "learned"))
    with pytest.raises(InputError, match="precision 'int4' is unknown; give one of 'float32'"):
        optimize(model, "int4")
    with record(model), pytest.raises(InputError, match="hook_pattern is watched"):
        optimize(model)
    with pytest.raises(InputError, match="is not on the CPU"):
        optimize(shared_copy(model).to("meta"))
    model.stack.layers[0].feed_forward.activation = nn.Tanh()
    with pytest.raises(InputError, match="a layer has a Tanh"):
        optimize(model)
    with pytest.raises(InputError, match="a layer has a ReadingStack"):
        optimize(optimize(seeded(Encoder, config("the paper's", "learned"))))
