"""Training jobs on tiny corpora with their own tokenizers, without files."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from jumok.config_io import from_dict
from jumok.data.config import DataConfig
from jumok.data.splits import CLASSIFICATION, PAIRS, REGRESSION, SEQUENCES, TAGGING, Splits
from jumok.data.table import Table
from jumok.models import EncoderDecoder
from jumok.tasks.classification import ClassificationJob, ClassificationTask
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import (
    AugmentationConfig,
    ModelConfig,
    RegressionConfig,
)
from jumok.tasks.regression import RegressionJob, RegressionTask
from jumok.tasks.sequence_to_sequence import Seq2SeqJob
from jumok.tasks.token_classification import TokenClassificationJob, TokenClassificationTask
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from jumok.text.tokenizer import Tokenizer
from jumok.training.config import TrainingConfig
from tests.tiny_runs import REVIEWS, readings, reviews

CPU = torch.device("cpu")
LABELS = ("negative", "positive")
SMALL = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 1, "dropout": 0.0, "max_length": 24}


@cache
def review_vocabulary() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train([t for t, _ in reviews(120, 0)], VocabularyConfig(size=66))


@cache
def reading_vocabulary(kind: Literal["unigram", "bpe"] = "unigram") -> SentencePieceTokenizer:
    texts = [text for pair in readings(120, 0) for text in pair]
    return SentencePieceTokenizer.train(texts, VocabularyConfig(size=45, kind=kind))


def recipe(task: Any, model: dict[str, Any], **training: Any) -> Recipe:
    return Recipe(
        name="tiny",
        task=task,
        data=DataConfig(pair="pair" if "n_segments" in model else ""),
        model=from_dict(ModelConfig, SMALL | model),
        training=TrainingConfig(**{"steps": 10, "batch_tokens": 256} | training),
    )


def splits(
    rows: Sequence[tuple[Any, ...]], columns: Sequence[str], labels: tuple[str, ...] = ()
) -> Splits:
    """Rows that are both training and development data."""
    cells = zip(*rows, strict=True) if rows else ([] for _ in columns)
    table = Table.from_columns(dict(zip(columns, cells, strict=True)))
    return Splits({"train": table, "dev": table}, labels)


def joint(vocabulary: Tokenizer) -> TokenizerPair:
    """One tokenizer for both sides."""
    return TokenizerPair(vocabulary, vocabulary)


def pair_rows(n: int, seed: int) -> list[tuple[str, str, str]]:
    """Two reviews, and whether they agree: "positive" if they do."""
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
    """A classifier; the rows are both training and development data."""
    vocabulary = review_vocabulary()
    plan = recipe("classification", model or {}, **training).with_vocabulary(len(vocabulary))
    plan = replace(plan, seed=seed, augmentation=augmentation or AugmentationConfig())
    torch.manual_seed(0)
    built = ClassificationTask().build_model(plan.model, LABELS)
    data = splits(rows, PAIRS if len(rows[0]) == 3 else CLASSIFICATION, LABELS)
    return ClassificationJob(plan, built, joint(vocabulary), data, CPU)


def score_rows(n: int, seed: int) -> list[tuple[str, str, float]]:
    """Two reviews and their similarity: 5 if both are positive or both negative, else 1."""
    return [
        (one, two, 5.0 if label == "positive" else 1.0) for one, two, label in pair_rows(n, seed)
    ]


def regression_job(
    rows: Sequence[tuple[str, str, float]],
    augmentation: AugmentationConfig | None = None,
    loss: Literal["squared_error", "ranking"] = "squared_error",
    **training: Any,
) -> RegressionJob:
    """A regression model of scores from 0 to 5; the rows are training and development data."""
    vocabulary = review_vocabulary()
    plan = recipe("regression", {"n_segments": 2}, **training).with_vocabulary(len(vocabulary))
    plan = replace(
        plan,
        augmentation=augmentation or AugmentationConfig(),
        regression=RegressionConfig(highest=5.0, loss=loss),
    )
    torch.manual_seed(0)
    model = RegressionTask().build_model(plan.model, ())
    return RegressionJob(plan, model, joint(vocabulary), splits(rows, REGRESSION), CPU)


PEOPLE, PLACES = ("철수", "영희", "김민준"), ("서울", "부산역", "제주 공항")
TAGS = ("O", "B-LC", "I-LC", "B-PS", "I-PS")


def tag_rows(n: int, seed: int) -> list[tuple[str, str]]:
    """Sentences with persons and places, and a tag for each character."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        parts = [
            (rng.choice(PEOPLE), "PS"),
            (rng.choice(("가 ", "도 정말 ")), ""),
            (rng.choice(PLACES), "LC"),
            (rng.choice(("에 가요", "에서 만나요")), ""),
        ]
        tags = [
            tag
            for text, kind in parts
            for tag in (
                [f"B-{kind}", *[f"I-{kind}"] * (len(text) - 1)] if kind else "O" * len(text)
            )
        ]
        rows.append(("".join(text for text, _ in parts), " ".join(tags)))
    return rows


def tag_recipe(folder: Path) -> Path:
    """A recipe in `folder`, with files of its own: 120 training, 20 dev and 20 test sentences."""
    for seed, (split, n) in enumerate([("train", 120), ("dev", 20), ("test", 20)]):
        lines = ["text\ttags", *map("\t".join, tag_rows(n, seed))]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(REVIEWS.format(folder=folder), encoding="utf-8")
    return path


@cache
def tag_vocabulary(kind: Literal["unigram", "char"] = "char") -> SentencePieceTokenizer:
    texts = [text for text, _ in tag_rows(120, 0)]
    return SentencePieceTokenizer.train(texts, VocabularyConfig(size=45, kind=kind))


def tagging_job(
    rows: Sequence[tuple[str, str]],
    augmentation: AugmentationConfig | None = None,
    tagging: Literal["pieces", "characters"] = "pieces",
    **training: Any,
) -> TokenClassificationJob:
    """A token classifier of character pieces, or of characters above pieces that cross names.

    The rows are both training and development data.
    """
    vocabulary = tag_vocabulary("char" if tagging == "pieces" else "unigram")
    plan = recipe("tagging", {"tagging": tagging}, **training).with_vocabulary(len(vocabulary))
    plan = replace(plan, augmentation=augmentation or AugmentationConfig())
    torch.manual_seed(0)
    model = TokenClassificationTask().build_model(plan.model, TAGS)
    data = splits(rows, TAGGING, TAGS)
    return TokenClassificationJob(plan, model, joint(vocabulary), data, CPU)


def sequence_job(
    rows: Sequence[tuple[str, str]],
    model: dict[str, Any] | None = None,
    augmentation: AugmentationConfig | None = None,
    seed: int = 0,
    vocabulary: SentencePieceTokenizer | None = None,
    **training: Any,
) -> Seq2SeqJob:
    """A seq2seq model; the rows are both training and development data."""
    vocabulary = vocabulary or reading_vocabulary()
    kind = {"kind": "encoder_decoder"} | (model or {})
    plan = recipe("sequence_to_sequence", kind, **training).with_vocabulary(len(vocabulary))
    plan = replace(plan, seed=seed, augmentation=augmentation or AugmentationConfig())
    torch.manual_seed(0)
    model = EncoderDecoder(plan.model)
    return Seq2SeqJob(plan, model, joint(vocabulary), splits(rows, SEQUENCES), CPU)
