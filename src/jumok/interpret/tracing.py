"""`jumok.trace`: a model answers a text while every head is watched.

Shapes: B sequences, S source tokens, T target tokens, L labels, V vocabulary.
"""

import copy
import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.atomic_io import sha256_of
from jumok.errors import InputError
from jumok.interpret import recorder as collect
from jumok.interpret.hf_trace.texts import trace_texts
from jumok.interpret.hf_trace.tokens import HFTokenizer
from jumok.interpret.inputs import TraceInputs, trace_inputs
from jumok.interpret.leave_one_out import explain
from jumok.interpret.muting import mute_heads
from jumok.interpret.schema import Candidate, Side, Tokens, TraceInfo
from jumok.interpret.tokens import padded_tokens
from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import MAX_FLOAT32_BYTES, NO_PARAMETERS
from jumok.models import (
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    PairClassifier,
    TextClassifier,
)
from jumok.nn.hooks import shared_copy
from jumok.tasks.inputs.batches import PaddedBatch
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import forward
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS
from jumok.text.tokenizer import piece_or_empty

TOP_K = 10  # tokens told after each token of a decoder

Batch = Mapping[Side, PaddedBatch]


def trace(
    model: Pipeline | nn.Module,
    text: str | Sequence[str],
    target: str | Sequence[str] | None = None,
    decode: Mapping[str, object] | None = None,
    mute: Sequence[tuple[str, int, int]] = (),
    pad_to: int | None = None,
    explain: bool = True,
    tokenizer: HFTokenizer | None = None,
) -> Trace:
    """What passes through every head of a model while it answers a text, or a batch of texts.

    A pair is one text with a TAB in it. A model that writes is given the `target`, or writes its
    own by its recipe's [decoding], over which `decode` is laid ({"beam": 4}): one or the other.
    Heads in `mute`, each a (block, layer, head), are switched off. Rows are padded on the right to
    the longest of the batch, or to `pad_to` tokens. With `explain` a classifier answers once more
    without each of the words. The model itself is not touched: others may use it meanwhile.

    A model of transformers comes with its `tokenizer`, and takes a text and a target alone.

    Raises InputError for texts the model cannot read, heads it has not, settings it does not know,
    and for a target and `decode` together.
    """
    texts, targets = _several(text), None if target is None else _several(target)
    if not texts or (targets is not None and len(targets) != len(texts)):
        raise InputError(
            f"{len(texts)} texts and {len(targets or [])} targets came; give one text or more, "
            "and a target for each or none"
        )
    if not isinstance(model, Pipeline):
        if tokenizer is None or decode or mute or pad_to:
            raise InputError(
                f"a {type(model).__name__} came, which jumok.load did not give; a model of "
                "transformers is traced with its tokenizer, a text and a target alone"
            )
        return trace_texts(model, tokenizer, texts, targets)
    if targets is not None and decode:
        raise InputError("a target is given, so nothing is written; leave decode out")
    model.check_length([*texts, *(targets or [])])
    own = _own(model, decode or {})
    muted = mute_heads(own.model, mute)
    asked = trace_inputs(own, texts, targets)
    sides = _sides(own, asked, pad_to)
    batch = {side: _padded(rows, own.device) for side, rows in sides.items()}
    with torch.inference_mode(), collect.record(own.model) as seen:
        logits = _answer(own, batch)
    lengths = {side: padded.input_ids.shape[1] for side, padded in batch.items()}
    seen |= collect.constant_tensors(own.model, lengths)
    weights, notes = collect.parameter_tensors(own.model), asked.notes
    if 4 * sum(x.numel() for x in weights.values()) > MAX_FLOAT32_BYTES:
        notes = (*notes, NO_PARAMETERS)
        seen = {name: x for name, x in seen.items() if not name.startswith("parameters.")}
    else:
        seen |= {name: x.clone() for name, x in weights.items()}
    info = TraceInfo(
        title=own.recipe.name,
        task=own.recipe.task,
        model=replace(
            collect.model_info(own.model, own.recipe.model, _family(own)),
            weights_sha256=_checksum(own.weights_path),
        ),
        made={
            "jumok": metadata.version("jumok"),
            "torch": torch.__version__,
            "date": datetime.date.today().isoformat(),
        },
        blocks=collect.describe_blocks(own.model),
        sides=sides,
        muted=muted,
        next=_next(own, logits, sides) if "target" in sides else None,
        regression=_scores(own, logits) if own.recipe.task == "regression" else None,
        decoding=asked.decoding,
        notes=notes,
    )
    made = Trace.from_tensors(collect.to_arrays(seen), info)
    chooses = own.origin is None or own.origin.single_label
    if own.recipe.task != "classification" or not chooses:
        return made
    return made.with_info(explain(own, texts, logits, made, words=explain))


