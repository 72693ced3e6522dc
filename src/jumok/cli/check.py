"""jumok check: compare a model's outputs across equivalent computations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import json_option, run_argument
from jumok.errors import Message
from jumok.language import localize, translate
from jumok.terminal import pad, print_json, print_line, print_message, text_width

if TYPE_CHECKING:
    from torch import nn

    from jumok.checks import Check, CheckResult, CheckTarget, ModelTransform
    from jumok.native import WeightPrecision
    from jumok.tasks.pipeline.pipeline import Pipeline

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def check(
    run: Annotated[Path, run_argument("A run, or the folder of a model.")],
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
    as_json: Annotated[bool, json_option("Print one JSON object per check.")] = False,
) -> None:
    """Compute a model's outputs in several equivalent ways and report the differences.

    Exits with code 1 if a check fails.
    """
    from jumok.checks import run_checks
    from jumok.tasks.runs.load import load

    target = _target(load(run, device), texts or [])
    checks = _checks(quick)
    width = max(text_width(localize(each.name)) for each in checks)
    if not as_json:
        headings = pad(translate("difference"), 11) + " " + pad(translate("tolerance"), 10)
        print_line(f"{'':<{width}}  {headings} {translate('result')}")
    failed = False
    for result in run_checks(target, checks):
        failed |= result.result == "fail"
        if as_json:
            print_json(result.as_json())
        else:
            print_line(_line(result, width))
    if failed:
        raise typer.Exit(1)


def _target(pipeline: "Pipeline", texts: list[str]) -> "CheckTarget":
    """The model and its inputs, which are described on stderr."""
    from jumok.checks import CheckTarget, dev_texts, draw_samples, text_samples
    from jumok.errors import JumokError

    random_samples = draw_samples(pipeline)
    if texts:
        samples = text_samples(pipeline, texts)
        description: Message | str = Message(
            "cli.given_texts", "given texts ({n}) and ", n=len(texts)
        )
    else:
        try:
            samples = text_samples(pipeline, dev_texts(pipeline))
            description = Message("cli.dev_texts", "{n} dev texts and ", n=len(samples))
        except JumokError as error:
            print_message("cli.no_dev_texts", "no dev texts ({error})", error=error)
            samples, description = [], ""
    lengths = ", ".join(str(len(sample.ids)) for sample in random_samples)
    print_message(
        "cli.inputs_random_ids",
        "inputs: {description}random ids of {lengths} tokens",
        description=description,
        lengths=lengths,
    )
    padding_id = int(random_samples[-1].ids[0])
    return CheckTarget(pipeline, [*samples, *random_samples], len(samples), padding_id)


def _checks(quick: bool) -> "list[Check]":
    """The checks to run, among them that of the optimized encoder."""
    from jumok.checks import (
        EXPORT_CHECKS,
        InvarianceCheck,
        TransformedModel,
        all_checks,
        unavailable,
    )
    from jumok.native import quantize_int8, to_bfloat16

    optimized = InvarianceCheck(
        "optimized = eager",
        "the model with an optimized encoder, and the eager model",
        TransformedModel(_optimize_encoder("float32")),
    )
    if quick:
        skipped = unavailable("skipped by --quick")
        return all_checks(compiled=skipped, kernel=lambda precision: skipped, others=[optimized])
    return all_checks(
        bfloat16=_optimize_encoder("bfloat16", to_bfloat16),
        int8=_optimize_encoder("int8", quantize_int8),
        others=[optimized, *EXPORT_CHECKS],
    )


def _optimize_encoder(
    precision: "WeightPrecision", otherwise: "ModelTransform | None" = None
) -> "ModelTransform":
    """A transform to the optimized encoder; models with a decoder use `otherwise`."""
    from jumok.checks import NotApplicable
    from jumok.inference.optimization import optimize, unsupported_reason

    def transform(model: "nn.Module") -> "nn.Module":
        reason = unsupported_reason(model)
        if otherwise is not None and (reason is not None or hasattr(model, "decoder")):
            return otherwise(model)
        if reason is not None:
            raise NotApplicable(reason)
        return optimize(model, precision)

    return transform


def _line(result: "CheckResult", width: int) -> str:
    """One row of the printed table.

    >>> from jumok.checks import CheckResult
    >>> _line(CheckResult("a = b", "", "pass", 3.2e-7, 1e-5, same=9, decisions=10), 8)
    'a = b        3.2e-07      1e-05  pass; 9 of 10 decisions the same'
    """
    numbers = f"{'':>10}  {'':>9}"
    if result.difference is not None:
        numbers = f"{result.difference:>10.1e}  {result.tolerance:>9.2g}"
    words = [translate(result.result), localize(result.reason)]
    if result.decisions is not None:
        words.append(translate("{} of {} decisions the same", result.same, result.decisions))
    return f"{pad(localize(result.equality), width)}  {numbers}  {'; '.join(filter(None, words))}"
