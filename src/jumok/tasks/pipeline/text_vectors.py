"""One vector per text: the pooled hidden states of an encoder.

Shapes: n texts, B of a batch, T tokens, D model width.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.inference import has_invariant_states
from jumok.inference.row_by_row import single_rows
from jumok.models import Decoder, EncoderDecoder, EncoderDecoderClassifier, LanguageModel
from jumok.models.config import SentencePooling
from jumok.models.pooling import pool
from jumok.pretrained.sentence_encoding import SentenceEncoding
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, batches_by_length, collate
from jumok.tasks.inputs.special_tokens import check_ids, without_special_ids
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.pipeline.encoder_choice import text_session
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

Vectors = NDArray[np.float32]


@torch.inference_mode()
def text_vectors(
    model: nn.Module,
    texts: Sequence[str] | Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    max_length: int,
    device: torch.device,
    *,
    encoding: SentenceEncoding,
    normalize: bool,
) -> Vectors:
    """The vectors (n, D) float32 of texts, in order; special tokens count, padding does not.

    Instead of texts their token ids, with or without the special tokens of the tokenizer. Raises
    InputError for a model that is not an encoder, and for ids that the tokenizer does not have.
    """
    check_encodes(model)
    encode = TextEncoder(tokenizer, min(max_length, encoding.max_length or max_length))
    spelled = [text for text in texts if isinstance(text, str)]
    if len(spelled) == len(texts):
        rows = encode([text.lower() for text in spelled] if encoding.lower_case else spelled)
    else:
        ids = [[*row] for row in texts if not isinstance(row, str)]
        for row in ids:
            check_ids(row, tokenizer)
        bare = Ragged.from_lists([without_special_ids(row, tokenizer) for row in ids])
        rows = encode.add_special_tokens(bare)
    session = text_session(model)
    if session is not None:
        plain = not encoding.steps
        found = session.vectors(rows, encoding.pooling, normalize=normalize and plain)
        if plain:
            return found
        x = torch.from_numpy(found)
        for step in encoding.steps:
            x = torch.cat(
                [step(row) for row in torch.split(x, 1)]
            )  # its bytes do not depend on the batch
        return (F.normalize(x, dim=-1) if normalize else x).numpy()
    parts, order = [np.empty((0, 0), np.float32)], []
    for examples in batches_by_length(rows, EVAL_BATCH_TOKENS):
        batch = collate([rows[i] for i in examples], tokenizer.padding_id, device)
        hidden: Tensor = model.hidden_states(  # type: ignore[operator]  # every encoder has it
            batch.input_ids, batch.attention_mask
        )  # (B, T, D)
        for states, mask in _parts(model, hidden.float(), batch.attention_mask):
            x = pool_texts(states, mask, encoding.pooling)  # (B, D)
            for step in encoding.steps:
                x = step(x)
            parts.append((F.normalize(x, dim=-1) if normalize else x).cpu().numpy())
        order.append(examples)
    if not order:
        return parts[0]
    return np.concatenate(parts[1:])[np.argsort(np.concatenate(order), kind="stable")]


def check_encodes(model: nn.Module) -> None:
    """Raise InputError for a model that is not an encoder."""
    if isinstance(model, Decoder | EncoderDecoder | EncoderDecoderClassifier | LanguageModel):
        raise InputError(
            "pipeline.vectors_need_encoder",
            "vectors of texts need an encoder, got {type_model}; load a run with model.kind = "
            '"encoder"',
            type_model=type(model).__name__,
        )


def _parts(
    model: nn.Module, hidden: Tensor, mask: Tensor | None
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """A batch as it is, or each of its texts alone where their vectors then have the same bits."""
    if not has_invariant_states(model):
        yield hidden, mask
        return
    for states, real, _ in single_rows(hidden, mask):
        yield states, real


def pool_texts(hidden: Tensor, mask: Tensor | None, kind: SentencePooling) -> Tensor:
    """One vector per text, (B, T, D) -> (B, D), as `pool`; "last" is that of the last real token.

    >>> hidden = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> pool_texts(hidden, torch.tensor([[True, True, False]]), "last").item()
    3.0
    """
    if kind != "last":
        return pool(hidden, mask, kind)
    return pool(hidden.flip(1), None if mask is None else mask.flip(1), "first")
