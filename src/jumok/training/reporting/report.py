"""`report.html`: a whole run on one page that opens anywhere, offline, in light and in dark.

One file without scripts, links or external images; a content security policy forbids them, too.
Texts of the data or the model are escaped and shown literally.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jumok.atomic_io import write_atomically
from jumok.errors import InputError
from jumok.evaluation.examples import Example, Mistake
from jumok.evaluation.own_metric import METRICS
from jumok.language import language, translate
from jumok.terminal import escape_control
from jumok.training.reporting.curves import svg
from jumok.training.reporting.metrics import (
    LogRecord,
    best_evaluation,
    charts,
    evaluations,
    format_duration,
)

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent  # of report.html.jinja and report.css
HEADLINE_METRICS = (
    "accuracy",
    "macro_f1",
    "micro_f1",
    "pearson",
    "spearman",
    "entity_f1",
    "character_f1",
    "exact_match",
    "bleu",
    "chrf",
    "perplexity",
    "bits_per_byte",
)
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # shown as ␀ ... ␟ and ␡


def headline_metrics() -> tuple[str, ...]:
    """The metrics of tasks, and those of one's own."""
    return (*HEADLINE_METRICS, *METRICS.names())


def write_report(
    folder: Path,
    *,
    title: str,
    history: Sequence[LogRecord],
    results: Mapping[str, object],
    recipe_toml: str,
    confusion: Sequence[Sequence[int]] | None = None,
    labels: Sequence[str] = (),
    mistakes: Sequence[Mistake] = (),
    examples: Sequence[Example] = (),
) -> Path:
    """Write `folder`/report.html and return its path; a section without data is left out.

    `confusion[i][j]` counts the texts of label i with the predicted label j. Raises InputError if
    it is not square with one row a label, StorageError if the file cannot be written.

    >>> import tempfile
    >>> path = write_report(Path(tempfile.mkdtemp()), title="numbers", history=[],
    ...     results={"exact_match": 0.996}, recipe_toml="seed = 1",
    ...     examples=[Example("스무 살", "20살", "20살")])
    >>> "<td><bdi>스무 살</bdi></td>" in path.read_text(encoding="utf-8")
    True
    """
    rows = evaluations(history)
    page = _template().render(
        title=title,
        language=language(),
        css=(HERE / "report.css").read_text(encoding="utf-8"),
        scores={name: results[name] for name in headline_metrics() if name in results},
        charts=[svg(chart) for chart in charts(history)] if history else [],
        rows=rows,
        best=best_evaluation(rows),
        metric=next((row.metric for row in rows if row.metric), "score"),
        confusion=None if confusion is None else _with_shares(confusion, labels),
        labels=labels,
        label_scores=results.get("labels", {}),
        mistakes=sorted(mistakes, key=lambda mistake: -mistake.probability),
        examples=examples,
        results=list(_flatten({k: v for k, v in results.items() if k != "labels"})),
        recipe_toml=recipe_toml,
    )
    path = folder / "report.html"
    write_atomically(path, page.encode("utf-8", errors="backslashreplace"))
    return path


@cache
def _template() -> "Template":
    """The template with its filters; its values are escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["translate"] = translate
    environment.filters |= {
        "number": _number,
        "whole_number": lambda value: "–" if value is None else f"{value:,.0f}",
        "percent": "{:.1%}".format,
        "duration": format_duration,
    }
    return environment.get_template("report.html.jinja")


def _visible(value: object) -> object:
    r"""Replace control characters of a text by pictures or escapes; other values are unchanged.

    >>> _visible("a\x00\x7f\u202e")
    'a␀␡\\u202e'
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    shown = CONTROLS.sub(lambda c: "␡" if c[0] == "\x7f" else chr(0x2400 + ord(c[0])), value)
    return escape_control(shown)


def _with_shares(
    confusion: Sequence[Sequence[int]], labels: Sequence[str]
) -> list[tuple[str, list[tuple[int, float]]]]:
    """A row for each label: every count with its share of the row."""
    n = len(labels)
    if len(confusion) != n or any(len(row) != n for row in confusion):
        raise InputError(
            "training.confusion_matrix_shape",
            "a confusion matrix must have one row and one column for each of {n} labels, got "
            "rows of {confusion}",
            n=n,
            confusion=[len(row) for row in confusion],
        )
    return [
        (label, [(count, count / max(sum(row), 1)) for count in row])
        for label, row in zip(labels, confusion, strict=True)
    ]


def _flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """The leaves of nested tables with dotted names; tables in a list are numbered from 1."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
            value = {str(number): item for number, item in enumerate(value, start=1)}
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _number(value: object) -> str:
    """A result for people: four decimals, thousands separators, a dash for what is unknown."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.4f}".replace("-", "−")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace("-", "−")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
