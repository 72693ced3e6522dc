"""Classification: input ids, epochs, augmentation, padding and scores."""

from itertools import chain

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from jumok.data.table import Table
from jumok.errors import InputError
from jumok.nn.losses import rdrop_kl
from jumok.tasks.classification import label_table
from jumok.tasks.inputs.text_encoder import TextEncoder, table_texts
from jumok.tasks.pipeline.sequence_classification import forward, predict_all
from jumok.tasks.recipe.tables import AugmentationConfig
from tests.errors import raises
from tests.tasks.tiny_jobs import CPU, LABELS, classification_job, review_vocabulary
from tests.tiny_runs import reviews

ROWS = reviews(60, 3)


def encoder(max_length: int = 24) -> TextEncoder:
    return TextEncoder(review_vocabulary(), max_length)


def test_input_ids_are_cls_and_pieces() -> None:
    vocabulary = review_vocabulary()
    texts = ["이 영화 재미있어요", "", "결말이 별로예요"]
    rows = encoder()(texts)
    for text, row in zip(texts, rows, strict=True):
        assert row.tolist() == [vocabulary.cls_id, *vocabulary.encode(text)]
    assert len(encoder()([])) == 0
    assert encoder()([""])[0].tolist() == [vocabulary.cls_id]


def test_a_long_text_is_truncated_at_its_end() -> None:
    text = " ".join(["이 영화 재미있어요"] * 20)
    short, long = encoder(8)([text])[0], encoder(1000)([text])[0]
    assert len(short) == 8
    assert short.tolist() == long[:8].tolist()


def test_tokenized_texts() -> None:
    vocabulary = review_vocabulary()
    cut = [vocabulary.pieces(text) for text, _ in ROWS]
    given = encoder().encode_pieces(cut)
    expected = encoder()([text for text, _ in ROWS])
    assert given.ids.tolist() == expected.ids.tolist()
    assert given.offsets.tolist() == expected.offsets.tolist()


def test_an_unknown_piece_is_unk() -> None:
    vocabulary = review_vocabulary()
    known = vocabulary.pieces("이 영화")
    row = encoder().encode_pieces([[*known, "뷁", *known]])[0].tolist()
    ids = vocabulary.encode("이 영화")
    assert row == [vocabulary.cls_id, *ids, vocabulary.unk_id, *ids]
    with raises(InputError, "input.unknown_pieces"):
        encoder().encode_pieces([["뷁", "쀍", "쀏", known[0]]])
    assert encoder().encode_pieces([[]])[0].tolist() == [vocabulary.cls_id]


def test_a_table_of_pieces_equals_a_table_of_texts() -> None:
    vocabulary = review_vocabulary()
    texts = [text for text, _ in ROWS]
    labels = [label for _, label in ROWS]
    plain = Table.from_columns({"text": texts, "label": labels})
    cut = Table.from_columns({"text": [vocabulary.pieces(t) for t in texts], "label": labels})
    first, second = (
        label_table(table, pieces, encoder(), LABELS)
        for table, pieces in ((plain, False), (cut, True))
    )
    assert list(second.texts.texts) == texts == list(table_texts(cut, pieces=True))
    assert first.ids.ids.tolist() == second.ids.ids.tolist()
    assert [LABELS[n] for n in second.labels] == labels


# An epoch


def seen(job_rows: list[tuple[str, str]], number: int, **training: object) -> list[tuple[int, ...]]:
    """The ids and the label of every text of an epoch, batch by batch."""
    job = classification_job(job_rows, **training)
    epoch = job.epoch(number)
    rows = []
    for index in range(len(epoch)):
        batch = epoch[index]
        for ids, real, label in zip(
            batch.texts.input_ids,
            torch.ones_like(batch.texts.input_ids)
            if batch.texts.attention_mask is None
            else batch.texts.attention_mask,
            batch.labels,
            strict=True,
        ):
            rows.append((int(label), *ids[real.bool()].tolist()))
    return rows


def test_every_text_occurs_once_with_its_label() -> None:
    rows = seen(ROWS, 0)
    expected = [
        (LABELS.index(label), *ids.tolist())
        for (_, label), ids in zip(ROWS, encoder()([t for t, _ in ROWS]), strict=True)
    ]
    assert sorted(rows) == sorted(expected)
    assert rows != expected


def test_the_order_is_determined_by_seed_and_epoch() -> None:
    assert seen(ROWS, 0) == seen(ROWS, 0)
    assert seen(ROWS, 0) != seen(ROWS, 1)
    assert seen(ROWS, 0) != seen(ROWS, 0, seed=1)


