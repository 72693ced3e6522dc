"""Incremental decoders: reordered and rewound rows, ensembles, attention, alignments."""

import pytest
import torch
from torch import Tensor

from jumok.decoding import (
    AttentionRecordingDecoder,
    CausalLMDecoder,
    DecodingConfig,
    EnsembleDecoder,
    GenerationInputs,
    IncrementalDecoder,
    Seq2SeqDecoder,
    StoppingCriteria,
    align,
    left_pad,
)
from jumok.decoding.generate import generate
from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel
from jumok.nn import AttentionMask, positions_from_mask, record
from tests.combinations import pairwise
from tests.decoding.tiny_models import (
    BOS,
    EOS,
    KINDS,
    POSITIONS,
    SIDES,
    MarkovDecoder,
    Model,
    Side,
    V,
    alone,
    model_of,
    texts,
)
from tests.errors import raises
from tests.nn.strategies import noise, tokens
from tests.nn.tolerances import FLOAT32, close

every_kind = pytest.mark.parametrize("kind", KINDS)


def start_decoder(model: Model, ids: Tensor, real: Tensor) -> tuple[IncrementalDecoder, Tensor]:
    """A decoder for these texts, and its first input."""
    if isinstance(model, EncoderDecoder):
        decoder: IncrementalDecoder = Seq2SeqDecoder(model, ids, real, capacity=64)
        return decoder, torch.full((len(ids), 1), BOS)
    first, padding = left_pad(ids, real)
    return CausalLMDecoder(model, padding, capacity=64), first


@pytest.mark.parametrize(("kind", "positions", "side"), pairwise(KINDS, POSITIONS, SIDES))
def test_rows_are_repeated_reordered_dropped_and_rewound(
    kind: str, positions: str, side: Side
) -> None:
    """After any operations, a row's logits are those of its text and tokens."""
    model, (ids, real) = model_of(kind, positions), texts(n=4, side=side)
    decoder, first = start_decoder(model, ids, real)
    owners, written = torch.arange(4), torch.zeros(4, 0, dtype=torch.int64)

    def agree(logits: Tensor) -> None:
        for row, owner in enumerate(owners.tolist()):
            text = alone(ids, real, owner)
            single, start = start_decoder(model, text, torch.ones_like(text, dtype=torch.bool))
            whole = torch.cat([start, written[row][None]], 1)
            assert close(logits[row], single.step(whole)[0], FLOAT32)

    def go(rows: list[int]) -> None:
        nonlocal owners, written
        decoder.reorder(torch.tensor(rows))
        owners, written = owners[rows], written[rows]

    def step(n: int, seed: int) -> Tensor:
        nonlocal written
        new = tokens(len(owners), n, size=V, seed=seed)
        written = torch.cat([written, new], 1)
        return decoder.step_all(new)

    agree(decoder.step(first))
    before = decoder.length
    go([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])  # three beams each
    agree(step(2, seed=1)[:, -1])
    go([2, 0, 0, 4, 4, 5, 9, 11, 10])  # beams are reordered, one text is finished
    agree(step(1, seed=2)[:, -1])
    decoder.rewind(1)
    written = written[:, :-1]
    agree(step(1, seed=3)[:, -1])
    go([8, 0, 3, 3])  # different numbers of beams
    agree(step(1, seed=4)[:, -1])
    assert decoder.length == before + 4
    with pytest.raises(ValueError, match="the number of cached positions"):
        decoder.rewind(decoder.length + 1)


@every_kind
def test_step_all_equals_single_steps(kind: str) -> None:
    model, (ids, real) = model_of(kind, "relative"), texts(n=3)
    decoder, first = start_decoder(model, ids, real)
    again, _ = start_decoder(model, ids, real)
    new = tokens(3, 4, size=V)
    decoder.step(first)
    again.step(first)
    whole = decoder.step_all(new)
    for t in range(4):
        assert close(whole[:, t], again.step(new[:, t : t + 1]), FLOAT32)


@every_kind
def test_float32_whatever_the_weights(kind: str) -> None:
    ids, real = texts(n=2)
    model = model_of(kind).bfloat16()
    if isinstance(model, EncoderDecoder):
        logits = Seq2SeqDecoder(model, ids, real, capacity=4).step(torch.full((2, 1), BOS))
    else:
        logits = CausalLMDecoder(model, capacity=9).step(ids)
    assert logits.dtype == torch.float32
    assert logits.shape == (2, V)


@pytest.mark.parametrize("side", SIDES)
def test_left_pad(side: Side) -> None:
    ids, real = texts(side=side)
    moved, padding = left_pad(ids, real)
    assert padding is not None
    for row in range(len(ids)):
        assert moved[row, int(padding[row]) :].tolist() == ids[row, real[row]].tolist()
    assert left_pad(ids, None) == (ids, None)


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    tables = [noise(V, V, seed=seed) for seed in range(3)]
    ensemble = EnsembleDecoder([MarkovDecoder(table) for table in tables])
    mean = torch.stack([table.softmax(-1) for table in tables]).mean(0)
    assert close(ensemble.step(torch.tensor([[1], [4]])).softmax(-1), mean[[1, 4]], FLOAT32)
    assert close(ensemble.step_all(torch.tensor([[1, 4]])).softmax(-1), mean[[1, 4]][None], FLOAT32)
    assert ensemble.length == 3
    ensemble.rewind(1)
    assert ensemble.length == 2


