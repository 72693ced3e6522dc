"""Samples: texts encoded for the task, and random ids that are not special."""

from pathlib import Path

import pytest
import torch

import jumok
from jumok.checks import dev_texts, draw_samples, text_samples
from jumok.errors import InputError
from jumok.models import EncoderDecoder, EncoderDecoderClassifier, TextClassifier
from jumok.tasks.pipeline.pipeline import Pipeline
from tests.checks.check_targets import check_target
from tests.errors import raises


@pytest.fixture(scope="module")
def classifier(review_run: Path) -> Pipeline:
    return jumok.load(review_run)


@pytest.fixture(scope="module")
def writer(reading_run: Path) -> Pipeline:
    return jumok.load(reading_run)


def test_development_texts_short_and_long(classifier: Pipeline, writer: Pipeline) -> None:
    texts = dev_texts(classifier)
    assert len(texts) == 4
    assert [len(text) for text in texts] == sorted(len(text) for text in texts)
    assert all("\t" in line for line in dev_texts(writer))


def test_a_text_is_encoded_for_the_task(classifier: Pipeline) -> None:
    (sample,) = text_samples(classifier, ["결말이 지루해요"])
    vocabulary = classifier.vocabulary
    assert sample.ids.tolist() == [vocabulary.cls_id, *vocabulary.encode("결말이 지루해요")]
    assert sample.segments is None
    assert sample.target is None


def test_a_source_with_a_given_or_generated_target(writer: Pipeline) -> None:
    vocabulary = writer.vocabulary
    given, own = text_samples(writer, ["삼 일\t3 1", "삼 일"])
    assert given.ids.tolist() == [*vocabulary.encode("삼 일"), vocabulary.eos_id]
    assert given.target is not None
    assert given.target.tolist() == [vocabulary.bos_id, *vocabulary.encode("3 1")]
    assert own.target is not None
    assert own.target.tolist() == [vocabulary.bos_id, *vocabulary.encode(writer("삼 일").output)]


def test_drawn_ids_are_ordinary_and_the_same_every_time(classifier: Pipeline) -> None:
    samples, again = draw_samples(classifier), draw_samples(classifier)
    assert [len(sample.ids) for sample in samples] == [1, 3, 4, 16]
    drawn = torch.cat([sample.ids for sample in samples])
    assert torch.equal(drawn, torch.cat([sample.ids for sample in again]))
    v = classifier.vocabulary
    special = {v.pad_id, v.unk_id, v.bos_id, v.eos_id, v.sep_id, v.cls_id, v.mask_id}
    assert not special & set(drawn.tolist())
    assert int(drawn.max()) < len(v)


def test_without_a_vocabulary_ids_are_from_the_middle() -> None:
    drawn = draw_samples(check_target(TextClassifier).pipeline)
    ids = torch.cat([sample.ids for sample in drawn])
    assert 6 <= int(ids.min()) <= int(ids.max()) < 18


def test_decoders_get_targets() -> None:
    samples = draw_samples(check_target(EncoderDecoder).pipeline)
    assert sorted(len(s.target) for s in samples) == sorted(len(s.ids) for s in samples)
    assert all(len(s.target) != len(s.ids) for s in samples)
    samples = draw_samples(check_target(EncoderDecoderClassifier).pipeline)
    assert len({tuple(s.target.tolist()) for s in samples}) == 1


def test_texts_need_a_vocabulary() -> None:
    with raises(InputError, "pipeline.no_tokenizer"):
        text_samples(check_target(TextClassifier).pipeline, ["가"])
