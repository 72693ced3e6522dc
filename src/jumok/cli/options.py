"""Options shared by several commands: texts, decoding settings, ensembles, precision."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jumok.errors import Message, UsageError, join_messages
from jumok.shipped import complete_run
from jumok.terminal import print_notice

if TYPE_CHECKING:
    from jumok.engine import EngineModel
    from jumok.engine.generation import GenerationModel
    from jumok.tasks.pipeline.pipeline import Pipeline


def run_argument(help: str = "The folder of a run.", metavar: str = "RUN") -> Any:  # noqa: A002
    """The argument for runs and models, whose names are completed."""
    return typer.Argument(metavar=metavar, autocompletion=complete_run, help=help)


def json_option(help: str) -> Any:  # noqa: A002
    """The option that prints JSON instead of text."""
    return typer.Option("--json", help=help)


InputText = Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Input text of the model.")]

TargetOption = Annotated[
    str | None,
    typer.Option("--target", metavar="TEXT", help="Force this output instead of generating one."),
]

DecodingOverrides = Annotated[
    list[str] | None,
    typer.Option(
        "--decoding",
        metavar="KEY=VALUE",
        help="Override [decoding] of the recipe, e.g. beam=5, sample=true. Repeatable.",
    ),
]

EnsembleRuns = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="RUN",
        autocompletion=complete_run,
        help="Ensemble with another run of the same vocabulary, for generated text. Repeatable.",
    ),
]

PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision", metavar="TYPE", help="Use an optimized encoder: float32, bfloat16 or int8."
    ),
]

VectorPrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="TYPE",
        help="float32, bfloat16 or int8. [default: int8 in the C++ kernel, else float32]",
    ),
]

ChatTemplateOption = Annotated[
    Path | None,
    typer.Option(
        "--template", metavar="FILE", help="The chat template (Jinja). [default: the model's own]"
    ),
]

DeviceOption = Annotated[str, typer.Option("--device", help="Device: auto, cpu, cuda or mps.")]


def refuse_with_trace(file: Path, given: Sequence[object]) -> None:
    """Raise UsageError for a text, or another input of models, in addition to a trace."""
    if any(each is not None for each in given):
        raise UsageError(
            "cli.text_with_trace",
            "{run} is a trace and takes no text or decoding options; give the run instead",
            run=file,
        )


def load_ensemble(
    run: Path, others: Sequence[Path] | None, overrides: Sequence[str] = (), device: str = "auto"
) -> "Pipeline":
    """A run, or an ensemble of several runs, which averages their probabilities.

    The decoding overrides are applied first: they may remove a setting that ensembles reject.
    """
    from jumok.tasks.runs.load import load

    pipeline = load(run, device)
    if not others:
        return pipeline
    first = pipeline.with_decoding(overrides) if overrides else pipeline
    return first.ensemble([load(other, device) for other in others])


def find_engine(
    run: Path, precision: str | None, device: str, decoding: Sequence[str] | None = None
) -> "EngineModel | None":
    """The model of a run without torch, as the commands use it; None where `load` opens it.

    With overrides of its `decoding` it may be one that generates text. Raises the errors of `load`
    where PyTorch is not installed.
    """
    from jumok.engine import find

    engine = find(run, device, precision, decoding)
    if engine is not None and precision is not None:
        print_notice(_encoder_in(precision))
    return engine


def find_vector_engine(run: Path, precision: str | None, device: str) -> "EngineModel | None":
    """The same for vectors, whose default is int8: half the time, and the same order of texts."""
    from jumok.engine import find

    found = find(run, device, "int8") if precision is None else None
    return found or find_engine(run, precision, device)


def with_precision(pipeline: "Pipeline", precision: str | None) -> "Pipeline":
    """The pipeline with an optimized encoder; unchanged for precision None.

    Raises InputError for unknown precisions, and for models without a supported encoder.
    """
    if precision is None:
        return pipeline
    from jumok.tasks.pipeline.encoder_choice import with_packed_encoder

    if pipeline.recipe.model.kind == "decoder":
        raise UsageError(
            "cli.precision_needs_encoder",
            "--precision needs a model with an encoder, got a language model; use --decoding "
            "precision={precision}",
            precision=precision,
        )
    return with_packed_encoder(pipeline, precision)  # type: ignore[arg-type]  # checks it


def with_fast_encoder(pipeline: "Pipeline", precision: str | None) -> "Pipeline":
    """The same; for precision None float32 in a compiled kernel, as `jumok serve`."""
    if precision is not None:
        return with_precision(pipeline, precision)
    from jumok.tasks.pipeline.encoder_choice import with_packed_encoder

    return with_packed_encoder(pipeline, None)


def load_encoder(run: Path, precision: str | None, device: str) -> "tuple[Pipeline, Pipeline]":
    """A run, and what encodes its texts: the same, or its copy with an optimized encoder.

    Raises InputError for a model that is not an encoder, and the errors of `with_precision`.
    """
    from jumok.tasks.pipeline.text_vectors import check_encodes
    from jumok.tasks.runs.load import load

    pipeline = load(run, device)
    check_encodes(pipeline.model)
    fast = with_fast_encoder(pipeline, precision)
    return pipeline, apply_decoding(fast, (), precision=precision)


def ensemble_info(others: Sequence[Path] | None, precision: str | None) -> dict[str, Any]:
    """The keys that `evaluate --json` adds for an ensemble or a precision; empty without them.

    >>> ensemble_info([Path("runs/second")], "int8")
    {'with': ['runs/second'], 'precision': 'int8'}
    >>> ensemble_info(None, None)
    {}
    """
    names = [os.fsencode(run).decode("utf-8", "backslashreplace") for run in others or ()]
    info: dict[str, Any] = {"with": names, "precision": precision}
    return {key: value for key, value in info.items() if value}


def apply_decoding(
    pipeline: "Pipeline",
    overrides: Sequence[str],
    others: Sequence[Path] | None = None,
    precision: str | None = None,
) -> "Pipeline":
    """The pipeline with decoding overrides; the effective settings are printed to stderr."""
    if overrides:
        pipeline = pipeline.with_decoding(overrides)
    settings = []
    if pipeline.task.generates:
        from jumok.tasks.pipeline.generation_pipeline import as_generation

        settings.append(_decoding(as_generation(pipeline).decoding_summary))
    info = ensemble_info(others, precision)
    if "with" in info:
        runs = ", ".join(map(repr, info["with"]))
        settings.append(Message("cli.ensemble_with", "with {runs}", runs=runs))
    if "precision" in info:
        settings.append(_encoder_in(info["precision"]))
    if settings:
        print_notice(join_messages("; ", settings))
    return pipeline


def print_decoding(engine: "GenerationModel") -> None:
    """Print the effective decoding settings to stderr."""
    print_notice(_decoding(engine.decoding_summary))


def _encoder_in(precision: str) -> Message:
    return Message("cli.encoder_in", "encoder in {precision}", precision=precision)


def _decoding(settings: str) -> Message:
    return Message("cli.decoding_settings", "decoding {settings}", settings=settings)


def read_template(file: Path | None) -> str | None:
    """The text of a file with a chat template; None for None."""
    from jumok.atomic_io import read_regular
    from jumok.safe_json import MAX_BYTES
    from jumok.text_files import decode_text

    if file is None:
        return None
    return decode_text(file, read_regular(file, MAX_BYTES))
