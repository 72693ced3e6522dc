"""The tables of a recipe that are its tasks' own: model, vocabulary, augmentation, regression."""

import math
from dataclasses import dataclass

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.pooling import Pooler, Pooling
from jumok.tasks.recipe.task_spec import ModelKind
from jumok.text.sentencepiece import VocabularyConfig


@dataclass(frozen=True, kw_only=True)
class ModelConfig(TransformerConfig):
    """The [model] table: the measures of the Transformer, and which kind it is."""

    kind: ModelKind = "encoder"
    pooling: Pooling = "mean"  # of an encoder that classifies
    pooler: Pooler = "none"  # a layer of its own behind the pooling: "tanh" in BERT
    init: str = ""  # a run or checkpoint to begin from: its vocabulary, measures, towers' weights


@dataclass(frozen=True, kw_only=True)
class VocabularyRecipe(VocabularyConfig):
    """The [vocabulary] table: a SentencePiece model that exists, or how one is trained."""

    file: str = ""  # an existing .model: pieces of `data.pieces` need the one that cut them
    joint: bool = True  # one for sources and targets; false: one for each side
    target_file: str = ""  # the target's own
    target_size: int = 0  # pieces of the target's own; 0: as many as `size`

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joint and (self.target_file or self.target_size):
            raise InputError(
                "vocabulary.target_file and target_size speak of a second vocabulary; "
                "set vocabulary.joint = false, or leave them out"
            )


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """The [augmentation] table: the same texts in other words, anew in every epoch."""

    subword_sampling: float = 0.0  # share of texts cut into sampled pieces instead of the best
    sampling_alpha: float = 0.2  # unigram: P(cut)^alpha; bpe: probability of forgetting a merge
    token_dropout: float = 0.0  # share of tokens replaced by [MASK]
    rdrop_alpha: float = 0.0  # alpha of R-Drop (Liang et al. 2021)

    def __post_init__(self) -> None:
        for name in ("subword_sampling", "token_dropout"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"augmentation.{name} {getattr(self, name)}: give 0 to 1")
        if not (0.0 <= self.rdrop_alpha < math.inf and 0.0 < self.sampling_alpha < math.inf):
            raise InputError(
                f"augmentation.rdrop_alpha {self.rdrop_alpha} and sampling_alpha "
                f"{self.sampling_alpha}: give 0 or more, and more than 0"
            )


@dataclass(frozen=True, kw_only=True)
class RegressionConfig:
    """The [regression] table: which scores of the data the model's 0 and 1 stand for."""

    lowest: float = 0.0
    highest: float = 1.0

    def __post_init__(self) -> None:
        if not self.lowest < self.highest:
            raise InputError(
                f"regression.lowest {self.lowest} is not below highest {self.highest}; "
                "give the range of the scores"
            )
        if not math.isfinite(self.span):
            raise InputError(
                f"regression.lowest {self.lowest} and highest {self.highest} have no range that "
                "could be learnt; give that of the scores"
            )

    @property
    def span(self) -> float:
        """From the lowest to the highest."""
        return self.highest - self.lowest
