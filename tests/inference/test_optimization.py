"""optimize: the copy gives the outputs of the model in every precision, for every config."""

import pytest
import torch
from torch import Tensor, nn

import jumok.inference.optimization
from jumok.errors import InputError
from jumok.inference import optimize
from jumok.inference.unpadded_stack import NativeBackend, TorchBackend
from jumok.models import (
    Encoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    PairClassifier,
    ReplacedTokenDetector,
    TextClassifier,
    TokenClassifier,
)
from jumok.native import KernelError
from jumok.native.choice import FASTER, warn_once
from jumok.native.instruction_sets import usable
from jumok.nn import AttentionMask, record
from jumok.nn.hooks import shared_copy
from tests.inference.encoders import CONFIGS, batch, config, error, seeded

# float32: another order of summation, and the kernel's exp. bfloat16 rounds to 8 bits (4e-3) about
# twenty times in two layers; int8 rounds to half of 1/127 of the largest element of a row.
TOLERANCES = {"float32": 1e-5, "bfloat16": 4e-2, "int8": 4e-2}


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(("kind", "positions"), CONFIGS)
@torch.no_grad()
def test_optimized_encoder_matches_the_encoder(kind: str, positions: str, precision: str) -> None:
    model = seeded(Encoder, config(kind, positions))
    ids, padding_mask = batch()
    mask = AttentionMask.from_padding(padding_mask)
    fast = optimize(model, precision)(ids, mask)
    assert error(fast[padding_mask], model(ids, mask)[padding_mask]) < TOLERANCES[precision]
    assert not fast[~padding_mask].any()
    whole = optimize(model, precision)(ids)
    assert error(whole, model(ids)) < TOLERANCES[precision]
    assert fast.dtype == whole.dtype == torch.float32


@pytest.mark.parametrize("precision", TOLERANCES)
@torch.no_grad()
def test_explicit_positions(precision: str) -> None:
    ids, padding_mask = batch()
    explicit = (padding_mask.cumsum(-1) - 1).clamp(min=0)
    for positions in ("learned", "rotary"):
        model = seeded(Encoder, config("vaswani", positions))
        mask = AttentionMask.from_padding(padding_mask)
        fast = optimize(model, precision)(ids, mask, positions=explicit)
        reference = model(ids, mask, positions=explicit)
        assert error(fast[padding_mask], reference[padding_mask]) < TOLERANCES[precision]


@pytest.mark.skipif(
    "int8" not in FASTER[usable()[0].name], reason="PyTorch computes int8 on this processor"
)
@pytest.mark.parametrize("kind", ["vaswani", "t5"])
@torch.no_grad()
def test_int8_without_a_compiler(kind: str, monkeypatch, caplog) -> None:
    def missing(*arguments: object) -> None:
        raise KernelError("no C++ compiler was found")

    monkeypatch.setattr(jumok.inference.optimization, "NativeEncoder", missing)
    warn_once.cache_clear()
    model = seeded(Encoder, config(kind, "relative"))
    fast = optimize(model, "int8")
    assert isinstance(fast.stack.backend, TorchBackend)
    assert "no C++ compiler was found" in caplog.text
    ids, padding_mask = batch()
    mask = AttentionMask.from_padding(padding_mask)
    assert error(fast(ids, mask)[padding_mask], model(ids, mask)[padding_mask]) < TOLERANCES["int8"]


def models() -> list[tuple[nn.Module, tuple[Tensor, ...]]]:
    """Every model with an encoder, and its arguments."""
    ids, padding_mask = batch()
    vaswani, bert = config("vaswani", "learned"), config("untied", "learned", n_segments=2)
    narrow = config("untied", "learned", d_embedding=12, n_decoder_layers=None)
    targets = torch.tensor([[5, 6]]).expand(len(ids), 2)
    return [
        (seeded(TextClassifier, bert, 3, "mean", "tanh"), (ids, padding_mask)),
        (seeded(PairClassifier, bert, 3), (ids, padding_mask)),
        (seeded(TokenClassifier, vaswani, 3), (ids, padding_mask)),
        (seeded(ReplacedTokenDetector, narrow), (ids, padding_mask)),
        (seeded(MaskedLanguageModel, narrow), (ids, padding_mask)),
        (seeded(EncoderDecoder, vaswani), (ids[:4], targets[:4], padding_mask[:4])),
        (seeded(EncoderDecoderClassifier, vaswani, 3), (ids[:4], targets[:4], padding_mask[:4])),
    ]


