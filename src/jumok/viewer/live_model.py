"""Trace a loaded model: for the page, or for a single plot."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from jumok.fonts import save_figure
from jumok.interpret.trace import Trace
from jumok.interpret.tracing import trace
from jumok.tasks.pipeline.pipeline import GenerativeTask, Pipeline
from jumok.viewer.example_texts import example_texts, lesson_texts
from jumok.viewer.figures.options import FigureOptions, Head
from jumok.viewer.request_schema import ModelCard, TraceRequest


class LiveModel:
    """A loaded model that makes a trace per request.

    `decode` overrides the recipe's decoding settings, and a request overrides both; with a forced
    target nothing is generated, so nothing is overridden.
    """

    def __init__(self, pipeline: Pipeline, decode: Mapping[str, object] | None = None) -> None:
        self._pipeline = pipeline
        self._decode = dict(decode or {})
        recipe = pipeline.recipe
        generates = isinstance(pipeline.task, GenerativeTask)
        self.card = ModelCard(
            title=recipe.name,
            task=recipe.task,
            kind=recipe.model.kind,
            pairs=recipe.paired,
            writes=generates,
            traces=True,
            max_length=recipe.model.max_length,
            examples=example_texts(pipeline),
            decode=_decoding(pipeline) | self._decode if generates else None,
        )

    def lesson(self, request: TraceRequest) -> TraceRequest:
        """The request with the texts of the lesson."""
        return replace(request, texts=lesson_texts(self._pipeline))

    def trace(self, request: TraceRequest) -> bytes:
        """The file of a new trace. Raises JumokError for an invalid request."""
        return self.make_trace(request).to_bytes()

    def make_trace(self, request: TraceRequest) -> Trace:
        """A new trace."""
        single = len(request.texts) == 1
        decode = self._decode if request.target is None else {}
        return trace(
            self._pipeline,
            request.texts[0] if single else request.texts,
            target=request.target,
            decode=decode | dict(request.decode or {}),
            mute=request.mute,
        )


def _decoding(pipeline: Pipeline) -> dict[str, object]:
    """The decoding settings of a generating model."""
    assert isinstance(pipeline.task, GenerativeTask)
    return asdict(pipeline.task.effective_decoding(pipeline))


def plot_attention(
    pipeline: Pipeline, text: str, path: Path, layer: int = -1, head: Head | None = None
) -> Path:
    """Plot the attention of a model on `text` to `path`; see `default_kind` for the figure."""
    from jumok.viewer.figures.figure import default_kind, draw_figure

    traced = trace(pipeline, text, explain=False)
    kind = default_kind(traced, head)
    save_figure(draw_figure(traced, FigureOptions(figure=kind, layer=layer, head=head)), path)
    return path
