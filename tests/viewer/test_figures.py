"""Attention drawn: what is handed over is what is shown, and every label has a glyph."""

import logging
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.typography import save
from jumok.viewer.figures import attention_map, head_grid

QUERIES = ["[BOS]", "▁2026", "년", "−3", "$x_", "</script>"]
KEYS = ["▁이천이십육", "▁년", "ㅋㅋㅠㅠ", "뷁", "漢\n🦖", "", "…"]


def weights(*shape: int) -> NDArray[np.float64]:
    """Rows that sum to 1."""
    table = np.random.default_rng(0).random(shape)
    return np.asarray(table / table.sum(-1, keepdims=True))


def cells(figure: Figure, panel: int) -> NDArray[np.float64]:
    """The values that a panel shows."""
    mesh = figure.axes[panel].collections[0]
    assert isinstance(mesh, QuadMesh)
    return np.asarray(mesh.get_array())


def assert_draws(figure: Figure, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is written, and matplotlib neither warns (an error here) nor grumbles in the log."""
    with caplog.at_level(logging.WARNING):
        save(figure, path)
    assert path.stat().st_size > 1000
    assert not caplog.records


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_map_with_every_kind_of_token(
    tmp_path: Path, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = weights(len(QUERIES), len(KEYS))
    figure = attention_map(table, QUERIES, KEYS, "교차 주목, layer 0 −1 $")
    assert_draws(figure, tmp_path / f"map.{ending}", caplog)
    np.testing.assert_array_equal(cells(figure, 0), table)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == QUERIES
    assert [label.get_text() for label in axes.get_xticklabels()][4] == "□□□"
    assert axes.yaxis_inverted()  # the first query is on top


def test_a_map_saved_by_matplotlib_itself_keeps_its_letters(tmp_path: Path) -> None:
    attention_map(weights(1, 2), ["가"], ["나", "▁"]).savefig(tmp_path / "own.png")


def test_heads_share_their_colours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    heads = weights(6, len(QUERIES), len(KEYS))
    figure = head_grid(heads, QUERIES, KEYS, "층 0")
    assert_draws(figure, tmp_path / "heads.png", caplog)
    for number, head in enumerate(heads):
        np.testing.assert_array_equal(cells(figure, number), head)
        assert figure.axes[number].collections[0].get_clim() == (0.0, heads.max())


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (130, 200)])
def test_any_length_is_drawn(
    tmp_path: Path, shape: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    figure = attention_map(weights(*shape), ["가나"] * shape[0], ["▁다"] * shape[1])
    assert max(figure.get_size_inches()) < 20
    assert_draws(figure, tmp_path / "a.png", caplog)


def test_a_query_that_sees_nothing_is_white(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert_draws(
        attention_map(np.zeros((2, 2)), ["가", "나"], ["다", "라"]), tmp_path / "0.png", caplog
    )


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(2, 3\) came for tokens that make \(2, 2\)"):
        attention_map(weights(2, 3), ["가", "나"], ["다", "라"])
    with pytest.raises(InputError, match="at least one"):
        attention_map(np.zeros((0, 0)), [], [])
    with pytest.raises(InputError, match="NaN or infinity"):
        attention_map([[float("nan")]], ["가"], ["나"])
    with pytest.raises(InputError, match=r"heads of shape \(2, 3\) came"):
        head_grid(weights(2, 3), ["가", "나"], ["다", "라", "마"])
