"""jumok check: the same answer however a model is asked, measured."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import nn

    from jumok.checks import Change, Equality, Outcome, Subject
    from jumok.native import WeightPrecision
    from jumok.tasks.pipeline.pipeline import Loaded

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run, or a folder of a model.")],
    texts: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="TEXT",
            help="Ask about this instead of development texts; a TAB parts a pair. Repeatable.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out what must be compiled or exported first.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON line on stdout for each equality.")
    ] = False,
) -> None:
    """Ask a model the same in many ways and tell how far its answers are apart.

    Ends with exit code 1 when an equality fails.
    """
    from jumok.checks import check as outcomes_of
    from jumok.tasks.runs.load import load

    subject = _subject(load(run, device), texts or [])
    table = _table(quick)
    width = max(len(equality.name) for equality in table)
    if not as_json:
        typer.echo(f"{'':<{width}}  difference  tolerance  result")
    failed = False
    for outcome in outcomes_of(subject, table):
        failed |= outcome.result == "fail"
        if as_json:
            line = json.dumps(outcome.as_json(), ensure_ascii=False, allow_nan=False)
        else:
            line = _line(outcome, width)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()  # each takes seconds with a large model
    if failed:
        raise typer.Exit(1)


def _subject(loaded: "Loaded", texts: list[str]) -> "Subject":
    """The model and what it is asked, told on stderr."""
    from jumok.checks import Subject, draw_samples, samples_of, some_texts
    from jumok.errors import JumokError

    drawn = draw_samples(loaded)
    if texts:
        said, told = samples_of(loaded, texts), f"{len(texts)} texts given, and "
    else:
        try:
            said = samples_of(loaded, some_texts(loaded))
            told = f"{len(said)} texts of the development data, and "
        except JumokError as error:
            print(f"no development texts ({error})", file=sys.stderr)
            said, told = [], ""
    lengths = ", ".join(str(len(sample.ids)) for sample in drawn)
    print(f"asked: {told}random ids of {lengths} tokens", file=sys.stderr)
    return Subject(loaded, [*said, *drawn], n_texts=len(said), filler=int(drawn[-1].ids[0]))


def _table(quick: bool) -> "list[Equality]":
    """The rows of the table, with the copies that serving makes of encoders."""
    from jumok.checks import EXPORTED, Alike, Changed, equalities, not_to_be_had
    from jumok.native import quantize_int8, to_bfloat16

    serving = Alike(
        "optimized = plain",
        "a copy whose encoder reads fast, and the plain model",
        Changed(_fast("float32")),
    )
    if quick:
        left_out = not_to_be_had("left out by --quick")
        return equalities(compiled=left_out, kernel=lambda precision: left_out, others=[serving])
    return equalities(
        bfloat16=_fast("bfloat16", to_bfloat16),
        int8=_fast("int8", quantize_int8),
        others=[serving, *EXPORTED],
    )


def _fast(precision: "WeightPrecision", otherwise: "Change | None" = None) -> "Change":
    """What makes a copy for reading; `otherwise` makes those of models that write."""
    from jumok.checks import NotApplicable
    from jumok.inference.optimization import optimize, unsupported_reason

    def change(model: "nn.Module") -> "nn.Module":
        reason = unsupported_reason(model)
        if otherwise is not None and (reason is not None or hasattr(model, "decoder")):
            return otherwise(model)
        if reason is not None:
            raise NotApplicable(reason)
        return optimize(model, precision)

    return change


def _line(outcome: "Outcome", width: int) -> str:
    """One row of the table.

    >>> from jumok.checks import Outcome
    >>> _line(Outcome("a = b", "", "pass", 3.2e-7, 1e-5, same=9, decisions=10), 8)
    'a = b        3.2e-07      1e-05  pass; 9 of 10 decisions the same'
    """
    numbers = f"{'':>10}  {'':>9}"
    if outcome.difference is not None:
        numbers = f"{outcome.difference:>10.1e}  {outcome.tolerance:>9.2g}"
    words = [outcome.result, outcome.reason]
    if outcome.decisions is not None:
        words.append(f"{outcome.same} of {outcome.decisions} decisions the same")
    return f"{outcome.equality:<{width}}  {numbers}  {'; '.join(filter(None, words))}"
