"""What a task is: everything that recipes, training, prediction, export and traces ask of it.

A task is one file: a class derived from `Task` with its options, model, training job, evaluation
and outputs. It is found by its name in a recipe (`jumok.tasks.registry`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from jumok.errors import ConfigError
from jumok.tasks.inputs.special_tokens import build_inputs
from jumok.tasks.pipeline.outputs import EvaluationResult, GeneratedText, Output, RunOutputs
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.tables import ModelConfig, ModelKind
from jumok.tasks.registry import ARCHITECTURES, TRANSFORMER
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from jumok.data.table import Table
    from jumok.decoding.callbacks import StepCallback
    from jumok.decoding.config import DecodingConfig
    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.pipeline.generated import Generated
    from jumok.tasks.pipeline.origin import Origin
    from jumok.tasks.recipe.recipe import Recipe
    from jumok.tasks.shared.recipe_job import RecipeJob

Answer = Literal["label", "labels", "score", "tags", "vector", "masks", "text"]
Head = Literal["text_classifier", "token_classifier", "language_model", "encoder_decoder"]


class Task(ABC):
    """Abstract: one kind of task. It has no state: everything is in recipe, model and run."""

    # What a recipe may choose; the first model kind and metric are the defaults.
    kinds: ClassVar[tuple[ModelKind, ...]] = ("encoder",)
    metrics: ClassVar[tuple[str, ...]]  # that may select the best checkpoint
    columns: ClassVar[tuple[str, ...]]  # of the data, those that the task may read
    tables: ClassVar[tuple[tuple[str, type], ...]] = ()  # dataclasses that not all tasks read
    augmentations: ClassVar[tuple[str, ...]] = ()  # keys of [augmentation]
    model_keys: ClassVar[tuple[str, ...]] = ()  # keys of [model] that not all tasks read
    smooths_labels: ClassVar[bool] = True  # training.label_smoothing
    reads_pieces: ClassVar[bool] = False  # data.pieces
    pretokenizes: ClassVar[bool] = False  # whether spaces between morphemes change no output
    two_vocabularies: ClassVar[bool] = False  # vocabulary.joint may be false
    joins_pairs: ClassVar[bool] = True  # whether the model reads both texts of a pair in one row
    truncates: ClassVar[bool] = True  # False: a long text is read in several windows
    special_pieces: ClassVar[tuple[str, ...]] = ()  # attributes of the tokenizer: "mask_id"
    head_keys: ClassVar[tuple[str, ...]] = ("kind", "tagging")  # of [model]: equal, equal head

    # What the outputs are.
    answer: ClassVar[Answer]
    reads_source: ClassVar[bool] = True  # False: a decoder continues the text
    token_types: ClassVar[bool] = False  # whether the model gets the token types of pairs
    compares_rows: ClassVar[bool] = False  # whether `row_outputs` is implemented
    has_linear_head: ClassVar[bool] = False  # training.method: its job is a `TextJob`
    weighs_classes: ClassVar[bool] = False  # training.class_weights
    head: ClassVar[Head | None] = None  # the class of transformers with the same outputs
    problem_type: ClassVar[str] = ""  # of its config.json
    examples: ClassVar[tuple[str, ...]] = (
        "배우들의 연기가 정말 좋았어요",
        "시간이 너무 아까운 영화",
        "그냥 그래요",
    )
    korean: ClassVar[str] = "글을 읽는"  # what the model does, before the word for model
    input_format: ClassVar[str] = "Format: [CLS] text, or [CLS] a [SEP] b [SEP] for a pair."

    @abstractmethod
    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The model that a recipe describes, newly initialized."""

    def n_outputs(self, config: ModelConfig, labels: Sequence[str]) -> int | None:
        """The outputs a text, or a token, of a model of one's own; None: the task has none."""
        return None

    def new_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The Transformer of the task, or the model of `model.architecture`."""
        n_outputs = self.n_outputs(config, labels)
        if config.architecture == TRANSFORMER or n_outputs is None:
            return self.build_model(config, labels)
        found: object = ARCHITECTURES.get(config.architecture)(config, n_outputs)
        if isinstance(found, nn.Module) and any(True for _ in found.parameters()):
            return found
        raise ConfigError(
            "run.no_own_model",
            "the model {name} must be an nn.Module with parameters, got {got}",
            name=config.architecture,
            got="none" if isinstance(found, nn.Module) else type(found).__name__,
        )

    @abstractmethod
    def job(self, recipe: "Recipe") -> type["RecipeJob[Any]"]:
        """The training job of a recipe."""

    @abstractmethod
    def evaluate(self, pipeline: Pipeline, table: "Table", split: str) -> EvaluationResult:
        """Score a model on the rows of a table."""

    @abstractmethod
    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> Sequence[Output]:
        """One output per text, in order, also for an empty text."""

    def pipeline(
        self,
        model: nn.Module,
        vocabulary: Tokenizer | None,
        recipe: "Recipe",
        labels: tuple[str, ...],
        device: torch.device,
        target_vocabulary: Tokenizer | None = None,
        **parts: Any,
    ) -> Pipeline:
        """The pipeline of a model."""
        kind = self.pipeline_class
        return kind(self, model, vocabulary, recipe, labels, device, target_vocabulary, **parts)

    @property
    def pipeline_class(self) -> type[Pipeline]:
        """The class of pipelines."""
        return Pipeline

    @property
    def generates(self) -> bool:
        """Whether outputs are generated token by token."""
        return isinstance(self, GenerativeTask)

    def start(self, *, paired: bool) -> tuple[str, dict[str, Any]] | None:
        """The shipped model that a user's recipe begins from, and its keys of [model]; or None."""
        return None

    def columns_of(self, recipe: "Recipe") -> tuple[str, ...]:
        """The columns of the data that a recipe reads, without "pair" for single texts."""
        return tuple(name for name in self.columns if name != "pair" or recipe.paired)

    def metric_of(self, recipe: "Recipe") -> str:
        """The metric that selects the best checkpoint."""
        return recipe.metric or self.metrics[0]

    def check_recipe(self, recipe: "Recipe") -> None:  # noqa: B027  # most tasks need no more
        """Raise InputError for a recipe that the task cannot train."""

    def check_device(self, recipe: "Recipe", device: torch.device) -> None:  # noqa: B027
        """Raise KernelError or InputError when settings of a recipe cannot run on the device."""

    def check_trainable(  # noqa: B027
        self, recipe: "Recipe", model: nn.Module, tokenizers: "TokenizerPair"
    ) -> None:
        """Raise InputError, before a training, for what would fail at its first evaluation."""

    def check_imported(self, origin: "Origin", labels: Sequence[str]) -> None:  # noqa: B027
        """Raise InputError for an imported model whose logits are not outputs of the task."""

    def imported_labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The labels of a checkpoint, by the names that the task reads."""
        return tuple(labels)

    def imported_as(self, origin: "Origin", labels: Sequence[str]) -> str | None:
        """The name of the task of an imported model with this head; None: this one."""
        return None

    def row_outputs(self, pipeline: Pipeline, table: "Table") -> RunOutputs:
        """The output of each row, to compare runs; see `compares_rows`."""
        raise NotImplementedError

    def for_export(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline as other libraries compute its outputs, from the logits alone."""
        return pipeline

    def add_special_tokens(
        self, tokenizer: Tokenizer, rows: Ragged, pairs: Ragged | None, max_length: int
    ) -> Ragged:
        """The input of the model for the ids of texts, as `predict` builds it."""
        return build_inputs(tokenizer, rows, pairs, max_length)


