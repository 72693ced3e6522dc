"""Train and evaluate from Python: the functions that the command line calls as well."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from jumok.errors import InputError
from jumok.extras import naming_extras
from jumok.pretrained.hub import upload
from jumok.tasks.own_model import OwnModel, register_model
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import Recipe, change_recipe, load_recipe
from jumok.tasks.runs import train as training
from jumok.tasks.runs.evaluate import evaluate as evaluate_table
from jumok.tasks.runs.evaluate import evaluation_tables, report_bad_rows
from jumok.tasks.runs.history import History
from jumok.tasks.runs.own_data import kept_data, table_of
from jumok.tasks.runs.run import Run as RunFiles
from jumok.training.callbacks import Callback
from jumok.training.reporting.metrics import METRICS, evaluations, read_records

if TYPE_CHECKING:
    from jumok.tasks.pipeline.translation import TranslatedDocument

PathLike = str | os.PathLike[str]


class Run:
    """A run: the folder of one training, with its scores, its history and its model.

    `folder` is the path of a run of `jumok.train` or `jumok train`, finished or not. Raises
    InputError when there is none.

        run = jumok.Run("runs/nsmc")
        run.results["accuracy"], run.history, run.predict(["재미있어요"])

    >>> Run("a/b/c")
    Traceback (most recent call last):
    jumok.errors.InputError: a/b/c must be a run, got no such folder; name a folder of jumok train
    """

    def __init__(self, folder: PathLike) -> None:
        self._files = RunFiles.open(Path(os.path.expanduser(os.fspath(folder))))

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self._files.folder

    @property
    def recipe(self) -> Recipe:
        """The recipe, with every default."""
        return self._files.recipe()

    @property
    def results(self) -> dict[str, Any]:
        """The contents of results.json: the scores of the tests, counts, times, versions.

        Raises InputError for a run that is not finished.
        """
        if not self._files.finished:
            raise InputError(
                "run.not_finished",
                "{folder} must be finished to have results; resume it with "
                "jumok.resume({fspath!r})",
                folder=self.folder,
                fspath=os.fspath(self.folder),
            )
        return self._files.results()

    @property
    def history(self) -> History:
        """The rows of history.csv, one for each evaluation; a table in a notebook."""
        path = self.folder / METRICS
        return History(evaluations(read_records(path)) if path.is_file() else ())

    def load(self, device: str = "auto", *, model: OwnModel | None = None) -> Pipeline:
        """The trained model with its tokenizer, as `jumok.load` loads it."""
        from jumok.tasks.runs.load import load

        return load(self.folder, device, model=model)

    @cached_property
    def _pipeline(self) -> Pipeline:
        return self.load()

    def evaluate(self, data: object = None, *, split: str | None = None) -> dict[str, Any]:
        """The scores on `data`, as `jumok.evaluate` computes them."""
        return evaluate(self._pipeline, data, split=split)

    @overload
    def predict(self, texts: str) -> Any: ...
    @overload
    def predict(self, texts: Sequence[str]) -> list[Any]: ...
    def predict(self, texts: str | Sequence[str]) -> Any | list[Any]:
        """The output of the recipe's task for one text, or a list of them for a list of texts."""
        return self._pipeline(texts)

    def translate(
        self,
        source: str,
        *,
        format: str = "text",  # noqa: A002  the word of the command
        glossary: Mapping[str, str] | None = None,
        memory: PathLike | None = None,
    ) -> "TranslatedDocument":
        """The translation of the characters of a file, which keeps its format and its lines.

        format    "text", "wrapped", "html", "markdown", "po", "srt", "vtt": see docs/translation.md
        glossary  terms and their translations
        memory    a file of sentences that are translated already; new ones are added

        Raises InputError for an unknown format and for a run that does not generate text.

            run.translate("<p>겨울은 <b>추워요</b>.</p>", format="html").text
        """
        from jumok.documents.glossary import Glossary  # a training needs none of them
        from jumok.documents.memory import Memory
        from jumok.tasks.pipeline.translation import translate_document

        return translate_document(
            self._pipeline,
            source,
            format=format,
            glossary=None if glossary is None else Glossary(dict(glossary)),
            memory=None if memory is None else Memory.open(Path(memory)),
        )

    def push_to_hub(self, name: str, *, private: bool = True, revision: str | None = None) -> str:
        """Upload the run to OWNER/NAME on the Hugging Face Hub; returns the URL of the commit.

        `jumok.load(name)` then loads it anywhere. Weights, vocabulary, recipe and scores are
        uploaded; data and checkpoints are not. The model is created if it is missing, `private`
        by default. The token is that of `hf auth login`. Raises InputError for an
        unfinished run, and when the Hub refuses the upload.
        """
        self._files.read_model_config()
        return upload(self.folder, name, private=private, revision=revision)

    def __repr__(self) -> str:
        state = "finished" if self._files.finished else "not finished"
        return f"Run({os.fspath(self.folder)!r}, {state})"


