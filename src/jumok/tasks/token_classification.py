"""TokenClassification: a tag for each character of a text, such as who and where the names in it are.

The model tags pieces. A piece is learnt with the first tag in it that is not O, and its tag is
laid on all of its characters again; which tags follow which is put right by `bio.likeliest`. With
a vocabulary of characters (`vocabulary.kind = "char"`) nothing is lost on the way; with longer
pieces, which may straddle the borders of names, `reachable_f1` tells what a model that tags all
pieces as the data do would score. Shapes: B texts, T pieces, N tagged pieces, L tags.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.splits import TAGGING, Splits
from jumok.data.table import Table
from jumok.evaluation import classification_metrics, entity_metrics
from jumok.evaluation.entities import entities
from jumok.evaluation.examples import Example
from jumok.models import TokenClassifier
from jumok.nn.losses import cross_entropy, rdrop_kl
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs import bio
from jumok.tasks.inputs.batches import (
    EVAL_BATCH_TOKENS,
    LazyBatches,
    PaddedBatch,
    batches_by_length,
    collate,
)
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.jobs.epoch_sampler import EpochSampler
from jumok.tasks.pipeline.distributed_map import TENSOR_CODEC, distributed_map
from jumok.tasks.pipeline.outputs import EvaluationResult, NamedEntity, TokenClassification
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.offsets import Span, offsets
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult

if TYPE_CHECKING:
    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.pipeline.pipeline import Pipeline

MAX_EXAMPLES = 30  # examples in a report
IGNORE_INDEX = -1  # of [CLS], padding and pieces of no characters


@dataclass(frozen=True)
class TagBatch:
    """Texts of like length and the numbers of their tags (B, T), UNTAGGED where there is none.

    With `twice` the second half are the texts of the first half, augmented in another way.
    """

    texts: PaddedBatch
    labels: Tensor
    two_views: bool = False

    @property
    def tokens(self) -> int:
        """Real tokens."""
        return self.texts.n_tokens

    @property
    def n_targets(self) -> int:
        """Tagged pieces."""
        return int((self.labels != IGNORE_INDEX).sum())


@dataclass(frozen=True)
class TokenizedTexts:
    """Texts, the ids a model reads of them, and the characters that some of the ids stand for.

    [CLS] stands for none, nor does the space that a vocabulary may put before a text, nor what an
    imported tokeniser puts behind it. `places` are the places of the others in each row of ids.
    """

    texts: Sequence[str]
    ids: Ragged
    spans: Sequence[Sequence[Span]]
    positions: Sequence[Sequence[int]]

    @classmethod
    def encode(cls, texts: Sequence[str], encode: TextEncoder) -> "TokenizedTexts":
        """The texts as `encode` reads them. Raises InputError when its vocabulary rewrites one."""
        ids = encode(texts)
        before, behind = encode.tokenizer.input_template.n_before_and_after()
        read = (_spans(text, encode.tokenizer) for text in texts)
        lengths = ids.lengths - before - behind
        from_end = encode.tokenizer.truncation_side == "left"
        kept = [
            row[len(row) - n :] if from_end else row[:n]
            for row, n in zip(read, lengths.tolist(), strict=True)
        ]
        places = [[before + at for at, (i, j) in enumerate(row) if i < j] for row in kept]
        return cls(texts, ids, [[(i, j) for i, j in row if i < j] for row in kept], places)

    def at_pieces(self, row: NDArray[np.float32], number: int) -> NDArray[np.float32]:
        """What a model says to the ids of a row (T, L), of those that stand for characters."""
        return row[self.positions[number]]


@dataclass(frozen=True)
class LabelledTokens:
    """Texts and the tags wanted for their characters."""

    texts: TokenizedTexts
    tags: Sequence[Sequence[str]]

    @classmethod
    def from_table(cls, table: Table, encode: TextEncoder) -> "LabelledTokens":
        """The rows of a table."""
        texts = TokenizedTexts.encode(list(table.column("text")), encode)
        return cls(texts, [tags.split(" ") for tags in table.column("tags")])

    def piece_tags(self) -> list[list[str]]:
        """The tags to be learnt: of the pieces that stand for characters."""
        return [
            bio.piece_tags(tags, spans)
            for tags, spans in zip(self.tags, self.texts.spans, strict=True)
        ]

    def label_ids(self, tags: Sequence[str]) -> Ragged:
        """The numbers of the tags to be learnt, row by row like the ids, or UNTAGGED."""
        numbers = {tag: number for number, tag in enumerate(tags)}
        ids = self.texts.ids
        wanted = Ragged(np.full_like(ids.ids, IGNORE_INDEX), ids.offsets)
        for number, (row, places) in enumerate(
            zip(self.piece_tags(), self.texts.positions, strict=True)
        ):
            wanted[number][places] = [numbers[tag] for tag in row]
        return wanted


class TokenClassificationJob:
    """What a trainer needs to train a tagger by a recipe."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabulary: Tokenizer,
        train: LabelledTokens,
        dev: LabelledTokens,
        tags: Sequence[str],
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.tags, self.device = tags, device
        self.dev = dev
        self.wanted, self.dev_wanted = train.label_ids(tags), dev.label_ids(tags)
        texts = train.texts
        self.epochs = EpochSampler(recipe, vocabulary, TextInputs(texts.texts), texts.ids, device)

    def epoch(self, number: int) -> LazyBatches[TagBatch]:
        """Batches of like length, in an order and with the hidden tokens of this epoch."""

        def batch(texts: PaddedBatch, rows: NDArray[np.int64]) -> TagBatch:
            wanted = collate([self.wanted[i] for i in rows], IGNORE_INDEX, self.device).input_ids
            return TagBatch(texts, wanted, self.epochs.two_views)

        return self.epochs.batches(number, batch)

    def loss(self, batch: TagBatch) -> Tensor:
        """Cross-entropy of the tags, summed over the pieces; of texts seen twice R-Drop's too."""
        tagged = batch.labels != IGNORE_INDEX  # (B, T)
        logits = forward(self.model, batch.texts)[tagged]  # (N, L)
        smoothing = self.recipe.training.label_smoothing
        loss = cross_entropy(logits, batch.labels[tagged], smoothing)
        if batch.two_views:
            weight = self.recipe.augmentation.rdrop_alpha  # a pair counts as its two texts
            loss = loss + weight * rdrop_kl(*logits.chunk(2))
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """KLUE's entity F1 of the development texts, and their mean loss a piece."""
        found = log_probabilities(
            self.model, self.dev.texts.ids, self.vocabulary, self.device, processes
        )
        total, n = 0.0, 0
        for number, row in enumerate(found):
            wanted = self.dev_wanted[number]
            places = np.flatnonzero(wanted != IGNORE_INDEX)
            total -= float(row[places, wanted[places]].sum())
            n += len(places)
        texts = self.dev.texts
        guessed = viterbi_tags(texts, found, self.tags)
        rows = (drop_spaces(tags, texts.texts) for tags in (self.dev.tags, guessed))
        score = entity_metrics(*rows).macro_f1
        return DevResult(total / max(n, 1), score, self.recipe.selection_metric)


