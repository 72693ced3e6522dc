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
    locations = re.findall(r'points="([^"]+)"', svg(Chart("loss", (LOSS,))))
    points = [tuple(map(float, location.split(","))) for location in locations[0].split()]
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


def ticks(chart: Chart) -> tuple[list[float], list[float]]:
    """The numbers at the x axis and at the y axis of the SVG."""
    texts = [
        each
        for each in ElementTree.fromstring(svg(chart)).iter("text")
        if "class" not in each.attrib
    ]
    numbers = [(each.get("text-anchor"), each.text or "") for each in texts]
    of = {
        anchor: [
            float(t.replace("−", "-"))
            for a, t in numbers
            if a == anchor and re.fullmatch(r"[−\d.]+", t)
        ]
        for anchor in ("middle", "end")
    }
    return of["middle"], of["end"]


@pytest.mark.parametrize(("epoch", "score"), [(0.3, 1.0), (1.0, 0.996), (0.04, 0.0), (5.0, 0.5)])
def test_the_axes_of_a_single_evaluation(epoch: float, score: float) -> None:
    chart = Chart("exact_match", (Curve("dev", ((epoch, score),)),), best=(epoch, score))
    x, y = ticks(chart)
    assert x[0] == 0
    assert epoch <= x[-1] <= 1.5 * epoch
    assert 0 <= y[0] <= score <= y[-1] <= 1
    axes = draw_charts([chart]).axes[0]
    assert (axes.get_xlim()[0], axes.get_ylim()[1] <= 1) == (0, True)
    low, high = axes.get_ylim()
    assert high - low >= 0.0999


def test_an_axis_ends_at_the_largest_round_number() -> None:
    assert ticks(Chart("a", (Curve("dev", ((1.0, 0.4), (3.0, 1.0))),)))[1][-1] == 1
    assert ticks(Chart("loss", (Curve("dev", ((1.0, 7.0), (2.0, 3.5))),)))[1][-1] == 7
    assert svg(Chart("loss", (EMPTY,)))
