"""Fill-mask: every [MASK] typed in a text is replaced by the most probable piece that fits."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from jumok.decoding.finite import check_log_p
from jumok.errors import InputError
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, batches_by_length, collate
from jumok.tasks.inputs.masking import PieceInfo
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.own_model import forward_own
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.offsets import SPACE
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, piece_or_empty

MASK = "[MASK]"  # as typed in a text
REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # decoded from an incomplete UTF-8 sequence


@torch.inference_mode()
def fill_masks(pipeline: Pipeline, texts: Sequence[str]) -> list[GeneratedText]:
    """Fill every [MASK] of each text with the most probable piece that fits its spaces.

    After a space a piece that starts a word is chosen, elsewhere one that continues it; several
    masks of a text are filled independently. The score is the sum of their log p.
    """
    tokenizer = pipeline.vocabulary
    pieces = PieceInfo.of(tokenizer)
    parts = [split_at_masks(text, tokenizer) for text in texts]
    rows = encode_with_masks(texts, TextEncoder(tokenizer, pipeline.recipe.model.max_length))
    outputs: dict[int, GeneratedText] = {}
    for batch in batches_by_length(rows, EVAL_BATCH_TOKENS):
        padded = collate([rows[i] for i in batch], tokenizer.padding_id, pipeline.device)
        forward = partial(forward_own, pipeline.model) if pipeline.is_own else pipeline.model
        logits = forward(padded.input_ids, padded.attention_mask)
        for i, row, row_logits in zip(batch, padded.input_ids, logits, strict=True):
            log_p = row_logits[row == tokenizer.mask_id].float().log_softmax(-1)  # (masks, V)
            check_log_p(log_p)
            output, score = _fill(parts[i], log_p.cpu().numpy(), pieces, tokenizer)
            outputs[int(i)] = GeneratedText(texts[i], output, score)
    return [outputs[i] for i in range(len(texts))]


def split_at_masks(text: str, tokenizer: Tokenizer) -> list[str]:
    """The parts of a text between its masks: typed as [MASK], or as the tokenizer's own piece.

    The name of the piece is that of the model's files, such as <mask>.
    """
    own = tokenizer.special_ids.get(MASK, -1)
    typed = piece_or_empty(tokenizer, own) if own >= 0 else ""
    return text.replace(typed, MASK).split(MASK) if typed else text.split(MASK)


def encode_with_masks(texts: Sequence[str], encode: TextEncoder) -> Ragged:
    """The input ids of texts with typed [MASK]s.

    The space before a mask belongs to the piece that fills it, and so does the space after it,
    unless an imported tokenizer makes it a part of the next piece. Spaces that are pieces stay.
    """
    tokenizer = encode.tokenizer
    imported = isinstance(tokenizer, PretrainedTokenizer)
    keeps_spaces = tokenizer.has_space_pieces
    rows = []
    for text in texts:
        parts = split_at_masks(text, tokenizer)
        ids: list[int] = []
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            stripped = part if last or keeps_spaces else part.rstrip(" ")
            if number:
                ids.append(tokenizer.mask_id)
                stripped = stripped if imported or keeps_spaces else stripped.lstrip(" ")
            own = tokenizer.encode(stripped) if stripped else []
            attached = number > 0 and not part.startswith(" ") and not imported
            ids += _without_space(own, tokenizer) if attached else own
        rows.append(ids)
    return encode.add_special_tokens(Ragged.from_lists(rows))


def _without_space(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """The ids of a text without the space before it, if the vocabulary has such a piece."""
    if not ids:
        return ids
    piece = tokenizer.piece(ids[0]).removeprefix(SPACE)
    if not piece:
        return ids[1:]
    try:
        return [tokenizer.id(piece), *ids[1:]]
    except InputError:
        return ids


def _fill(
    parts: Sequence[str], log_p: NDArray[np.float32], pieces: PieceInfo, tokenizer: Tokenizer
) -> tuple[str, float]:
    """The parts of a text joined by the best pieces: log_p (masks that were read, V).

    A mask that was truncated stays.
    """
    output, score = parts[0], 0.0
    unread = len(parts) - 1 - len(log_p) if tokenizer.truncation_side == "left" else 0
    for number, (before, after) in enumerate(pairwise(parts), -unread):
        piece = MASK
        if 0 <= number < len(log_p):
            after_mask = not before and number > -unread
            starts = not after_mask and tokenizer.word_starts_after(before)
            starts &= not tokenizer.has_space_pieces
            candidates = pieces.starts_word if starts else pieces.maskable & ~pieces.starts_word
            piece, log = _best_piece(log_p[number], candidates, tokenizer)
            score += log
        output += piece + after
    return output, score


def _best_piece(
    log_p: NDArray[np.float32], candidates: NDArray[np.bool_], tokenizer: Tokenizer
) -> tuple[str, float]:
    """The most probable candidate with visible text, and its log p.

    White space alone is not visible text, nor are some bytes of a character.
    """
    ids = np.flatnonzero(candidates)
    for best in ids[np.argsort(-log_p[ids], kind="stable")]:
        surface = tokenizer.surface(int(best))
        if surface.strip() and REPLACEMENT_CHARACTER not in surface:
            return surface, float(log_p[best])
    raise InputError(
        "pipeline.mask_needs_vocabulary",
        "a mask needs a vocabulary with pieces inside words and at their beginning; train one on "
        "more texts",
    )
