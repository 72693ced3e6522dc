"""A recipe: everything needed to repeat a result, written in TOML, with the checks between keys."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumok.config_io import (
    ConfigDict,
    Overrides,
    check_range,
    from_dict,
    read_toml,
    suggest,
    to_dict,
    to_toml,
)
from jumok.data.config import DataConfig
from jumok.decoding.config import DecodingConfig
from jumok.errors import Message, RecipeError, located
from jumok.evaluation.own_metric import METRICS
from jumok.models.config import TransformerConfig
from jumok.nn.losses import LOSSES
from jumok.tasks.own_model import check_own_recipe
from jumok.tasks.recipe.auto_size import with_auto_size
from jumok.tasks.recipe.extensions import check_extensions
from jumok.tasks.recipe.fixed_values import check_values, for_task, with_key
from jumok.tasks.recipe.inherited_config import INHERITED, inherit_model_config
from jumok.tasks.recipe.shipped_start import SHIPPED, with_pretrained
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
from jumok.tasks.registry import TASKS, TRANSFORMER, get_task, tasks_with
from jumok.terminal import print_notice
from jumok.training.config import TrainingConfig

if TYPE_CHECKING:
    from jumok.tasks.task import Task

# Tables that not all tasks read; the phrase describes the other tasks.
TABLES: Mapping[str, str] = {
    "decoding": "which generates no text",
    "windows": "which reads no windows",
    "masking": "which masks no tokens",
    "regression": "which predicts no scores",
    "multi_label": "which predicts no sets of labels",
    "similarity": "which compares no vectors of texts",
    "distillation": "which has no loss for it",
}
COLUMNS = ("text", "pair", "label", "score", "tags", "source", "target")  # of [data]
AUGMENTATIONS = ("subword_sampling", "token_dropout", "rdrop_alpha")  # of which a task has some


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training, from the data to the test score.

    Raises InputError for values that exclude each other; `load_recipe` also for unknown keys.

    >>> recipe = load_recipe("numbers", ["training.steps=10"])
    >>> recipe.task, recipe.training.steps
    ('sequence_to_sequence', 10)
    """

    name: str
    task: str  # the name of a registered task
    training: TrainingConfig
    metric: str | None = None  # selects the best checkpoint; None: the task's first metric
    loss: str | None = None  # in the registry "jumok.losses"; None: that of the task
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
        get_task(self.task)  # raises for an unknown name
        if not self.name or set(self.name) & set("/\\\0") or self.name in (".", ".."):
            raise RecipeError(
                "recipe.unusable_name",
                "name must be usable as a folder name, got {value!r}",
                value=self.name,
            )
        _check_choices(self)
        check_own_recipe(self)
        _check_loss(self)
        if not self.decoding.sample and self.decoding.seed == 0:  # as earlier versions wrote it
            object.__setattr__(self, "decoding", replace(self.decoding, seed=None))
        _check_unused(self)
        if self.vocabulary.pretokenizer != "none":
            check_pretokenized(self)
        get_task(self.task).check_recipe(self)
        _check_pairs(self)
        _check_method(self)
        _check_size(self)
        _check_ranking(self)
        if self.training.lora.rank and not self.model.init:
            raise RecipeError(
                "recipe.lora_without_init",
                "training.lora needs model.init, a pretrained model whose weights stay as they "
                "are; set it, or leave training.lora out",
            )

    @property
    def paired(self) -> bool:
        """Whether a row holds two texts: `data.pair` is set, or the corpus has a pair column."""
        return bool(self.data.pair) or "pair" in self.data.corpus_columns

    @property
    def scored(self) -> bool:
        """Whether a row has a score: `data.score` is set, or the corpus has a score column."""
        return bool(self.data.score) or "score" in self.data.corpus_columns

    @property
    def reads_pairs(self) -> bool:
        """Whether the model reads both texts of a pair in one row."""
        return get_task(self.task).joins_pairs and self.paired

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that the task reads, without "pair" for single texts."""
        return get_task(self.task).columns_of(self)

    @property
    def selection_metric(self) -> str:
        """The metric that selects the best checkpoint."""
        return get_task(self.task).metric_of(self)

    def with_vocabulary(self, size: int, target_size: int | None = None) -> "Recipe":
        """A copy with the vocabulary size, or both sizes, filled in."""
        model = self.model
        if model.vocabulary_size not in (TransformerConfig().vocabulary_size, size):
            raise RecipeError(
                "recipe.vocabulary_size",
                "model.vocabulary_size must be the size of the vocabulary, {size}, got "
                "{vocabulary_size}; leave it out",
                size=size,
                vocabulary_size=model.vocabulary_size,
            )
        if model.target_vocabulary_size not in (None, target_size):
            raise RecipeError(
                "recipe.target_vocabulary_size",
                "model.target_vocabulary_size must be the size of a second vocabulary, got "
                "{target_vocabulary_size}; leave it out, and set vocabulary.joint = false to "
                "have one",
                target_vocabulary_size=model.target_vocabulary_size,
            )
        model = replace(model, vocabulary_size=size, target_vocabulary_size=target_size)
        return replace(self, model=model)

    def with_decoding(self, overrides: Sequence[str]) -> "Recipe":
        """A copy with `key=value` overrides applied to its [decoding] table."""
        if not get_task(self.task).generates:
            raise RecipeError(
                "recipe.decoding_not_for_task",
                "decoding settings need a task that generates text, got {task}; leave them out",
                task=self.task,
            )
        return replace(self, decoding=self.decoding.overridden(overrides))

    def to_toml(self) -> str:
        """The recipe as TOML, with every default written out."""
        return to_toml(to_dict(self))


def recipe_class(task: object) -> type[Recipe]:
    """`Recipe`, or a class derived from it with the tables of a task from outside as fields.

    Raises RecipeError for a table that is not a dataclass, or that all recipes have.
    """
    if not isinstance(task, str) or task not in TASKS:
        return Recipe  # which raises
    return _with_tables(TASKS.get(task))


@cache
def _with_tables(task: "type[Task]") -> type[Recipe]:
    known = {each.name for each in fields(Recipe)} - TABLES.keys()
    own = {name: table for name, table in task.tables if name not in TABLES}
    for name, table in own.items():
        if name in known or not name.isidentifier() or not is_dataclass(table):
            raise RecipeError(
                "task.unusable_table",
                "table {name!r} of {task} must be a dataclass under a name that recipes do not "
                "have, got {table!r}; rename it, or use @dataclass",
                name=name,
                task=task.__name__,
                table=table,
            )
    if not own:
        return Recipe
    tables = [(name, table, field(default_factory=table)) for name, table in own.items()]
    return make_dataclass("Recipe", tables, bases=(Recipe,), frozen=True, kw_only=True)


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
        path = Path(os.path.expanduser(source))
        tree = {"name": path.stem} | read_toml(path)
        pretrained = with_pretrained(tree, overrides)
        init = "" if pretrained is None else pretrained["model"]["init"]
        if init in SHIPPED:
            print_notice(
                Message(
                    "recipe.begins_from_shipped_model",
                    "jumok: {path} begins from {init}, a Korean model that ships with jumok; "
                    'model.init="" and a [model] table train from scratch',
                    path=path.name,
                    init=init,
                )
            )
        return _recipe_with(pretrained or with_auto_size(tree, overrides) or tree, overrides)
    builtin = builtin_recipes()
    if source not in builtin:
        raise RecipeError(
            "recipe.unknown_recipe",
            "recipe must be a built-in name or a .toml file, got {source!r} ({suggest})",
            source=source,
            suggest=suggest(source, list(builtin)),
        )
    path = builtin[source]
    return _recipe_with({"name": path.stem} | read_toml(path), overrides)


def recipe_of_file(file: str, task: str, overrides: Overrides = ()) -> Recipe:
    """The recipe of a task whose training rows are those of a file.

    >>> recipe = recipe_of_file("reviews.tsv", "classification", ["data.text=review"])
    >>> recipe.data.train, recipe.data.text, recipe.model.init
    ('reviews.tsv', 'review', 'ko-small')
    """
    tree: ConfigDict = {
        "name": "data",
        "task": task,
        "training": {"epochs": 1},
        "data": {"train": file},
    }
    return _recipe_with(with_pretrained(tree, overrides) or tree, overrides)


def change_recipe(recipe: Recipe, overrides: Overrides) -> Recipe:
    """A recipe with `key=value` overrides, as `load_recipe` applies them to a file."""
    return _recipe_with(to_dict(recipe), overrides) if overrides else recipe


def candidate_recipes(recipe: Recipe) -> list[Recipe]:
    """The recipe with each of `model.candidates` as `model.init`; itself without candidates."""
    tree = to_dict(recipe)
    kept = {key: value for key, value in tree["model"].items() if key not in INHERITED}
    return [
        _recipe_with({**tree, "model": {**kept, "init": name, "candidates": []}}, ())
        for name in recipe.model.candidates
    ] or [recipe]


def _recipe_with(tree: Mapping[str, Any], overrides: Overrides) -> Recipe:
    tree = inherit_model_config(tree, overrides)
    return from_dict(recipe_class(tree.get("task")), _with_kind(tree))


def _with_kind(tree: ConfigDict) -> ConfigDict:
    """The tables with the first kind of model of the task, unless they or `model.init` set one."""
    task, model = tree.get("task"), tree.get("model", {})
    if not isinstance(task, str) or task not in TASKS or not isinstance(model, dict):
        return tree  # which is refused
    return {**tree, "model": {"kind": get_task(task).kinds[0], **model}}


def load_run_recipe(path: Path) -> Recipe:
    """Load the recipe.toml of an existing run. Raises InputError that names the file.

    Data that are kept in the folder of the run are found there, also after it was moved.
    """
    tree = read_toml(path)
    check_extensions(path.parent)
    data = tree.get("data")
    if isinstance(data, dict):
        data.setdefault("dev_split", "last")  # of runs that were made before this key
    with located(path):
        recipe = from_dict(recipe_class(tree.get("task")), tree)
    return replace(recipe, data=recipe.data.relocated(path.parent))


def _check_choices(recipe: Recipe) -> None:
    """Raise InputError for a metric or a model kind of another task."""
    spec = get_task(recipe.task)
    own = recipe.metric is not None and recipe.metric in METRICS
    if own and recipe.metric in spec.metrics:
        raise RecipeError(
            "recipe.metric_name_taken",
            "the name of a metric of one's own must differ from those of the task {task}, got "
            "{metric}; rename it",
            task=recipe.task,
            metric=recipe.metric,
        )
    known = (*spec.metrics, *(METRICS.names() if spec.compares_rows else ()))
    if recipe.metric not in (None, *known):
        raise RecipeError(
            "recipe.metric_not_for_task",
            "metric must be one of {metrics} for the task {task}, got {metric}",
            metrics=", ".join(known),
            task=recipe.task,
            metric=recipe.metric,
        )
    if recipe.model.kind not in spec.kinds:
        raise RecipeError(
            "recipe.model_kind_not_for_task",
            'model.kind must be "{kinds}" for the task {task}, got "{kind}"',
            kinds=spec.kinds[0],
            task=recipe.task,
            kind=recipe.model.kind,
        )


def _check_loss(recipe: Recipe) -> None:
    """Raise InputError for an unknown loss, or settings that another loss than its own has."""
    if recipe.loss is None:
        return
    LOSSES.check(recipe.loss)
    of_task: dict[str, object] = {
        "training.label_smoothing": 0.0,
        "training.method": "fine-tune",
        "distillation.teachers": (),
        "model.generator": 0.0,
    }
    if get_task(recipe.task).generates:
        of_task["augmentation.rdrop_alpha"] = 0.0
    check_values(recipe, of_task, with_key(f'loss = "{recipe.loss}"'))


def _check_unused(recipe: Recipe) -> None:
    """Raise InputError for settings that the task does not read.

    A model that is initialized from another run (`model.init`) has all of its hyperparameters,
    also those that it does not use: T5's encoder with a classification head.
    """
    task, model, spec = recipe.task, recipe.model, get_task(recipe.task)
    for table, reason in TABLES.items():
        values = getattr(recipe, table)
        if values != type(values)() and table not in dict(spec.tables):
            raise RecipeError(
                "recipe.table_not_for_task",
                "[{table}] must be left out for the task {task}, {reason}",
                table=table,
                task=task,
                reason=reason,
            )
    unused: dict[str, object] = {
        f"augmentation.{key}": 0.0 for key in AUGMENTATIONS if key not in spec.augmentations
    }
    read = {*spec.columns, *(["label"] if "labels" in spec.columns else [])}
    unused |= {f"data.{column}": "" for column in COLUMNS if column not in read}
    if not spec.smooths_labels:
        unused["training.label_smoothing"] = 0.0
    for key, default in (("generator", 0.0), ("tagging", "pieces"), ("scale_output", False)):
        if key not in spec.model_keys and not (key == "scale_output" and model.init):
            unused[f"model.{key}"] = default
    if not spec.two_vocabularies:
        unused["vocabulary.joint"] = True
    if not spec.reads_pieces:
        unused["data.pieces"] = False
    if spec.answer != "masks":
        unused["distillation.layer"] = 0
    if spec.answer != "vector":
        unused["distillation.token_vectors"] = False
    check_values(recipe, unused, for_task(task))
    if model.init:
        inherited = {"masking.cooccurrence_init": False, "vocabulary.file": ""}
        check_values(recipe, inherited, with_key("model.init"))
    elif model.kind == "encoder":
        check_values(recipe, {"model.n_decoder_layers": None}, with_key('model.kind = "encoder"'))
    single_texts = {"distillation.corpus": "", "distillation.texts": ""}  # what they add
    if recipe.data.pieces:
        tokenized = {"augmentation.subword_sampling": 0.0, **single_texts}
        check_values(recipe, tokenized, with_key("data.pieces"))
    if spec.answer == "vector" and not recipe.distillation.teachers:
        of_teachers = {"distillation.token_vectors": False}
        check_values(recipe, of_teachers, with_key("no distillation.teachers"))
    if recipe.paired and spec.answer != "vector":
        check_values(recipe, single_texts, with_key("pairs of texts"))
    if model.kind != "encoder":
        alone = "; only an encoder can be token vectors alone"
        check_range("model.n_layers", model.n_layers, "[1, inf)", alone)


def _check_size(recipe: Recipe) -> None:
    """Raise InputError for a size by the minutes of a training that has none, or another start."""
    if recipe.model.size == "given":
        return
    if recipe.training.minutes is None:
        raise RecipeError(
            "recipe.size_without_minutes",
            'training.minutes must be set with model.size = "auto", which chooses the size of the '
            "model by it; set it, or leave model.size out",
        )
    fixed: dict[str, object] = {"model.init": "", "model.architecture": TRANSFORMER}
    fixed |= dict.fromkeys(["model.d_embedding", "model.d_head", "model.n_kv_heads"])
    check_values(recipe, fixed, with_key('model.size = "auto"'))


def check_pretokenized(recipe: Recipe) -> None:
    """Raise InputError where spaces between morphemes would be in an output, or have no effect."""
    if not get_task(recipe.task).pretokenizes or recipe.data.pieces:
        available = tasks_with(lambda task: task.pretokenizes)
        raise RecipeError(
            "recipe.pretokenizer_not_for_task",
            'vocabulary.pretokenizer must be "none" for the task {task}{pieces}, because '
            "decoding does not undo the spaces between morphemes; it is available for {available}",
            task=recipe.task,
            pieces=" with data.pieces" if recipe.data.pieces else "",
            available=", ".join(available),
        )


def _check_pairs(recipe: Recipe) -> None:
    """Raise InputError for a model or data that cannot hold text pairs."""
    model = recipe.model
    one_segment = model.n_segments == 1 and not model.init  # as in RoBERTa
    if recipe.reads_pairs and (recipe.data.pieces or one_segment):
        raise RecipeError(
            "recipe.unusable_pairs",
            "text pairs need data.pieces = false and model.n_segments 2, or 0 for none, got "
            "{pieces} and {n_segments}",
            pieces=str(recipe.data.pieces).lower(),
            n_segments=model.n_segments,
        )
    has_segments = recipe.reads_pairs and model.n_segments == 2 and model.kind == "encoder"
    if model.pooling == "compare" and not has_segments:
        raise RecipeError(
            "recipe.compare_needs_pairs",
            'model.pooling "compare" needs text pairs (data.pair), model.n_segments = 2 and '
            'model.kind = "encoder"; choose another pooling otherwise',
        )


def _check_method(recipe: Recipe) -> None:
    """Raise InputError for a linear layer or class weights where the task or model has none."""
    task, training, model = get_task(recipe.task), recipe.training, recipe.model
    if training.class_weights != "none" and (
        not task.weighs_classes or recipe.distillation.teachers
    ):
        raise RecipeError(
            "recipe.class_weights_not_for_task",
            'training.class_weights must be "none" but for the task classification without '
            "[distillation], got {class_weights}; leave it out",
            class_weights=training.class_weights,
        )
    if training.method == "fine-tune":
        if model.candidates:
            raise RecipeError(
                "recipe.candidates_without_linear",
                'model.candidates must be left out with training.method = "fine-tune", which '
                "compares no models; name one with model.init",
            )
        return
    if not task.has_linear_head:
        raise RecipeError(
            "recipe.method_not_for_task",
            'training.method must be "fine-tune" for the task {task}, got {method}; a linear '
            "layer is available for {available}",
            task=recipe.task,
            method=training.method,
            available=", ".join(tasks_with(lambda each: each.has_linear_head)),
        )
    if not model.init or model.kind != "encoder" or recipe.distillation.teachers:
        raise RecipeError(
            "recipe.method_needs_encoder",
            'training.method = "{method}" needs model.init, a pretrained encoder, and no '
            '[distillation]; set training.method = "fine-tune" otherwise',
            method=training.method,
        )


def _check_ranking(recipe: Recipe) -> None:
    """Raise InputError for the loss "ranking" of anything but plain pairs that are fine-tuned."""
    plain = recipe.augmentation == AugmentationConfig() and recipe.training.method == "fine-tune"
    scored = get_task(recipe.task).answer == "score" and recipe.reads_pairs
    if recipe.regression.loss == "ranking" and not (plain and scored):
        raise RecipeError(
            "recipe.ranking_of_pairs",
            'regression.loss = "ranking" needs the task regression with data.pair, '
            'training.method = "fine-tune" and no [augmentation]; leave it out',
        )
