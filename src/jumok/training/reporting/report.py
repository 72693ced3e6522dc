"""`report.html`: a whole run on one page that opens anywhere, offline, in light and in dark.

One file without script, link or picture from elsewhere; the browser is told to allow none either.
Whatever text the data or the model brought along is shown literally, whatever it looks like.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.errors import InputError
from jumok.training.reporting.curves import svg
from jumok.training.reporting.metrics import (
    Evaluation,
    LogRecord,
    best_evaluation,
    charts,
    evaluations,
    format_duration,
)

STYLE = Path(__file__).with_name("report.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
HEADLINE_METRICS = (
    "accuracy",
    "macro_f1",
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
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # shown as ␀ ... ␟ and ␡


@dataclass(frozen=True)
class Mistake:
    """A text that got the wrong label, and how sure the model was of it."""

    text: str
    truth: str
    predicted: str
    probability: float  # of `predicted`, 0 to 1


@dataclass(frozen=True)
class Example:
    """A source, the target that was wanted and the output that came."""

    source: str
    target: str
    output: str


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

    `confusion[i][j]` counts the texts of label i that were given label j. Raises InputError when it
    is not square with one row a label, StorageError when the file cannot be written.

    >>> import tempfile
    >>> path = write_report(Path(tempfile.mkdtemp()), title="numbers", history=[],
    ...     results={"exact_match": 0.996}, recipe_toml="seed = 1",
    ...     examples=[Example("스무 살", "20살", "20살")])
    >>> "<td><bdi>스무 살</bdi></td>" in path.read_text(encoding="utf-8")
    True
    """
    rows = evaluations(history)
    sections = (
        _cards(results),
        _curves(history),
        _evaluations(rows),
        _confusion(confusion, labels) if confusion is not None else "",
        _mistakes(mistakes),
        _examples(examples),
        _results(results),
        _section("레시피", "Recipe", f"<pre>{shown(recipe_toml)}</pre>"),
    )
    page = (
        '<!DOCTYPE html>\n<html lang="ko">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown(title)} · jumok</title>\n"
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f"<h1>{shown(title)}</h1>\n" + "\n".join(filter(None, sections)) + "\n</body>\n</html>\n"
    )
    path = folder / "report.html"
    write_atomically(path, page.encode("utf-8", errors="backslashreplace"))
    return path


def shown(text: str) -> str:
    r"""The text as HTML that shows it literally, control characters as their pictures.

    >>> shown("</script>\x00 & ㅋㅋ")
    '&lt;/script&gt;␀ &amp; ㅋㅋ'
    """
    return escape(UNSEEN.sub(lambda found: _picture(found[0]), text))


def _picture(control: str) -> str:
    """The visible stand-in of a control character."""
    return "␡" if control == "\x7f" else chr(0x2400 + ord(control))


def _section(korean: str, english: str, body: str) -> str:
    """A heading in both languages and what stands under it."""
    return f"<section>\n<h2>{korean}<small>{english}</small></h2>\n{body}\n</section>"


def _cards(results: Mapping[str, object]) -> str:
    """The final scores in large figures."""
    cards = [
        f'<div class="card"><b>{_figure(results[name])}</b><span>{name}</span></div>'
        for name in HEADLINE_METRICS
        if name in results
    ]
    return f'<div class="cards">{"".join(cards)}</div>' if cards else ""


def _curves(history: Sequence[LogRecord]) -> str:
    """Loss and score over the epochs."""
    if not history:
        return ""
    pictures = "".join(map(svg, charts(history)))
    return _section("학습 곡선", "Curves", f'<div class="charts">{pictures}</div>')


def _evaluations(rows: Sequence[Evaluation]) -> str:
    """The table that note 002 prints, a row for each evaluation; the best one is bold."""
    if not rows:
        return ""
    top = best_evaluation(rows)
    metric = next((row.metric for row in rows if row.metric), "score")
    body = "".join(
        ('<tr class="best">' if row is top else "<tr>")
        + _numbers(
            f"{row.epoch:.2f}",
            f"{row.step:,}",
            _figure(row.loss),
            _figure(row.dev_loss),
            _figure(row.score),
            "–" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}",
            format_duration(row.seconds),
        )
        + "</tr>"
        for row in rows
    )
    heads = ("epoch", "step", "loss", "dev loss", metric, "tokens/s", "time")
    return _section("평가", "Evaluations", _table(heads, body, "digits"))


