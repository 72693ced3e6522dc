"""The forward pass of a trace: a copy of the model for hooks, its input tokens, its logits.

Shapes: B sequences, T target tokens, L labels, V vocabulary.
"""

import copy
import json
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from jumok.errors import TraceError
from jumok.interpret.inputs import TraceInputs
from jumok.interpret.schema import Side, Tokens
from jumok.interpret.tokens import padded_tokens
from jumok.models import EncoderDecoderClassifier, PairClassifier, TextClassifier
from jumok.nn.hooks import shared_copy
from jumok.tasks.inputs.batches import PaddedBatch
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import forward

Batch = Mapping[Side, PaddedBatch]


def copy_for_hooks(pipeline: Pipeline, decode: Mapping[str, object]) -> Pipeline:
    """The pipeline with a shared copy of the model and the torch kernel, for hooks.

    Raises InputError for a model of one's own, and for `decode` where no text is generated.
    """
    if pipeline.is_own:
        raise TraceError(
            "trace.own_model",
            "a trace needs the attention of a Transformer of jumok, got the model {name} of one's "
            "own; use the hooks of PyTorch on .model",
            name=pipeline.recipe.model.architecture,
        )
    if pipeline.task.generates:
        overrides = [
            f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in decode.items()
        ]
        own = pipeline.with_decoding([*overrides, "kernel=torch", "precision=float32"])
    elif decode:
        raise TraceError(
            "trace.decode_without_generation",
            "a model of the task {task} generates no text; leave decode out",
            task=pipeline.recipe.task,
        )
    else:
        own = copy.copy(pipeline)
    own.model = shared_copy(pipeline.model)
    return own


def pad_sides(
    pipeline: Pipeline, inputs: TraceInputs, pad_to: int | None
) -> dict[Side, tuple[Tokens, ...]]:
    """The tokens of both sides, padded to one length a side."""
    sides: dict[Side, tuple[Tokens, ...]] = {}
    for side, rows in inputs.sequences.items():
        vocabulary = pipeline.vocabulary if side == "source" else pipeline.target_vocabulary
        start_only = side == "target" and isinstance(pipeline.model, EncoderDecoderClassifier)
        width = max(1, *map(len, rows), 0 if start_only else pad_to or 0)
        sides[side] = tuple(padded_tokens(row, vocabulary, width) for row in rows)
    return sides


def collate_tokens(rows: Sequence[Tokens], device: torch.device) -> PaddedBatch:
    """The ids and mask of tokens as model inputs."""
    ids = torch.tensor([row.ids for row in rows], device=device)
    real = torch.tensor([row.real for row in rows], dtype=torch.bool, device=device)
    return PaddedBatch(ids, None if bool(real.all()) else real)


def forward_logits(pipeline: Pipeline, batch: Batch) -> Tensor:
    """The logits (B, L), (B, T, L) or (B, T, V); hidden states if the model has no head."""
    model = pipeline.model
    if isinstance(model, TextClassifier | PairClassifier | EncoderDecoderClassifier):
        return forward(model, batch["source"], pipeline.vocabulary)
    sides: tuple[Side, Side] = ("source", "target")
    rows = [batch[side] for side in sides if side in batch]
    ids, masks = [row.input_ids for row in rows], [row.attention_mask for row in rows]
    forward_pass = model if pipeline.has_logits else model.hidden_states
    return forward_pass(*ids, *masks)  # type: ignore[no-any-return, operator]
