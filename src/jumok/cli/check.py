"""jumok check: compare a model's outputs across equivalent computations."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import nn

    from jumok.checks import Change, Equality, Outcome, Subject
    from jumok.native import WeightPrecision
    from jumok.tasks.pipeline.pipeline import Pipeline

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run, or the folder of a model.")],
    texts: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="TEXT",
            help="Use this text instead of dev texts; TAB separates a pair. Repeatable.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the checks that compile or export the model.")
    ] = False,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or mps.")] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per check.")
    ] = False,
) -> None:
    """Compute a model's outputs in several equivalent ways and report the differences.

    Exits with code 1 if a check fails.
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
        sys.stdout.flush()  # with a large model each check takes seconds
    if failed:
        raise typer.Exit(1)


def _subject(loaded: "Pipeline", texts: list[str]) -> "Subject":
    """The model and its inputs, which are described on stderr."""
    from jumok.checks import Subject, draw_samples, samples_of, some_texts
    from jumok.errors import JumokError

    drawn = draw_samples(loaded)
    if texts:
        said, told = samples_of(loaded, texts), f"{len(texts)} given texts and "
    else:
        try:
            said = samples_of(loaded, some_texts(loaded))
            told = f"{len(said)} dev texts and "
        except JumokError as error:
            print(f"no dev texts ({error})", file=sys.stderr)
            said, told = [], ""
    lengths = ", ".join(str(len(sample.ids)) for sample in drawn)
    print(f"inputs: {told}random ids of {lengths} tokens", file=sys.stderr)
    return Subject(loaded, [*said, *drawn], n_texts=len(said), filler=int(drawn[-1].ids[0]))


def _table(quick: bool) -> "list[Equality]":
    """The checks to run, among them that of the optimized encoder."""
    from jumok.checks import EXPORTED, Alike, Changed, equalities, not_to_be_had
    from jumok.native import quantize_int8, to_bfloat16

    optimized = Alike(
        "optimized = eager",
        "the model with an optimized encoder, and the eager model",
        Changed(_fast("float32")),
    )
    if quick:
        skipped = not_to_be_had("skipped by --quick")
        return equalities(compiled=skipped, kernel=lambda precision: skipped, others=[optimized])
    return equalities(
        bfloat16=_fast("bfloat16", to_bfloat16),
        int8=_fast("int8", quantize_int8),
        others=[optimized, *EXPORTED],
    )


def _fast(precision: "WeightPrecision", otherwise: "Change | None" = None) -> "Change":
    """A transform to the optimized encoder; models with a decoder use `otherwise`."""
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
    """One row of the printed table.

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
