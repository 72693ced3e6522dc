"""Trace a loaded model: for the page, or for a single plot."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from jumok.errors import TraceError
from jumok.fonts import save_figure
from jumok.interpret.checkpoint_trace import checkpoint_folders
from jumok.interpret.interventions import Effects, patch_heads, patch_hidden, sweep_heads
from jumok.interpret.trace import Trace
from jumok.interpret.tracing import trace
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.load import load
from jumok.tasks.task import GenerativeTask
from jumok.viewer.example_texts import example_texts, lesson_texts
from jumok.viewer.figures.options import FigureOptions, Head
from jumok.viewer.request_schema import EffectsRequest, ModelCard, TraceRequest


class LiveModel:
    """A loaded model that makes a trace per request.

    `decode` overrides the recipe's decoding settings, and a request overrides both; with a forced
    target nothing is generated, so nothing is overridden. With the folder of the `run`, a request
    may name one of its checkpoints.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        decode: Mapping[str, object] | None = None,
        run: Path | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._decode = dict(decode or {})
        self._checkpoints = {} if run is None else checkpoint_folders(run)
        self._loaded: tuple[str, Pipeline] | None = None  # the checkpoint that was asked for last
        recipe = pipeline.recipe
        generates = pipeline.task.generates
        self.card = ModelCard(
            title=recipe.name,
            task=recipe.task,
            kind=recipe.model.kind,
            pairs=recipe.reads_pairs,
            writes=generates,
            traces=True,
            max_length=recipe.model.max_length,
            examples=example_texts(pipeline),
            decode=_decoding(pipeline) | self._decode if generates else None,
            checkpoints=tuple(self._checkpoints),
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
        return trace(
            self._model(request),
            request.texts[0] if single else request.texts,
            target=request.target,
            decode=self._overrides(request),
            mute=request.mute,
        )

    def effects(self, request: EffectsRequest) -> Effects:
        """The effects of heads or hidden states. Raises JumokError for an invalid request."""
        asked = request.trace
        model, (text,) = self._model(asked), asked.texts
        decode, generates = self._overrides(asked), model.task.generates
        answer = asked.target if generates else None
        if request.other is None:
            return sweep_heads(model, text, answer, decode=decode, mute=asked.mute)
        patch = patch_hidden if request.hidden else patch_heads
        return patch(model, text, request.other, answer, decode=decode, mute=asked.mute)

    def _overrides(self, request: TraceRequest) -> dict[str, object]:
        decode = self._decode if request.target is None else {}
        return decode | dict(request.decode or {})

    def _model(self, request: TraceRequest) -> Pipeline:
        """The model with its final weights, or those of a checkpoint. Raises InputError."""
        name = request.checkpoint
        if name is None:
            return self._pipeline
        if name not in self._checkpoints:
            known = ", ".join(self._checkpoints) or "none"
            raise TraceError(
                "page.unknown_checkpoint",
                "checkpoint must be one of the run ({known}), got {ascii}",
                known=known,
                ascii=ascii(name)[:40],
            )
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = name, load(self._checkpoints[name], str(self._pipeline.device))
        return self._loaded[1]


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
