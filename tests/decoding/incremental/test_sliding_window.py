"""Generation beyond max_length equals a fresh pass over the newer half of the window."""

import pytest
import torch

from jumok.decoding import CausalLMDecoder
from jumok.decoding.incremental.sliding_window import SlidingWindowDecoder
from jumok.models import LanguageModel
from tests.models.small_models import VOCABULARY, set_seed, small

WINDOW = 6


def model() -> LanguageModel:
    set_seed()
    return LanguageModel(small(max_length=WINDOW, positions="learned")).eval()


def tokens(T: int, B: int = 2) -> torch.Tensor:
    return torch.randint(VOCABULARY, (B, T), generator=torch.Generator().manual_seed(T))


@torch.inference_mode()
def by_hand(model: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """The logits after the last of ids (B, T), from the tokens that are in the window."""
    T = ids.shape[1]
    seen = T if T <= WINDOW else WINDOW // 2 + (T - WINDOW - 1) % (WINDOW - WINDOW // 2 + 1)
    return model(ids[:, T - seen :])[:, -1]


def test_within_the_window_it_equals_the_plain_decoder() -> None:
    one, two = SlidingWindowDecoder(model()), CausalLMDecoder(model(), capacity=WINDOW)
    ids = tokens(WINDOW)
    assert torch.equal(one.step_all(ids[:, :4]), two.step_all(ids[:, :4]))
    assert torch.equal(one.step(ids[:, 4:]), two.step(ids[:, 4:]))


def test_single_tokens_far_beyond_the_window() -> None:
    decoder, ids = SlidingWindowDecoder(model()), tokens(20)
    for t in range(20):
        logits = decoder.step(ids[:, t : t + 1])
        assert decoder.length == t + 1
        assert torch.allclose(logits, by_hand(model(), ids[:, : t + 1]), atol=1e-6)  # of float32


def test_a_prompt_beyond_the_window_is_read_from_its_newer_half() -> None:
    decoder, ids = SlidingWindowDecoder(model()), tokens(15)
    expected = model()(ids[:, -(WINDOW // 2) :])[:, -1]
    assert torch.allclose(decoder.step(ids), expected, atol=1e-6)
    assert decoder.length == 15


@pytest.mark.parametrize("taken_back", [1, 2, 3])
def test_rewinding_and_repeating(taken_back: int) -> None:
    ids = tokens(12)
    decoder = SlidingWindowDecoder(model())
    for t in range(12):
        before = decoder.step(ids[:, t : t + 1])
    decoder.rewind(taken_back)
    assert decoder.length == 12 - taken_back
    again = decoder.step(ids[:, 12 - taken_back :])
    assert torch.allclose(again, before, atol=1e-6)


def test_rewinding_beyond_the_window() -> None:
    ids = tokens(7)
    decoder = SlidingWindowDecoder(model())
    for t in range(7):
        decoder.step(ids[:, t : t + 1])
    decoder.rewind(5)  # the window starts at the fifth token
    logits = decoder.step(ids[:, 2:4])
    assert torch.allclose(logits, model()(ids[:, :4])[:, -1], atol=1e-6)


def test_reordered_rows() -> None:
    decoder, ids = SlidingWindowDecoder(model()), tokens(9)
    for t in range(8):
        decoder.step(ids[:, t : t + 1])
    order = torch.tensor([1, 1, 0])
    decoder.reorder(order)
    logits = decoder.step(ids[order, 8:])
    assert torch.allclose(logits, by_hand(model(), ids[order]), atol=1e-6)
