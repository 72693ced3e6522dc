"""`jumok plot positions`: five heatmaps, and the error of shifting each encoding."""

import logging
from pathlib import Path

import numpy as np
import pytest

from jumok.errors import InputError
from jumok.fonts import save_figure
from jumok.viewer.figures.positional_comparison import positional_comparison
from jumok.viewer.positional_encodings import sinusoid_pairs
from tests.errors import raises


@pytest.mark.slow
@pytest.mark.parametrize(("length", "width"), [(64, 32), (4, 2), (64, 128)])
def test_the_ladder_is_drawn_without_a_word(
    tmp_path: Path, length: int, width: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        save_figure(positional_comparison(length, width), tmp_path / "positions.png")
    assert not caplog.records


def test_the_fifth_picture_is_the_table() -> None:
    # each picture is followed by its colour bar
    mesh = positional_comparison(64, 32).axes[8].collections[0]
    np.testing.assert_array_equal(np.asarray(mesh.get_array()), sinusoid_pairs(64, 32))


@pytest.mark.slow
def test_only_the_fifth_line_lies_at_zero() -> None:
    lines = positional_comparison(64, 32).axes[-1].get_lines()
    errors = [np.asarray(line.get_ydata(), dtype=float) for line in lines]
    assert len(errors) == 5
    assert max(errors[4]) < 1e-14
    assert min(min(line) for line in errors[:4]) > 0.01


def test_invalid_sizes() -> None:
    with raises(InputError, "page.length_or_width_too_small"):
        positional_comparison(3, 8)
    with raises(InputError, "page.odd_dimensions"):
        positional_comparison(16, 7)
