"""Models with one output vector per text, or pair of texts: forward pass and prediction.

Shapes: B or n texts, L outputs of the model: one per label, one score, or a
vector.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.models import (
    EncoderDecoderClassifier,
    PairClassifier,
    SentenceEncoder,
    TextClassifier,
)
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, PaddedBatch, batches_by_length, collate
from jumok.tasks.inputs.text_encoder import (
    TextEncoder,
    row_token_types,
    token_type_ids,
    uses_token_types,
)
from jumok.tasks.own_model import forward_own
from jumok.tasks.pipeline.distributed_map import TENSOR_CODEC, distributed_map
from jumok.tasks.pipeline.encoder_choice import text_session
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

_OF_TEXTS = TextClassifier | PairClassifier | SentenceEncoder | EncoderDecoderClassifier


def encode_lines(pipeline: Pipeline, lines: Sequence[str]) -> Ragged:
    """The input ids of each line: a text, or a pair with a TAB between its texts."""
    encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
    paired = np.array([pipeline.is_pair(line) for line in lines], dtype=np.bool_)
    rows: list[list[int]] = [[]] * len(lines)
    for kind in (True, False):
        indices = np.flatnonzero(paired == kind).tolist()
        found = encode.encode_lines([lines[i] for i in indices], paired=kind)
        for at, i in enumerate(indices):
            rows[i] = found[at].tolist()
    return Ragged.from_lists(rows)


def forward(model: nn.Module, texts: PaddedBatch, tokenizer: Tokenizer) -> Tensor:
    """The logits of a batch, (B, L), with the token types that follow from [SEP].

    The decoder of an encoder-decoder classifier reads [BOS] alone.
    """
    ids, mask = texts.input_ids, texts.attention_mask
    if not isinstance(model, _OF_TEXTS):
        return forward_own(model, ids, mask)
    has_types = _has_types(model, tokenizer)
    segments = token_type_ids(ids, tokenizer.sep_id) if has_types else None
    if isinstance(model, EncoderDecoderClassifier):
        start = torch.full((len(ids), 1), tokenizer.decoder_start_id, device=ids.device)
        return model(ids, start, mask, segments=segments)  # type: ignore[no-any-return]
    return model(ids, mask, segments=segments)  # type: ignore[no-any-return]


def _has_types(model: nn.Module, tokenizer: Tokenizer) -> bool:
    """Whether the model reads the token types of pairs."""
    assert isinstance(model, _OF_TEXTS)
    table = model.encoder.embedding.segments  # RoBERTa's has one row: all texts have type 0
    n_segments = 0 if table is None else table.num_embeddings
    pooling = "compare" if isinstance(model, PairClassifier) else "first"
    return uses_token_types(tokenizer, n_segments, pooling)


def outputs_of(pipeline: Pipeline, rows: Ragged) -> Tensor:
    """The outputs (n, L) float32 of the model of a pipeline for input ids, in their order."""
    tokenizer, device = pipeline.vocabulary, pipeline.device
    return predict_all(pipeline.model, rows, tokenizer, device, pipeline.processes)


@torch.inference_mode()
def predict_all(
    model: nn.Module,
    rows: Ragged,
    tokenizer: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> Tensor:
    """The logits (n, L) float32 on the CPU of every row, in the order of the rows."""
    session = text_session(model)
    if session is not None and session.head is not None and processes.size == 1:
        has_types = _has_types(model, tokenizer)
        types = row_token_types(rows, tokenizer.sep_id) if has_types else None
        return torch.from_numpy(session.outputs(rows, types))

    def predict(batch: NDArray[np.int64]) -> dict[str, Tensor]:
        texts = collate([rows[i] for i in batch], tokenizer.padding_id, device)
        return {"outputs": forward(model, texts, tokenizer).float().cpu()}

    index_batches = batches_by_length(rows, EVAL_BATCH_TOKENS)
    parts = distributed_map(index_batches, predict, processes, TENSOR_CODEC)
    if not parts:
        return torch.empty(0, 0)
    logits = torch.cat([part["outputs"] for part in parts])
    order = torch.from_numpy(np.argsort(np.concatenate(index_batches), kind="stable"))
    return logits[order]
