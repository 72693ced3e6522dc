"""Decoding with a cache equals one forward pass: every chunking, every kind of positions."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from jumok.models import EncoderDecoder, LanguageModel
from jumok.nn import AttentionMask, positions_from_mask, record
from jumok.nn.attention_kernels import MAX_BMM_KEYS
from tests import combinations
from tests.models.small_models import POSITIONS, VOCABULARY, small
from tests.nn.strategies import sequence_mask, tokens
from tests.nn.tolerances import FLOAT32, FLOAT64, close, randomized

T = 5
CHUNKINGS = [
    [t for t, cut in zip(range(1, T), cuts, strict=True) if cut] + [T]
    for cuts in product([False, True], repeat=T - 1)
]  # all 16 ways to split a prompt of 5; each a list of ends
PADDING = {
    "none": torch.ones(3, T, dtype=torch.bool),
    "left": sequence_mask([5, 3, 1], T, left=True),
    "right": torch.cat(  # prompts padded on the right, then two new tokens
        [sequence_mask([3, 2, 1], 3), torch.ones(3, 2, dtype=torch.bool)], 1
    ),
}
every_positions = pytest.mark.parametrize("positions", POSITIONS)
both_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])


def in_chunks(model: LanguageModel, ids: Tensor, real: Tensor, ends: list[int]) -> Tensor:
    cache = model.decoder.make_cache(capacity=T)
    locations, parts, start = positions_from_mask(real), [], 0
    for end in ends:
        mask = AttentionMask.from_padding(real[:, :end], causal=True)
        new = slice(start, end)
        parts.append(model(ids[:, new], mask, positions=locations[:, new], cache=cache))
        start = end
    assert cache.length == T
    return torch.cat(parts, 1)


@torch.no_grad()
@pytest.mark.parametrize(
    ("positions", "norm_first", "padding"), combinations.pairwise(POSITIONS, [False, True], PADDING)
)
def test_every_chunking(positions: str, norm_first: bool, padding: str) -> None:
    model = randomized(LanguageModel(small(positions=positions, norm_first=norm_first)))
    model = model.double().eval()
    ids, real = tokens(3, T, size=VOCABULARY), PADDING[padding]
    mask = AttentionMask.from_padding(real, causal=True)
    whole = model(ids, mask, positions=positions_from_mask(real))
    for ends in CHUNKINGS:
        chunked = in_chunks(model, ids, real, ends)
        assert close(chunked[real], whole[real], FLOAT64), ends


@torch.no_grad()
@both_orders
@every_positions
def test_positions_continue_from_the_cache(positions: str, norm_first: bool) -> None:
    model = randomized(LanguageModel(small(positions=positions, norm_first=norm_first)))
    model = model.double().eval()
    ids = tokens(2, T, size=VOCABULARY)
    whole, cache = model(ids), model.decoder.make_cache(capacity=T + 3)
    chunks = [model(ids[:, a:b], cache=cache) for a, b in ((0, 2), (2, 3), (3, T))]
    assert close(torch.cat(chunks, 1), whole, FLOAT64)


@torch.no_grad()
@pytest.mark.parametrize(("positions", "norm_first"), combinations.singly(POSITIONS, [False, True]))
def test_encoder_decoder_with_a_cache(positions: str, norm_first: bool) -> None:
    """The source is projected once and its padding stays hidden."""
    model = randomized(EncoderDecoder(small(positions=positions, norm_first=norm_first)))
    model = model.double().eval()
    source, target = tokens(2, 4, size=VOCABULARY), tokens(2, T, size=VOCABULARY, seed=1)
    source_mask = AttentionMask.from_padding(sequence_mask([4, 2], 4))
    memory = model.encode(source, source_mask)
    whole = model.decode(target, memory, source_mask)
    for ends in CHUNKINGS:
        cache, parts, start = model.decoder.make_cache(capacity=T), [], 0
        for end in ends:
            new = target[:, start:end]
            parts.append(model.decode(new, memory, source_mask, cache=cache))
            start = end
        assert close(torch.cat(parts, 1), whole, FLOAT64), ends


@torch.no_grad()
def test_rows_can_be_repeated_in_the_middle() -> None:
    """A beam continues from any row, as if that row had been decoded from the start."""
    model = randomized(EncoderDecoder(small())).double().eval()
    memory = model.encode(tokens(2, 4, size=VOCABULARY))
    target, rows = tokens(2, 3, size=VOCABULARY, seed=1), torch.tensor([1, 1, 0])
    new = tokens(3, 2, size=VOCABULARY, seed=2)
    cache = model.decoder.make_cache(capacity=T)
    model.decode(target, memory, cache=cache)
    cache.select(rows)
    y = model.decode(new, memory[rows], cache=cache)
    whole = model.decode(torch.cat([target[rows], new], 1), memory[rows])
    assert close(y, whole[:, 3:], FLOAT64)


@torch.no_grad()
@pytest.mark.parametrize("watch", [False, True])
def test_float32_fused_and_explicit(watch: bool) -> None:
    model = randomized(LanguageModel(small())).eval()
    ids, real = tokens(3, T, size=VOCABULARY), PADDING["left"]
    mask = AttentionMask.from_padding(real, causal=True)
    whole = model(ids, mask, positions=positions_from_mask(real))
    if watch:
        with record(model) as seen:
            chunked = in_chunks(model, ids, real, [2, 3, T])
        shapes = [tuple(w.shape) for w in seen["decoder.stack.layers.0.self_attention"]]
        assert shapes == [(3, 2, 2, 2), (3, 2, 1, 3), (3, 2, 2, 5)]
    else:
        chunked = in_chunks(model, ids, real, [2, 3, T])
    assert close(chunked[real], whole[real], FLOAT32)


@torch.no_grad()
@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_the_cache_with_the_fused_kernel(positions: str) -> None:
    n = MAX_BMM_KEYS + 6
    model = randomized(LanguageModel(small(positions=positions, max_length=n, n_layers=1)))
    model = model.double().eval()
    ids = tokens(1, n, size=VOCABULARY)
    whole, cache = model(ids), model.decoder.make_cache(capacity=n)
    ends = [
        0,
        MAX_BMM_KEYS - 1,
        MAX_BMM_KEYS + 1,
        MAX_BMM_KEYS + 5,
        n,
    ]  # both kernels, and a single token
    chunks = [model(ids[:, a:b], cache=cache) for a, b in pairwise(ends)]
    assert close(torch.cat(chunks, 1), whole, FLOAT64)
