"""Embeddings: one vector per text, the mean of the last hidden states of its tokens."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.models import Encoder
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, batches_by_length, collate
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.pipeline.pipeline import Pipeline

MIN_NORM = 1e-12


@torch.inference_mode()
def encode(
    pipeline: Pipeline,
    texts: Sequence[str],
    *,
    normalize: bool = True,
    batch_tokens: int | None = None,
) -> NDArray[np.float32]:
    """The embeddings of texts, (n, D) float32; with `normalize` of length 1.

    Special tokens are part of the mean (Reimers and Gurevych 2019, MEAN pooling). Raises InputError
    for a model without an encoder and for a text that is too long.
    """
    encoder = getattr(pipeline.model, "encoder", pipeline.model)
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"embeddings need a model with an encoder, got a {pipeline.architecture}; use a "
            "classifier or a masked language model"
        )
    pipeline.check_length(texts)
    rows = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)(texts)
    vectors = np.zeros((len(texts), pipeline.recipe.model.d_model), dtype=np.float32)
    for batch in batches_by_length(rows, batch_tokens or EVAL_BATCH_TOKENS):
        ids = collate([rows[i] for i in batch], pipeline.vocabulary.padding_id, pipeline.device)
        hidden = encoder(ids.input_ids, ids.attention_mask).float()  # (B, T, D)
        mask = ids.attention_mask
        if mask is None:
            mean = hidden.mean(1)  # (B, D)
        else:
            real = mask[..., None].float()  # (B, T, 1)
            mean = (hidden * real).sum(1) / real.sum(1)
        vectors[batch] = mean.cpu().numpy()
    if normalize:
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), MIN_NORM)
    return vectors
