"""A trace in the words of BertViz, for those who have its pictures in their papers."""

from typing import TYPE_CHECKING, TypedDict

from jumok.interpret.schema import Block, Side
from jumok.interpret.trace import Trace

if TYPE_CHECKING:
    from torch import Tensor


class BertViz(TypedDict, total=False):
    """The words that `bertviz.head_view` and `bertviz.model_view` take."""

    attention: "tuple[Tensor, ...]"
    tokens: list[str]
    sentence_b_start: int
    encoder_attention: "tuple[Tensor, ...]"
    decoder_attention: "tuple[Tensor, ...]"
    cross_attention: "tuple[Tensor, ...]"
    encoder_tokens: list[str]
    decoder_tokens: list[str]


def to_bertviz(trace: Trace, sequence: int = 0) -> BertViz:
    """The words with which `bertviz.head_view` and `bertviz.model_view` show a sequence.

        bertviz.head_view(**to_bertviz(trace))

    Padding is cut off.
    """
    import torch

    def layers(block: Block) -> "tuple[Tensor, ...]":
        T, S = (sum(trace.info.tokens(side, sequence).real) for side in (block.queries, block.keys))
        every = (trace.weights(block.name, layer, sequence) for layer in range(block.layers))
        return tuple(torch.from_numpy(weights[None, :, :T, :S].copy()) for weights in every)

    def pieces(side: Side) -> list[str]:
        row = trace.info.tokens(side, sequence)
        return list(row.pieces[: sum(row.real)])

    blocks = {block.name: block for block in trace.info.blocks}
    if len(blocks) == 1 and "cross" not in blocks:
        [block] = blocks.values()
        found = BertViz(attention=layers(block), tokens=pieces(block.queries))
        row = trace.info.tokens(block.queries, sequence)
        segments = (row.segments or ())[: sum(row.real)]  # padding may be of any segment
        if 1 in segments:
            found["sentence_b_start"] = segments.index(1)
        return found
    found = BertViz()
    if "encoder" in blocks:
        found["encoder_attention"] = layers(blocks["encoder"])
    if "decoder" in blocks:
        found["decoder_attention"] = layers(blocks["decoder"])
    if "cross" in blocks:
        found["cross_attention"] = layers(blocks["cross"])
    if "source" in trace.info.sides:
        found["encoder_tokens"] = pieces("source")
    if "target" in trace.info.sides:
        found["decoder_tokens"] = pieces("target")
    return found
