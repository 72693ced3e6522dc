"""Figures of traces: correct numbers, layout, readability, and no active content."""

import logging
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.colors import PowerNorm, to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import PathPatch
from matplotlib.text import Text
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.fonts import figure_bytes
from jumok.interpret.aggregate import aggregate, renormalize, token_groups
from jumok.interpret.schema import Muted
from jumok.interpret.thumbnails import max_pool_tiles
from jumok.interpret.trace import Trace
from jumok.viewer.figures.figure import default_kind, draw_figure
from jumok.viewer.figures.model_map import mosaic
from jumok.viewer.figures.options import KINDS, FigureOptions, Kind
from tests.errors import raises
from tests.viewer.figure_traces import HOSTILE, READ, WRITTEN, trace_of
from tests.viewer.random_traces import random_trace

TRACE = trace_of(classifies=True)
ENCODER_ONLY = trace_of(written=None, padding=3)


def cells(figure: Figure, panel: int = 0) -> NDArray[np.float64]:
    """The numbers behind the colours of a panel."""
    return np.ma.filled(picture_of(figure, panel).get_array().astype(np.float64), np.nan)


def picture_of(figure: Figure, panel: int) -> QuadMesh | AxesImage:
    drawn = [*figure.axes[panel].collections, *figure.axes[panel].images]
    assert isinstance(drawn[0], QuadMesh | AxesImage)
    return drawn[0]


