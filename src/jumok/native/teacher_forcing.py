"""The cross-attention of given targets in the C++ kernel, without torch.

Shapes: B texts, S source tokens, T target tokens.
"""

from collections.abc import Sequence

import numpy as np

from jumok.native.decoder_session import DecoderSession, DecoderWeights
from jumok.native.layout import Floats
from jumok.text.ragged import Ragged


def teacher_forced_attention(
    weights: DecoderWeights,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    start_id: int,
) -> list[Floats]:
    """The weights (T, S) of each target on its source, the mean of all layers and heads.

    The values of `jumok.decoding.align`. Row t is the attention of the position that predicts
    target token t; the first one reads `start_id`. Raises InputError for a source or a target that
    is longer than the model.
    """
    longest = max(map(len, targets), default=0)
    if not longest:
        return [np.zeros((0, len(source)), np.float32) for source in sources]
    session = DecoderSession(weights, Ragged.from_lists(list(map(list, sources))), capacity=longest)
    layers, heads = range(weights.n_layers), range(weights.n_heads)
    session.record_attention("cross", [(layer, head) for layer in layers for head in heads])
    inputs = np.full((len(targets), longest), start_id, np.int64)  # what follows an end is not used
    for row, target in zip(inputs, targets, strict=True):
        row[1 : len(target)] = target[:-1]
    steps = []
    for t in range(longest):
        session.top_k(inputs[:, t : t + 1], 1)
        steps.append(session.mean_attention())
    whole = np.stack(steps, 1)  # (B, T, S)
    return [
        whole[row, : len(target), : len(source)]
        for row, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]
