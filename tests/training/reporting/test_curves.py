"""Learning curves as a matplotlib figure and as SVG."""

import logging
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jumok.fonts import save_figure
from jumok.training.reporting.curves import BLUE, GREY, Chart, Curve, draw_charts, svg

LOSS = Curve("train", ((0.5, 0.9), (1.0, 0.4), (2.0, -0.1)), BLUE)
MANY = Curve("every report", tuple((i / 1000, 1 / (i + 1)) for i in range(5000)), GREY, faint=True)
EMPTY = Curve("dev", ())


@pytest.mark.parametrize(
    "charts",
    [
        [Chart("손실 loss −1", (MANY, LOSS, EMPTY)), Chart("accuracy", (LOSS,), best=(1.0, 0.4))],
        [Chart("nothing yet", (EMPTY,))],
        [Chart("one point", (Curve("dev", ((1.0, 0.8),)),), best=(1.0, 0.8))],
        [Chart("flat", (Curve("dev", ((1.0, 0.0), (2.0, 0.0))),))],
    ],
)
def test_charts_are_drawn_without_warnings(
    tmp_path: Path, charts: list[Chart], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        save_figure(draw_charts(charts, "감정 분류 $"), tmp_path / "history.png")
    assert not caplog.records
    for chart in charts:
        ElementTree.fromstring(svg(chart))


def test_svg_points_are_in_order_within_the_image() -> None:
    places = re.findall(r'points="([^"]+)"', svg(Chart("loss", (LOSS,))))
    points = [tuple(map(float, place.split(","))) for place in places[0].split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted(y for _, y in points)  # the loss falls, so y grows
    assert all(0 < x < 520 and 0 < y < 300 for x, y in points)


def test_svg_shows_names_literally() -> None:
    picture = svg(Chart("</svg><script>", (Curve("<b>&", LOSS.points),)))
    root = ElementTree.fromstring(picture)
    assert {"</svg><script>", "<b>&"} <= {element.text for element in root.iter("text")}


def test_a_long_curve_is_thinned_without_moving_its_mean() -> None:
    thin = MANY.thinned()
    assert len(thin.points) <= 300
    mean = sum(y for _, y in MANY.points) / len(MANY.points)
    assert sum(y for _, y in thin.points) / len(thin.points) == pytest.approx(mean, rel=0.01)
    assert LOSS.thinned() is LOSS
