"""A matplotlib figure that a notebook displays, and that is saved with jumok's fonts."""

import os
from typing import IO, Any

from matplotlib.figure import Figure

from jumok.fonts import figure_bytes, plot_style


class JumokFigure(Figure):
    """A figure that is saved with jumok's font settings: Type 42 fonts, Hangul, no math text.

    >>> JumokFigure(figsize=(1, 1))._repr_png_()[1:4]
    b'PNG'
    """

    def savefig(
        self,
        fname: str | os.PathLike[str] | IO[bytes],
        *,
        transparent: bool | None = None,
        **kwargs: Any,  # matplotlib's own
    ) -> None:
        """Save like matplotlib."""
        with plot_style():
            super().savefig(fname, transparent=transparent, **kwargs)

    def _repr_png_(self) -> bytes:
        """The display in a notebook."""
        return figure_bytes(self, "png")
