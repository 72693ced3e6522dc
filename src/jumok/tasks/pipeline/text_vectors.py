"""One vector per text: the pooled hidden states of an encoder.

Shapes: n texts, B of a batch, T tokens, D model width.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models import Decoder, EncoderDecoder, EncoderDecoderClassifier, LanguageModel
from jumok.models.pooling import TokenPooling, pool
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, batches_by_length, collate
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.text.tokenizer import Tokenizer

Vectors = NDArray[np.float32]


@torch.inference_mode()
def text_vectors(
    model: nn.Module,
    texts: Sequence[str],
    tokenizer: Tokenizer,
    max_length: int,
    device: torch.device,
    *,
    pooling: TokenPooling,
    normalize: bool,
) -> Vectors:
    """The vectors (n, D) float32 of texts, in order; special tokens count, padding does not.

    Raises InputError for a model that is not an encoder, and for an unknown pooling.
    """
    if isinstance(model, Decoder | EncoderDecoder | EncoderDecoderClassifier | LanguageModel):
        raise InputError(
            f"vectors of texts need an encoder, got a {type(model).__name__}; load a run with "
            'model.kind = "encoder"'
        )
    if pooling not in ("first", "mean", "max"):
        raise InputError(f'pooling must be "first", "mean" or "max", got {pooling!r}')
    rows = TextEncoder(tokenizer, max_length)(texts)
    vectors = np.empty((len(rows), 0), np.float32)
    for examples in batches_by_length(rows, EVAL_BATCH_TOKENS):
        batch = collate([rows[i] for i in examples], tokenizer.padding_id, device)
        hidden: Tensor = model.hidden_states(  # type: ignore[operator]  # every encoder has it
            batch.input_ids, batch.attention_mask
        )  # (B, T, D)
        pooled = pool(hidden.float(), batch.attention_mask, pooling)  # (B, D)
        if normalize:
            pooled = F.normalize(pooled, dim=-1)
        if not vectors.shape[1]:
            vectors = np.empty((len(rows), pooled.shape[1]), np.float32)
        vectors[examples] = pooled.cpu().numpy()
    return vectors
