"""Greedy decoding with a cache: the likeliest next token, until the end is written.

Shapes: B sentences, S source tokens, V target vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from jumok.decoding.written import Written
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.nn.masks import EVERYTHING, AttentionMask


@torch.inference_mode()
def greedy(
    model: EncoderDecoder,
    source: Tensor,
    real: Tensor | None,
    *,
    bos_id: int,
    eos_id: int,
    max_lengths: Sequence[int],
) -> list[Written]:
    """Write a target for each source, at most as many tokens as `max_lengths` says of it.

    source (B, S) int64; real (B, S) bool, None without padding. Finished sentences leave the
    batch, so the work left is that of the unfinished ones.
    """
    longest = max(max_lengths, default=0)
    memory = model.encode(source, _mask(real))  # (B, S, D)
    cache = model.decoder.cache(longest + 1)
    ids: list[list[int]] = [[] for _ in range(len(source))]
    scores = [0.0] * len(source)
    finished = [False] * len(source)
    alive = list(range(len(source)))
    newest = torch.full((len(source), 1), bos_id, device=source.device)
    for _ in range(longest + 1):
        hidden = model.decode(newest, memory, _mask(real), cache=cache)  # (B, 1, D)
        log_p = model.output(hidden[:, -1]).float().log_softmax(-1)  # (B, V)
        best, token = log_p.max(-1)
        going = []
        for row, (number, choice, gain) in enumerate(
            zip(alive, token.tolist(), best.tolist(), strict=True)
        ):
            full = len(ids[number]) == max_lengths[number]
            if choice != eos_id and full:
                continue
            scores[number] += gain
            if choice == eos_id:
                finished[number] = True
            else:
                ids[number].append(choice)
                going.append(row)
        if not going:
            break
        newest = token[:, None]
        if len(going) < len(alive):
            rows = torch.tensor(going, device=source.device)
            cache.select(rows)
            memory, newest = memory[rows], newest[rows]
            real = None if real is None else real[rows]
            alive = [alive[row] for row in going]
    return [Written(*parts) for parts in zip(ids, scores, finished, strict=True)]


def _mask(real: Tensor | None) -> AttentionMask:
    return EVERYTHING if real is None else AttentionMask.from_padding(real)
