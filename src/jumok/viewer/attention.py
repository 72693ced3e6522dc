"""Who looks where while a model reads a text: traced and drawn in one go."""

from pathlib import Path

from jumok.fonts import save_figure
from jumok.interpret.tracing import trace
from jumok.tasks.pipeline.pipeline import Loaded
from jumok.viewer.figures.figure import figure_of, first_kind
from jumok.viewer.figures.options import Head


def draw(loaded: Loaded, text: str, path: Path, layer: int = -1, head: Head | None = None) -> Path:
    """Draw the attention to `text` into `path` and return it; see `first_kind`."""
    made = trace(loaded, text, explain=False)
    save_figure(figure_of(made, first_kind(made, head), layer=layer, head=head), path)
    return path
