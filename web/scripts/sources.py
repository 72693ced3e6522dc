"""Copy the library's own code for each step of the calculation view into the page.

Run `python web/scripts/sources.py` after changes to the quoted functions, then build the page.
"""

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TypedDict

import jumok
from jumok.interpret.tokens import padded_tokens
from jumok.models.embedding import InputEmbedding
from jumok.nn.attention import MultiHeadAttention, attention_scores, masked_softmax
from jumok.nn.disentangled import DisentangledAttention
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward
from jumok.nn.layer import ResidualNorm, TransformerLayer
from jumok.nn.masks import AttentionMask
from jumok.nn.positions import LearnedPositions, RelativePositionBias, Rotation, sinusoids
from jumok.nn.stack import TransformerStack
from jumok.text.pretrained.backend import _encode
from jumok.text.pretrained.marian import MarianBackend
from jumok.text.sentencepiece import SentencePieceTokenizer

TARGET = Path(__file__).parents[1] / "src" / "views" / "calculation" / "sources.json"


class Source(TypedDict):
    """Lines of a file of the package; `line` is the number of the first."""

    file: str
    line: int
    code: str


@dataclass(frozen=True)
class Snippet:
    """`count` lines of a function, starting at the first line that contains `text`."""

    of: Callable[..., object]
    text: str
    count: int = 1

    def source(self) -> Source:
        """The lines. Raises LookupError if none contains the text."""
        lines, start = inspect.getsourcelines(self.of)
        for number, line in enumerate(lines):
            if self.text in line:
                code = dedent("".join(lines[number : number + self.count])).rstrip()
                code = re.sub(r" +# type: ignore\[.*?\]", "", code)  # not for readers
                return Source(file=_file_name(self.of), line=start + number, code=code)
        raise LookupError(f"{self.of.__qualname__} has no line with {self.text!r}")


# A variant of a step, after a dot, is the code of other models; the page selects it by the config.
STEPS = {
    "pieces.sentencepiece": Snippet(SentencePieceTokenizer.encode, "self._processor.encode"),
    "pieces.tokenizers": Snippet(_encode, "rows = tokenizer."),
    "pieces.marian": Snippet(MarianBackend._encode, "self.encoder.encode"),
    "ids": Snippet(padded_tokens, "ids = ["),
    "embedding": Snippet(TokenEmbedding.forward, "x = super()", 2),
    "positions": Snippet(sinusoids, "angle = "),
    "positions.learned": Snippet(LearnedPositions.forward, "return super()"),
    "sum": Snippet(InputEmbedding.forward, "x = x + self.positions"),
    "sum.segments": Snippet(InputEmbedding.forward, "x = x + self.segments"),
    "sum.norm": Snippet(InputEmbedding.forward, "return self.projection"),
    "input": Snippet(TransformerStack.forward, "x = layer("),
    "pre_norm": Snippet(ResidualNorm.forward, "return self.dropout.add"),
    "project": Snippet(MultiHeadAttention.project, "k = rotation", 2),
    "project.self": Snippet(MultiHeadAttention.project_self, "q, k, v = map", 2),
    "project.query": Snippet(MultiHeadAttention.attend, "q = rotation"),
    "heads": Snippet(MultiHeadAttention.split, "return x.view"),
    "rotate": Snippet(Rotation.__call__, "rotated = ", 2),
    "dot": Snippet(attention_scores, "scores = "),
    "bias": Snippet(RelativePositionBias.forward, "return self.bias"),
    "bias.disentangled": Snippet(
        DisentangledAttention.position_scores, "return self.hook_position_scores"
    ),
    "scale": Snippet(attention_scores, "scores = "),
    "mask": Snippet(AttentionMask.hiding, "return self.allowed"),
    "mask.causal": Snippet(AttentionMask.hiding, "near = torch", 2),
    "mask.window": Snippet(AttentionMask.hiding, "near = torch", 4),
    "softmax": Snippet(masked_softmax, "return scores.masked_fill"),
    "weighted_sum": Snippet(MultiHeadAttention._explicit_attention, "return dropout"),
    "concat": Snippet(MultiHeadAttention.attend_queries, "return self.output"),
    "output": Snippet(MultiHeadAttention.attend_queries, "return self.output"),
    "add_attention": Snippet(ResidualNorm.forward, "x = self.dropout", 2),
    "add_attention.pre_norm": Snippet(ResidualNorm.forward, "return self.dropout.add"),
    "add_cross": Snippet(TransformerLayer.forward, "x = self.cross_attention_norm", 3),
    "feed_forward_pre_norm": Snippet(ResidualNorm.forward, "return self.dropout.add"),
    "feed_forward_up": Snippet(PositionwiseFeedForward.forward, "return self.down"),
    "feed_forward_up.gated": Snippet(GatedFeedForward.forward, "gated = "),
    "feed_forward_down": Snippet(PositionwiseFeedForward.forward, "return self.down"),
    "feed_forward_down.gated": Snippet(GatedFeedForward.forward, "return self.down"),
    "add_feed_forward": Snippet(TransformerLayer.forward, "return self.feed_forward_norm"),
    "final_norm": Snippet(TransformerStack.forward, "return self.norm"),
}


def sources() -> dict[str, Source]:
    """The lines of every step and variant, by its name in the page.

    >>> print(sources()["dot"]["code"])
    scores = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)) * scale
    """
    return {step: snippet.source() for step, snippet in STEPS.items()}


def _file_name(function: Callable[..., object]) -> str:
    """The file of a function, such as `jumok/nn/attention.py`."""
    package = Path(jumok.__file__).parent
    return Path(inspect.getfile(function)).relative_to(package.parent).as_posix()


if __name__ == "__main__":
    TARGET.write_text(json.dumps(sources(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
