"""Writing beyond a model's length: equal to reading the newer half anew, and to not sliding."""

import pytest
import torch

from jumok.decoding import CausalLMDecoder
from jumok.decoding.incremental.sliding_window import SlidingWindowDecoder
from jumok.errors import InputError
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
    """The logits after the last of ids (B, T): what a window that goes on by half sees of them."""
    T = ids.shape[1]
    seen = T if T <= WINDOW else WINDOW // 2 + (T - WINDOW - 1) % (WINDOW - WINDOW // 2 + 1)
    return model(ids[:, T - seen :])[:, -1]


def test_within_the_window_it_equals_the_plain_decoder() -> None:
    one, two = SlidingWindowDecoder(model()), CausalLMDecoder(model(), capacity=WINDOW)
    ids = tokens(WINDOW)
    assert torch.equal(one.step_all(ids[:, :4]), two.step_all(ids[:, :4]))
    assert torch.equal(one.step(ids[:, 4:]), two.step(ids[:, 4:]))


def test_single_tokens_far_beyond_the_window() -> None:
    writer, ids = SlidingWindowDecoder(model()), tokens(20)
    for t in range(20):
        logits = writer.step(ids[:, t : t + 1])
        assert writer.length == t + 1
        assert torch.allclose(logits, by_hand(model(), ids[:, : t + 1]), atol=1e-6)  # of float32


def test_a_prompt_beyond_the_window_is_read_from_its_newer_half() -> None:
    writer, ids = SlidingWindowDecoder(model()), tokens(15)
    expected = model()(ids[:, -(WINDOW // 2) :])[:, -1]
    assert torch.allclose(writer.step(ids), expected, atol=1e-6)
    assert writer.length == 15


@pytest.mark.parametrize("taken_back", [1, 2, 3])
def test_rewinding_and_repeating(taken_back: int) -> None:
    ids = tokens(12)
    writer = SlidingWindowDecoder(model())
    for t in range(12):
        before = writer.step(ids[:, t : t + 1])
    writer.rewind(taken_back)
    assert writer.length == 12 - taken_back
    again = writer.step(ids[:, 12 - taken_back :])
    assert torch.allclose(again, before, atol=1e-6)


def test_rewinding_beyond_the_window() -> None:
    ids = tokens(7)
    writer = SlidingWindowDecoder(model())
    for t in range(7):
        writer.step(ids[:, t : t + 1])
    writer.rewind(5)  # the window began at the fifth token
    logits = writer.step(ids[:, 2:4])
    assert torch.allclose(logits, model()(ids[:, :4])[:, -1], atol=1e-6)


def test_reordered_rows() -> None:
    writer, ids = SlidingWindowDecoder(model()), tokens(9)
    for t in range(8):
        writer.step(ids[:, t : t + 1])
    order = torch.tensor([1, 1, 0])
    writer.reorder(order)
    logits = writer.step(ids[order, 8:])
    assert torch.allclose(logits, by_hand(model(), ids[order]), atol=1e-6)


def test_rejected_lengths() -> None:
    writer = SlidingWindowDecoder(model())
    writer.step(tokens(5))
    with pytest.raises(InputError, match="at most 3 tokens, half of a window"):
        writer.step_all(tokens(4))
    with pytest.raises(InputError, match="rewind must be at most 5 tokens, got 6"):
        writer.rewind(6)