@naming_extras("jumok.train")
def train(
    recipe: PathLike | Recipe,
    *,
    data: object = None,
    dev: object = None,
    test: object = None,
    out: PathLike | None = None,
    model: OwnModel | Mapping[str, object] | None = None,
    callbacks: Sequence[Callback] = (),
    **overrides: object,
) -> Run:
    """Train a recipe, score it on the test split, and save everything in a folder.

    The weights are those of `jumok train` with the same recipe and data, bit for bit.

    recipe     the name of a built-in recipe, the path of a .toml file, or a Recipe
    data       the training rows, instead of those of the recipe: a path; a list of dicts, or of
               tuples in the order of the task's columns (text and label for a classifier, source
               and target for a translator); a pandas or polars frame; a `datasets.Dataset`; an
               Arrow table. Data in memory are kept in the folder, for `resume` and `evaluate`.
    dev, test  likewise, the other splits. Without `dev` it is a tenth of the training rows,
               drawn at random with the same share of every label.
    out        the folder; by default runs/NAME, with the name of the recipe
    model      an nn.Module of your own instead of the task's Transformer, or a class or function
               that makes it of the table [model] and the number of outputs: see
               `jumok.tasks.own_model`. A dict is the table [model].
    callbacks  objects of classes derived from `Callback`
    overrides  keys of the recipe, with dots as double underscores: training__epochs=1

    Raises InputError for an unknown key or bad data, or a folder that has a run; NonFiniteError,
    StorageError and Interrupted as `jumok train` does; CallbackError.

        run = jumok.train("nsmc", data=[("재미있어요", "good"), ("지루해요", "bad"), ...])
        run.predict("정말 좋았어요")

    >>> import tempfile
    >>> rows = [("재미있어요", "good"), ("지루해요", "bad")] * 40
    >>> small = {"training__steps": 1, "vocabulary__size": 24, "model__n_layers": 1}
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = train("nsmc", data=rows, out=folder, **small)
    >>> run.results["n"], len(run.history)
    (8, 1)
    >>> resume(folder).results == run.results  # it is finished
    True
    """
    if isinstance(model, Mapping):
        overrides["model"] = model
    elif model is not None:
        overrides["model__architecture"] = register_model(model)
    plan = _plan(recipe, overrides)
    folder = Path("runs") / plan.name if out is None else Path(os.path.expanduser(os.fspath(out)))
    given = {"train": data, "dev": dev, "test": test}
    splits = {name: rows for name, rows in given.items() if rows is not None}
    with kept_data(plan, splits, folder) as plan:
        training.train(plan, folder, callbacks)
    return Run(folder)


@naming_extras("jumok.resume")
def resume(
    folder: PathLike, *, model: OwnModel | None = None, callbacks: Sequence[Callback] = ()
) -> Run:
    """Resume a run that was interrupted, from its newest valid checkpoint.

    The result is that of an uninterrupted training, bit for bit. A finished run is returned as it
    is. `model` is that of `train`, in a program that has not registered it. Raises InputError for a
    folder without a run, CheckpointError for damaged checkpoints.

        run = jumok.resume("runs/nsmc")

    >>> resume("a/b/c")
    Traceback (most recent call last):
    jumok.errors.InputError: a/b/c must be a run, got no such folder; name a folder of jumok train
    """
    if model is not None:
        register_model(model)
    path = Path(os.path.expanduser(os.fspath(folder)))
    training.resume(path, callbacks)
    return Run(path)


