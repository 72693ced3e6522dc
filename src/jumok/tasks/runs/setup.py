"""The setup of a training: tokenizers, model, initial weights and job, before the first step."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES, Splits
from jumok.data.table import Table
from jumok.device import find_device, tune_threads
from jumok.errors import InputError, Message, and_list
from jumok.models.weights import named_weights
from jumok.nn.lora import add_lora
from jumok.pretrained.hub import find_model
from jumok.ranks import is_main_process
from jumok.seeding import derive_seed
from jumok.shipped import resolve_vocabulary
from jumok.tasks.inputs.text_encoder import TextInputs
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair, non_default_keys
from jumok.tasks.own_model import check_own_model
from jumok.tasks.recipe.recipe import Recipe, candidate_recipes, check_pretokenized
from jumok.tasks.recipe.tables import VocabularyRecipe
from jumok.tasks.registry import get_task
from jumok.tasks.runs.new_model import build_model
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.text_job import TextJob
from jumok.terminal import print_notice
from jumok.text.sentencepiece import DEFAULT_SIZE, SentencePieceTokenizer
from jumok.training.layer_decay import frozen_parameters

if TYPE_CHECKING:  # imported where a model is initialized, or a linear one is fitted
    from jumok.tasks.runs.initialize_from import LoadReport
    from jumok.tasks.shared.linear_head import LinearHead
    from jumok.training.estimate import Cost

UNBALANCED = 2  # times the rows of the rarest label
LARGE_BYTES = 10_000_000  # of training files that are read and tokenized for seconds
MAX_NAMES = 3


@dataclass(frozen=True)
class TrainingSetup:
    """Everything a new training starts with; `recipe` has what the data decided."""

    recipe: Recipe
    splits: Splits
    tokenizers: TokenizerPair
    model: nn.Module
    load_report: "LoadReport | None"
    job: RecipeJob[Any]
    linear: "LinearHead | None" = None  # of its output layer


def prepare_training(recipe: Recipe, device: torch.device) -> TrainingSetup:
    """Prepare everything up to the first step; nothing is written.

    Raises InputError or KernelError for what cannot be trained, or not be evaluated in the end.
    """
    task = get_task(recipe.task)
    task.check_device(recipe, device)
    large = _report_reading(recipe.data)
    splits = load_splits(recipe.data, recipe.columns)
    recipe = weigh_classes(recipe, splits)
    if large:
        print_notice(
            Message(
                "train.tokenizing",
                "training or loading the vocabulary, and tokenizing {rows:,} rows",
                rows=len(splits.train),
            )
        )
    setups = [_prepare(each, splits, device) for each in candidate_recipes(recipe)]
    best = max(setups, key=lambda each: each.linear.score if each.linear else 0.0)
    if best.linear is None:
        return best
    seconds = sum(each.linear.seconds for each in setups if each.linear)
    return replace(best, linear=replace(best.linear, seconds=seconds))


def _prepare(recipe: Recipe, splits: Splits, device: torch.device) -> TrainingSetup:
    """The setup of a recipe whose splits are read; the first output layer is the linear one."""
    task = get_task(recipe.task)
    tokenizers = get_tokenizers(recipe, splits.train)
    check_tokenizers(recipe, tokenizers)
    if recipe.model.size == "auto":
        from jumok.tasks.runs.choose_size import choose_size

        recipe = choose_size(recipe, splits, tokenizers, device)
    sized = recipe.with_vocabulary(*tokenizers.sizes)
    model = build_model(sized, splits.labels, device)
    check_own_model(sized, model, splits.labels)
    task.check_trainable(sized, model, tokenizers)
    frozen_parameters(named_weights(model), recipe.training.freeze)  # raises for unknown names
    load_report = initialize_weights(sized, model, splits.labels)
    job = task.job(recipe)(sized, model, tokenizers, splits, device)
    linear = fit_first(job)
    add_adapters(sized, model)
    return TrainingSetup(recipe, splits, tokenizers, model, load_report, job, linear)


def fit_first(job: RecipeJob[Any]) -> "LinearHead | None":
    """Fit the output layer as `training.method` asks, and print its score; None: fine-tune only."""
    recipe = job.recipe
    if recipe.training.method == "fine-tune":
        return None
    assert isinstance(job, TextJob)  # checked with the recipe
    from jumok.tasks.shared.linear_head import fit_linear_head

    linear = fit_linear_head(job)
    if is_main_process():
        print_notice(
            Message(
                "train.linear_fitted",
                "linear layer on the frozen vectors of {init}: {metric} {score:.4f} by "
                "cross-validation of {rows:,} rows, {seconds:.1f} s",
                init=recipe.model.init,
                metric=linear.metric,
                score=linear.score,
                rows=linear.rows,
                seconds=linear.seconds,
            )
        )
    return linear


def weigh_classes(recipe: Recipe, splits: Splits) -> Recipe:
    """Decide `class_weights = "auto"` by the labels of the training split, and say so.

    Where the most frequent label has more than twice the rows of the rarest, labels are weighted,
    and macro F1 selects the weights unless the recipe names a metric.
    """
    if recipe.training.class_weights != "auto":
        return recipe
    counts = Counter(splits.train.column("label"))
    (_, most), (_, least) = counts.most_common(1)[0], counts.most_common()[-1]
    unbalanced = most > UNBALANCED * least
    training = replace(recipe.training, class_weights="balanced" if unbalanced else "none")
    recipe = replace(recipe, training=training)
    if not unbalanced:
        return recipe
    metric = recipe.metric or "macro_f1"
    print_notice(
        Message(
            "train.unbalanced",
            "the labels are unbalanced ({least:,} to {most:,} rows): each label weighs the same "
            '(training.class_weights = "balanced"), and {metric} selects the checkpoint',
            least=least,
            most=most,
            metric=metric,
        )
    )
    return replace(recipe, metric=metric)


def _report_reading(data: DataConfig) -> bool:
    """Print a line before files are read that take seconds; whether there are such files."""
    if not data.train:
        return False
    files = data.absolute().train
    paths = [Path(each) for each in ((files,) if isinstance(files, str) else files)]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    if size >= LARGE_BYTES:
        names = ", ".join(path.name for path in paths[:MAX_NAMES])
        print_notice(
            Message(
                "train.reading", "reading {names} ({size:,.0f} MB)", names=names, size=size / 1e6
            )
        )
    return size >= LARGE_BYTES


def dry_run(recipe: Recipe) -> "Cost":
    """Prepare a training as `train` does and measure some steps; no folder is made.

    Raises InputError or KernelError as `train` does.
    """
    tune_threads()
    device = find_device(recipe.device)
    from jumok.training.estimate import estimate

    return estimate(prepare_training(recipe, device).job, recipe.training, device)


def get_tokenizers(recipe: Recipe, train: Table) -> TokenizerPair:
    """The tokenizers of `model.init`, or those that the recipe names or that are trained.

    Prints a warning when [vocabulary] is ignored because `model.init` is set.
    """
    init = recipe.model.init
    if not init:
        return train_or_load(recipe.vocabulary, train, recipe.data.pieces)
    from jumok.tasks.runs.initialize_from import is_encoder, load_tokenizers

    folder = find_model(init)
    tokenizers = load_tokenizers(folder)
    if not recipe.vocabulary.joint and is_encoder(folder):
        return replace(tokenizers, target=_target_tokenizer(recipe.vocabulary, train))
    if tokenizers.joint != recipe.vocabulary.joint:
        raise InputError(
            "run.joint_differs_from_init",
            "vocabulary.joint must be {joint} to initialize from {init}, which has {joint_2}",
            joint=str(tokenizers.joint).lower(),
            init=init,
            joint_2="one vocabulary" if tokenizers.joint else "two vocabularies",
        )
    ignored = non_default_keys(recipe.vocabulary)
    if ignored:
        print_notice(
            Message(
                "run.recipe_ignored",
                "jumok: {ignored} of the recipe are ignored, because model.init = {init} sets "
                "the vocabulary",
                ignored=and_list(ignored),
                init=init,
            )
        )
    return tokenizers


def train_or_load(table: VocabularyRecipe, train: Table, pieces: bool = False) -> TokenizerPair:
    """Load the tokenizers that [vocabulary] names, or train them on the training rows."""
    if table.joint:
        tokenizer = _train_or_load(table, vocabulary_texts(train, pieces))
        return TokenizerPair(tokenizer, tokenizer)
    source = _train_or_load(table, train.column("source"))
    return TokenizerPair(source, _target_tokenizer(table, train))


def _target_tokenizer(table: VocabularyRecipe, train: Table) -> SentencePieceTokenizer:
    """The second tokenizer, of the targets."""
    target = replace(table, file=table.target_file, size=table.target_size or table.size)
    try:
        return _train_or_load(target, train.column("target"), "vocabulary.target_size")
    except InputError as error:
        raise InputError(
            "run.target_vocabulary",
            "vocabulary of the targets: {error}",
            error=error,
        ) from error


def vocabulary_texts(train: Table, pieces: bool) -> Iterator[str]:
    """All texts of the training rows: first all texts or sources, then all pairs or targets."""
    if "source" in train.column_names:
        for name in SEQUENCES:
            yield from train.column(name)
    else:
        yield from TextInputs.from_table(train, pieces)


def _train_or_load(
    table: VocabularyRecipe, texts: Iterable[str], key: str = "vocabulary.size"
) -> SentencePieceTokenizer:
    """Load the tokenizer, or train it and say so where the texts have fewer pieces than usual."""
    if table.file:
        return SentencePieceTokenizer.load(resolve_vocabulary(table.file))
    tokenizer = SentencePieceTokenizer.train(texts, table, key)
    size, limits = len(tokenizer), table.kind == "char" or table.max_piece_length == 1
    if size < table.size == DEFAULT_SIZE and not limits and is_main_process():
        print_notice(
            Message(
                "train.fewer_pieces",
                "{key} is {size:,} instead of {default:,}: these texts have no more pieces",
                key=key,
                size=size,
                default=table.size,
            )
        )
    return tokenizer


def check_tokenizers(recipe: Recipe, tokenizers: TokenizerPair) -> None:
    """Raise InputError for a recipe that needs what its tokenizers do not have."""
    augmentation, paired, source = recipe.augmentation, recipe.reads_pairs, tokenizers.source
    if isinstance(source, SentencePieceTokenizer) and source.pretokenizes:
        check_pretokenized(recipe)
    if augmentation.subword_sampling:  # a tokenizer may have only one segmentation
        for tokenizer in (source, tokenizers.target):
            tokenizer.sample_batch(["가"], alpha=augmentation.sampling_alpha, seed=0)
    required = [*get_task(recipe.task).special_pieces]
    if augmentation.token_dropout > 0:
        required.append("mask_id")
    if paired and (recipe.model.n_segments > 1 or not source.input_template.pair):
        required.append("sep_id")
    for name in required:
        getattr(source, name)  # raises for a missing piece


def add_adapters(recipe: Recipe, model: nn.Module) -> None:
    """Add the matrices of training.lora, which the seed determines, after the initial weights."""
    if recipe.training.lora.rank:
        torch.manual_seed(derive_seed(recipe.seed, "lora"))
        add_lora(model, recipe.training.lora)


def initialize_weights(
    recipe: Recipe, model: nn.Module, labels: tuple[str, ...]
) -> "LoadReport | None":
    """Copy the weights of `model.init` into the model, if the recipe names a run."""
    if not recipe.model.init:
        return None
    from jumok.tasks.runs.initialize_from import initialize_from

    return initialize_from(find_model(recipe.model.init), recipe, model, labels)
