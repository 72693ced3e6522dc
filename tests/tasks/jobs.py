"""Jobs on the tiny corpora, with a vocabulary of their own, without files."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from jumok.config import build
from jumok.data.corpora import DataConfig
from jumok.models import EncoderDecoder
from jumok.tasks.classification import Classification, ClassificationJob
from jumok.tasks.recipe import AugmentationConfig, ModelConfig, Recipe
from jumok.tasks.sequence_to_sequence import Pairs, SequenceJob
from jumok.tasks.texts import TextEncoder, Texts
from jumok.tasks.whole_texts import KnownTexts
from jumok.text.sentencepiece import SentencePieceVocabulary, VocabularyConfig
from jumok.training.config import TrainingConfig
from tests.tiny import readings, reviews

CPU = torch.device("cpu")
LABELS = ("negative", "positive")
SMALL = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 1, "dropout": 0.0, "max_length": 24}


@cache
def review_vocabulary() -> SentencePieceVocabulary:
    return SentencePieceVocabulary.train([t for t, _ in reviews(120, 0)], VocabularyConfig(size=66))


@cache
def reading_vocabulary() -> SentencePieceVocabulary:
    texts = [text for pair in readings(120, 0) for text in pair]
    return SentencePieceVocabulary.train(texts, VocabularyConfig(size=45))


def recipe(task: Any, model: dict[str, Any], **training: Any) -> Recipe:
    return Recipe(
        name="tiny",
        task=task,
        data=DataConfig(),
        model=build(ModelConfig, SMALL | model),
        training=TrainingConfig(**{"steps": 10, "batch_tokens": 256} | training),
    )


def labelled(rows: Sequence[tuple[str, ...]], encode: TextEncoder) -> KnownTexts:
    """Texts, or pairs of them, and their labels."""
    *columns, labels = zip(*rows, strict=True)
    wanted = np.array([LABELS.index(label) for label in labels], dtype=np.int64)
    return KnownTexts(Texts(*columns), encode(*columns), wanted)


def pair_rows(n: int, seed: int) -> list[tuple[str, str, str]]:
    """Two reviews, and whether they say the same: "positive" if they do."""
    others = random.Random(seed).sample(reviews(n, 2 * seed + 1), n)
    both = zip(reviews(n, 2 * seed), others, strict=True)
    return [(one, two, LABELS[first == second]) for (one, first), (two, second) in both]


def classification_job(
    rows: Sequence[tuple[str, ...]],
    model: dict[str, Any] | None = None,
    augmentation: AugmentationConfig | None = None,
    seed: int = 0,
    **training: Any,
) -> ClassificationJob:
    """A classifier, the rows both to learn from and to be scored on."""
    vocabulary = review_vocabulary()
    plan = recipe("classification", model or {}, **training).with_vocabulary(len(vocabulary))
    plan = replace(plan, seed=seed, augmentation=augmentation or AugmentationConfig())
    torch.manual_seed(0)
    built = Classification().model(plan.model, LABELS)
    data = labelled(rows, TextEncoder(vocabulary, plan.model.max_length))
    return ClassificationJob(plan, built, vocabulary, data, data, CPU)


def sequence_job(
    rows: Sequence[tuple[str, str]],
    model: dict[str, Any] | None = None,
    seed: int = 0,
    **training: Any,
) -> SequenceJob:
    """A model that writes, the rows both to learn from and to be scored on."""
    vocabulary = reading_vocabulary()
    kind = {"kind": "encoder_decoder"} | (model or {})
    plan = recipe("sequence_to_sequence", kind, **training).with_vocabulary(len(vocabulary))
    plan = replace(plan, seed=seed)
    torch.manual_seed(0)
    pairs = Pairs([source for source, _ in rows], [target for _, target in rows])
    return SequenceJob(plan, EncoderDecoder(plan.model), vocabulary, pairs, pairs, CPU)
