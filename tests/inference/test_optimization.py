"""optimize: the copy gives the outputs of the model in every precision, for every config."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import jumok.inference.optimization
from jumok.errors import InputError
from jumok.inference import has_invariant_states, is_batch_invariant, optimize
from jumok.inference.fast_stacks import NativeStack, TorchStack
from jumok.models import (
    CharacterClassifier,
    Characters,
    Encoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    PairClassifier,
    ReplacedTokenDetector,
    TextClassifier,
    TokenClassifier,
    text_classifier,
)
from jumok.models.character_classifier import NGRAM_ROWS
from jumok.native import KernelError
from jumok.native.choice import FASTER_ENCODERS, warned
from jumok.native.instruction_sets import usable
from jumok.native.quantize import QuantizedLinear
from jumok.nn import AttentionMask, record
from jumok.nn.hooks import shared_copy
from jumok.text.character_ngrams import WINDOWS
from jumok.torch_ops import openmp_setter
from tests.combinations import slow
from tests.errors import raises
from tests.inference.encoders import (
    CONFIGS,
    DISENTANGLED,
    MODERN,
    batch,
    config,
    error,
    seeded,
    without_gaps,
)

# float32: another order of summation, and the kernel's exp. bfloat16 rounds to 8 bits (4e-3) about
# twenty times in two layers; int8 rounds to half of 1/127 of the largest element of a row.
TOLERANCES = {"float32": 1e-5, "bfloat16": 4e-2, "int8": 4e-2}
POOLING = [("first", "tanh"), ("max", "none"), ("mean", "none"), ("compare", "gelu")]
needs_the_kernel = pytest.mark.skipif(
    "int8" not in FASTER_ENCODERS[usable()[0].name],
    reason="PyTorch computes int8 on this processor",
)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(("kind", "positions"), CONFIGS)
@torch.no_grad()
def test_optimized_encoder_matches_the_encoder(kind: str, positions: str, precision: str) -> None:
    model = seeded(Encoder, config(kind, positions))
    ids, padding_mask = batch()
    mask = AttentionMask.from_padding(padding_mask)
    fast = optimize(model, precision)(ids, mask)
    assert error(fast[padding_mask], model(ids, mask)[padding_mask]) < TOLERANCES[precision]
    whole = optimize(model, precision)(ids)
    assert error(whole, model(ids)) < TOLERANCES[precision]
    assert fast.dtype == whole.dtype == torch.float32


@pytest.mark.parametrize("precision", TOLERANCES)
@torch.no_grad()
def test_windows_and_two_rotations(precision: str) -> None:
    model = seeded(TextClassifier, config(*MODERN), 3, "mean")
    ids, mask = without_gaps()
    fast = optimize(model, precision)
    assert error(fast(ids, mask), model(ids, mask)) < TOLERANCES[precision]
    hidden, reference = (each.hidden_states(ids, mask)[mask] for each in (fast, model))
    assert error(hidden, reference) < TOLERANCES[precision]


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("kind", DISENTANGLED)
@torch.no_grad()
def test_disentangled_attention(kind: str, precision: str) -> None:
    model = seeded(Encoder, config(kind, "none"))
    ids, mask = batch()
    fast = optimize(model, precision)
    assert error(fast(ids, mask)[mask], model(ids, mask)[mask]) < TOLERANCES[precision]


@needs_the_kernel
@torch.no_grad()
def test_padding_inside_of_a_window() -> None:
    fast = optimize(seeded(Encoder, config(*MODERN)), "int8")
    with raises(InputError, "inference.padding_inside_of_windows"):
        fast(*batch())


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@torch.no_grad()
def test_positions_from_1_convolutions_and_fused_projections(positions: str) -> None:
    changes = {"ffn_projection": "conv1d", "fused_qkv": True, "position_offset": 1}
    model = seeded(Encoder, config("vaswani", positions, **changes))
    ids, padding_mask = batch()
    mask = AttentionMask.from_padding(padding_mask)
    fast = optimize(model, "float32")(ids, mask)
    assert error(fast[padding_mask], model(ids, mask)[padding_mask]) < TOLERANCES["float32"]


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


def missing(*arguments: object) -> None:
    """In place of `NativeEncoder`."""
    raise KernelError("test.error", "no C++ compiler was found")


@needs_the_kernel
@pytest.mark.parametrize("kind", ["vaswani", "t5"])
@torch.no_grad()
def test_int8_without_a_compiler(kind: str, monkeypatch, caplog) -> None:
    monkeypatch.setattr(jumok.inference.optimization, "NativeEncoder", missing)
    warned.clear()
    model = seeded(Encoder, config(kind, "relative"))
    fast = optimize(model, "int8")
    assert isinstance(fast.stack, TorchStack)
    assert fast.stack.kernel_choice.kernel == "torch"
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
def test_a_large_vocabulary_map_is_quantized() -> None:
    model = seeded(MaskedLanguageModel, config("vaswani", "learned", vocabulary_size=300))
    ids, _ = batch()
    reference = model(ids)
    fast = optimize(model, "int8")
    assert error(fast(ids), reference) < TOLERANCES["int8"]
    assert type(fast.output) is QuantizedLinear
    assert type(model.output) is nn.Linear


@torch.no_grad()
def test_packed_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = seeded(TokenClassifier, config("vaswani", "learned"), 2)
    ids, texts = torch.randint(3, 77, (2, 6)), torch.tensor([[0, 0, 0, 1, 1, -1], [2] * 6])
    positions = torch.tensor([[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 4, 5]])
    mask = AttentionMask.from_segments(texts)
    fast = optimize(model, "int8")
    if isinstance(fast.encoder.stack, NativeStack):
        with raises(InputError, "inference.mask_not_of_padding"):
            fast(ids, mask, positions=positions)
    monkeypatch.setattr(jumok.inference.optimization, "is_compiled", lambda _: False)
    found = optimize(model)(ids, mask, positions=positions)[texts >= 0]
    assert torch.equal(found, model(ids, mask, positions=positions)[texts >= 0])


@torch.no_grad()
def test_single_texts_match_the_batch() -> None:
    model = seeded(Encoder, config("vaswani", "learned"))
    ids, padding_mask = batch()
    fast = optimize(model, "int8")
    batched = fast(ids, AttentionMask.from_padding(padding_mask))
    exact = isinstance(fast.stack, NativeStack)
    for row in range(2):
        single = fast(ids[row : row + 1, : int(padding_mask[row].sum())])
        assert error(single[0], batched[row][padding_mask[row]]) <= (0 if exact else 1e-5)


@pytest.mark.parametrize(
    ("config_of", "head"),
    [
        each if i < len(POOLING) else slow(*each)
        for i, each in enumerate(zip(CONFIGS, POOLING * 3, strict=True))
    ],
)
@needs_the_kernel
@torch.no_grad()
def test_the_logits_of_a_text_do_not_depend_on_the_batch(
    compiled: Path, config_of: tuple[str, str], head: tuple[str, str]
) -> None:
    pooling, pooler = head
    size = config(*config_of, d_model=96, n_heads=4)
    size = replace(size, n_segments=2)
    fast = optimize(seeded(text_classifier, size, 3, pooling, pooler), "int8")
    assert is_batch_invariant(fast)
    lengths = [9, 5, 1, 3, *range(1, 30)]
    ids = torch.randint(3, 77, (len(lengths), 40), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(40)[None] < torch.tensor(lengths)[:, None]
    segments = (torch.arange(40) > 4).long().expand(len(ids), -1)
    together = fast(ids.masked_fill(~mask, 0), mask, segments=segments)
    for row, length in enumerate(lengths):
        alone = fast(ids[None, row, :length], segments=segments[None, row, :length])
        assert torch.equal(together[row : row + 1], alone)
    mask[0, 3] = False  # padding inside of a text
    again = fast(ids.masked_fill(~mask, 0), mask, segments=segments)
    assert torch.equal(again[1:], together[1:])


@pytest.mark.parametrize(
    ("kind", "positions"), [each if i % 3 == 0 else slow(*each) for i, each in enumerate(CONFIGS)]
)
@needs_the_kernel
@torch.no_grad()
def test_the_logits_of_tokens_do_not_depend_on_the_batch(
    compiled: Path, kind: str, positions: str
) -> None:
    fast = optimize(
        seeded(TokenClassifier, config(kind, positions, d_model=96, n_heads=4), 5), "int8"
    )
    assert is_batch_invariant(fast)
    assert has_invariant_states(fast)
    lengths = [9, 5, 1, 3, *range(1, 30)]
    ids = torch.randint(3, 77, (len(lengths), 40), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(40)[None] < torch.tensor(lengths)[:, None]
    together = fast(ids.masked_fill(~mask, 0), mask)
    for row, length in enumerate(lengths):
        alone = fast(ids[None, row, :length])
        assert torch.equal(together[row : row + 1, :length], alone)
        assert not together[row, length:].any()
    equal = fast(ids[:4, :9])  # without padding
    assert torch.equal(equal[2:3], fast(ids[2:3, :9]))


@needs_the_kernel
@torch.no_grad()
def test_float32_of_padded_texts_uses_a_compiled_kernel(
    compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = seeded(TokenClassifier, config("untied", "learned", d_model=96, n_heads=4), 5)
    fast = optimize(model)
    assert is_batch_invariant(fast)
    lengths = torch.tensor([9, 5, 1, 3, 20])
    ids = torch.randint(3, 77, (5, 20), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(20)[None] < lengths[:, None]
    together = fast(ids.masked_fill(~mask, 0), mask)
    assert error(together[mask], model(ids, mask)[mask]) < TOLERANCES["float32"]
    for row, length in enumerate(lengths):
        alone = fast(ids[None, row, :length])
        assert torch.equal(together[row : row + 1, :length], alone)
    monkeypatch.setattr(jumok.inference.optimization, "is_compiled", lambda _: False)
    assert not has_invariant_states(optimize(model))


@needs_the_kernel
@torch.no_grad()
def test_the_logits_of_characters_do_not_depend_on_the_batch(compiled: Path) -> None:
    size = config("untied", "learned", d_model=96, n_heads=4)
    model = seeded(CharacterClassifier, size, 5)
    fast = optimize(model, "int8")
    assert is_batch_invariant(fast)
    lengths = torch.tensor([9, 5, 1, 3, 20])
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 77, (5, 20), generator=generator)
    mask = torch.arange(20)[None] < lengths[:, None]
    real = torch.arange(40)[None] < 2 * lengths[:, None]  # two characters in each token
    tokens = (torch.arange(40) // 2).expand(5, -1)
    places = torch.randint(3, (5, 40), generator=generator)
    ngrams = torch.randint(NGRAM_ROWS, (5, 40, len(WINDOWS)), generator=generator)
    characters = Characters(tokens * real, places * real, ngrams * real[..., None], real)
    together = fast(ids.masked_fill(~mask, 0), mask, characters=characters)
    reference = model(ids, mask, characters=characters)
    assert error(together[real], reference[real]) < TOLERANCES["int8"]
    for row, length in enumerate(lengths.tolist()):
        alone = fast(ids[None, row, :length], characters=characters.row(row))
        assert torch.equal(together[row, : 2 * length], alone[0])


@pytest.mark.parametrize(
    ("options", "pooling", "precision"),
    [
        ({"d_embedding": 12}, "first", "int8"),
    ],
)
def test_models_that_depend_on_the_batch_are_known(
    compiled: Path, options: dict[str, object], pooling: str, precision: str
) -> None:
    model = seeded(TextClassifier, config("vaswani", "learned", **options), 3, pooling)
    for each in (optimize(model, precision), model):
        assert not is_batch_invariant(each)
        assert not has_invariant_states(each)


def test_emulated_bfloat16_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Under a cap of AVX2 it has a fifth of the speed of float32."""
    monkeypatch.setattr(jumok.inference.optimization, "NativeEncoder", missing)
    warned.clear()
    for fast in (True, False, False):
        monkeypatch.setattr(
            jumok.inference.optimization, "has_fast_bfloat16", lambda device, fast=fast: fast
        )
        optimize(seeded(Encoder, config("vaswani", "learned")), "bfloat16")
        assert len(caplog.records) == (not fast)
    assert "use float32 or int8" in caplog.records[0].getMessage()


