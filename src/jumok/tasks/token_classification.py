"""Token classification: a tag for each character of a text, such as the types of its names.

With `model.tagging = "pieces"` the model tags pieces. The label of a piece is the first tag in it
that is not O, and the predicted tag of a piece is that of all its characters; `bio.viterbi` makes
the tag sequence valid. With a tokenizer of characters (`vocabulary.kind = "char"`) this is
lossless; longer pieces may cross the borders of names, and `reachable_f1` is the score of a model
with perfect labels for all pieces. With `model.tagging = "characters"` a `CharacterClassifier` tags
characters, whatever the pieces are.
Shapes: B texts, T pieces, L tags.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.files.tagged import bio_tag
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.decoding.finite import non_finite_error
from jumok.evaluation import classification_metrics, entity_metrics
from jumok.evaluation.bootstrap import RowStatistics
from jumok.evaluation.entities import EntityCounts, entities
from jumok.evaluation.examples import Example
from jumok.evaluation.own_metric import own_scores
from jumok.models import CharacterClassifier, Characters, TokenClassifier
from jumok.nn.losses import cross_entropy, rdrop_kl
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs import bio
from jumok.tasks.inputs.batches import (
    EVAL_BATCH_TOKENS,
    IGNORE_INDEX,
    LazyBatches,
    PaddedBatch,
    batches_by_length,
    collate,
)
from jumok.tasks.inputs.character_texts import CharacterTexts
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.inputs.token_labels import LabelledTokens, TokenizedTexts
from jumok.tasks.own_model import forward_own
from jumok.tasks.pipeline.distributed_map import TENSOR_CODEC, distributed_map
from jumok.tasks.pipeline.origin import Origin
from jumok.tasks.pipeline.outputs import (
    EvaluationResult,
    NamedEntity,
    RunOutputs,
    TokenClassification,
)
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.fixed_values import check_values, for_task, with_key
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.shipped_start import SHIPPED_MODEL
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.shared.encoder_job import EncoderJob, LabelledBatch, drop_tokens
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.task import Task
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult

MAX_EXAMPLES = 30  # in a report


class TokenClassificationTask(Task):
    """A tag for each character."""

    metrics = ("entity_f1",)
    columns = ("text", "tags")
    augmentations = ("subword_sampling", "token_dropout", "rdrop_alpha")
    model_keys = ("tagging",)
    compares_rows = True
    answer = "tags"
    head = "token_classifier"
    korean = "글자마다 태그를 붙이는"

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with a linear map of its hidden states, or with a head of characters."""
        if config.tagging == "characters":
            return CharacterClassifier(config, len(labels))
        return TokenClassifier(config, len(labels))

    def n_outputs(self, config: ModelConfig, labels: Sequence[str]) -> int:
        """A logit for each tag."""
        return len(labels)

    def job(self, recipe: Recipe) -> type[RecipeJob[Any]]:
        """Cross-entropy of the tags."""
        return TokenClassificationJob

    def start(self, *, paired: bool) -> tuple[str, dict[str, Any]] | None:
        """The shipped model, with tags of characters: its pieces cross borders of names."""
        return SHIPPED_MODEL, {"tagging": "characters"}

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise InputError for pieces without a tag, or with several."""
        if recipe.model.tagging == "pieces":  # tags are aligned with the best segmentation
            one = {"augmentation.subword_sampling": 0.0}
            check_values(recipe, one, with_key('model.tagging = "pieces"'))
        # It splits rare characters into bytes, which have no tags.
        check_values(recipe, {"vocabulary.byte_fallback": False}, for_task(recipe.task))

    def imported_labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The tags of a checkpoint as B-TYPE and I-TYPE; Naver NER writes TYPE-B and TYPE-I."""
        tags = tuple(map(bio_tag, labels))
        return tags if len(set(tags)) == len(tags) else tuple(labels)

    def check_imported(self, origin: Origin, labels: Sequence[str]) -> None:
        """Raise InputError for labels that are no BIO tags."""
        bio.check_bio(labels)

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """F1 of whole entities and of the tags of characters, as in KLUE (Park et al. 2021).

        `entity_f1` is the mean F1 of the entity types; an entity is right only with its type and
        from its first to its last character; `entity_micro_f1` weights every entity equally.
        `character_f1` is the mean F1 of all tags, including O, over the characters. The tags of
        spaces do not count.
        """
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        data = LabelledTokens.from_table(table, encode, texts_type(pipeline.recipe.model))
        texts = data.texts
        predicted = predict_tags(pipeline, texts)
        best = char_tags(data.piece_tags(), texts)
        truth, ours, reachable = (
            drop_spaces(tags, texts.texts) for tags in (data.tags, predicted, best)
        )
        metrics, reached = entity_metrics(truth, ours), entity_metrics(truth, reachable)
        return EvaluationResult(
            {
                "task": pipeline.recipe.task,
                "split": split,
                "n": metrics.n,
                "entity_f1": metrics.macro_f1,
                "entity_micro_f1": metrics.f1,
                "character_f1": character_f1(truth, ours),
                "reachable_f1": reached.macro_f1,
                **own_scores(pipeline.recipe.metric, truth, ours),
            },
            examples=_examples(texts.texts, data.tags, predicted),
        )

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[TokenClassification]:
        """The entities of each text with their character offsets."""
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        tags = predict_tags(pipeline, texts_type(pipeline.recipe.model).encode(texts, encode))
        return [to_entities(text, row) for text, row in zip(texts, tags, strict=True)]

    def row_outputs(self, pipeline: Pipeline, table: Table) -> RunOutputs:
        """The entities of each row; the metric is the mean F1 of their K types."""
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        data = LabelledTokens.from_table(table, encode, texts_type(pipeline.recipe.model))
        texts = data.texts.texts
        predicted = predict_tags(pipeline, data.texts)
        kinds = sorted({tag[2:] for tag in pipeline.labels if tag.startswith("B-")})
        counts = np.zeros((len(texts), len(kinds), 3))  # expected, predicted, correct
        rows = zip(drop_spaces(data.tags, texts), drop_spaces(predicted, texts), strict=True)
        for row, (truth, ours) in enumerate(rows):
            expected, found = entities(truth), entities(ours)
            for column, chosen in enumerate((expected, found, expected & found)):
                for entity in chosen:
                    counts[row, kinds.index(entity.kind), column] += 1
        return RunOutputs(
            texts,
            [to_entities(text, tags).display for text, tags in zip(texts, data.tags, strict=True)],
            [to_entities(text, tags).display for text, tags in zip(texts, predicted, strict=True)],
            {"entity_f1": RowStatistics(counts.reshape(len(texts), -1), _macro_f1)},
        )


