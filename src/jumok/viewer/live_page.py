"""What a saved page needs to run its model: the packed weights and the description of the model."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from jumok.errors import Message, TraceError
from jumok.export.export_run import get_target
from jumok.interpret.trace import Trace
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.viewer.live_model import LiveModel
from jumok.viewer.request_schema import ModelCard

PACKED = "model.safetensors"  # of `jumok export --to web`


@dataclass(frozen=True)
class PageModel:
    """A model in a page: `packed` are the bytes of its file (jumok.formats.web_model)."""

    card: ModelCard
    packed: bytes


def page_model(trace: Trace) -> PageModel:
    """The parts of a page that runs the model of a trace.

    Raises TraceError for a trace without it, and for a model that the page does not compute, and
    KernelError without the C++ kernel, which computes the numbers that the page is compared with.
    """
    pipeline = trace.model
    if pipeline is None:
        raise TraceError(
            "page.no_model",
            "a live page needs the model of the trace, and a trace from a file has none; make it "
            "with jumok.trace",
        )
    exported = pipeline.task.for_export(pipeline)
    target = get_target("web")
    reason = target.unsupported_reason(exported) or _not_in_page(pipeline)
    if reason is not None:
        raise TraceError(
            "page.not_live",
            "{reason}; leave out live, or open the model with jumok view",
            reason=reason,
        )
    with TemporaryDirectory() as folder:
        target.convert(exported, Path(folder))
        packed = (Path(folder) / PACKED).read_bytes()
    card = LiveModel(pipeline).card
    return PageModel(replace(card, checkpoints=(), in_page=True), packed)


def _not_in_page(pipeline: Pipeline) -> Message | None:
    """What the arithmetic of the page lacks (web/src/live/forward.ts)."""
    config, tokenizer = pipeline.recipe.model, pipeline.vocabulary_or_none
    found = {
        "pairs of texts": pipeline.recipe.reads_pairs,
        "outputs for each token": pipeline.task.answer in ("tags", "masks"),
        "imported tokenizers": not isinstance(tokenizer, SentencePieceTokenizer),
        "norms in heads": config.head_transform,
        "modules of sentence-transformers": pipeline.sentence_encoding is not None,
        "relative positions": config.positions == "relative",
        "norms of queries and keys": config.qk_norm,
        "norms after sublayers": config.sublayer_norm,
        "norms relative to 1": config.norm == "rms_offset",
        "attention windows": set(config.layer_pattern) != {"G"},
    }
    for what, has in found.items():
        if has:
            return Message(
                "page.not_in_page", "a saved page does not compute models with {what}", what=what
            )
    return None
