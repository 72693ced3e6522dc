"""A recipe: everything needed to repeat a result, as a person writes it in TOML."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from jumok.config_io import apply_overrides, from_dict, read_toml, suggest, to_dict, to_toml
from jumok.data.config import DataConfig
from jumok.data.corpora.registry import corpus_by_name
from jumok.decoding.config import DecodingConfig
from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.tasks.agreement import refuse_contradictions, refuse_strangers, refuse_unread
from jumok.tasks.inputs.masking import MaskingConfig
from jumok.tasks.inputs.windows import WindowConfig
from jumok.tasks.recipe.inherited_config import inherit_model_config
from jumok.tasks.recipe.tables import (
    AugmentationConfig,
    ModelConfig,
    RegressionConfig,
    VocabularyRecipe,
)
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS, TASK_SPECS, Metric, TaskName
from jumok.training.config import TrainingConfig


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
    vocabulary: VocabularyRecipe = field(default_factory=VocabularyRecipe)
    model: ModelConfig = field(default_factory=ModelConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    regression: RegressionConfig = field(default_factory=RegressionConfig)
    windows: WindowConfig = field(default_factory=WindowConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # of tests and answers

    def __post_init__(self) -> None:
        if not self.name or set(self.name) & set("/\\\0") or self.name in (".", ".."):
            raise InputError(f"name {self.name!r} cannot name a folder; use letters and digits")
        refuse_strangers(self)
        refuse_unread(self)
        refuse_contradictions(self)

    @property
    def paired(self) -> bool:
        """Whether a row holds two texts: `data.pair` says so, or the corpus has them."""
        columns = corpus_by_name(self.data.corpus).columns if self.data.corpus else ()
        return bool(self.data.pair) or "pair" in columns

    @property
    def selection_metric(self) -> Metric:
        """What the best weights are chosen by."""
        return self.metric or TASK_SPECS[self.task].metrics[0]

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

    def with_decoding(self, overrides: Sequence[str]) -> "Recipe":
        """The same recipe, `key=value` words laid over its [decoding] table."""
        if self.task not in GENERATIVE_TASKS:
            raise InputError(f"a model of the task {self.task} writes nothing; leave decoding out")
        decoding = from_dict(
            DecodingConfig, apply_overrides(to_dict(self.decoding), overrides), "decoding"
        )
        return replace(self, decoding=decoding)

    def to_toml(self) -> str:
        """The recipe as text, every default written out."""
        return to_toml(to_dict(self))


def builtin_recipes() -> dict[str, Path]:
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
        known = builtin_recipes()
        if source not in known:
            raise InputError(
                f"{source!r} is no built-in recipe ({suggest(source, list(known))}) and no .toml "
                "file; name one of them"
            )
        path = known[source]
    tree = inherit_model_config({"name": path.stem} | read_toml(path), overrides)
    return from_dict(Recipe, tree)