def _macro_f1(sums: NDArray[np.float64]) -> float:
    """The mean F1 of the entity types that are expected or predicted, from counts (K * 3)."""
    counts = [EntityCounts(*map(int, row)) for row in sums.reshape(-1, 3)]
    found = [each.f1 for each in counts if each.expected or each.predicted]
    return sum(found) / max(len(found), 1)


def texts_type(config: ModelConfig) -> type[TokenizedTexts]:
    """The class of texts that a model reads: with tags of pieces or of characters."""
    return CharacterTexts if config.tagging == "characters" else TokenizedTexts


def forward(model: nn.Module, texts: PaddedBatch, characters: Characters | None = None) -> Tensor:
    """The logits (B, T, L) of a batch, of characters if the model has a head of characters."""
    ids, mask = texts.input_ids, texts.attention_mask
    if not isinstance(model, TokenClassifier | CharacterClassifier):
        return forward_own(model, ids, mask)
    if characters is None:
        return model(ids, mask)  # type: ignore[no-any-return]
    return model(ids, mask, characters=characters)  # type: ignore[no-any-return]


@torch.inference_mode()
def log_probabilities(
    model: nn.Module,
    texts: TokenizedTexts,
    tokenizer: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> list[NDArray[np.float32]]:
    """log p (T, L) of the tags of every text's ids or characters, in the order of the texts."""

    def predict(batch: NDArray[np.int64]) -> dict[str, Tensor]:
        rows = collate([texts.ids[i] for i in batch], tokenizer.padding_id, device)
        logits = forward(model, rows, texts.characters(batch, device))  # (B, T, L)
        return {"log_p": logits.float().log_softmax(-1).cpu()}

    index_batches = batches_by_length(texts.lengths, EVAL_BATCH_TOKENS)
    parts = distributed_map(index_batches, predict, processes, TENSOR_CODEC)
    found: dict[int, NDArray[np.float32]] = {}
    n_outputs = texts.output_lengths
    for batch, part in zip(index_batches, parts, strict=True):
        for i, row in zip(batch, part["log_p"].numpy(), strict=True):
            found[int(i)] = row[: n_outputs[i]]
    return [found[i] for i in range(len(texts.ids))]


def viterbi_tags(
    texts: TokenizedTexts, log_p: Sequence[NDArray[np.float32]], tags: Sequence[str]
) -> list[list[str]]:
    """The most probable valid tags of all characters, from log p (T, L) of each text."""
    piece_tags = [
        [tags[index] for index in bio.viterbi(texts.at_pieces(row, i), tags)]
        for i, row in enumerate(log_p)
    ]
    return char_tags(piece_tags, texts)


def predict_tags(pipeline: Pipeline, texts: TokenizedTexts) -> list[list[str]]:
    """The predicted tags of the characters of texts."""
    log_p = log_probabilities(
        pipeline.model, texts, pipeline.vocabulary, pipeline.device, pipeline.processes
    )
    if any(np.isnan(row).any() for row in log_p):
        raise non_finite_error("logits")
    return viterbi_tags(texts, log_p, pipeline.labels)


def char_tags(piece_tags: Sequence[Sequence[str]], texts: TokenizedTexts) -> list[list[str]]:
    """The tags of all characters from those of the pieces."""
    rows = zip(piece_tags, texts.spans, texts.texts, strict=True)
    return [bio.char_tags(tags, spans, text) for tags, spans, text in rows]


def drop_spaces(rows: Sequence[Sequence[str]], texts: Sequence[str]) -> list[list[str]]:
    """The tags of all characters but spaces, as KLUE does before it scores.

    >>> drop_spaces([["B-LC", "I-LC", "I-LC", "O"]], ["서울 은"])
    [['B-LC', 'I-LC', 'O']]
    """
    return [
        [tag for tag, character in zip(tags, text, strict=True) if character != " "]
        for tags, text in zip(rows, texts, strict=True)
    ]


def character_f1(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """The mean F1 of all tags that occur, including O, over all characters.

    >>> round(character_f1([["B-PS", "I-PS", "O", "O"]], [["B-PS", "O", "O", "O"]]), 3)
    0.6
    """
    rows = list(chain.from_iterable(truth)), list(chain.from_iterable(predicted))
    indices = {tag: index for index, tag in enumerate(sorted({*rows[0], *rows[1]}))}
    labels, outputs = ([indices[tag] for tag in tags] for tags in rows)
    return classification_metrics(labels, outputs, len(indices)).macro_f1


def to_entities(text: str, tags: Sequence[str]) -> TokenClassification:
    """The output for a text from the tags of its characters.

    >>> to_entities("서울에", ["B-LC", "I-LC", "O"]).entities
    (NamedEntity(type='LC', start=0, end=2, text='서울'),)
    """
    found = sorted(entities(tags), key=lambda entity: entity.start)
    return TokenClassification(
        text, tuple(NamedEntity(kind, start, stop, text[start:stop]) for kind, start, stop in found)
    )


def _examples(
    texts: Sequence[str], truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> list[Example]:
    """Some texts with their entities in brackets, wrong ones first."""
    order = sorted(range(len(texts)), key=lambda i: list(truth[i]) == list(predicted[i]))
    return [
        Example(
            texts[i],
            to_entities(texts[i], truth[i]).display,
            to_entities(texts[i], predicted[i]).display,
        )
        for i in order[:MAX_EXAMPLES]
    ]


class TokenClassificationJob(EncoderJob):
    """Trains a token classifier with cross-entropy of the tags of pieces or characters."""

    def prepare(self, splits: Splits) -> None:
        """Encode the texts, and turn the tags of their characters into labels."""
        self.encode = TextEncoder(self.tokenizer, self.recipe.model.max_length)
        kind, self.tags = texts_type(self.recipe.model), splits.labels
        train = LabelledTokens.from_table(splits.train, self.encode, kind)
        self.dev = LabelledTokens.from_table(splits.dev, self.encode, kind)
        self.train_texts, self.ids = train.texts, train.texts.ids
        self.texts = TextInputs(train.texts.texts)
        self.train_labels, self.dev_labels = (
            train.label_ids(self.tags),
            self.dev.label_ids(self.tags),
        )

    def labels_of(self, examples: NDArray[np.int64]) -> Tensor:
        """The tag ids of the pieces or characters of these training texts, (B, T)."""
        rows = [self.train_labels[i] for i in examples]
        return collate(rows, IGNORE_INDEX, self.device).input_ids

    def epoch(self, number: int) -> LazyBatches[LabelledBatch]:
        """The batches of an epoch; the characters of each view have the pieces of that view."""
        views = [self._view(number, view) for view in range(2 if self.rdrop_alpha > 0 else 1)]
        lengths = np.stack([view.ids.lengths for view in views], -1)  # (n, views)

        def build(examples: NDArray[np.int64]) -> LabelledBatch:
            rows = [view.ids[i] for view in views for i in examples]
            texts = collate(rows, self.tokenizer.padding_id, self.device)
            characters = [view.characters(examples, self.device) for view in views]
            return LabelledBatch(
                texts,
                self.labels_of(np.tile(examples, len(views))),
                two_views=len(views) > 1,
                characters=Characters.concat(characters),
            )

        return LazyBatches(self.index_batches(lengths, number), build)

    def _view(self, number: int, view: int) -> TokenizedTexts:
        """The augmented training texts of an epoch: a pure function of its number and the view."""
        rng, augmentation = self.augmentation_rng(number, view), self.recipe.augmentation
        texts = self.train_texts
        if augmentation.subword_sampling and isinstance(texts, CharacterTexts):
            chosen = np.flatnonzero(rng.random(len(texts.ids)) < augmentation.subword_sampling)
            sampled = self.sample_texts(texts.texts, chosen, ("sampling", number, view))
            texts = texts.with_pieces(chosen, sampled, self.encode)
        ids = drop_tokens(texts.ids, augmentation.token_dropout, self.tokenizer, rng)
        return replace(texts, ids=ids)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Cross-entropy of the tags, summed over them; with two views plus R-Drop."""
        tagged = batch.labels != IGNORE_INDEX  # (B, T)
        logits = forward(self.model, batch.texts, batch.characters)[tagged]  # (N, L)
        smoothing = self.recipe.training.label_smoothing
        if self.own_loss is None:
            loss = cross_entropy(logits, batch.labels[tagged], smoothing)
        else:
            loss = self.own_loss(logits.float(), batch.labels[tagged])
        if batch.two_views:  # a pair counts as its two texts
            loss = loss + self.rdrop_alpha * rdrop_kl(*logits.chunk(2))
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """KLUE's entity F1 of the development texts, and their mean loss per tag."""
        texts = self.dev.texts
        log_p = log_probabilities(self.model, texts, self.tokenizer, self.device, processes)
        total, n = 0.0, 0
        for number, row in enumerate(log_p):
            labels = self.dev_labels[number]
            positions = np.flatnonzero(labels != IGNORE_INDEX)
            total -= float(row[positions, labels[positions]].sum())
            n += len(positions)
        predicted = viterbi_tags(texts, log_p, self.tags)
        truth, ours = (drop_spaces(tags, texts.texts) for tags in (self.dev.tags, predicted))
        own = own_scores(self.recipe.metric, truth, ours)
        score = next(iter(own.values()), entity_metrics(truth, ours).macro_f1)
        return DevResult(total / max(n, 1), score, self.recipe.selection_metric)
