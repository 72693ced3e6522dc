"""Korean figures: the font, the fallback per glyph, global settings unchanged."""

import hashlib
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from fontTools.ttLib import TTFont
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from jumok.errors import InputError, StorageError
from jumok.fonts import (
    FAMILY,
    FONT_FILE,
    MISSING_GLYPH,
    _hanja,
    plot_style,
    replace_missing_glyphs,
    save_figure,
)
from tests.errors import raises

KOREAN_AND_LATIN = "▁이 영화 −1.5 ㅋㅋㅠㅠ 뷁 「(㈜)」 … ！ model"


def drawn(text: str) -> np.ndarray:
    """The pixels of a text drawn in our style; a missing glyph warns, which is an error."""
    with plot_style():
        figure = Figure(figsize=(len(text) * 0.3 + 0.3, 0.5), dpi=100)
        figure.text(0.02, 0.3, text, fontsize=16)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def test_the_font_covers_korean() -> None:
    codes = TTFont(FONT_FILE).getBestCmap()
    assert all(code in codes for code in range(0xAC00, 0xD7A4))
    assert all(code in codes for code in range(0x3131, 0x3164))
    assert all(ord(c) in codes for c in "、。「」『』〈〉《》【】〜㈜！？～￦　")
    assert FONT_FILE.stat().st_size < 2_500_000


def test_the_font_has_its_name_and_licence() -> None:
    font = TTFont(FONT_FILE)
    names = {record.nameID: record.toUnicode() for record in font["name"].names}
    assert names[1] == FAMILY
    assert "Pretendard" not in "".join(names.values())
    assert "SIL Open Font License" in names[13]
    licence = (FONT_FILE.parent / "OFL.txt").read_text(encoding="utf-8")
    assert "Kil Hyung-jin" in licence
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence


def test_every_character_is_drawn_by_one_of_the_two_fonts() -> None:
    assert replace_missing_glyphs(KOREAN_AND_LATIN) == KOREAN_AND_LATIN
    assert (drawn(KOREAN_AND_LATIN)[..., :3] < 128).any()


def test_all_syllables_differ() -> None:
    """Missing glyphs would be equal boxes."""
    pictures = {hashlib.sha256(drawn(c).tobytes()).hexdigest() for c in "가각긱힣뷁ㅋㅠ▁−-"}
    assert len(pictures) == 10


def test_global_parameters_are_unchanged() -> None:
    before = dict(matplotlib.rcParams)
    drawn("가")
    assert dict(matplotlib.rcParams) == before


def test_a_dollar_sign_is_not_math() -> None:
    drawn("$a_")  # an incomplete formula would raise
    assert (drawn("$a$") != drawn(" a ")).any()


def test_missing_glyphs_become_squares() -> None:
    hanja = "漢字" if _hanja() else MISSING_GLYPH * 2  # of a font of the system
    assert replace_missing_glyphs("漢字🦖가") == hanja + MISSING_GLYPH + "가"
    assert replace_missing_glyphs("가") == "가"  # NFD is composed
    drawn(replace_missing_glyphs("漢\t\n\x00\ud800🦖"))


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_saving_twice_gives_the_same_file(tmp_path: Path, ending: str) -> None:
    with plot_style():
        figure = Figure()
        figure.suptitle(KOREAN_AND_LATIN)
    first, second = tmp_path / f"1.{ending}", tmp_path / f"2.{ending}"
    save_figure(figure, first)
    save_figure(figure, second)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, second.name]


def test_a_figure_saved_outside_the_style_keeps_its_font(tmp_path: Path) -> None:
    with plot_style():
        figure = Figure()
        axes = figure.add_subplot()
        axes.set_xticks(range(2), labels=["▁영화", "ㅋㅋ"])
    figure.savefig(tmp_path / "plain.png")


def test_wrong_suffix_and_missing_folder(tmp_path: Path) -> None:
    with raises(InputError, "font.unknown_figure_suffix"):
        save_figure(Figure(), tmp_path / "a.docx")
    with pytest.raises(StorageError, match="cannot be written"):
        save_figure(Figure(), tmp_path / "nowhere" / "a.png")


def test_the_example_of_the_page_draws_hangul(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/figures.md: missing glyphs would be warnings, which are errors here."""
    page = (Path(__file__).parents[1] / "docs" / "figures.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page.split("## Hangul in your own plots")[1], re.S)
    matplotlib.use("agg")
    before = dict(matplotlib.rcParams)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(code, scope)
    assert (tmp_path / "학습.png").stat().st_size > 10_000
    assert dict(matplotlib.rcParams) == before
    scope["plt"].close("all")  # type: ignore[attr-defined]
