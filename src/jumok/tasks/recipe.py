"""A recipe: everything needed to repeat a result, as a person writes it in TOML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Literal

from jumok.config import build, nearest, override, plain, read_toml, to_toml
from jumok.data.corpora import DataConfig
from jumok.data.known import known_corpus
from jumok.decoding.config import DecodingConfig
from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.heads import Pooler, Pooling
from jumok.tasks.masking import MaskingConfig
from jumok.tasks.measures import with_measures
from jumok.tasks.windows import WindowConfig
from jumok.text.sentencepiece import VocabularyConfig
from jumok.training.config import TrainingConfig

Kind = Literal["encoder", "decoder", "encoder_decoder"]
TaskName = Literal[
    "classification",
    "regression",
    "tagging",
    "sequence_to_sequence",
    "language_modeling",
    "masked_language_modeling",
]
Metric = Literal[
    "accuracy",
    "macro_f1",
    "pearson",
    "spearman",
    "entity_f1",
    "exact_match",
    "bleu",
    "chrf",
    "perplexity",
    "bits_per_byte",
]


@dataclass(frozen=True)
class Choices:
    """What a recipe may choose for a task; the first of each is what is chosen for it."""

    kinds: tuple[Kind, ...]  # of model
    metrics: tuple[Metric, ...]  # what the best weights are chosen by


CHOICES: Mapping[TaskName, Choices] = {
    "classification": Choices(("encoder", "encoder_decoder"), ("accuracy", "macro_f1")),
    "regression": Choices(("encoder",), ("pearson", "spearman")),
    "tagging": Choices(("encoder",), ("entity_f1",)),
    "sequence_to_sequence": Choices(("encoder_decoder",), ("exact_match", "bleu", "chrf")),
    "language_modeling": Choices(("decoder",), ("bits_per_byte", "perplexity")),
    "masked_language_modeling": Choices(("encoder",), ("perplexity",)),
}


WRITING: tuple[TaskName, ...] = ("sequence_to_sequence", "language_modeling")

# Tables, and keys of [augmentation], that mean nothing to some tasks: who reads them, and what to
# say to the others.
READ_BY: Mapping[str, tuple[tuple[TaskName, ...], str]] = {
    "decoding": (WRITING, "which writes nothing"),
    "windows": (("language_modeling",), "which reads no windows"),
    "masking": (("masked_language_modeling",), "which guesses nothing hidden"),
    "regression": (("regression",), "which learns no scores"),
}
AUGMENTED: Mapping[str, tuple[TaskName, ...]] = {
    "subword_sampling": (
        "classification",
        "regression",
        "sequence_to_sequence",
        "masked_language_modeling",
    ),
    "token_dropout": ("classification", "regression", "tagging"),
    "consistency": ("classification", "regression", "tagging", "sequence_to_sequence"),
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig(TransformerConfig):
    """The [model] table: the measures of the Transformer, and which kind it is."""

    kind: Kind = "encoder"
    pooling: Pooling = "mean"  # of an encoder that classifies
    pooler: Pooler = "none"  # a layer of its own behind the pooling: "tanh" in BERT
    init: str = ""  # a run or checkpoint to begin from: its vocabulary, measures, towers' weights


@dataclass(frozen=True, kw_only=True)
class VocabularyChoice(VocabularyConfig):
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
    sampling_alpha: float = 0.2  # how flat the distribution is that they are sampled from
    token_dropout: float = 0.0  # share of tokens replaced by [MASK]
    consistency: float = 0.0  # weight of R-Drop: a text seen twice must be answered alike

    def __post_init__(self) -> None:
        for name in ("subword_sampling", "token_dropout"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"augmentation.{name} {getattr(self, name)}: give 0 to 1")
        if self.consistency < 0.0 or self.sampling_alpha <= 0.0:
            raise InputError(
                f"augmentation.consistency {self.consistency} and sampling_alpha "
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

    @property
    def span(self) -> float:
        """From the lowest to the highest."""
        return self.highest - self.lowest


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training, from data to score."""

    name: str
    task: TaskName
    training: TrainingConfig
    metric: Metric | None = None  # what the best weights are chosen by; None: the task's first
    seed: int = 0
    device: str = "auto"
    data: DataConfig = field(default_factory=DataConfig)
    vocabulary: VocabularyChoice = field(default_factory=VocabularyChoice)
    model: ModelConfig = field(default_factory=ModelConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    regression: RegressionConfig = field(default_factory=RegressionConfig)
    windows: WindowConfig = field(default_factory=WindowConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # of tests and answers

    def __post_init__(self) -> None:
        if not self.name or set(self.name) & set("/\\\0") or self.name in (".", ".."):
            raise InputError(f"name {self.name!r} cannot name a folder; use letters and digits")
        choices = CHOICES[self.task]
        if self.metric is not None and self.metric not in choices.metrics:
            raise InputError(
                f"metric {self.metric} is not one of {self.task}; "
                f"choose from {', '.join(choices.metrics)}"
            )
        if self.model.kind not in choices.kinds:
            raise InputError(
                f'model.kind "{self.model.kind}" does not fit the task {self.task}; '
                f'set model.kind = "{choices.kinds[0]}"'
            )
        self._refuse_unread()
        if not self.vocabulary.joint and self.task != "sequence_to_sequence":
            raise InputError(
                f"vocabulary.joint = false came with the task {self.task}, which has one kind of "
                "text; leave it out"
            )
        if self.vocabulary.file and self.model.init:
            raise InputError(
                "vocabulary.file and model.init both name a vocabulary; leave out vocabulary.file"
            )
        if self.data.pieces and self.task != "classification":
            raise InputError(
                f"data.pieces came with the task {self.task}; only texts to classify "
                "may be cut already"
            )
        one_segment = self.model.n_segments == 1 and not self.model.init  # as RoBERTa has it
        if self.paired and (self.data.pieces or one_segment):
            raise InputError(
                f"pairs came with data.pieces {str(self.data.pieces).lower()} and model.n_segments "
                f"{self.model.n_segments}; give pairs as text, and 2 segments, or 0 for none"
            )
        if self.model.pooling == "compare" and not (self.paired and self.model.n_segments == 2):
            raise InputError(
                'model.pooling "compare" puts two texts beside each other; give pairs '
                "(data.pair) and model.n_segments = 2, or choose another"
            )
        if self.task == "tagging" and self.vocabulary.byte_fallback:
            raise InputError(
                "vocabulary.byte_fallback spells rare characters in bytes, and a byte has no tag "
                "of its own; leave it out"
            )
        if self.data.pieces and self.augmentation.subword_sampling:
            raise InputError(
                "data.pieces are cut already, and augmentation.subword_sampling cuts texts anew; "
                "set one of them to 0 or false"
            )

    def _refuse_unread(self) -> None:
        """Raises InputError for settings that the task would not look at."""
        for table, (readers, reason) in READ_BY.items():
            given = getattr(self, table)
            if given != type(given)() and self.task not in readers:
                raise InputError(
                    f"[{table}] came with the task {self.task}, {reason}; leave it out"
                )
        if self.task == "tagging" and self.augmentation.subword_sampling:
            raise InputError(
                "augmentation.subword_sampling cuts texts anew, and the tags of a text lie on its "
                "best cut; set it to 0"
            )
        for key, users in AUGMENTED.items():
            value = getattr(self.augmentation, key)
            if value and self.task not in users:
                raise InputError(
                    f"augmentation.{key} {value} came with the task {self.task}, whose texts are "
                    f"not changed so; set it to 0, or choose from {', '.join(users)}"
                )

    @property
    def paired(self) -> bool:
        """Whether a row holds two texts: `data.pair` says so, or the corpus has them."""
        columns = known_corpus(self.data.corpus).columns if self.data.corpus else ()
        return bool(self.data.pair) or "pair" in columns

    @property
    def score(self) -> Metric:
        """What the best weights are chosen by."""
        return self.metric or CHOICES[self.task].metrics[0]

    def with_vocabulary(self, size: int, target_size: int | None = None) -> "Recipe":
        """The same recipe once the size of its vocabulary is known, or of both."""
        if self.model.vocabulary_size not in (TransformerConfig().vocabulary_size, size):
            raise InputError(
                f"model.vocabulary_size {self.model.vocabulary_size} is not the vocabulary's "
                f"{size}; leave it out"
            )
        if self.model.target_vocabulary_size not in (None, target_size):
            raise InputError(
                f"model.target_vocabulary_size {self.model.target_vocabulary_size} is not that of "
                "a second vocabulary; leave it out, and set vocabulary.joint = false to have one"
            )
        model = replace(self.model, vocabulary_size=size, target_vocabulary_size=target_size)
        return replace(self, model=model)

    def with_decoding(self, words: Sequence[str]) -> "Recipe":
        """The same recipe, `key=value` words laid over its [decoding] table."""
        if self.task not in WRITING:
            raise InputError(f"a model of the task {self.task} writes nothing; leave decoding out")
        decoding = build(DecodingConfig, override(plain(self.decoding), words), "decoding")
        return replace(self, decoding=decoding)

    def to_toml(self) -> str:
        """The recipe as text, every default written out."""
        return to_toml(plain(self))


def built_in() -> dict[str, Path]:
    """The recipes that ship with jumok, by name."""
    folder = resources.files("jumok") / "recipes"
    paths = [Path(str(entry)) for entry in folder.iterdir()]
    return {path.stem: path for path in sorted(paths) if path.suffix == ".toml"}


def load_recipe(source: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of that built-in name or in that .toml file, `key=value` words laid over it.

    Raises InputError for a name that is not known, an unknown key, or a value that does not fit.
    """
    if source.endswith(".toml"):
        path = Path(source)
    else:
        known = built_in()
        if source not in known:
            raise InputError(
                f"{source!r} is no built-in recipe ({nearest(source, list(known))}) and no .toml "
                "file; name one of them"
            )
        path = known[source]
    tree = with_measures({"name": path.stem} | read_toml(path), overrides)
    return build(Recipe, tree)
