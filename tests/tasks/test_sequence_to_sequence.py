"""Sequence to sequence: ids, batches, and a loss over tokens without padding."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from jumok.decoding import DecodingConfig
from jumok.nn.losses import rdrop_kl
from jumok.nn.masks import AttentionMask
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqBatch, Seq2SeqEncoder
from jumok.tasks.recipe.tables import AugmentationConfig
from jumok.tasks.sequence_to_sequence import Seq2SeqJob
from tests.tasks.tiny_jobs import reading_vocabulary, sequence_job
from tests.tiny_runs import readings

ROWS = readings(40, 5)
TWICE = AugmentationConfig(subword_sampling=1.0, sampling_alpha=0.01, rdrop_alpha=30.0)


def batches(job: Seq2SeqJob, number: int = 0) -> list[Seq2SeqBatch]:
    epoch = job.epoch(number)
    return [epoch[index] for index in range(len(epoch))]


def padded_batch(job: Seq2SeqJob) -> Seq2SeqBatch:
    return next(
        b
        for b in batches(job)
        if b.source.attention_mask is not None and b.target.attention_mask is not None
    )


def test_special_tokens_of_sources_and_targets() -> None:
    vocabulary = reading_vocabulary()
    encode = Seq2SeqEncoder(vocabulary, vocabulary, 24)
    ids = vocabulary.encode("삼 일")
    assert encode.sources(["삼 일"])[0].tolist() == [*ids, vocabulary.eos_id]
    assert encode.targets(["삼 일"])[0].tolist() == [vocabulary.bos_id, *ids, vocabulary.eos_id]
    assert encode.sources([""])[0].tolist() == [vocabulary.eos_id]
    assert encode.targets([""])[0].tolist() == [vocabulary.bos_id, vocabulary.eos_id]


def test_long_texts_are_truncated_at_their_end() -> None:
    vocabulary = reading_vocabulary()
    text = "삼 일 오 " * 20
    encode = Seq2SeqEncoder(vocabulary, vocabulary, 8)
    ids = vocabulary.encode(text)
    assert encode.sources([text])[0].tolist() == [*ids[:7], vocabulary.eos_id]
    target = encode.targets([text])[0].tolist()
    assert target == [vocabulary.bos_id, *ids[:7], vocabulary.eos_id]  # 8 in, 8 out


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_every_pair_occurs_once_per_epoch_with_shifted_labels(
    sampling: float, kind: Literal["unigram", "bpe"]
) -> None:
    """Sampled segmentations decode to the same texts."""
    augmentation = AugmentationConfig(subword_sampling=sampling)
    vocabulary = reading_vocabulary(kind)
    job = sequence_job(ROWS, augmentation=augmentation, batch_tokens=120, vocabulary=vocabulary)
    found, lengths = [], []
    for batch in batches(job):
        assert batch.source.input_ids.numel() + batch.target.input_ids.numel() <= 120
        assert batch.target.input_ids.shape == batch.labels.shape
        for source, target, expected in zip(
            batch.source.input_ids, batch.target.input_ids, batch.labels, strict=True
        ):
            n = int((target != vocabulary.pad_id).sum())
            assert target[0] == vocabulary.bos_id
            assert expected[n - 1] == vocabulary.eos_id
            assert target[1:n].tolist() == expected[: n - 1].tolist()
            lengths.append(n)
            found.append((vocabulary.decode(source.tolist()), vocabulary.decode(expected.tolist())))
    assert sorted(found) == sorted(ROWS)
    assert sum(batch.n_targets for batch in batches(job)) == sum(lengths)
    best = sorted(job.train_ids[1].lengths - 1)
    assert (sorted(lengths) == best) == (sampling == 0.0)
    assert sum(lengths) >= sum(best)  # other cuts, of more pieces


def test_the_order_is_determined_by_seed_and_epoch() -> None:
    def order(seed: int, number: int) -> list[list[int]]:
        job = sequence_job(ROWS, batch_tokens=120, seed=seed)
        return [batch.source.input_ids.tolist() for batch in batches(job, number)]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_both_views_of_a_pair_have_its_target() -> None:
    job = sequence_job(ROWS, augmentation=TWICE, batch_tokens=120)
    vocabulary = job.tokenizer
    found, n_anew = [], 0
    for batch in batches(job):
        n = len(batch.labels) // 2
        sides = (batch.source.input_ids, batch.labels)
        texts = [vocabulary.decode_batch(ids.tolist()) for ids in sides]
        pairs = list(zip(*texts, strict=True))
        assert pairs[:n] == pairs[n:]
        assert torch.equal(batch.target.input_ids[:n], batch.target.input_ids[n:])
        n_anew += int((batch.source.input_ids[:n] != batch.source.input_ids[n:]).any(-1).sum())
        found += pairs[:n]
    assert sorted(found) == sorted(ROWS)
    assert n_anew > 0  # the views are two cuts of a source


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_ignores_padding(smoothing: float) -> None:
    job = sequence_job(ROWS, label_smoothing=smoothing)
    job.model.eval()
    batch = padded_batch(job)
    assert batch.source.attention_mask is not None
    assert batch.target.attention_mask is not None
    mask = AttentionMask.from_padding(batch.source.attention_mask)
    logits = job.model(batch.source.input_ids, batch.target.input_ids, mask)
    expected = batch.labels.masked_fill(~batch.target.attention_mask, -100)
    plain = F.cross_entropy(
        logits.transpose(1, 2), expected, reduction="sum", label_smoothing=smoothing
    )
    torch.testing.assert_close(job.loss(batch), plain, rtol=1e-5, atol=0)


def test_rdrop_compares_both_views_of_a_pair() -> None:
    job = sequence_job(ROWS, augmentation=TWICE)
    job.model.eval()
    batch = padded_batch(job)
    assert batch.two_views
    assert batch.source.attention_mask is not None
    assert batch.target.attention_mask is not None
    mask = AttentionMask.from_padding(batch.source.attention_mask)
    logits = job.model(batch.source.input_ids, batch.target.input_ids, mask)  # (B, T, V)
    expected = batch.labels.masked_fill(~batch.target.attention_mask, -100)
    plain = F.cross_entropy(logits.transpose(1, 2), expected, reduction="sum")
    once, again = logits.chunk(2)
    real = batch.target.attention_mask.chunk(2)[0]  # the same in both halves
    apart = rdrop_kl(once[real], again[real])
    term = 30 * apart
    assert term > 1e-4 * plain  # ten times what rounding may do to the sum
    torch.testing.assert_close(job.loss(batch), plain + term, rtol=1e-5, atol=0)


def test_development_score() -> None:
    job = sequence_job(ROWS)
    job.model.eval()
    with torch.inference_mode():
        dev = job.evaluate()
        losses = [job.loss(batch).item() for batch in batches(job)]
    units = int((job.dev_ids[1].lengths - 1).sum())
    assert dev.loss == pytest.approx(np.sum(losses) / units, rel=1e-5)
    assert dev.metric == "exact_match"
    assert 0.0 <= dev.score <= 1.0


def test_an_untrained_model_generates_little_more_than_the_dev_targets() -> None:
    job = sequence_job(ROWS, {"max_length": 400})
    job.model.eval()
    steps: list[int] = []
    job.model.output.register_forward_hook(lambda *_: steps.append(1))
    job.recipe = replace(job.recipe, decoding=DecodingConfig(max_length=400))
    with torch.inference_mode():
        job.evaluate()
    longest = int(job.dev_ids[1].lengths.max())
    assert longest < len(steps) <= 2 * longest + 10


def test_the_dev_loss_has_no_label_smoothing() -> None:
    """So that runs can be compared."""
    job = sequence_job(ROWS, label_smoothing=0.3)
    job.model.eval()
    found = job.evaluate().loss
    smooth = job.loss(batches(job)[0])
    training = replace(job.recipe.training, label_smoothing=0.0)
    job.recipe = replace(job.recipe, training=training)
    assert job.evaluate().loss == found
    assert job.loss(batches(job)[0]) != smooth
