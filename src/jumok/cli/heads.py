"""jumok heads: what each attention head of a model does on texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import json_option, refuse_with_trace, run_argument
from jumok.cli.stdin import read_lines
from jumok.errors import UsageError
from jumok.language import translate
from jumok.terminal import pad, pad_left, print_json, print_line, print_message

if TYPE_CHECKING:
    from jumok.interpret.interventions import Effects
    from jumok.interpret.trace import Trace

_MEASURES = {"probability": "probability", "log_probability": "log-probability", "score": "score"}

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def heads(
    model: Annotated[
        Path,
        run_argument(
            "A run, an imported checkpoint, a Hugging Face folder or a trace.", metavar="MODEL"
        ),
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]...", help="Texts. [default: the lines of stdin]"),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Print the heads with the highest score first."),
    ] = None,
    as_json: Annotated[bool, json_option("Print one JSON object per head.")] = False,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep", help="Mute each head in turn: how does the answer for TEXT change?"
        ),
    ] = False,
    patch: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER", help="Give each head in turn the output that it has for OTHER."
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="With --sweep or --patch: another label or generated text."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --sweep or --patch: write .tsv, .json, .png, .svg or .pdf."
        ),
    ] = None,
) -> None:
    """Score every head for the patterns of the literature, from 0 to 1.

    previous_token, duplicate_token, induction, positional, separator (special tokens and the first
    token) and rare_word. Patterns of repeated tokens need texts in which tokens repeat.

    With --sweep or --patch: the effect of each head on the answer, the largest change first.
    """
    from jumok.config_io import suggest
    from jumok.interpret.head_patterns import PATTERNS, has_repeats, score_heads

    if sweep or patch is not None:
        if sort is not None or (sweep and patch is not None):
            raise UsageError(
                "cli.sort_sweep_and_patch", "use one of --sort, --sweep and --patch, got several"
            )
        _print_effects(_effects(model, texts, patch, answer), as_json, out)
        return
    if answer is not None or out is not None:
        raise UsageError(
            "cli.answer_and_out_need_sweep_or_patch",
            "--answer and --out need --sweep or --patch OTHER; add one of them",
        )

    if sort is not None and sort not in PATTERNS:
        raise UsageError(
            "cli.unknown_sort",
            "sort must be one of {patterns}; {suggest}",
            patterns=", ".join(PATTERNS),
            suggest=suggest(sort, PATTERNS),
        )
    traces = _traces(model, texts)
    rows = score_heads(traces)
    if sort is not None:
        rows.sort(key=lambda row: -row.scores[sort])
    if not has_repeats(traces):
        print_message(
            "cli.no_repeated_token",
            "jumok: no token of the texts repeats, so that duplicate_token and induction are "
            "0; give longer texts",
        )
    if not as_json:
        print_line(pad(translate("head"), 14) + "".join(f"{name:>16}" for name in PATTERNS))
    for row in rows:
        if as_json:
            place = {"block": row.block, "layer": row.layer, "head": row.head}
            print_json(place | {name: round(row.scores[name], 6) for name in PATTERNS})
        else:
            cells = "".join(f"{row.scores[name]:>16.3f}" for name in PATTERNS)
            print_line(f"{f'{row.block}.{row.layer}.{row.head}':<14}{cells}")


def _traces(model: Path, texts: list[str] | None) -> "list[Trace]":
    """A saved trace, or the traces of the model on each text."""
    if model.is_file():
        from jumok.interpret.trace import Trace

        refuse_with_trace(model, texts or [])
        return [Trace.open(model)]
    from jumok.interpret.tracing import trace
    from jumok.tasks.runs.load import load

    pipeline = load(model)
    lines = [text for text in texts or read_lines() if text.strip()]
    if not lines:
        raise UsageError(
            "cli.heads_need_a_text",
            "heads must have at least one text, got none; give TEXT or lines on stdin",
        )
    return [trace(pipeline, text, explain=False) for text in lines]


def _effects(
    model: Path, texts: list[str] | None, patch: str | None, answer: str | None
) -> "Effects":
    """The effect of every head on the answer of the model for one text."""
    from jumok.interpret.interventions import patch_heads, sweep_heads
    from jumok.tasks.runs.load import load

    if model.is_file():
        raise UsageError(
            "cli.effects_need_a_model",
            "the effect of heads needs a model, got the trace {model}; give the run",
            model=model,
        )
    pipeline = load(model)
    lines = [text for text in texts or read_lines() if text.strip()]
    if len(lines) != 1:
        raise UsageError(
            "cli.sweep_and_patch_need_one_text",
            "--sweep and --patch need exactly one text, got {n_lines}",
            n_lines=len(lines),
        )
    if patch is None:
        return sweep_heads(pipeline, lines[0], answer)
    return patch_heads(pipeline, lines[0], patch, answer)


def _print_effects(effects: "Effects", as_json: bool, out: Path | None) -> None:
    """Print a row per head, the largest change first; write them, or their figure, to a file."""
    if out is not None:
        from jumok.viewer.effect_files import write_effects

        write_effects(effects, out)
        print_message("cli.wrote", "jumok: wrote {out}", out=out)
    rows = sorted(effects.rows(), key=lambda row: -abs(float(row["change"])))
    if not as_json:
        measure = translate(_MEASURES[effects.measure])
        first = translate("{} of {!r}: {:.6f}", measure, effects.answer, effects.value)
        if effects.other_value is not None:
            first += translate("; of OTHER {:.6f}", effects.other_value)
        print_line(first)
        columns = (pad_left(translate(name), 12) for name in ("value", "change"))
        print_line(pad(translate("head"), 14) + "".join(columns))
    for row in rows:
        if as_json:
            print_json(row)
        else:
            name = f"{row['block']}.{row['layer']}.{row['head']}"
            print_line(f"{name:<14}{row['value']:>12.6f}{row['change']:>+12.6f}")