def _several(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _own(loaded: Pipeline, decode: Mapping[str, object]) -> Pipeline:
    """The same model in modules of its own, writing with the plain kernel: it can be watched."""
    if loaded.recipe.task in GENERATIVE_TASKS:
        words = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in decode.items()]
        own = loaded.with_decoding([*words, "kernel=torch", "precision=float32"])
    elif decode:
        raise InputError(
            f"a model of the task {loaded.recipe.task} writes nothing; leave decode out"
        )
    else:
        own = copy.copy(loaded)
    own.model = shared_copy(loaded.model)
    return own


def _family(loaded: Pipeline) -> str:
    """Whose model it is."""
    if loaded.origin is None:
        return "jumok"
    return str(loaded.origin.config.get("model_type", "unknown"))


def _checksum(path: Path | None) -> str | None:
    """The SHA-256 of the file of the weights, computed once; None without a file."""
    if path is None or not path.is_file():
        return None
    state = path.stat()
    return _computed(path, state.st_size, state.st_mtime_ns)


@lru_cache
def _computed(path: Path, size: int, changed: int) -> str:
    return sha256_of(path)


def _sides(
    loaded: Pipeline, asked: TraceInputs, pad_to: int | None
) -> dict[Side, tuple[Tokens, ...]]:
    """The rows of both sides as tokens, those of a side padded to one length."""
    sides: dict[Side, tuple[Tokens, ...]] = {}
    for side, rows in asked.sequences.items():
        vocabulary = loaded.vocabulary if side == "source" else loaded.target_vocabulary
        begun = side == "target" and isinstance(loaded.model, EncoderDecoderClassifier)
        width = max(1, *map(len, rows), 0 if begun else pad_to or 0)
        sides[side] = tuple(padded_tokens(row, vocabulary, width) for row in rows)
    return sides


def _padded(rows: Sequence[Tokens], device: torch.device) -> PaddedBatch:
    """The ids of tokens as a model takes them."""
    ids = torch.tensor([row.ids for row in rows], device=device)
    real = torch.tensor([row.real for row in rows], dtype=torch.bool, device=device)
    return PaddedBatch(ids, None if bool(real.all()) else real)


def _answer(loaded: Pipeline, batch: Batch) -> Tensor:
    """What the model says: (B, L), (B, T, L) or (B, T, V); hidden states where it has no head."""
    model = loaded.model
    if isinstance(model, TextClassifier | PairClassifier | EncoderDecoderClassifier):
        return forward(model, batch["source"], loaded.vocabulary)
    sides: tuple[Side, Side] = ("source", "target")
    rows = [batch[side] for side in sides if side in batch]
    ids, masks = [row.input_ids for row in rows], [row.attention_mask for row in rows]
    forward_pass = model if loaded.has_logits else model.hidden_states
    return forward_pass(*ids, *masks)  # type: ignore[no-any-return, operator]


def _scores(loaded: Pipeline, logits: Tensor) -> tuple[float, ...]:
    """The answers (B, 1) of a regression model on the scale of its data."""
    scale = loaded.recipe.regression
    return tuple((logits[:, 0].double() * scale.span + scale.lowest).tolist())


def _next(
    loaded: Pipeline, logits: Tensor, sides: Mapping[Side, tuple[Tokens, ...]]
) -> tuple[tuple[Candidate, ...], ...] | None:
    """The likeliest tokens after each real one of the first target."""
    if not (loaded.has_logits and isinstance(loaded.model, EncoderDecoder | LanguageModel)):
        return None
    probabilities = logits[0].float().softmax(-1)[: sum(sides["target"][0].real)]  # (T, V)
    best = probabilities.topk(min(TOP_K, probabilities.shape[-1]))
    return tuple(
        tuple(
            Candidate(id=i, piece=piece_or_empty(loaded.target_vocabulary, i), probability=p)
            for i, p in zip(ids, row, strict=True)
        )
        for ids, row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