@pytest.mark.parametrize("precision", ["float32", "int8"])
@torch.no_grad()
def test_many_texts_without_padding_have_the_states_of_a_padded_batch(precision: str) -> None:
    """Whole rows are passed on as they are, in groups; the longest group has two rows here."""
    fast = optimize(seeded(Encoder, config("t5", "rotary")), precision)
    fast.stack.batch_tokens = 20
    ids, one_padding = torch.randint(3, 77, (7, 9)), torch.ones(8, 10, dtype=torch.bool)
    one_padding[:7, 9] = one_padding[7, 9] = False
    padded = nn.functional.pad(ids, (0, 1, 0, 1), value=3)
    states = fast(padded, AttentionMask.from_padding(one_padding))[:7, :9]
    exact = isinstance(fast.stack, NativeStack)
    torch.testing.assert_close(fast(ids), states, rtol=0, atol=0 if exact else 1e-5)
    assert fast(ids[:0]).shape == (0, 9, 24)


@torch.no_grad()
def test_many_texts_are_embedded_in_parts() -> None:
    size = config("vaswani", "learned", embedding_norm=True, n_segments=2)
    fast = optimize(seeded(Encoder, size), "int8")
    exact = isinstance(fast.stack, NativeStack)
    ids, segments = torch.randint(3, 77, (130, 9)), torch.randint(0, 2, (130, 9))
    for of_text in (None, segments):
        together = fast(ids, segments=of_text)
        for row in (0, 55, 56, 129):  # the first and the last ones, and the ends of a part
            alone = None if of_text is None else of_text[row : row + 1]
            states = fast(ids[row : row + 1], segments=alone)[0]
            assert error(together[row], states) <= (0 if exact else 1e-5)


