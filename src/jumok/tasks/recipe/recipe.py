"""A recipe: everything needed to repeat a result, written in TOML, with the checks between keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from jumok.atomic_io import expand_home
from jumok.config_io import (
    Overrides,
    apply_overrides,
    check_choices,
    from_dict,
    read_toml,
    suggest,
    to_dict,
    to_toml,
)
from jumok.data.config import DataConfig
from jumok.data.corpora.registry import corpus_by_name
from jumok.data.files.label_sets import SEPARATOR
from jumok.decoding.config import DecodingConfig
from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.tasks.recipe.inherited_config import (
    inherit_model_config,
    with_shipped_model,
)
from jumok.tasks.recipe.tables import (
    AugmentationConfig,
    DistillationConfig,
    MaskingConfig,
    ModelConfig,
    MultiLabelConfig,
    RegressionConfig,
    SimilarityConfig,
    VocabularyRecipe,
    WindowConfig,
)
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS, TASK_SPECS, Metric, TaskName
from jumok.terminal import print_notice
from jumok.training.config import TrainingConfig

# The tasks that read a table, or a key of [augmentation]; the phrase describes the other tasks.
TABLE_TASKS: Mapping[str, tuple[tuple[TaskName, ...], str]] = {
    "decoding": (GENERATIVE_TASKS, "which generates no text"),
    "windows": (("language_modeling",), "which reads no windows"),
    "masking": (("masked_language_modeling",), "which masks no tokens"),
    "regression": (("regression", "similarity"), "which predicts no scores"),
    "multi_label": (("multi_label_classification",), "which predicts no sets of labels"),
    "similarity": (("similarity",), "which compares no vectors of texts"),
    "distillation": (
        ("classification", "similarity", "masked_language_modeling"),
        "which has no loss for it",
    ),
}
AUGMENTATION_TASKS: Mapping[str, tuple[TaskName, ...]] = {
    "subword_sampling": (
        "classification",
        "multi_label_classification",
        "regression",
        "tagging",
        "sequence_to_sequence",
        "masked_language_modeling",
    ),
    "token_dropout": (
        "classification",
        "multi_label_classification",
        "regression",
        "tagging",
    ),
    "rdrop_alpha": ("classification", "regression", "tagging", "sequence_to_sequence"),
}

PRETOKENIZED_TASKS: tuple[TaskName, ...] = (
    "classification",
    "multi_label_classification",
    "regression",
    "similarity",
)
UNSMOOTHED_TASKS: Mapping[TaskName, str] = {
    "regression": "which has no labels",
    "multi_label_classification": "which decides each label by itself",
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training, from the data to the test score.

    Raises InputError for values that exclude each other; `load_recipe` also for unknown keys.

    >>> recipe = load_recipe("numbers", ["training.steps=10"])
    >>> recipe.task, recipe.training.steps
    ('sequence_to_sequence', 10)
    """

    name: str
    task: TaskName
    training: TrainingConfig
    metric: Metric | None = None  # selects the best checkpoint; None: the task's first metric
    seed: int = 0
    device: str = "auto"
    data: DataConfig = field(default_factory=DataConfig)
    vocabulary: VocabularyRecipe = field(default_factory=VocabularyRecipe)
    model: ModelConfig = field(default_factory=ModelConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    regression: RegressionConfig = field(default_factory=RegressionConfig)
    multi_label: MultiLabelConfig = field(default_factory=MultiLabelConfig)
    similarity: SimilarityConfig = field(default_factory=SimilarityConfig)
    windows: WindowConfig = field(default_factory=WindowConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # of tests and predictions

    def __post_init__(self) -> None:
        check_choices(self)
        if not self.name or set(self.name) & set("/\\\0") or self.name in (".", ".."):
            raise InputError(f"name must be usable as a folder name, got {self.name!r}")
        _check_choices(self)
        _check_unused(self)
        _check_augmentation(self)
        _check_vocabulary(self)
        _check_similarity(self)
        _check_label_names(self)
        _check_pairs(self)
        _check_distillation(self)
        if self.training.lora.rank and not self.model.init:
            raise InputError(
                "training.lora needs model.init, a pretrained model whose weights stay as they "
                "are; set it, or leave training.lora out"
            )

    @property
    def paired(self) -> bool:
        """Whether a row holds two texts: `data.pair` is set, or the corpus has a pair column."""
        columns = corpus_by_name(self.data.corpus).columns if self.data.corpus else ()
        return bool(self.data.pair) or "pair" in columns

    @property
    def reads_pairs(self) -> bool:
        """Whether the model reads both texts of a pair in one row; for similarity it does not."""
        return self.paired and self.task != "similarity"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that the task reads, without "pair" for single texts."""
        if self.task == "similarity":
            return ("text", "pair", *self._supervision)
        columns = TASK_SPECS[self.task].columns
        return tuple(name for name in columns if name != "pair" or self.paired)

    @property
    def _supervision(self) -> tuple[str, ...]:
        """The column of a similarity task besides the two texts: a score, a label, or none."""
        if self.similarity.positive:
            return ("label",)
        known = corpus_by_name(self.data.corpus).columns if self.data.corpus else ()
        return ("score",) if self.data.score or "score" in known else ()

    @property
    def selection_metric(self) -> Metric:
        """The metric that selects the best checkpoint."""
        if self.task == "similarity" and "score" not in self.columns:
            return "accuracy"
        return self.metric or TASK_SPECS[self.task].metrics[0]

    def with_vocabulary(self, size: int, target_size: int | None = None) -> "Recipe":
        """A copy with the vocabulary size, or both sizes, filled in."""
        model = self.model
        if model.vocabulary_size not in (TransformerConfig().vocabulary_size, size):
            raise InputError(
                f"model.vocabulary_size must be the size of the vocabulary, {size}, got "
                f"{model.vocabulary_size}; leave it out"
            )
        if model.target_vocabulary_size not in (None, target_size):
            raise InputError(
                "model.target_vocabulary_size must be the size of a second vocabulary, got "
                f"{model.target_vocabulary_size}; leave it out, and set vocabulary.joint = false "
                "to have one"
            )
        model = replace(model, vocabulary_size=size, target_vocabulary_size=target_size)
        return replace(self, model=model)

    def with_decoding(self, overrides: Sequence[str]) -> "Recipe":
        """A copy with `key=value` overrides applied to its [decoding] table."""
        if self.task not in GENERATIVE_TASKS:
            raise InputError(
                f"decoding settings need a task that generates text, got {self.task}; leave them "
                "out"
            )
        tree = apply_overrides(to_dict(self.decoding), overrides)
        return replace(self, decoding=from_dict(DecodingConfig, tree, "decoding"))

    def to_toml(self) -> str:
        """The recipe as TOML, with every default written out."""
        return to_toml(to_dict(self))


def builtin_recipes() -> dict[str, Path]:
    """The recipes that ship with jumok, by name."""
    folder = resources.files("jumok") / "recipes"
    paths = [Path(str(entry)) for entry in folder.iterdir()]
    return {path.stem: path for path in sorted(paths) if path.suffix == ".toml"}


def load_recipe(source: str, overrides: Overrides = ()) -> Recipe:
    """Load a built-in recipe by name, or a .toml file, and apply `key=value` overrides.

    Raises InputError for an unknown name, an unknown key or an invalid value.
    """
    if source.endswith(".toml"):
        path = Path(expand_home(source))
        tree = {"name": path.stem} | read_toml(path)
        pretrained = with_shipped_model(tree, overrides)
        if pretrained is not None:
            init = pretrained["model"]["init"]
            print_notice(
                f"jumok: {path.name} begins from {init}, a Korean model that ships with jumok; "
                'model.init="" and a [model] table train from scratch'
            )
        return _recipe_with(pretrained or tree, overrides)
    builtin = builtin_recipes()
    if source not in builtin:
        raise InputError(
            f"recipe must be a built-in name or a .toml file, got {source!r} "
            f"({suggest(source, list(builtin))})"
        )
    path = builtin[source]
    return _recipe_with({"name": path.stem} | read_toml(path), overrides)


def change_recipe(recipe: Recipe, overrides: Overrides) -> Recipe:
    """A recipe with `key=value` overrides, as `load_recipe` applies them to a file."""
    return _recipe_with(to_dict(recipe), overrides) if overrides else recipe


def _recipe_with(tree: Mapping[str, Any], overrides: Overrides) -> Recipe:
    return from_dict(Recipe, inherit_model_config(tree, overrides))


def load_run_recipe(path: Path) -> Recipe:
    """Load the recipe.toml of an existing run. Raises InputError that names the file.

    Data that are kept in the folder of the run are found there, also after it was moved.
    """
    tree = read_toml(path)
    try:
        recipe = from_dict(Recipe, tree)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return replace(recipe, data=recipe.data.relocated(path.parent))


def _check_choices(recipe: Recipe) -> None:
    """Raise InputError for a metric or a model kind of another task."""
    spec = TASK_SPECS[recipe.task]
    if recipe.metric is not None and recipe.metric not in spec.metrics:
        raise InputError(
            f"metric must be one of {', '.join(spec.metrics)} for the task {recipe.task}, got "
            f"{recipe.metric}"
        )
    if recipe.model.kind not in spec.kinds:
        raise InputError(
            f'model.kind must be "{spec.kinds[0]}" for the task {recipe.task}, got '
            f'"{recipe.model.kind}"'
        )


def _check_unused(recipe: Recipe) -> None:
    """Raise InputError for settings that the task does not read.

    A model that is initialized from another run (`model.init`) has all of its hyperparameters,
    also those that it does not use: T5's encoder with a classification head.
    """
    task, model = recipe.task, recipe.model
    for table, (tasks, reason) in TABLE_TASKS.items():
        values = getattr(recipe, table)
        if values != type(values)() and task not in tasks:
            raise InputError(f"[{table}] must be left out for the task {task}, {reason}")
    columns = TASK_SPECS[task].columns
    for column in ("text", "pair", "label", "score", "tags", "source", "target"):
        read = {column, *(["labels"] if column == "label" else [])}
        if getattr(recipe.data, column) and not read & set(columns):
            raise InputError(
                f"data.{column} must be left out for the task {task}, which reads "
                f"{' and '.join(columns)}"
            )
    if task in UNSMOOTHED_TASKS and recipe.training.label_smoothing:
        raise InputError(
            f"training.label_smoothing must be 0 for the task {task}, {UNSMOOTHED_TASKS[task]}, "
            f"got {recipe.training.label_smoothing}"
        )
    if model.generator and task != "masked_language_modeling":
        raise InputError(
            f"model.generator must be left out for the task {task}, which replaces no tokens"
        )
    if model.tagging != "pieces" and task != "tagging":
        raise InputError(f"model.tagging must be left out for the task {task}, which has no tags")
    if recipe.masking.cooccurrence_init and model.init:
        raise InputError(
            "masking.cooccurrence_init must be false with model.init, which has embeddings; leave "
            "one of them out"
        )
    if model.scale_output and task != "sequence_to_sequence" and not model.init:
        raise InputError(
            f"model.scale_output must be left out for the task {task}, whose model scales no output"
        )
    if model.n_decoder_layers is not None and model.kind == "encoder" and not model.init:
        raise InputError(
            'model.n_decoder_layers must be left out for model.kind "encoder", which has no '
            f"decoder, got {model.n_decoder_layers}"
        )


def _check_augmentation(recipe: Recipe) -> None:
    """Raise InputError for an augmentation that the task or its data do not support."""
    augmentation = recipe.augmentation
    pieces = recipe.task == "tagging" and recipe.model.tagging == "pieces"
    if pieces and augmentation.subword_sampling:
        raise InputError(
            'augmentation.subword_sampling must be 0 with model.tagging = "pieces", whose tags are '
            f"aligned with the best segmentation, got {augmentation.subword_sampling}"
        )
    for key, tasks in AUGMENTATION_TASKS.items():
        value = getattr(augmentation, key)
        if value and recipe.task not in tasks:
            raise InputError(
                f"augmentation.{key} must be 0 for the task {recipe.task}, got {value}; it is "
                f"available for {', '.join(tasks)}"
            )
    if recipe.data.pieces and augmentation.subword_sampling:
        raise InputError(
            "augmentation.subword_sampling must be 0 with data.pieces, which are tokenized "
            "already; set one of them to 0 or false"
        )


def _check_vocabulary(recipe: Recipe) -> None:
    """Raise InputError for [vocabulary] settings that conflict with the task or `model.init`."""
    if not recipe.vocabulary.joint and recipe.task != "sequence_to_sequence":
        raise InputError(
            f"vocabulary.joint must be true for the task {recipe.task}, which has one kind of text"
        )
    if recipe.vocabulary.file and recipe.model.init:
        raise InputError(
            "vocabulary.file and model.init both name a vocabulary; leave out vocabulary.file"
        )
    if recipe.task == "tagging" and recipe.vocabulary.byte_fallback:
        raise InputError(
            "vocabulary.byte_fallback must be false for the task tagging: it splits rare "
            "characters into bytes, which have no tags"
        )
    if recipe.vocabulary.pretokenizer != "none":
        check_pretokenized(recipe)
    if recipe.data.pieces and recipe.task != "classification":
        raise InputError(
            f"data.pieces must be false for the task {recipe.task}; only classification reads "
            "tokenized texts"
        )


def check_pretokenized(recipe: Recipe) -> None:
    """Raise InputError where spaces between morphemes would be in an output, or have no effect."""
    if recipe.task not in PRETOKENIZED_TASKS or recipe.data.pieces:
        raise InputError(
            f'vocabulary.pretokenizer must be "none" for the task {recipe.task}'
            f"{' with data.pieces' if recipe.data.pieces else ''}, because decoding does not undo "
            f"the spaces between morphemes; it is available for {', '.join(PRETOKENIZED_TASKS)}"
        )


def _check_pairs(recipe: Recipe) -> None:
    """Raise InputError for a model or data that cannot hold text pairs."""
    model = recipe.model
    one_segment = model.n_segments == 1 and not model.init  # as in RoBERTa
    if recipe.reads_pairs and (recipe.data.pieces or one_segment):
        raise InputError(
            "text pairs need data.pieces = false and model.n_segments 2, or 0 for none, got "
            f"{str(recipe.data.pieces).lower()} and {model.n_segments}"
        )
    has_segments = recipe.reads_pairs and model.n_segments == 2 and model.kind == "encoder"
    if model.pooling == "compare" and not has_segments:
        raise InputError(
            'model.pooling "compare" needs text pairs (data.pair), model.n_segments = 2 and '
            'model.kind = "encoder"; choose another pooling otherwise'
        )


def _check_distillation(recipe: Recipe) -> None:
    """Raise InputError for added texts where a row is not one plain text, and unused keys."""
    config = recipe.distillation
    if config.layer and recipe.task != "masked_language_modeling":
        raise InputError(
            "distillation.layer is for the task masked_language_modeling; leave it out"
        )
    if recipe.task == "masked_language_modeling" and config.teachers:
        _check_state_distillation(recipe)
    if recipe.task == "similarity" and config.teachers:
        if (config.temperature, config.weight) != (1.0, 1.0):
            raise InputError(
                "distillation.temperature and weight must be left out for the task similarity, "
                "whose only loss is the cosine with the vectors of the teachers, got "
                f"{config.temperature} and {config.weight}"
            )
        if recipe.similarity != SimilarityConfig(
            positive=recipe.similarity.positive, negative=recipe.similarity.negative
        ):
            raise InputError(
                "[similarity] must have no texts and no temperature with distillation.teachers, "
                "whose texts are in [distillation]; remove them"
            )
        model = recipe.model
        narrow = model.init or model.d_embedding or not model.norm_first or model.norm != "layer"
        if config.token_vectors and (narrow or model.positions not in ("rotary", "relative")):
            raise InputError(
                "distillation.token_vectors needs a new model with norm_first = true, norm = "
                '"layer", positions = "rotary" or "relative" and no d_embedding; set these, or '
                "leave it out"
            )
        return
    if config.token_vectors:
        raise InputError(
            "distillation.token_vectors is for the task similarity with distillation.teachers; "
            "leave it out"
        )
    added = config.corpus or config.texts
    if added and (recipe.paired or recipe.data.pieces):
        raise InputError(
            "distillation.corpus and texts must be left out for pairs of texts and data.pieces: "
            f"they add single texts, got {added!r}"
        )


def _check_state_distillation(recipe: Recipe) -> None:
    """Raise InputError for what a masked language model with teachers cannot have."""
    config = recipe.distillation
    if config.temperature != 1.0 or config.corpus or config.texts or config.rows:
        raise InputError(
            "distillation.temperature, corpus, texts and rows must be left out for the task "
            "masked_language_modeling, which learns the states of its own texts; remove them"
        )
    if recipe.augmentation.subword_sampling or recipe.model.generator:
        raise InputError(
            "augmentation.subword_sampling and model.generator must be 0 with "
            "distillation.teachers, whose states belong to the pieces of one model; leave them out"
        )


def _check_label_names(recipe: Recipe) -> None:
    """Raise InputError for a name that cannot be written in a cell of several labels."""
    wrong = [name for name in recipe.data.labels if SEPARATOR in name]
    if wrong and recipe.task == "multi_label_classification":
        raise InputError(
            f"data.labels must be names without {SEPARATOR}, which separates the labels of a text, "
            f"got {wrong[0]!r}; rename it"
        )


def _check_similarity(recipe: Recipe) -> None:
    """Raise InputError where a similarity task has no pairs, or a metric of other data."""
    if recipe.task != "similarity":
        return
    if not recipe.paired:
        raise InputError(
            "the task similarity needs pairs of texts, got single texts; name the column of the "
            "second text with data.pair"
        )
    if recipe.model.pooling == "compare":
        raise InputError(
            'model.pooling must be "mean", "first" or "max" for the task similarity, whose vectors '
            'are of single texts, got "compare"'
        )
    has_scores = "score" in recipe.columns
    if recipe.metric is not None and has_scores == (recipe.metric == "accuracy"):
        raise InputError(
            f"metric must be {'spearman or pearson' if has_scores else 'accuracy'} for pairs "
            f"{'with' if has_scores else 'without'} scores, got {recipe.metric}; leave it out"
        )
    plain = recipe.similarity.corpus or recipe.similarity.texts
    if plain and not recipe.model.dropout:
        raise InputError(
            "model.dropout must be above 0 with similarity.texts or corpus, whose pairs differ by "
            "dropout alone, got 0; try 0.1"
        )
    if recipe.data.label and not recipe.similarity.positive:
        raise InputError(
            f"similarity.positive must name the label of similar pairs in {recipe.data.label!r}; "
            "set it, or leave out data.label"
        )
    if recipe.data.score and recipe.similarity.positive:
        raise InputError(
            "data.score and similarity.positive both select the similar pairs; leave one out"
        )
