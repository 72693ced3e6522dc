"""The recipe tables that belong to the tasks: model, vocabulary, augmentation, masking, windows."""

import math
import os
from dataclasses import dataclass
from typing import Literal

from jumok.config_io import check_choices, check_range
from jumok.errors import RecipeError
from jumok.models.config import Pooler, Pooling, TransformerConfig
from jumok.nn.config import check_dimension
from jumok.tasks.registry import ARCHITECTURES, TRANSFORMER
from jumok.text.sentencepiece import VocabularyConfig

ModelKind = Literal["encoder", "decoder", "encoder_decoder"]
Tagging = Literal["pieces", "characters"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(TransformerConfig):
    """The [model] table: the hyperparameters of the Transformer and its kind."""

    architecture: str = TRANSFORMER  # or a model in the registry "jumok.models"
    kind: ModelKind = "encoder"
    pooling: Pooling = "mean"  # of an encoder with a classification head
    pooler: Pooler = "none"  # a layer after the pooling: "tanh" in BERT
    tagging: Tagging = "pieces"  # what a tagger labels: tokens, or characters above an encoder
    generator: float = 0.0  # ELECTRA: width of a generator relative to d_model; 0: masked tokens
    generator_layers: int = 4
    init: str = ""  # a run or checkpoint whose tokenizer and backbone weights to use
    candidates: tuple[str, ...] = ()  # with training.method: the best of them becomes `init`
    size: Literal["given", "auto"] = "given"  # auto: layers and width by training.minutes

    def __post_init__(self) -> None:
        super().__post_init__()
        ARCHITECTURES.check(self.architecture)
        check_dimension("generator_layers", self.generator_layers)
        if self.head_transform and self.pooler != "none":
            raise RecipeError(
                "recipe.pooler_and_head_transform",
                'model.pooler must be "none" with model.head_transform, which takes its place, got '
                '"{pooler}"; leave one of them out',
                pooler=self.pooler,
            )
        if not 0.0 <= self.generator <= 1.0 or self.generator * self.n_heads % 1:
            raise RecipeError(
                "recipe.generator_fraction",
                "model.generator must be 0 (none), or a fraction that leaves a whole number of "
                "the {n_heads} heads, got {generator}; try {n_heads_2:g}",
                n_heads=self.n_heads,
                generator=self.generator,
                n_heads_2=1 / self.n_heads,
            )


@dataclass(frozen=True, kw_only=True)
class VocabularyRecipe(VocabularyConfig):
    """The [vocabulary] table: an existing SentencePiece model, or how to train one."""

    file: str = ""  # an existing .model; `data.pieces` needs the one that tokenized the data
    joint: bool = True  # one model for sources and targets; false: one for each side
    target_file: str = ""  # an existing .model for targets
    target_size: int = 0  # vocabulary size for targets; 0: the same as `size`

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "file", os.path.expanduser(self.file))
        object.__setattr__(self, "target_file", os.path.expanduser(self.target_file))
        if self.joint and (self.target_file or self.target_size):
            raise RecipeError(
                "recipe.target_vocabulary_of_joint",
                "vocabulary.target_file and target_size need a second vocabulary; set "
                "vocabulary.joint = false, or leave them out",
            )


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """The [augmentation] table: random changes to the training texts in every epoch."""

    subword_sampling: float = 0.0  # fraction of texts with a sampled segmentation
    sampling_alpha: float = 0.2  # unigram: P(segmentation)^alpha; bpe: merge dropout
    token_dropout: float = 0.0  # fraction of tokens replaced by [MASK]
    rdrop_alpha: float = 0.0  # alpha of R-Drop (Liang et al. 2021)

    def __post_init__(self) -> None:
        for name in ("subword_sampling", "token_dropout"):
            check_range(f"augmentation.{name}", getattr(self, name), "[0, 1]")
        check_range("augmentation.rdrop_alpha", self.rdrop_alpha, "[0, inf)")
        check_range("augmentation.sampling_alpha", self.sampling_alpha, "(0, inf)")


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """The [masking] table: which tokens a masked language model must predict."""

    mlm_probability: float = 0.15  # fraction of the tokens of a text, at least one token
    final_probability: float = 0.0  # the fraction after `falling_epochs`; 0: it does not change
    falling_epochs: float = 1.0  # epochs in which the fraction changes linearly
    whole_words: bool = False  # mask all pieces of an eojeol (a space-separated word) together
    cooccurrence_init: bool = False  # token embeddings begin from co-occurrence in the texts
    packed: bool = False  # rows of max_length tokens, texts end to end: a static shape for a GPU

    def __post_init__(self) -> None:
        check_range("masking.mlm_probability", self.mlm_probability, "(0, 1)")
        check_range("masking.final_probability", self.final_probability, "[0, 1)")
        check_range("masking.falling_epochs", self.falling_epochs, "(0, inf)")

    def probability(self, epochs: float) -> float:
        """The fraction of the tokens that is masked after some epochs.

        >>> MaskingConfig(mlm_probability=0.3, final_probability=0.1).probability(0.5)
        0.2
        """
        if not self.final_probability:
            return self.mlm_probability
        done = min(epochs / self.falling_epochs, 1.0)
        change = self.final_probability - self.mlm_probability
        return round(self.mlm_probability + done * change, 12)


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """The [distillation] table: learn from the predictions of finished runs too.

    For the task similarity: from their vectors alone, of the texts of the pairs and of added ones.
    For masked language modeling: from their hidden states too.
    """

    teachers: tuple[str, ...] = ()  # runs of the same labels, or encoders; they are averaged
    temperature: float = 1.0  # above 1: softer probabilities, of teachers and student
    weight: float = 1.0  # of the divergence from the teachers, added to the loss of the labels
    corpus: str = ""  # a known corpus whose training texts are added without a label or score
    texts: str = ""  # or a file of such texts, one a line
    rows: int = 0  # the maximum of added texts; 0: all
    token_vectors: bool = False  # similarity: begin from the vectors of single pieces
    relational: float = 0.0  # similarity: weight of the cosines between the texts of a batch
    scores: float = 0.0  # similarity: weight of the correlation with the scores of pairs
    layer: int = 0  # masked language modeling: after which layer the states are read; 0: the last

    def __post_init__(self) -> None:
        check_range("distillation.temperature", self.temperature, "(0, inf)")
        check_range("distillation.weight", self.weight, "(0, inf)")
        check_range("distillation.relational", self.relational, "[0, inf)")
        check_range("distillation.scores", self.scores, "[0, inf)")
        check_range("distillation.layer", self.layer, "[0, inf)", "; 0 is the last")
        _check_added_texts("distillation", self.corpus, self.texts, self.rows)
        if not self.teachers and (self.corpus or self.texts or self.layer):
            raise RecipeError(
                "recipe.no_teachers",
                "distillation.teachers must name at least one run; leave the table out otherwise",
            )