@pytest.mark.parametrize("precision", TOLERANCES)
@torch.no_grad()
def test_every_model_with_an_encoder(precision: str) -> None:
    _, padding_mask = batch()
    for model, arguments in models():
        reference, fast = model(*arguments), optimize(model, precision)(*arguments)
        if reference.shape[:2] == padding_mask.shape:  # outputs on padding are undefined
            reference, fast = reference[padding_mask], fast[padding_mask]
        assert error(fast, reference) < TOLERANCES[precision], type(model).__name__


@torch.no_grad()
def test_large_vocabulary_map_has_the_requested_precision() -> None:
    model = seeded(MaskedLanguageModel, config("vaswani", "learned", vocabulary_size=300))
    ids, _ = batch()
    reference = model(ids)
    for precision, tolerance in TOLERANCES.items():
        fast = optimize(model, precision)
        assert error(fast(ids), reference) < tolerance
        assert type(fast.output) is not nn.Linear
    assert type(model.output) is nn.Linear


@torch.no_grad()
def test_packed_texts() -> None:
    model = seeded(TextClassifier, config("vaswani", "learned"), 2)
    ids, texts = torch.randint(3, 77, (2, 6)), torch.tensor([[0, 0, 0, 1, 1, -1], [2] * 6])
    positions = torch.tensor([[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 4, 5]])
    reference = model.forward_packed(ids, texts, positions, 3)
    for precision in ("float32", "bfloat16"):
        fast = optimize(model, precision).forward_packed(ids, texts, positions, 3)
        assert error(fast, reference) < TOLERANCES[precision]
    kernel = optimize(model, "int8")
    if isinstance(kernel.encoder.stack.backend, NativeBackend):
        with pytest.raises(InputError, match="pad texts instead of packing them"):
            kernel.forward_packed(ids, texts, positions, 3)


@torch.no_grad()
def test_single_texts_match_the_batch() -> None:
    model = seeded(Encoder, config("vaswani", "learned"))
    ids, padding_mask = batch()
    fast = optimize(model, "int8")
    batched = fast(ids, AttentionMask.from_padding(padding_mask))
    exact = isinstance(fast.stack.backend, NativeBackend)
    for row in range(2):
        single = fast(ids[row : row + 1, : int(padding_mask[row].sum())])
        assert error(single[0], batched[row][padding_mask[row]]) <= (0 if exact else 1e-5)


def test_model_and_copy_are_independent() -> None:
    model = seeded(TextClassifier, config("vaswani", "learned"), 2).train()
    ids, padding_mask = batch()
    names = [name for name, _ in model.named_modules()]
    for precision in TOLERANCES:
        fast = optimize(model, precision)
        assert not fast.training
        before = fast(ids, padding_mask)
        assert not before.requires_grad
        view = shared_copy(fast)  # as made for a request with hooks
        with torch.no_grad():
            kept = model.encoder.stack.layers[0].feed_forward.up.weight.clone()
            model.encoder.stack.layers[0].feed_forward.up.weight.zero_()
            assert torch.equal(fast(ids, padding_mask), before)
            assert torch.equal(view(ids, padding_mask), before)
            model.encoder.stack.layers[0].feed_forward.up.weight.copy_(kept)
    assert model.training
    assert [name for name, _ in model.named_modules()] == names


def test_unsupported_models_raise_input_error() -> None:
    with pytest.raises(InputError, match="must have an encoder, got a LanguageModel"):
        optimize(seeded(LanguageModel, config("vaswani", "learned")))
    model = seeded(Encoder, config("vaswani", "learned"))
    with pytest.raises(InputError, match=r"precision must be one of 'float32', .*, got 'int4'"):
        optimize(model, "int4")
    with record(model), pytest.raises(InputError, match="must have no hooks, got one on"):
        optimize(model)
    with pytest.raises(InputError, match="must be on the CPU, got meta"):
        optimize(shared_copy(model).to("meta"))
    model.stack.layers[0].feed_forward.activation = nn.Tanh()
    with pytest.raises(InputError, match="a layer has a Tanh"):
        optimize(model)
    with pytest.raises(InputError, match="a layer has a UnpaddedStack"):
        optimize(optimize(seeded(Encoder, config("vaswani", "learned"))))