class TokenClassificationTask:
    """The task: a tag for each character."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """A text and the tags of its characters."""
        return TAGGING

    def vocabulary_texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """The training texts."""
        yield from train.column("text")

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder and a linear map from each of its outputs to the tags."""
        return TokenClassifier(config, len(labels))

    def build_job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabularies: "TokenizerPair",
        splits: Splits,
        device: torch.device,
    ) -> TokenClassificationJob:
        """What a trainer needs."""
        encode = TextEncoder(vocabularies.source, recipe.model.max_length)
        train, dev = (
            LabelledTokens.from_table(table, encode) for table in (splits.train, splits.dev)
        )
        return TokenClassificationJob(
            recipe, model, vocabularies.source, train, dev, splits.labels, device
        )

    def evaluate(self, loaded: "Pipeline", table: Table, split: str) -> EvaluationResult:
        """F1 of whole entities and of characters' tags, as KLUE counts them (Park et al. 2021).

        `entity_f1` is the mean F1 of the types of entities, each right only with its type and from
        its first character to its last; `entity_micro_f1` counts every entity the same.
        `character_f1` is the mean F1 of all tags, O among them, over the characters. What a space
        is tagged with counts nowhere.
        """
        encode = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length)
        data = LabelledTokens.from_table(table, encode)
        texts = data.texts
        guessed = predict_tags(loaded, texts)
        best = char_tags(data.piece_tags(), texts)
        rows = (drop_spaces(tags, texts.texts) for tags in (data.tags, guessed, best))
        wanted, ours, reachable = rows
        found, reached = entity_metrics(wanted, ours), entity_metrics(wanted, reachable)
        return EvaluationResult(
            {
                "task": loaded.recipe.task,
                "split": split,
                "n": found.n,
                "entity_f1": found.macro_f1,
                "entity_micro_f1": found.f1,
                "character_f1": character_f1(wanted, ours),
                "reachable_f1": reached.macro_f1,
            },
            examples=_examples(texts.texts, data.tags, guessed),
        )

    def predict(self, loaded: "Pipeline", texts: Sequence[str]) -> list[TokenClassification]:
        """The entities of each text, with the places of their characters."""
        encode = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length)
        found = predict_tags(loaded, TokenizedTexts.encode(texts, encode))
        return [to_entities(text, tags) for text, tags in zip(texts, found, strict=True)]


