"""The library's own lines that do each step of the calculation the page walks through.

`web/scripts/sources.py` keeps them in the page when it is built, so the page needs neither this
module nor torch.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TypedDict

import jumok
from jumok.models.embedding import InputEmbedding
from jumok.nn.attention import MultiHeadAttention, attention_scores, masked_softmax
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward
from jumok.nn.layer import ResidualNorm, TransformerLayer
from jumok.nn.masks import AttentionMask
from jumok.nn.positions import RelativePositionBias, Rotation, sinusoids
from jumok.nn.stack import TransformerStack
from jumok.tasks.inputs.batches import collate
from jumok.text.sentencepiece import SentencePieceTokenizer


class Source(TypedDict):
    """Lines of a file below the package's folder; `line` is the number of the first."""

    file: str
    line: int
    code: str


@dataclass(frozen=True)
class Passage:
    """`count` lines of a function or class, from the first one that holds `text` on."""

    of: Callable[..., object]
    text: str
    count: int = 1

    def source(self) -> Source:
        """The lines as they stand; LookupError when the text is nowhere in them."""
        lines, start = inspect.getsourcelines(self.of)
        for number, line in enumerate(lines):
            if self.text in line:
                code = dedent("".join(lines[number : number + self.count])).rstrip()
                code = re.sub(r" +# type: ignore\[.*?\]", "", code)  # speaks to no reader
                return Source(file=_place(self.of), line=start + number, code=code)
        raise LookupError(f"{self.of.__qualname__} has no line with {self.text!r}")


STEPS = {
    "pieces": Passage(SentencePieceTokenizer.pieces, "self._processor.encode"),
    "ids": Passage(collate, "box = pad"),
    "embedding": Passage(TokenEmbedding.forward, "x = super()", 2),
    "positions": Passage(sinusoids, "angle = "),
    "sum": Passage(InputEmbedding.forward, "x = x + self.positions"),
    "input": Passage(TransformerStack.forward, "x = layer("),
    "before": Passage(ResidualNorm.forward, "return self.dropout.add"),
    "project": Passage(MultiHeadAttention.project, "k = rotation", 2),
    "project_query": Passage(MultiHeadAttention.attend, "q = rotation"),
    "heads": Passage(MultiHeadAttention.split, "B, T, _", 2),
    "rotate": Passage(Rotation.__call__, "turned = ", 2),
    "dot": Passage(attention_scores, "scores = "),
    "bias": Passage(RelativePositionBias.forward, "return self.bias"),
    "scale": Passage(attention_scores, "scores = "),
    "mask": Passage(AttentionMask.dense, "return past if"),
    "softmax": Passage(masked_softmax, "return scores.masked_fill"),
    "mixed": Passage(MultiHeadAttention._explicit_attention, "return dropout"),
    "concat": Passage(MultiHeadAttention.attend, "return self.output"),
    "output": Passage(MultiHeadAttention.attend, "return self.output"),
    "add_attention": Passage(ResidualNorm.forward, "return self.norm("),
    "add_cross": Passage(TransformerLayer.forward, "x = self.cross_attention_norm"),
    "before_feed_forward": Passage(ResidualNorm.forward, "return self.dropout.add"),
    "widen": Passage(PositionwiseFeedForward.forward, "return self.down"),
    "widen_gated": Passage(GatedFeedForward.forward, "opened = ", 2),
    "narrow": Passage(PositionwiseFeedForward.forward, "return self.down"),
    "add_feed_forward": Passage(TransformerLayer.forward, "return self.feed_forward_norm"),
    "closing": Passage(TransformerStack.forward, "return self.norm"),
}


def sources() -> dict[str, Source]:
    """The lines of every step, by the page's name for it.

    >>> print(sources()["dot"]["code"])
    scores = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)) * scale
    """
    return {step: passage.source() for step, passage in STEPS.items()}


def _place(function: Callable[..., object]) -> str:
    """The file of a function as users see it: `jumok/nn/attention.py`."""
    package = Path(jumok.__file__).parent
    return Path(inspect.getfile(function)).relative_to(package.parent).as_posix()