def _check_added_texts(table: str, corpus: str, texts: str, rows: int) -> None:
    """Raise InputError when both a corpus and a file are named, or for a negative maximum."""
    check_range(f"{table}.rows", rows, "[0, inf)", "; 0 reads all")
    if corpus and texts:
        raise RecipeError(
            "recipe.corpus_and_texts",
            "{table}.corpus and texts both name the texts; leave one of them out",
            table=table,
        )


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """The [windows] table: how a language model reads documents; the width is model.max_length."""

    across_documents: bool = False  # True: one token stream of all documents, as in nanoGPT
    overlap: float = 0.5  # fraction of a window that is context only when long documents are scored

    def __post_init__(self) -> None:
        check_range("windows.overlap", self.overlap, "[0, 1)")


@dataclass(frozen=True, kw_only=True)
class RegressionConfig:
    """The [regression] table: the range of the scores that the model maps to 0 to 1, and the loss.

    "ranking" is for pairs in a training file where the rows of one first text follow each other:
    the second text with the highest score must have the highest output among them.
    """

    lowest: float = 0.0
    highest: float = 1.0
    loss: Literal["squared_error", "ranking"] = "squared_error"

    def __post_init__(self) -> None:
        check_choices(self, "regression")
        if not self.lowest < self.highest or not math.isfinite(self.span):
            raise RecipeError(
                "recipe.regression_range",
                "regression.lowest must be below highest, both finite, got {lowest} and {highest}; "
                "give the range of the scores",
                lowest=self.lowest,
                highest=self.highest,
            )

    @property
    def span(self) -> float:
        """The length of the range."""
        return self.highest - self.lowest


@dataclass(frozen=True, kw_only=True)
class MultiLabelConfig:
    """The [multi_label] table: which labels are predicted."""

    threshold: float = 0.5  # the smallest probability of a predicted label

    def __post_init__(self) -> None:
        check_range("multi_label.threshold", self.threshold, "(0, 1)", "; try 0.5")


@dataclass(frozen=True, kw_only=True)
class SimilarityConfig:
    """The [similarity] table: which pairs of texts are similar, if the data has no scores."""

    temperature: float = 0.05  # of the softmax over the second texts of a batch
    positive: str = ""  # the label of pairs that belong together; "": all pairs, without labels
    negative: str = ""  # the label of pairs whose second texts are further candidates; "": none
    corpus: str = ""  # a known corpus whose texts are the training data, each a pair with itself
    texts: str = ""  # or a file of such texts, one a line
    rows: int = 0  # the maximum of such texts; 0: all

    def __post_init__(self) -> None:
        _check_added_texts("similarity", self.corpus, self.texts, self.rows)
        check_range("similarity.temperature", self.temperature, "(0, inf)", "; try 0.05")
        if self.negative and (not self.positive or self.negative == self.positive):
            raise RecipeError(
                "recipe.negative_without_positive",
                "similarity.negative needs another label as similarity.positive, got "
                "{negative!r} and {positive!r}; set both, or leave out negative",
                negative=self.negative,
                positive=self.positive,
            )