def _spans(text: str, vocabulary: Tokenizer) -> Sequence[Span]:
    """The characters of a text that each of its pieces stands for."""
    if isinstance(vocabulary, PretrainedTokenizer):
        return vocabulary.spans(text)
    return offsets(text, vocabulary.pieces(text))


def forward(model: nn.Module, texts: PaddedBatch) -> Tensor:
    """Logits (B, T, L) of a batch."""
    return model(texts.input_ids, texts.attention_mask)  # type: ignore[no-any-return]


@torch.inference_mode()
def log_probabilities(
    model: nn.Module,
    rows: Ragged,
    vocabulary: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> list[NDArray[np.float32]]:
    """log p (T, L) of the tags of every row's ids, in the order of the rows."""

    def answer(batch: NDArray[np.int64]) -> dict[str, Tensor]:
        texts = collate([rows[i] for i in batch], vocabulary.padding_id, device)
        return {"log_p": forward(model, texts).float().log_softmax(-1).cpu()}  # (B, T, L)

    plan = batches_by_length(rows, EVAL_BATCH_TOKENS)
    found: dict[int, NDArray[np.float32]] = {}
    for batch, part in zip(
        plan, distributed_map(plan, answer, processes, TENSOR_CODEC), strict=True
    ):
        for i, row in zip(batch, part["log_p"].numpy(), strict=True):
            found[int(i)] = row[: rows.lengths[i]]
    return [found[i] for i in range(len(rows))]


def viterbi_tags(
    texts: TokenizedTexts, log_p: Sequence[NDArray[np.float32]], tags: Sequence[str]
) -> list[list[str]]:
    """The tags of all characters, from log p (T, L) of those of the ids, valid row by row."""
    of_pieces = [
        [tags[number] for number in bio.viterbi(texts.at_pieces(row, i), tags)]
        for i, row in enumerate(log_p)
    ]
    return char_tags(of_pieces, texts)


def predict_tags(loaded: "Pipeline", texts: TokenizedTexts) -> list[list[str]]:
    """The tags that a model gives to the characters of texts."""
    log_p = log_probabilities(
        loaded.model, texts.ids, loaded.vocabulary, loaded.device, loaded.processes
    )
    return viterbi_tags(texts, log_p, loaded.labels)


def char_tags(of_pieces: Sequence[Sequence[str]], texts: TokenizedTexts) -> list[list[str]]:
    """The tags of all characters, from those of the pieces."""
    rows = zip(of_pieces, texts.spans, texts.texts, strict=True)
    return [bio.char_tags(tags, spans, text) for tags, spans, text in rows]


def drop_spaces(rows: Sequence[Sequence[str]], texts: Sequence[str]) -> list[list[str]]:
    """The tags of all characters but spaces, which KLUE leaves out before it counts.

    >>> without_spaces([["B-LC", "I-LC", "I-LC", "O"]], ["서울 은"])
    [['B-LC', 'I-LC', 'O']]
    """
    return [
        [tag for tag, character in zip(tags, text, strict=True) if character != " "]
        for tags, text in zip(rows, texts, strict=True)
    ]


def character_f1(wanted: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]) -> float:
    """The mean F1 of the tags that are wanted or guessed, O among them, over all characters.

    >>> round(character_f1([["B-PS", "I-PS", "O", "O"]], [["B-PS", "O", "O", "O"]]), 3)
    0.6
    """
    ours, theirs = list(chain.from_iterable(guessed)), list(chain.from_iterable(wanted))
    numbers = {tag: number for number, tag in enumerate(sorted({*ours, *theirs}))}
    wanted_numbers, guessed_numbers = ([numbers[tag] for tag in tags] for tags in (theirs, ours))
    return classification_metrics(wanted_numbers, guessed_numbers, len(numbers)).macro_f1


def to_entities(text: str, tags: Sequence[str]) -> TokenClassification:
    """The answer that the tags of a text's characters are.

    >>> named("서울에", ["B-LC", "I-LC", "O"]).entities
    (NamedEntity(type='LC', start=0, end=2, text='서울'),)
    """
    found = sorted(entities(tags), key=lambda entity: entity.start)
    return TokenClassification(
        text, tuple(NamedEntity(kind, start, stop, text[start:stop]) for kind, start, stop in found)
    )


def _examples(
    texts: Sequence[str], wanted: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]
) -> list[Example]:
    """Some texts with their entities in brackets, wrong ones first."""
    order = sorted(range(len(texts)), key=lambda i: list(wanted[i]) == list(guessed[i]))
    return [
        Example(
            texts[i],
            to_entities(texts[i], wanted[i]).display,
            to_entities(texts[i], guessed[i]).display,
        )
        for i in order[:MAX_EXAMPLES]
    ]