class GenerativeTask(Task):
    """Abstract: a task whose outputs are generated as `recipe.decoding` specifies."""

    answer: ClassVar[Answer] = "text"

    @property
    def pipeline_class(self) -> type[Pipeline]:
        """Pipelines with the settings of their decoding."""
        from jumok.tasks.pipeline.generation_pipeline import GenerationPipeline

        return GenerationPipeline

    @abstractmethod
    def effective_decoding(self, pipeline: Pipeline) -> "DecodingConfig":
        """The decoding settings, limited to what the model supports."""

    @abstractmethod
    def stream(
        self, pipeline: Pipeline, text: str, on_text: Callable[[str], None]
    ) -> GeneratedText:
        """Generate for one text; pass each part to `on_text` as soon as it is final."""

    @abstractmethod
    def generate_one(
        self, pipeline: Pipeline, text: str, callback: "StepCallback"
    ) -> tuple["Generated", int]:
        """The best output for a text, every step passed to `callback`; tokens of the prompt."""

    @abstractmethod
    def score_target(
        self, pipeline: Pipeline, text: str, target: str
    ) -> tuple[Tensor, list[int], int]:
        """log p (T, V) of each token of a given target, the tokens, the tokens of the prompt.

        Raises InputError for a target without tokens, or longer than the model's max_length.
        """

    def check_device(self, recipe: "Recipe", device: torch.device) -> None:
        """Raise KernelError or InputError when [decoding] cannot run on the device."""
        from jumok.tasks.pipeline.backends import DecoderBackends

        DecoderBackends(recipe.decoding).check_available(device)

    def check_trainable(
        self, recipe: "Recipe", model: nn.Module, tokenizers: "TokenizerPair"
    ) -> None:
        """Raise InputError for [decoding] that the tokenizer or the model does not support."""
        from jumok.tasks.pipeline.generation import check_decoding

        check_decoding(recipe.decoding, model, tokenizers.target)