def test_batches_respect_batch_tokens() -> None:
    epoch = classification_job(ROWS, batch_tokens=40).epoch(0)
    batches = [epoch[index] for index in range(len(epoch))]
    assert all(batch.texts.input_ids.numel() <= 40 for batch in batches)
    assert sum(batch.n_targets for batch in batches) == len(ROWS)
    assert sum(batch.tokens for batch in batches) == len(encoder()([t for t, _ in ROWS]).ids)


# Augmentation


def test_token_dropout_differs_by_epoch_and_keeps_cls() -> None:
    vocabulary = review_vocabulary()
    hiding = AugmentationConfig(token_dropout=0.3)
    first, again, second = (seen(ROWS, number, augmentation=hiding) for number in (0, 0, 1))
    assert first == again
    assert sorted(first) != sorted(second)  # whatever the order of the texts
    assert all(row[1] == vocabulary.cls_id for row in first)
    tokens = list(chain.from_iterable(row[2:] for row in first))
    share = tokens.count(vocabulary.mask_id) / len(tokens)
    assert 0.2 < share < 0.4  # some 500 tokens


def test_all_tokens_may_be_dropped() -> None:
    rows = seen(ROWS, 0, augmentation=AugmentationConfig(token_dropout=1.0))
    assert set(chain.from_iterable(row[2:] for row in rows)) == {review_vocabulary().mask_id}


def test_sampled_pieces_decode_to_the_same_text() -> None:
    vocabulary = review_vocabulary()
    sampling = AugmentationConfig(subword_sampling=1.0, sampling_alpha=0.1)
    rows = seen(ROWS, 0, augmentation=sampling)
    assert rows == seen(ROWS, 0, augmentation=sampling)
    assert sorted(rows) != sorted(seen(ROWS, 1, augmentation=sampling))  # in other cuts
    spelled = sorted((LABELS[row[0]], vocabulary.decode(row[1:])) for row in rows)
    assert spelled == sorted((label, text) for text, label in ROWS)
    best = seen(ROWS, 0)
    assert sum(map(len, rows)) > sum(map(len, best))  # the best cut is among the shortest


# Learning and answering


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_smoothing_is_for_training_only(smoothing: float) -> None:
    """The dev loss has none, so that runs can be compared."""
    job = classification_job(ROWS, label_smoothing=smoothing)
    job.model.eval()
    batch = job.epoch(0)[0]
    logits = forward(job.model, batch.texts, job.tokenizer)
    expected = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(job.loss(batch), expected, rtol=1e-5, atol=0)
    logits = predict_all(job.model, job.dev.ids, job.tokenizer, CPU)
    plain = F.cross_entropy(logits, torch.from_numpy(job.dev.labels))
    assert job.evaluate().loss == pytest.approx(plain.item(), rel=1e-5)


def test_rdrop_compares_both_views() -> None:
    twice = AugmentationConfig(token_dropout=0.4, rdrop_alpha=3.0)
    job = classification_job(ROWS, augmentation=twice)
    job.model.eval()
    batch = job.epoch(0)[0]
    assert batch.two_views
    logits = forward(job.model, batch.texts, job.tokenizer)
    plain = F.cross_entropy(logits, batch.labels, reduction="sum")
    apart = rdrop_kl(*logits.chunk(2))
    term = 3.0 * apart
    assert term > 1e-4 * plain  # ten times what rounding may do to the sum
    torch.testing.assert_close(job.loss(batch), plain + term, rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", ["encoder", "encoder_decoder"])
def test_outputs_are_in_order_and_independent_of_the_batch(kind: str) -> None:
    job = classification_job(ROWS, {"kind": kind})
    job.model.eval()
    rows = encoder()(["", *(text for text, _ in ROWS), "이 영화 " * 40])
    together = predict_all(job.model, rows, job.tokenizer, CPU)
    assert together.dtype == torch.float32
    with torch.inference_mode():
        from jumok.tasks.inputs.batches import collate

        alone = torch.cat(
            [
                forward(job.model, collate([row], job.tokenizer.pad_id, CPU), job.tokenizer)
                for row in rows
            ]
        )
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)  # float32 sums
    assert together.isfinite().all()


def test_scores_and_probabilities() -> None:
    job = classification_job(ROWS)
    job.model.eval()
    expected = job.dev.labels.tolist()
    probabilities = predict_all(job.model, job.dev.ids, job.tokenizer, CPU).softmax(-1)
    accuracy = np.mean(probabilities.argmax(-1).numpy() == job.dev.labels)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(len(ROWS)))
    dev = job.evaluate()
    log_p = probabilities.log()[torch.arange(len(ROWS)), torch.tensor(expected)]
    assert dev.loss == pytest.approx(-log_p.mean().item(), rel=1e-5)
    assert (dev.score, dev.metric) == (accuracy, "accuracy")


def test_no_texts() -> None:
    job = classification_job(ROWS)
    assert len(predict_all(job.model, encoder()([]), job.tokenizer, CPU)) == 0