def _confusion(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> str:
    """Rows are the truth, columns what was said; the shade is the share of the row."""
    n = len(labels)
    if len(confusion) != n or any(len(row) != n for row in confusion):
        raise InputError(
            f"a confusion matrix of {len(confusion)} rows came for {n} labels; "
            "give one row and one column for each label"
        )
    body = ""
    for label, row in zip(labels, confusion, strict=True):
        total = max(sum(row), 1)
        cells = "".join(
            f'<td style="--share:{share:.3f}">{count:,}<small>{share:.1%}</small></td>'
            for count, share in ((count, count / total) for count in row)
        )
        body += f"<tr><th>{_text(label)}</th>{cells}</tr>"
    heads = "".join(f"<th>{_text(label)}</th>" for label in labels)
    return _section(
        "혼동 행렬",
        "Confusion matrix",
        '<p class="note">행은 정답, 열은 예측 · rows are the truth, columns the prediction</p>'
        f'<div class="wide"><table class="confusion"><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>",
    )


def _mistakes(mistakes: Sequence[Mistake]) -> str:
    """The surest wrong answers first."""
    if not mistakes:
        return ""
    body = "".join(
        f'<tr><td class="number">{mistake.probability:.1%}</td>'
        f'<td class="wrong">{_text(mistake.predicted)}</td>'
        f'<td class="right">{_text(mistake.truth)}</td><td>{_text(mistake.text)}</td></tr>'
        for mistake in sorted(mistakes, key=lambda mistake: -mistake.probability)
    )
    heads = ("확률 probability", "예측 predicted", "정답 truth", "글 text")
    return _section(
        "가장 확신한 오답", "Most confident mistakes", _table(heads, body, "full labelled")
    )


def _examples(examples: Sequence[Example]) -> str:
    """Source, target and output side by side; an output that is not the target is red."""
    if not examples:
        return ""
    marks = {True: '<td class="right">✓ ', False: '<td class="wrong">✗ '}
    body = "".join(
        f"<tr><td>{_text(example.source)}</td><td>{_text(example.target)}</td>"
        f"{marks[example.output == example.target]}{_text(example.output)}</td></tr>"
        for example in examples
    )
    heads = ("원문 source", "정답 target", "출력 output")
    return _section("보기", "Examples", _table(heads, body, "full"))


def _results(results: Mapping[str, object]) -> str:
    """Everything in results.json, nested keys joined by dots."""
    body = "".join(
        f"<tr><th>{shown(name)}</th><td>{_figure(value)}</td></tr>"
        for name, value in _flat(results)
    )
    return _section("결과", "Results", _table((), body, "results")) if body else ""


def _flat(tree: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """The leaves of a tree with their dotted names; things in a list are numbered from 1."""
    for key, value in tree.items():
        name = f"{before}{key}"
        if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
            value = {str(number): item for number, item in enumerate(value, start=1)}
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _table(heads: Iterable[str], body: str, look: str = "") -> str:
    """A table that scrolls by itself where it is wider than the page."""
    cells = "".join(f"<th>{shown(head)}</th>" for head in heads)
    top = f"<thead><tr>{cells}</tr></thead>" if cells else ""
    return f'<div class="wide"><table class="{look}">{top}<tbody>{body}</tbody></table></div>'


def _numbers(*values: str) -> str:
    """Cells with their digits under one another."""
    return "".join(f'<td class="number">{value}</td>' for value in values)


def _text(text: str) -> str:
    """A text of the data: literal, and unable to turn the writing direction of its neighbours."""
    return f"<bdi>{shown(text)}</bdi>"


def _figure(value: object) -> str:
    """A result as people read it: four decimals, thousands apart, a dash for what is unknown."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.4f}".replace("-", "−")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace("-", "−")
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