@torch.no_grad()
def test_next_to_the_kernel_torch_uses_one_thread() -> None:
    """Its other threads would spin on the processors that the kernel needs."""
    if openmp_setter() is None:
        pytest.skip("this torch has no OpenMP runtime with threads of its own")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        fast = optimize(seeded(Encoder, config("vaswani", "learned")), "int8")
        seen: list[int] = []
        fast.embedding.tokens.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
        fast(torch.randint(3, 77, (2, 9)))
        assert seen == [1 if isinstance(fast.stack, NativeStack) else 3]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_model_and_copy_are_independent() -> None:
    model = seeded(TextClassifier, config("vaswani", "learned"), 2).train()
    ids, padding_mask = batch()
    names = [name for name, _ in model.named_modules()]
    for precision in TOLERANCES:
        fast = optimize(model, precision)
        assert not fast.training
        before = fast(ids, padding_mask)
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
    with pytest.raises(InputError, match="must have an encoder, got LanguageModel"):
        optimize(seeded(LanguageModel, config("vaswani", "learned")))
    model = seeded(Encoder, config("vaswani", "learned"))
    with raises(InputError, "config.wrong_type"):
        optimize(model, "int4")
    with record(model), pytest.raises(InputError, match="must have no hooks, got one on"):
        optimize(model)
    with pytest.raises(InputError, match="must be on the CPU, got meta"):
        optimize(shared_copy(model).to("meta"))
    model.stack.layers[0].feed_forward.activation = nn.Tanh()
    with pytest.raises(InputError, match="a layer has Tanh"):
        optimize(model)
    with pytest.raises(InputError, match=r"a layer has (Native|Torch)Stack"):
        optimize(optimize(seeded(Encoder, config("vaswani", "learned"))))
