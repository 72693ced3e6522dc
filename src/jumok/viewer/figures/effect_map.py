"""The effect of each head on the answer: one row per layer, one column per head."""

from matplotlib.colors import CenteredNorm

from jumok.fonts import plot_style as font_style
from jumok.interpret.interventions import Effects
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
from jumok.viewer.figures.canvas import (
    GAP,
    LINE_HEIGHT,
    Canvas,
    FigureStyle,
    bottom_margin,
    colormap,
    small_font,
)
from jumok.viewer.figures.heatmap import draw_cells, draw_colorbar_at
from jumok.viewer.figures.layer_view import NAMES
from jumok.viewer.figures.model_map import arrange, draw_numbers

MEASURES = {
    "probability": "change of the probability",
    "log_probability": "change of the log-probability",
    "score": "change of the score",
}
TITLES = {
    "mute": "{}: change with each head muted",
    "patch_heads": "{}: change with each head of the other text",
    "patch_hidden": "{}: change with each hidden state of the other text",
}


def effect_map(effects: Effects, style: FigureStyle | None = None) -> JumokFigure:
    """The change of the answer: purple where it becomes less probable, orange where more.

    effect_map(sweep_heads(model, text), FigureStyle(width=3.3)).savefig("sweep.pdf")
    """
    with font_style():
        return _draw(effects, style or FigureStyle())


def _draw(effects: Effects, style: FigureStyle) -> JumokFigure:
    changes = effects.changes()
    title = style.title_text(translate(TITLES[effects.intervention], repr(effects.answer)))
    layout = arrange([(len(table), table.shape[1]) for table in changes.values()], style, title)
    canvas = Canvas(layout.width, layout.height, style)
    canvas.draw_title(title)
    largest = max(float(abs(table).max()) for table in changes.values()) or 1.0
    norm = CenteredNorm(halfrange=largest)
    for (name, table), (left, top) in zip(changes.items(), layout.positions, strict=True):
        width, height = (n * layout.tile for n in (table.shape[1], len(table)))
        axes = canvas.axes(left, top, width, height)
        cells = draw_cells(axes, table, colormap("diverging"), norm, lines=True)
        first = left == layout.positions[0][0]
        draw_numbers(axes, (len(table), table.shape[1]), layout.tile, style, first=first)
        above = top - (style.font + small_font(style)) * LINE_HEIGHT - GAP / 2
        canvas.draw_text(
            translate(NAMES.get(name, name)), left + width / 2, above, style.font, align="center"
        )
    first_top, last = layout.positions[0][1], layout.height - bottom_margin(style)
    label = translate(MEASURES[effects.measure])
    draw_colorbar_at(canvas, cells, layout.bar, first_top, last - first_top, label)
    return canvas.figure