@pytest.mark.parametrize("beam", [1, 3])
def test_an_ensemble_of_one_model_equals_the_model(beam: int) -> None:
    """An ensemble of a model with itself generates what the model generates."""
    model, (ids, real) = model_of("encoder_decoder"), texts()
    assert isinstance(model, EncoderDecoder)
    inputs = GenerationInputs(
        torch.full((len(ids), 1), BOS), StoppingCriteria(EOS, [10] * len(ids))
    )
    config = DecodingConfig(beam=beam, n_best=beam)

    def decoder() -> IncrementalDecoder:
        return Seq2SeqDecoder(model, ids, real, capacity=10)

    twice = generate(EnsembleDecoder([decoder(), decoder()]), inputs, config)
    once = generate(decoder(), inputs, config)
    assert [[o.ids for o in several] for several in twice] == [
        [o.ids for o in several] for several in once
    ]


def test_an_ensemble_needs_one_vocabulary_size() -> None:
    with raises(InputError, "decoding.unusable_ensemble"):
        EnsembleDecoder([MarkovDecoder(noise(3, 3)), MarkovDecoder(noise(4, 4))])
    with raises(InputError, "decoding.unusable_ensemble"):
        EnsembleDecoder([])


def test_recording_attention_does_not_change_the_logits() -> None:
    model, (ids, real) = model_of("encoder_decoder"), texts(n=3, side="both")
    assert isinstance(model, EncoderDecoder)
    plain = Seq2SeqDecoder(model, ids, real, capacity=8)
    attentive = AttentionRecordingDecoder(model, ids, real, capacity=8)
    new, rows = tokens(3, 3, size=V), torch.tensor([0, 0, 1, 1, 2, 2])
    assert close(attentive.step(new), plain.step(new), FLOAT32)
    for decoder in (plain, attentive):
        decoder.reorder(rows)
    more = tokens(6, 2, size=V, seed=1)
    assert close(attentive.step_all(more), plain.step_all(more), FLOAT32)
    looked = attentive.attention()
    assert looked.shape == ids[rows].shape
    assert torch.equal(looked == 0, ~real[rows])
    given = torch.cat([new[rows], more], 1)
    with record(model) as seen:
        mask = AttentionMask.from_padding(real[rows])
        memory = model.encode(ids[rows], mask, positions=positions_from_mask(real[rows]))
        model.decode(given, memory, mask)
    layers = [w for location, [w] in seen.items() if location.endswith("cross_attention")]
    assert close(looked, torch.stack(layers).mean((0, 2))[:, -1], FLOAT32)
    assert not model.decoder.stack.layers[
        0
    ].cross_attention.hook_pattern.has_hooks  # the model itself is free


@pytest.mark.parametrize("layer", [None, 0, -1])
def test_alignments(layer: int | None) -> None:
    """Each row sums to 1 over the real source tokens; single equals batched."""
    model, (ids, real) = model_of("encoder_decoder"), texts(side="both")
    assert isinstance(model, EncoderDecoder)
    targets = [[5, 6, EOS], [], [7], [4] * 9, [5, EOS], [6], [8, 8], [9]]
    found = align(model, ids, real, targets, bos_id=BOS, layer=layer)
    for row, (one, target) in enumerate(zip(found, targets, strict=True)):
        assert one.weights.shape == (len(target), int(real[row].sum()))
        assert close(one.weights.sum(-1), torch.ones(len(target)), FLOAT32)
        text = alone(ids, real, row)
        [single] = align(model, text, None, [target], bos_id=BOS, layer=layer)
        assert close(one.weights, single.weights, FLOAT32)
        assert len(one.links) == len(target)
    assert align(model, ids[:0], None, [], bos_id=BOS) == []


@pytest.mark.parametrize(("layer", "meant"), [(0, [0]), (1, [1]), (-1, [2]), (None, [0, 1, 2])])
def test_an_alignment_is_of_the_requested_layer(layer: int | None, meant: list[int]) -> None:
    model = model_of("encoder_decoder", n_layers=3)
    assert isinstance(model, EncoderDecoder)
    source, target = torch.tensor([[4, 5, 6, 7]]), [8, 9, EOS]
    [found] = align(model, source, None, [target], bos_id=BOS, layer=layer)
    with record(model) as seen:
        model.decode(torch.tensor([[BOS, *target[:-1]]]), model.encode(source))
    looked = torch.stack([seen[f"decoder.stack.layers.{i}.cross_attention"][0] for i in meant])
    assert close(found.weights, looked.mean((0, 2))[0], FLOAT32)


def test_reordering_allocates_no_memory() -> None:
    """Reordering reuses the same buffers at every step."""
    model = model_of("language_model")
    assert isinstance(model, LanguageModel)
    cache = model.decoder.make_cache(capacity=64)
    rows, new = torch.tensor([1, 0, 2, 2]), tokens(4, 1, size=V)
    with torch.inference_mode():
        model(tokens(4, 3, size=V), cache=cache)
        cache.select_rows(rows)

        def places() -> set[int]:
            tensors = [part for each in cache.caches for part in each.keys_values or ()]
            return {part.data_ptr() for part in (*tensors, cache.buffer) if part is not None}

        before = places()
        assert len(before) == 2 * 2 + 1  # keys and values of two layers, and one spare buffer
        for _ in range(9):
            model(new, cache=cache)
            cache.select_rows(rows)
            assert places() == before


def test_a_cache_grows_as_it_is_filled() -> None:
    model = model_of("language_model", max_length=4_096)
    assert isinstance(model, LanguageModel)
    cache = model.decoder.make_cache(capacity=4_096)
    sizes = set()
    with torch.inference_mode():
        for _ in range(70):
            model(tokens(1, 1, size=V), cache=cache)
            kept = cache.caches[0].keys_values
            assert kept is not None
            sizes.add(kept[0].shape[2])
    assert sizes == {32, 64, 128}
