"""What a model reads in: its own numbers, or those of a copy that reads faster."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline

PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="TYPE",
        help="Use an optimized encoder: float32, bfloat16 or int8.",
    ),
]


def with_precision(loaded: "Pipeline", precision: str | None) -> "Pipeline":
    """The model as it is, or one whose encoder reads in `precision` (`jumok.inference.optimized`).

    Raises InputError for other words, and for models that have no such encoder.
    """
    if precision is None:
        return loaded
    from jumok.errors import InputError
    from jumok.inference import optimize

    if loaded.recipe.task == "language_modeling":
        raise InputError(
            f"--precision needs a model with an encoder, got a language model; use "
            f"--decoding precision={precision}"
        )
    return loaded.with_models(lambda model: optimize(model, precision))  # type: ignore[arg-type]