@naming_extras("jumok.evaluate")
def evaluate(
    model: "PathLike | Run | Pipeline",
    data: object = None,
    *,
    split: str | None = None,
    device: str = "auto",
    mute: Sequence[tuple[str, int, int]] = (),
) -> dict[str, Any]:
    """The scores of a model on `data`, or on the test sets of its recipe.

    model   a run, its folder, or what `jumok.load` returns
    data    a path, or rows in memory as for `train`
    split   a split of the recipe's data, such as "dev", instead of `data`
    device  "auto", or the device to load a folder on
    mute    heads, each (block, layer, head), whose attention weights are set to 0: Michel et al.
            2019, "Are Sixteen Heads Really Better than One?"

    Returns the object that `jumok evaluate --json` prints: the metrics of the task, the number of
    rows `n`, the `split`, and in `others` the scores of further test sets. Raises InputError for
    data without the columns of the task, and for heads that the model does not have.

        jumok.evaluate("runs/nsmc", [("재미있어요", "positive")])["accuracy"]

    >>> evaluate("note", [("겨울은 추워요.", "Winter is cold.")], device="cpu")["exact_match"]
    1.0
    """
    if isinstance(model, Run):
        model = model.folder
    if isinstance(model, Pipeline):
        pipeline = model
    else:
        from jumok.tasks.runs.load import load

        pipeline = load(os.fspath(model), device)
    if mute:
        from jumok.models.points import muted_copy  # of few evaluations

        pipeline = pipeline.with_models(partial(muted_copy, heads=tuple(mute)))
    first, *others = evaluate_all(pipeline, data, split)
    return first | ({"others": others} if others else {})


def evaluate_all(
    pipeline: Pipeline,
    data: object = None,
    split: str | None = None,
    predictions: Path | None = None,
) -> list[dict[str, Any]]:
    """The scores of each table that `data` or `split` names; by default of all test sets.

    `predictions` is a file to write with the prediction for each row.
    """
    if data is not None and split is not None:
        raise InputError("run.data_and_split", "data and split exclude each other; use one of them")
    if data is None:
        tables = evaluation_tables(pipeline.recipe, split, pipeline.labels)
    else:
        name = Path(data).name if isinstance(data, str | os.PathLike) else "data"
        tables = {name: table_of(data, pipeline.recipe, pipeline.labels, pipeline.paired_columns)}
    report_bad_rows(tables.values())
    if predictions is not None:
        from jumok.tasks.runs.prediction_file import check_prediction_file, write_predictions

        check_prediction_file(predictions, pipeline)
        write_predictions(predictions, pipeline, tables)
    return [
        evaluate_table(pipeline, table, name).scores
        | ({"skipped_rows": table.bad_rows.count} if table.bad_rows.count else {})
        for name, table in tables.items()
    ]


def _plan(recipe: PathLike | Recipe, overrides: Mapping[str, object]) -> Recipe:
    """The recipe with the overrides of the call."""
    changes = dict(_dotted(overrides))
    if isinstance(recipe, Recipe):
        return change_recipe(recipe, changes)
    return load_recipe(os.fspath(recipe), changes)


def _dotted(overrides: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """The keys with dots, those of tables too, and plain values.

    >>> _dotted({"training__epochs": 1, "model": {"n_layers": 2}})
    [('training.epochs', 1), ('model.n_layers', 2)]
    """
    found: list[tuple[str, object]] = []
    for name, value in overrides.items():
        key = prefix + name.replace("__", ".")
        if isinstance(value, Mapping):
            found += _dotted(value, f"{key}.")
        else:
            found.append((key, _plain(value)))
    return found


def _plain(value: object) -> object:
    """A path as its text, a number of numpy as one of Python."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if hasattr(value, "item") else value