def texts(figure: Figure) -> list[Text]:
    """All that is written and can be seen; matplotlib keeps ticks that lie out of sight, too."""
    found = [*figure.texts]
    for axes in figure.axes:
        found += [axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis, bounds in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for location, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
                if min(bounds) <= location <= max(bounds):
                    found.append(label)
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def rows(figure: Figure, panel: int = 0) -> list[str]:
    return [label.get_text() for label in figure.axes[panel].get_yticklabels()]


def columns(figure: Figure, panel: int = 0) -> list[str]:
    return [label.get_text() for label in figure.axes[panel].get_xticklabels()]


# A figure draws the numbers of the trace


def test_a_head_is_drawn_as_it_is() -> None:
    figure = TRACE.figure(block="encoder", layer=1, head=2)
    np.testing.assert_array_equal(cells(figure), TRACE.weights("encoder", 1)[2])
    assert rows(figure) == columns(figure)
    assert rows(figure)[:3] == ["[CLS]", "␣이", "␣영화"]
    assert figure.axes[0].yaxis_inverted()  # the first query is on top


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_heads_as_one(pool: str) -> None:
    figure = TRACE.figure(block="decoder", layer=0, head=pool)  # type: ignore[arg-type]
    expected = getattr(TRACE.weights("decoder", 0), pool)(0)
    np.testing.assert_allclose(cells(figure), expected, rtol=1e-6)


def strokes(figure: Figure) -> list[PathPatch]:
    """The lines between tokens."""
    return [patch for patch in figure.axes[0].patches if isinstance(patch, PathPatch)]


def test_lines_are_the_largest_weights_of_each_row() -> None:
    table = TRACE.weights("cross", 1)[2]
    figure = TRACE.figure("lines", block="cross", layer=1, head=2, mass=0.5)
    ends = set()
    for patch in strokes(figure):
        (_, start), *_, (_, end) = np.asarray(patch.get_path().vertices)
        ends.add((int(start), int(end)))
    for row, weights in enumerate(table):
        drawn = {key for query, key in ends if query == row}
        assert drawn == set(np.argsort(-weights)[: len(drawn)].tolist())
        kept = sorted(weights[list(drawn)])
        assert sum(kept) >= 0.5 * weights.sum() - 1e-6 > sum(kept[1:])
    share = sum(table[pair] for pair in ends) / table.sum()
    assert f"{len(ends)} lines show {100 * share:.1f} % of the weights" in {
        text.get_text() for text in figure.texts
    }


def test_pinned_heads_keep_their_colours_and_dashes() -> None:
    pins: list[Muted] = [("cross", 0, 1), ("cross", 1, 3)]
    figure = TRACE.figure("lines", pins=pins, block="cross")
    looks = {(to_hex(patch.get_edgecolor()), patch.get_linestyle()) for patch in strokes(figure)}
    assert len({dash for _, dash in looks}) == 2
    assert {colour for colour, _ in looks} == {"#0072b2", "#d55e00"}
    drawn_texts = {text.get_text() for text in figure.texts}
    assert {"cross-attention · L0 H1, L1 H3", "L0 H1", "L1 H3"} <= drawn_texts


def test_a_highlighted_query_makes_the_others_pale() -> None:
    figure = TRACE.figure("lines", block="decoder", layer=1, head=2, query=3)
    rows = {True: set[float](), False: set[float]()}
    for patch in strokes(figure):
        start = float(np.asarray(patch.get_path().vertices)[0, 1])
        rows[int(start) == 3].add(float(patch.get_alpha() or 0.0))
    assert rows == {True: {1.0}, False: {0.15}}


def test_an_alignment_of_all_layers_pools_every_head() -> None:
    every = np.concatenate([TRACE.weights("cross", layer) for layer in range(2)])
    for head, expected in (("mean", every.mean(0)), ("max", every.max(0))):
        figure = TRACE.figure("alignment", layer="all", head=head, rows="read")  # type: ignore[arg-type]
        np.testing.assert_allclose(cells(figure), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("figure_options", "sentence"),
    [
        ({"kind": "lines", "mass": 0.0}, "page.mass_range"),
        ({"kind": "lines", "mass": float("nan")}, "page.mass_range"),
        (
            {"kind": "lines", "pins": [("cross", 0, 0)]},
            "page.pins_of_other_block",
        ),
        (
            {"kind": "lines", "pins": [("encoder", 7, 0)]},
            "page.layer_range",
        ),
        ({"kind": "lines", "pins": [("encoder", 0, 9)]}, "trace.index_range"),
        (
            {"kind": "heads", "pins": [("encoder", 0, 0)]},
            "page.pins_of_other_figure",
        ),
        ({"kind": "heads", "layer": "all"}, "page.layer_not_a_number"),
        (
            {"kind": "alignment", "layer": "all", "head": 1},
            "page.head_of_all_layers",
        ),
    ],
)
def test_invalid_lines_and_layers(figure_options: dict[str, Any], sentence: str) -> None:
    with raises(InputError, sentence):
        TRACE.figure(**figure_options)


def test_padding_is_not_drawn() -> None:
    figure = ENCODER_ONLY.figure(head=0)
    np.testing.assert_array_equal(cells(figure), ENCODER_ONLY.weights("encoder", 1)[0, :9, :9])
    assert "[PAD]" not in rows(figure)


def test_all_heads_share_their_colours() -> None:
    figure = TRACE.figure("heads", block="encoder", layer=0)
    weights = TRACE.weights("encoder", 0)
    for head in range(4):
        np.testing.assert_array_equal(cells(figure, head), weights[head])
        assert picture_of(figure, head).get_clim() == (0.0, weights.max())
    assert [t.get_text() for t in figure.texts if "head " in t.get_text()][-1] == "head 3"


def test_the_map_of_a_model_has_every_head() -> None:
    figure = TRACE.figure("model")
    for panel, block in enumerate(("encoder", "decoder", "cross")):
        layers = np.stack([TRACE.weights(block, layer) for layer in range(2)])
        np.testing.assert_array_equal(cells(figure, panel), mosaic(layers))


def test_tiles_are_those_of_the_thumbnails() -> None:
    heads = np.random.default_rng(0).random((2, 150, 70)).astype(np.float32)
    from jumok.interpret.thumbnails import thumbnail

    shown = np.rint(255 * np.sqrt(max_pool_tiles(heads))).astype(np.uint8)
    np.testing.assert_array_equal(shown, thumbnail(heads))


def test_rows_of_an_alignment_are_read_or_predicted_tokens() -> None:
    weights = TRACE.weights("cross", 1).mean(0)
    read = TRACE.figure("alignment", rows="read")
    np.testing.assert_allclose(cells(read), weights, rtol=1e-6)
    assert rows(read)[:2] == ["[BOS]", "␣2026"]
    predicted = TRACE.figure("alignment")
    np.testing.assert_allclose(cells(predicted), weights[:-1], rtol=1e-6)
    assert rows(predicted)[:2] == ["␣2026", "년"]  # what was written while reading [BOS] and 2026
    drawn_texts = [text.get_text() for text in predicted.texts]
    assert "token predicted" in drawn_texts


def test_alignment_marks_the_largest_cells_and_sums_the_columns() -> None:
    figure = TRACE.figure("alignment", head=1, rows="read")
    table = TRACE.weights("cross", 1)[1]
    mutual, others = figure.axes[0].get_lines()
    marked = {
        (int(y), int(x))
        for line in (mutual, others)
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    assert marked == {(row, int(table[row].argmax())) for row in range(len(table))}
    for x, y in zip(mutual.get_xdata(), mutual.get_ydata(), strict=True):
        assert table[:, int(x)].argmax() == int(y)
    for x, y in zip(others.get_xdata(), others.get_ydata(), strict=True):
        assert table[:, int(x)].argmax() != int(y)
    heights = [bar.get_height() for bar in figure.axes[1].patches]
    np.testing.assert_allclose(heights, table.sum(0), rtol=1e-6)


def test_a_neuron_view_adds_up_to_the_score() -> None:
    location = {"block": "cross", "layer": 0, "head": 3, "query": 2}
    figure = TRACE.figure("neuron", **location)  # type: ignore[arg-type]
    q, k = TRACE.q("cross", 0)[3, 2], TRACE.k("cross", 0)[1]  # two heads share a key head
    np.testing.assert_allclose(cells(figure, 0), k)
    np.testing.assert_allclose(cells(figure, 1), q[None])
    np.testing.assert_allclose(cells(figure, 2), q * k, rtol=1e-6)
    np.testing.assert_allclose(cells(figure, 3)[:, -1], k @ q, rtol=1e-5, atol=1e-6)
    scores = [bar.get_width() for bar in figure.axes[4].patches]
    np.testing.assert_allclose(scores, TRACE.scores("cross", 0)[3, 2], rtol=1e-4, atol=1e-6)
    shares = [bar.get_width() for bar in figure.axes[5].patches]
    np.testing.assert_allclose(shares, TRACE.weights("cross", 0)[3, 2], rtol=1e-6)
    assert [text.get_text() for text in figure.axes[5].texts][:1] == [f"{shares[0]:.3f}"]


def test_a_bias_of_relative_positions_is_a_column_of_its_own() -> None:
    trace = trace_of(positions="relative")
    figure = trace.figure("neuron", block="decoder", layer=0, head=0, query=3)
    scaled, bias, _ = ([bar.get_width() for bar in axes.patches] for axes in figure.axes[-3:])
    np.testing.assert_allclose(bias, trace.bias("decoder", 0)[0, 3], rtol=1e-6)
    expected = trace.scores("decoder", 0)[0, 3]
    np.testing.assert_allclose(np.add(scaled, bias), expected, rtol=1e-4, atol=1e-5)


def test_a_cap_of_the_scores_is_a_column_of_its_own() -> None:
    blocks = tuple(replace(block, softcap=0.5) for block in ENCODER_ONLY.info.blocks)
    capped = ENCODER_ONLY.with_info(replace(ENCODER_ONLY.info, blocks=blocks))
    figure = capped.figure("neuron", block="encoder", layer=0, head=0, query=3)
    plain = ENCODER_ONLY.figure("neuron", block="encoder", layer=0, head=0, query=3)
    assert len(figure.axes) == len(plain.axes) + 1
    scaled, found, _ = ([bar.get_width() for bar in axes.patches] for axes in figure.axes[-3:])
    np.testing.assert_allclose(found, 0.5 * np.tanh(np.array(scaled) / 0.5), rtol=1e-6)
    assert "0.5·tanh(s / 0.5)" in [text.get_text() for text in texts(figure)]


def test_positions_are_the_models_own() -> None:
    table = TRACE.tensor("source.positions")
    figure = TRACE.figure("positions", block="encoder")
    np.testing.assert_allclose(cells(figure, 0), table)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    np.testing.assert_allclose(cells(figure, 2), unit @ unit.T, atol=1e-6)
    assert picture_of(figure, 0).get_cmap().name == "RdBu"  # as the notes draw it


def test_angles_and_biases_are_positions_too() -> None:
    trace = trace_of(positions="rotary")
    angles = trace.tensor("rotary").astype(np.float64)
    expected = [[np.cos(p * angle) for angle in angles] for p in range(len(READ))]
    np.testing.assert_allclose(cells(trace.figure("positions")), expected, rtol=1e-12)
    trace = trace_of(positions="relative")
    shown = cells(trace.figure("positions", block="decoder", layer=0))
    bias = trace.bias("decoder", 0)
    for query in range(6):
        for key in range(6):
            assert (shown[:, key - query + 5] == bias[:, query, key]).all()
    with raises(InputError, "page.positions_not_drawn"):
        trace_of(positions="none").figure("positions")


def test_an_explanation_shows_what_each_word_does() -> None:
    figure = TRACE.figure("explanation")
    answer = TRACE.info.classification
    assert answer is not None
    widths = [bar.get_width() for bar in figure.axes[-1].patches]
    expected = [0.7 - word.without[1] for word in answer.sequences[0].words]
    np.testing.assert_allclose(widths, expected, rtol=1e-6)
    assert "긍정 <b> 70.0%" in [text.get_text() for text in texts(figure)]
    with raises(InputError, "page.explanation_needs_classifier"):
        ENCODER_ONLY.figure("explanation")


def test_an_explanation_of_another_label() -> None:
    figure = TRACE.figure("explanation", label=0)
    answer = TRACE.info.classification
    assert answer is not None
    probability = answer.sequences[0].probabilities[0]
    widths = [bar.get_width() for bar in figure.axes[-1].patches]
    expected = [probability - word.without[0] for word in answer.sequences[0].words]
    np.testing.assert_allclose(widths, expected, rtol=1e-6)
    assert f"{answer.labels[0]} {probability:.1%}" in [text.get_text() for text in texts(figure)]
    with raises(InputError, "page.label_range"):
        TRACE.figure("explanation", label=2)


# As they are to be shown


def test_words_without_special_tokens_times_what_arrives() -> None:
    figure = TRACE.figure(
        block="encoder",
        head=0,
        unit="word",
        specials="renormalise",
        measure="values",
        width=6.9,
    )
    row = TRACE.info.tokens("source")
    arguments = token_groups(row, "word")
    values = TRACE.weights("encoder", 1)[0] * TRACE.value_norms("encoder", 1)[0]
    special = [bool(row.special[pieces[0]]) for pieces in arguments]
    expected = renormalize(aggregate(values, arguments, arguments), special)
    np.testing.assert_allclose(cells(figure), expected, rtol=1e-5)
    assert rows(figure) == ["[CLS]", "이", "영화는", "재미있어요ㅋㅋ", "[EOS]"]
    assert bar_of(figure).startswith("weight × ‖v W_O‖, in words, without special")


def bar_of(figure: Figure) -> str:
    """The labels of the color bar."""
    (drawn_texts,) = [text.get_text() for text in figure.texts if "weight" in text.get_text()]
    return drawn_texts


@pytest.mark.parametrize("kind", ["attention", "heads", "model"])
def test_the_colorbar_names_the_display_options(kind: Kind) -> None:
    figure = TRACE.figure(kind, block="encoder", unit="syllable", specials="renormalise")
    largest = "largest " if kind == "model" else ""
    expected = f"{largest}weight, in syllables, without special tokens"
    assert expected.startswith(bar_of(figure).removesuffix("…"))  # a low map has no room for all
    assert "weight, in syllable" in bar_of(figure)


def test_the_query_is_framed_in_the_row_of_its_word() -> None:
    framed_figure = TRACE.figure(block="encoder", head=0, unit="word", query=3)
    (frame,) = (
        p for p in framed_figure.axes[0].patches if not p.get_fill() and p.get_hatch() is None
    )
    assert frame.get_xy() == (0, 2)


def test_what_may_not_be_seen_is_hatched() -> None:
    hatched = [
        list(TRACE.figure(block=block, head=0).axes[0].patches) for block in ("decoder", "encoder")
    ]
    assert [len(patches) for patches in hatched] == [1, 0]
    path = hatched[0][0].get_path()
    inside = path.contains_points([(1.5, 0.5), (5.5, 4.5), (0.5, 0.5), (2.5, 3.5)])
    assert inside.tolist() == [True, True, False, False]


# It fits and can be read


@pytest.mark.slow
@pytest.mark.parametrize("width", [3.3, 6.9, None])
@pytest.mark.parametrize("kind", KINDS)
def test_everything_fits_and_can_be_read(
    kind: Kind, width: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    for trace in (TRACE, hostile()):
        with caplog.at_level(logging.WARNING):
            figure = trace.figure(kind, width=width)
            assert_fits(figure)
        assert not caplog.records
        if width is not None:
            assert figure.get_figwidth() == width
            assert figure.get_figheight() < 9.5


def hostile() -> Trace:
    """Whatever a text can hold."""
    return trace_of(read=HOSTILE, written=HOSTILE, classifies=True)


def assert_fits(figure: Figure) -> None:
    """Every letter is on the paper and large enough for print."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    paper = figure.bbox.padded(0.5 * figure.dpi / 72)  # half a point
    for text in texts(figure):
        assert text.get_fontsize() >= 5.0, text.get_text()
        box = text.get_window_extent(canvas.get_renderer())
        lies_out = [box.x0 < paper.x0, box.x1 > paper.x1, box.y0 < paper.y0, box.y1 > paper.y1]
        assert not any(lies_out), (text.get_text()[:40], lies_out)


@pytest.mark.slow
@pytest.mark.parametrize("width", [3.3, 6.9])
def test_long_texts_are_one_image_with_some_of_their_tokens(width: float) -> None:
    pieces = [f"▁{'가나다'[i % 3]}{i}" for i in range(300)]
    trace = trace_of(read=pieces, written=None)
    figure = trace.figure(head=0, width=width)
    assert isinstance(picture_of(figure, 0), AxesImage)
    np.testing.assert_array_equal(cells(figure), trace.weights("encoder", 1)[0])
    assert 15 < len(rows(figure)) < 150
    assert_fits(figure)
    assert len(figure_bytes(figure, "pdf")) < 1_000_000
    assert figure_bytes(figure, "svg").count(b"<image") == 2  # the cells and the colour bar


@pytest.mark.slow
@pytest.mark.parametrize(("n_read", "n_written"), [(1, 1), (1, 40), (60, 1)])
@pytest.mark.parametrize("kind", ["attention", "heads", "model", "alignment", "neuron"])
def test_any_shape_fits(kind: Kind, n_read: int, n_written: int) -> None:
    trace = trace_of(read=["가나"] * n_read, written=["▁다"] * n_written)
    block = None if kind == "model" else "cross"
    figure = trace.figure(kind, block=block, rows="read", width=3.3)
    assert_fits(figure)


def test_an_alignment_without_predictions() -> None:
    with raises(InputError, "page.empty_sequence"):
        trace_of(written=["[BOS]"]).figure("alignment")


def test_titles() -> None:
    drawn_texts = [text.get_text() for text in TRACE.figure(layer=0, head=1, width=3.3).texts]
    assert "encoder · layer 0 · head 1" in drawn_texts
    mine = TRACE.figure(head=1, title="그림 1: −$")
    assert "그림 1: −$" in [text.get_text() for text in mine.texts]
    assert len(TRACE.figure(head=1, title=False).texts) == len(drawn_texts) - 1


@pytest.mark.parametrize("palette", ["ink", "cividis", "viridis", "grey"])
def test_more_is_darker_in_every_palette(palette: str) -> None:
    colours = picture_of(TRACE.figure(head=0, palette=palette), 0).get_cmap()  # type: ignore[arg-type]
    grey = [np.dot(colours(i)[:3], [0.2126, 0.7152, 0.0722]) for i in (0, 128, 255)]
    assert grey[0] > grey[1] > grey[2]


@pytest.mark.parametrize("kind", ["heads", "attention"])
def test_small_weights_of_a_long_text_are_seen(kind: Kind) -> None:
    """A linear scale drew most heads of 512 tokens as paper."""
    trace = random_trace(length=160, layers=1, heads=2)
    figure = trace.figure(kind, block="encoder", layer=0)
    picture = picture_of(figure, 0)
    assert isinstance(picture.norm, PowerNorm)
    assert any("square-root scale" in text.get_text() for text in texts(figure))
    mean = float(cells(figure).mean())
    assert float(picture.norm(mean)) > 2 * mean / float(cells(figure).max())
    plain = picture_of(trace.figure(kind, block="encoder", layer=0, scale="linear"), 0)
    assert not isinstance(plain.norm, PowerNorm)
    assert not isinstance(picture_of(TRACE.figure(kind), 0).norm, PowerNorm)


def test_the_sqrt_scale_changes_colours_only() -> None:
    plain, lifted = (TRACE.figure(head=0, scale=s) for s in ("linear", "sqrt"))  # type: ignore[arg-type]
    np.testing.assert_array_equal(cells(plain), cells(lifted))
    assert picture_of(lifted, 0).norm(0.01) > picture_of(plain, 0).norm(0.01)


# The files


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_picture_is_inert(kind: Kind) -> None:
    svg = figure_bytes(hostile().figure(kind, width=3.3), "svg")
    tree = ElementTree.fromstring(svg)  # it parses
    names = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert not names & {"script", "foreignObject", "a", "iframe", "text"}  # outlines alone
    for element in tree.iter():
        for name, value in element.attrib.items():
            assert not name.rpartition("}")[2].startswith("on")
            if name.endswith("href"):
                assert value.startswith(("#", "data:image/png;base64,"))
    assert b"<!DOCTYPE" not in svg
    assert b"url(http" not in svg


def test_letters_of_a_pdf_stay_letters(tmp_path: Path) -> None:
    figure = TRACE.figure(head=0, width=3.3)
    figure.savefig(tmp_path / "own.pdf")  # by matplotlib's own door, outside our style
    for pdf in (figure_bytes(figure, "pdf"), (tmp_path / "own.pdf").read_bytes()):
        assert b"/Type3" not in pdf
        assert pdf.count(b"/FontFile2") >= 2  # TrueType, embedded: what a press calls Type 42
        fonts = set(re.findall(rb"/BaseFont /(?:[A-Z]{6}\+)?([\w-]+)", pdf))
        assert fonts == {b"DejaVuSans", b"JumokHangul-Regular"}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["pdf", "svg", "png"])
def test_the_same_figure_is_the_same_file(ending: str) -> None:
    first, second = (figure_bytes(TRACE.figure(head=0, width=3.3), ending) for _ in range(2))
    assert first == second


def test_a_png_for_print_has_300_dots_an_inch() -> None:
    png = figure_bytes(TRACE.figure(head=0, width=3.3), "png")
    assert int.from_bytes(png[16:20], "big") == 990


def test_a_notebook_shows_it() -> None:
    assert TRACE.figure(head=0)._repr_png_().startswith(b"\x89PNG")


def test_torch_is_not_needed(tmp_path: Path) -> None:
    TRACE.save(tmp_path / "made.safetensors")
    code = (
        "import sys; from jumok.interpret.trace import Trace;"
        f"Trace.open({str(tmp_path / 'made.safetensors')!r}).figure('heads');"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_the_options_of_a_figure_are_keywords() -> None:
    one = TRACE.figure("heads", block="decoder", layer=0, query=2, width=3.3, scale="sqrt")
    options = FigureOptions(
        figure="heads", block="decoder", layer=0, query=2, width=3.3, scale="sqrt"
    )
    assert figure_bytes(one, "svg") == figure_bytes(draw_figure(TRACE, options), "svg")
    with raises(InputError, "page.unknown_figure_option"):
        TRACE.figure(widht=3.3)


# Errors


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"kind": "pie"}, "trace.unknown_value"),
        ({"block": "middle"}, "trace.unknown_block"),
        ({"layer": 2}, "page.layer_range"),
        ({"head": 4}, "trace.index_range"),
        ({"head": "min"}, "trace.unknown_value"),
        ({"sequence": 1}, "trace.index_range"),
        ({"unit": "letter"}, "trace.unknown_value"),
        ({"width": 0.5}, "page.width_range"),
        ({"font_size": 3.0}, "page.font_size_range"),
        ({"palette": "rainbow"}, "trace.unknown_value"),
        ({"scale": "log"}, "trace.unknown_value"),
        ({"rows": "said"}, "trace.unknown_value"),
        ({"kind": "alignment", "block": "encoder"}, "page.alignment_needs_cross_block"),
        ({"kind": "neuron", "head": "mean"}, "page.head_not_a_number"),
        ({"kind": "neuron", "query": 99}, "trace.index_range"),
        ({"kind": "neuron", "unit": "word"}, "page.neuron_shows_pieces"),
    ],
)
def test_invalid_options(choice: dict[str, object], sentence: str) -> None:
    with raises(InputError, sentence):
        TRACE.figure(**choice)  # type: ignore[arg-type]


def test_a_trace_without_what_a_figure_needs() -> None:
    with raises(InputError, "page.alignment_needs_cross_attention"):
        ENCODER_ONLY.figure("alignment")


def test_the_first_figure_to_look_at() -> None:
    assert default_kind(TRACE) == "alignment"
    assert (default_kind(ENCODER_ONLY), default_kind(ENCODER_ONLY, 2)) == ("heads", "attention")
    assert len(WRITTEN) == len(TRACE.info.tokens("target"))
    assert default_kind(trace_of(written=WRITTEN[:1])) == "heads"  # nothing was written
