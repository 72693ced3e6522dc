"""The explanation of a classifier: its words, coloured by contribution, and a bar for each.

The contribution of a word to a label is the label's probability minus its probability without the
word: orange is for the label, purple against it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from jumok.errors import TraceError
from jumok.fonts import replace_missing_glyphs
from jumok.interpret.schema import Classification, Explained, check_index
from jumok.interpret.trace import Trace
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
from jumok.viewer.figures.canvas import (
    GAP,
    INK,
    LINE_HEIGHT,
    MARGIN,
    PALE,
    SOFT,
    Canvas,
    FigureStyle,
    colormap,
    small_font,
    text_width,
    title_height,
    truncate_text,
)
from jumok.viewer.figures.heatmap import hide_ticks
from jumok.viewer.labels import visible_text

DEFAULT_WIDTH = 6.0  # inches
MAX_BARS = 24  # the words with the largest contributions
MAX_LABELS = 8  # the most probable

Colour: TypeAlias = tuple[float, float, float, float]


def explanation(
    trace: Trace, sequence: int, style: FigureStyle, label: int | None = None
) -> JumokFigure:
    """The prediction, the words and their contributions to a label (None: the most probable one).

    Raises InputError if the trace has no contributions or no such label.
    """
    predictions = trace.info.classification
    if predictions is None:
        raise TraceError(
            "page.explanation_needs_classifier",
            "the figure explanation needs a trace of a classifier",
        )
    check_index("sequence", sequence, len(predictions.sequences))
    prediction = predictions.sequences[sequence]
    if not prediction.words:
        raise TraceError(
            "page.no_contributions",
            "the trace has no contributions of words; trace with explain=True",
        )
    if label is None:
        label = int(np.argmax(prediction.probabilities))
    if not 0 <= label < len(predictions.labels):
        raise TraceError(
            "page.label_range",
            "the label must be 0 to {n_labels}, got {label}; leave it out for the most probable "
            "one",
            n_labels=len(predictions.labels) - 1,
            label=label,
        )
    truncated = trace.info.tokens("source", sequence).truncated
    return _draw(predictions, prediction, label, truncated, style)


def contributions(prediction: Explained, label: int) -> NDArray[np.float64]:
    """p(label) − p(label without the word), for each word."""
    return np.array(
        [prediction.probabilities[label] - word.without[label] for word in prediction.words]
    )


@dataclass(frozen=True)
class _Word:
    """A word and its position in the text flow."""

    text: str
    number: int
    left: float
    line: int
    width: float


def _draw(
    predictions: Classification,
    prediction: Explained,
    label: int,
    truncated: int,
    style: FigureStyle,
) -> JumokFigure:
    width = style.width or DEFAULT_WIDTH
    large = style.font * 1.25
    line, text_line = style.font * LINE_HEIGHT * 1.15, large * LINE_HEIGHT * 1.45
    contribution = contributions(prediction, label)
    norm = Normalize(-_largest(contribution), _largest(contribution))
    title = style.title_text(f"{predictions.labels[label]} {prediction.probabilities[label]:.1%}")
    classes = np.argsort(-np.array(prediction.probabilities), kind="stable")[:MAX_LABELS]
    words = _flow([visible_text(word.text) for word in prediction.words], width - 2 * MARGIN, large)
    barred = np.sort(np.argsort(-np.abs(contribution), kind="stable")[:MAX_BARS])

    text_top = title_height(style, title) + GAP + len(classes) * line + 2 * GAP
    bars_top = text_top + (words[-1].line + 1) * text_line + GAP + line
    canvas = Canvas(width, bars_top + len(barred) * line + MARGIN, style)
    canvas.draw_title(title)
    _draw_bars(
        canvas,
        title_height(style, title) + GAP,
        line,
        [predictions.labels[i] for i in classes],
        np.array(prediction.probabilities)[classes],
        ["#8fa9d6"] * len(classes),
        "{:.3f}",
    )
    tints = [colormap("diverging")(norm(number)) for number in contribution]
    for word in words:
        _draw_word(canvas, word, text_top, text_line, large, tints[word.number])
    what = translate("p({}) − p without the word", predictions.labels[label])
    if len(barred) < len(contribution):
        what += translate("; {} of {} words", len(barred), len(contribution))
    if truncated:
        what += translate("; {} pieces of the text were not read", truncated)
    width_limit = width - 2 * MARGIN
    canvas.draw_text(
        truncate_text(what, width_limit, small_font(style)),
        MARGIN,
        bars_top - line,
        small_font(style),
        colour=SOFT,
    )
    _draw_bars(
        canvas,
        bars_top,
        line,
        [visible_text(prediction.words[i].text) for i in barred],
        contribution[barred],
        [tints[i] for i in barred],
        "{:+.3f}",
    )
    return canvas.figure


def _largest(contribution: NDArray[np.float64]) -> float:
    return float(np.abs(contribution).max()) or 1.0


def _flow(texts: Sequence[str], width_limit: float, size: float) -> list[_Word]:
    """Lay out words in lines."""
    pad = 0.03
    found: list[_Word] = []
    x, line = 0.0, 0
    for number, text in enumerate(texts):
        text = truncate_text(text, width_limit - 2 * pad, size)
        width = text_width(text, size) + 2 * pad
        if x and x + width > width_limit:
            x, line = 0.0, line + 1
        found.append(_Word(text, number, MARGIN + x, line, width))
        x += width + 0.03
    return found


def _draw_word(
    canvas: Canvas, word: _Word, top: float, line: float, size: float, colour: Colour
) -> None:
    """Draw a word on its colour."""
    y = top + word.line * line
    axes = canvas.axes(word.left, y, word.width, line * 0.88)
    hide_ticks(axes)
    axes.spines[:].set_visible(False)
    axes.set_facecolor(colour)
    axes.text(
        0.5,
        0.46,
        replace_missing_glyphs(word.text),
        transform=axes.transAxes,
        fontsize=size,
        ha="center",
        va="center_baseline",
        color=_readable_on(colour),
    )


def _readable_on(colour: Colour) -> str:
    """Ink or white, whichever has more contrast (relative luminance, WCAG 2)."""
    linear = [((c + 0.055) / 1.055) ** 2.4 if c > 0.04045 else c / 12.92 for c in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return INK if luminance > 0.2 else "white"


def _draw_bars(
    canvas: Canvas,
    top: float,
    line: float,
    names: Sequence[str],
    numbers: NDArray[np.float64],
    colours: Sequence[Colour | str],
    form: str,
) -> None:
    """Draw names at the left, bars from 0, and numbers at the right."""
    size = canvas.style.font
    width_limit = 0.3 * canvas.width
    labels = [truncate_text(name, width_limit, size) for name in names]
    left = MARGIN + max(text_width(name, size) for name in labels) + GAP
    formatted = [form.format(number).replace("-", "−") for number in numbers]
    right = max(text_width(text, size) for text in formatted) + MARGIN + GAP
    axes = canvas.axes(left, top, canvas.width - left - right, line * len(names))
    axes.spines[:].set_visible(False)
    positions = np.arange(len(names)) + 0.5
    axes.barh(positions, numbers, height=0.74, color=colours, edgecolor=PALE, linewidth=0.3)
    axes.axvline(0.0, color=PALE, linewidth=0.5)
    low, high = min(0.0, float(numbers.min())), max(0.0, float(numbers.max()))
    axes.set_xlim(low, high if high > low else low + 1.0)
    axes.set_ylim(len(names), 0)
    axes.set_xticks([])
    axes.set_yticks(positions, labels=labels, fontsize=size)
    for place, text in zip(positions, formatted, strict=True):
        axes.annotate(
            text,
            (1.0, place),
            xycoords=axes.get_yaxis_transform(),
            xytext=(right * 72 - MARGIN * 72, 0),
            textcoords="offset points",
            fontsize=size,
            ha="right",
            va="center_baseline",
            color=INK,
        )
