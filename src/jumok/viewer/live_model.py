"""A model behind a page: asked for one trace after another."""

from collections.abc import Mapping
from pathlib import Path

from jumok.fonts import save_figure
from jumok.interpret.trace import Trace
from jumok.interpret.tracing import trace
from jumok.tasks.pipeline.pipeline import GenerativeTask, Pipeline
from jumok.viewer.figures.options import FigureOptions, Head
from jumok.viewer.request_schema import ModelCard, TraceRequest


class LiveModel:
    """A loaded model as the page's server wants it; watching one request touches no other.

    `decode` is laid over the recipe's own decoding, and what a request asks for over both; a target
    that is given is not written, so nothing is laid.
    """

    def __init__(self, loaded: Pipeline, decode: Mapping[str, object] | None = None) -> None:
        self._loaded = loaded
        self._decode = dict(decode or {})
        recipe = loaded.recipe
        self.card = ModelCard(
            title=recipe.name,
            task=recipe.task,
            kind=recipe.model.kind,
            pairs=recipe.paired,
            writes=isinstance(loaded.task, GenerativeTask),
            traces=True,
            max_length=recipe.model.max_length,
        )

    def trace(self, wanted: TraceRequest) -> bytes:
        """The file of a new trace. Raises JumokError for what the model cannot be asked."""
        return self.make_trace(wanted).to_bytes()

    def make_trace(self, wanted: TraceRequest) -> Trace:
        """A new trace."""
        one, own = len(wanted.texts) == 1, self._decode if wanted.target is None else {}
        return trace(
            self._loaded,
            wanted.texts[0] if one else wanted.texts,
            target=wanted.target,
            decode=own | dict(wanted.decode or {}),
            mute=wanted.mute,
        )


def plot_attention(
    pipeline: Pipeline, text: str, path: Path, layer: int = -1, head: Head | None = None
) -> Path:
    """Plot the attention of a model on `text` to `path`; see `default_kind` for the figure."""
    from jumok.viewer.figures.figure import default_kind, draw_figure

    traced = trace(pipeline, text, explain=False)
    kind = default_kind(traced, head)
    save_figure(draw_figure(traced, FigureOptions(figure=kind, layer=layer, head=head)), path)
    return path
