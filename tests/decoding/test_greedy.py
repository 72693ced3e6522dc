"""Greedy decoding against a loop without a cache: together, alone, padded, until the end."""

import pytest
import torch
from torch import Tensor

from jumok.decoding import Written, greedy
from jumok.models import EncoderDecoder, TransformerConfig
from jumok.nn.masks import AttentionMask

PAD, BOS, EOS, V = 0, 2, 3, 12
POSITIONS = ("sinusoidal", "rotary", "relative")


def model_of(positions: str = "sinusoidal") -> EncoderDecoder:
    """Random weights that write sequences of many lengths."""
    torch.manual_seed(8)
    config = TransformerConfig(
        vocabulary_size=V,
        d_model=16,
        n_heads=2,
        d_ff=32,
        n_layers=2,
        max_length=24,
        positions=positions,  # type: ignore[arg-type]
        tie_embeddings=False,
    )
    model = EncoderDecoder(config).eval().requires_grad_(False)
    model.encoder.embedding.tokens.weight.mul_(1.5)
    for name, weight in model.decoder.named_parameters():
        if "cross" in name and weight.ndim > 1:
            weight.mul_(1.5)  # what is read is to matter
    return model


def sources(n: int = 12) -> tuple[Tensor, Tensor]:
    """Sources of 1 to 7 tokens, padded on the right, and which tokens are real."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 8, (n,), generator=generator)
    ids = torch.randint(4, V, (n, 7), generator=generator)
    real = torch.arange(7) < lengths[:, None]
    return ids.masked_fill(~real, PAD), real


def loop(model: EncoderDecoder, source: Tensor, max_length: int) -> Written:
    """One source (1, S), everything computed anew for every token."""
    ids, score = [BOS], 0.0
    while True:
        log_p = model(source, torch.tensor([ids]))[0, -1].log_softmax(-1)
        token = int(log_p.argmax())
        if token == EOS:
            return Written(ids[1:], score + log_p[token].item(), finished=True)
        if len(ids) - 1 == max_length:
            return Written(ids[1:], score, finished=False)
        score += log_p[token].item()
        ids.append(token)


def decode(
    model: EncoderDecoder, source: Tensor, real: Tensor | None, limits: list[int]
) -> list[Written]:
    return greedy(model, source, real, bos_id=BOS, eos_id=EOS, max_lengths=limits)


@pytest.mark.parametrize("positions", POSITIONS)
def test_together_alone_and_without_a_cache(positions: str) -> None:
    model = model_of(positions)
    ids, real = sources()
    limits = [4 + 3 * (i % 5) for i in range(len(ids))]
    together = decode(model, ids, real, limits)
    lengths = set()
    for row, found in enumerate(together):
        source = ids[row : row + 1, : int(real[row].sum())]
        (alone,) = decode(model, source, None, [limits[row]])
        plain = loop(model, source, limits[row])
        assert found.ids == alone.ids == plain.ids
        assert found.finished == alone.finished == plain.finished
        assert found.score == pytest.approx(plain.score, abs=1e-4)  # float32 sums
        assert alone.score == pytest.approx(plain.score, abs=1e-4)
        lengths.add((len(found.ids), found.finished))
    assert len(lengths) > 3  # some ended early, some late, some at their limit
    assert {finished for _, finished in lengths} == {True, False}


def test_the_score_is_that_of_the_teacher() -> None:
    model = model_of()
    ids, real = sources()
    for row, found in enumerate(decode(model, ids, real, [20] * len(ids))):
        wanted = [*found.ids, *([EOS] if found.finished else [])]
        mask = AttentionMask.from_padding(real[row : row + 1])
        logits = model(ids[row : row + 1], torch.tensor([[BOS, *wanted][: len(wanted)]]), mask)
        log_p = logits[0].log_softmax(-1)
        total = log_p[torch.arange(len(wanted)), torch.tensor(wanted)].sum().item()
        assert found.score == pytest.approx(total, abs=1e-4)  # float32 sums of up to 20 terms


def test_finished_rows_leave_the_batch() -> None:
    model = model_of()
    ids, real = sources()
    sizes: list[int] = []
    hook = model.decoder.register_forward_hook(lambda m, args, out: sizes.append(len(out)))
    written = decode(model, ids, real, [20] * len(ids))
    hook.remove()
    steps = [len(one.ids) + 1 for one in written]  # the last writes [EOS] or finds no room
    assert sizes == [sum(step > at for step in steps) for at in range(max(steps))]


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_no_longer_than_allowed(limit: int) -> None:
    model = model_of()
    ids, real = sources()
    written = decode(model, ids, real, [limit] * len(ids))
    assert all(len(one.ids) <= limit for one in written)
    longer = decode(model, ids, real, [20] * len(ids))
    for short, long in zip(written, longer, strict=True):
        assert short.ids == long.ids[:limit]
        assert short.finished == (long.finished and len(long.ids) <= limit)


def test_as_long_as_the_model_holds() -> None:
    """[BOS] and 23 tokens fill the 24 positions of this model; no id is -1, so it goes on."""
    source = torch.tensor([[5, 6, 7]])
    (written,) = greedy(model_of(), source, None, bos_id=BOS, eos_id=-1, max_lengths=[23])
    assert len(written.ids) == 23
    assert not written.finished
