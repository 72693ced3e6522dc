"""The figure of effects: each cell is a change."""

import numpy as np
import pytest

from jumok.fonts import figure_bytes
from jumok.interpret.interventions import Effects
from jumok.viewer.figures.canvas import FigureStyle
from jumok.viewer.figures.effect_map import effect_map
from tests.viewer.test_figures import cells, picture_of, texts

RANDOM = np.random.default_rng(5)
EFFECTS = Effects(
    intervention="mute",
    measure="log_probability",
    answer="오후 세 시",
    value=-1.5,
    values={"encoder": RANDOM.normal(-1.5, 0.2, (2, 4)), "cross": RANDOM.normal(-1.5, 2, (3, 4))},
)


@pytest.mark.parametrize("width", [None, 3.3, 6.9])
def test_cells_are_the_changes(width: float | None) -> None:
    figure = effect_map(EFFECTS, FigureStyle(width=width))
    for panel, table in enumerate(EFFECTS.changes().values()):
        np.testing.assert_allclose(cells(figure, panel), table)
        low, high = picture_of(figure, panel).get_clim()
        assert -low == high == pytest.approx(abs(EFFECTS.changes()["cross"]).max())
    drawn = {text.get_text() for text in texts(figure)}
    assert {"encoder", "cross-attention", "change of the log-probability"} <= drawn
    assert any("오후 세 시" in text for text in drawn)
    assert figure_bytes(figure, "png")  # a missing glyph would be a warning


def test_no_effect_at_all() -> None:
    same = Effects(
        intervention="patch_heads",
        measure="probability",
        answer="긍정",
        value=1.0,
        values={"encoder": np.ones((1, 1))},
        other_value=1.0,
    )
    assert cells(effect_map(same)).tolist() == [[0.0]]
