"""`jumok.trace`: record one forward pass of a model for a text.

Shapes: B sequences, S source tokens, T target tokens, L labels, V vocabulary.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.atomic_io import sha256_of
from jumok.errors import TraceError
from jumok.interpret import recorder
from jumok.interpret.forward_pass import collate_tokens, copy_for_hooks, forward_logits, pad_sides
from jumok.interpret.hf_trace.tokens import HFTokenizer
from jumok.interpret.hf_trace.trace import trace_texts
from jumok.interpret.inputs import trace_inputs
from jumok.interpret.leave_one_out import explain_predictions
from jumok.interpret.logit_lens import Lens, lens_side, logit_lens
from jumok.interpret.schema import Candidate, Side, TokenizerLibrary, Tokens, TraceInfo
from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import MAX_FLOAT32_BYTES, NO_PARAMETERS
from jumok.models import EncoderDecoder, LanguageModel
from jumok.models.points import mute_heads
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.pretrained.kobert import KoBertBackend
from jumok.text.pretrained.marian import MarianBackend
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer, piece_or_empty


def trace(
    model: Pipeline | nn.Module,
    text: str | Sequence[str],
    target: str | Sequence[str] | None = None,
    decode: Mapping[str, object] | None = None,
    mute: Sequence[tuple[str, int, int]] = (),
    pad_to: int | None = None,
    explain: bool = True,
    tokenizer: HFTokenizer | None = None,
    whole: bool = False,
) -> Trace:
    """The trace of one forward pass for a text, or a batch of texts.

    A pair is one text with a TAB in it. A generative model takes a `target`, or generates one with
    its recipe's [decoding] and the overrides `decode` ({"beam": 4}). `mute` sets the weights of
    heads, each (block, layer, head), to 0. Rows are padded on the right to the longest of the
    batch, or to `pad_to` tokens. With `explain` a classifier also predicts the text without each of
    its words. The model is not modified, and can be used meanwhile.

    Traces above 8 MB leave out parts and are rounded to float16, with notes in `info.notes`; with
    `whole` they keep everything in float32. For the activations of a data set use
    `jumok.experiment.activations`.

    A model of transformers needs its `tokenizer`, and supports only a text and a target.

    Raises InputError for texts that the model cannot read, unknown heads and settings, and for a
    target together with `decode`.

    >>> from jumok.tasks.runs.load import load
    >>> seen = trace(load("note", device="cpu"), "겨울은 추워요.", target="Winter is cold.")
    >>> weights = seen.weights("cross", layer=1)  # (H, T, S)
    >>> weights.sum(-1).round(3).min()
    np.float32(1.0)
    """
    texts, targets = _several(text), None if target is None else _several(target)
    if not texts or (targets is not None and len(targets) != len(texts)):
        raise TraceError(
            "trace.no_text",
            "trace must have at least one text, and no targets or one for each, got {n_texts} "
            "texts and {n_targets} targets",
            n_texts=len(texts),
            n_targets=len(targets or []),
        )
    if not isinstance(model, Pipeline):
        if tokenizer is None or decode or mute or pad_to or whole:
            raise TraceError(
                "trace.not_a_loaded_model",
                "the model must be from jumok.load, got {type_model}; a model of transformers "
                "needs its tokenizer, and supports only a text and a target",
                type_model=type(model).__name__,
            )
        return trace_texts(model, tokenizer, texts, targets)
    if targets is not None and decode:
        raise TraceError(
            "trace.decode_and_target", "decode must be left out with a target, got both"
        )
    if not model.recipe.model.n_layers:
        raise TraceError(
            "trace.no_layers",
            "the model must have layers, got none: there is no attention to trace; try another "
            "model",
        )
    model.check_texts([*texts, *(targets or [])])
    own = copy_for_hooks(model, decode or {})
    muted = mute_heads(own.model, mute)
    inputs = trace_inputs(own, texts, targets)
    sides = pad_sides(own, inputs, pad_to)
    batch = {side: collate_tokens(rows, own.device) for side, rows in sides.items()}
    with torch.inference_mode(), recorder.record(own.model) as recorded:
        logits = forward_logits(own, batch)
    lengths = {side: padded.input_ids.shape[1] for side, padded in batch.items()}
    recorded |= recorder.constant_tensors(own.model, lengths)
    weights, notes = recorder.parameter_tensors(own.model), inputs.notes
    size = 4 * sum(x.numel() for x in weights.values())
    if size > MAX_FLOAT32_BYTES and not whole:
        notes = (*notes, NO_PARAMETERS)
        recorded = {name: x for name, x in recorded.items() if not name.startswith("parameters.")}
    else:
        recorded |= {name: x.clone() for name, x in weights.items()}
    info = TraceInfo(
        title=own.recipe.name,
        task=own.recipe.task,
        model=replace(
            recorder.model_info(own.model, own.recipe.model, _family(own)),
            weights_sha256=_checksum(own.weights_path),
            tokenizer=_tokenizer_library(own.vocabulary),
        ),
        made={
            "jumok": metadata.version("jumok"),
            "torch": torch.__version__,
            "date": datetime.date.today().isoformat(),
        },
        blocks=recorder.describe_blocks(own.model),
        sides=sides,
        muted=muted,
        next=_next_tokens(own, logits, sides) if "target" in sides else None,
        lens=_lens(own, recorded, sides),
        regression=_regression_scores(own, logits) if own.task.answer == "score" else None,
        decoding=inputs.decoding,
        more_decodings=inputs.decodings[1:],
        notes=notes,
    )
    traced = Trace.from_tensors(recorder.to_arrays(recorded), info, whole=whole).of_model(model)
    single_label = own.origin is None or own.origin.single_label
    if own.task.answer != "label" or not single_label:
        return traced
    return traced.with_info(explain_predictions(own, texts, logits, traced, ablate=explain))


def _several(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _family(pipeline: Pipeline) -> str:
    """The family of the model: "jumok", or the model_type of its config."""
    if pipeline.origin is None:
        return "jumok"
    return str(pipeline.origin.config.get("model_type", "unknown"))


def _tokenizer_library(tokenizer: Tokenizer) -> TokenizerLibrary:
    """The library that splits text into the pieces of a tokenizer."""
    backend = getattr(tokenizer, "backend", None)
    if isinstance(tokenizer, SentencePieceTokenizer) or isinstance(backend, KoBertBackend):
        return "sentencepiece"
    return "marian" if isinstance(backend, MarianBackend) else "tokenizers"


def _checksum(path: Path | None) -> str | None:
    """The SHA-256 of the weights file, cached; None without a file."""
    if path is None or not path.is_file():
        return None
    state = path.stat()
    return _sha256(path, state.st_size, state.st_mtime_ns)


@lru_cache
def _sha256(path: Path, size: int, changed: int) -> str:
    return sha256_of(path)


def _regression_scores(pipeline: Pipeline, logits: Tensor) -> tuple[float, ...]:
    """The outputs (B, 1) of a regression model on the scale of its data."""
    scale = pipeline.recipe.regression
    return tuple((logits[:, 0].double() * scale.span + scale.lowest).tolist())


def _lens(
    pipeline: Pipeline, recorded: Mapping[str, Tensor], sides: Mapping[Side, tuple[Tokens, ...]]
) -> Lens | None:
    """The logit lens of the first sequence; None for a model without a projection to tokens."""
    side = lens_side(pipeline.model)
    if side is None or not pipeline.has_logits:
        return None
    tokenizer = pipeline.target_vocabulary if side == "target" else pipeline.vocabulary
    return logit_lens(pipeline.model, recorded, tokenizer, sum(sides[side][0].real))


def _next_tokens(
    pipeline: Pipeline, logits: Tensor, sides: Mapping[Side, tuple[Tokens, ...]]
) -> tuple[tuple[Candidate, ...], ...] | None:
    """The most probable tokens after each real one of the first target."""
    if not (pipeline.has_logits and isinstance(pipeline.model, EncoderDecoder | LanguageModel)):
        return None
    probabilities = logits[0].float().softmax(-1)[: sum(sides["target"][0].real)]  # (T, V)
    best = probabilities.topk(min(recorder.TOP_K, probabilities.shape[-1]))
    return tuple(
        tuple(
            Candidate(id=i, piece=piece_or_empty(pipeline.target_vocabulary, i), probability=p)
            for i, p in zip(ids, row, strict=True)
        )
        for ids, row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
