"""Change the logits: what is done to the next token's scores before one is chosen.

Scores are log-probabilities (B, V), and a processor lowers some of them or scales them all; one
that is -inf is never chosen. They are not made to sum to 1 again, so a beam that forbids words
still adds up the model's own log-probabilities; a repetition penalty leaves logits where no beam
adds them up. Shapes: B rows being written, P tokens they began with, T tokens written since, V
vocabulary, W words, L tokens of a word.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jumok.errors import InputError

NEG_INF = float("-inf")


@dataclass(frozen=True)
class ProcessorContext:
    """What the rows hold so far: the first `start` tokens were given, the rest was written.

    tokens (B, P + T) int64, -1 where a prompt is padded; texts (B) int64: the number, in the
    request, of the text each row belongs to (beams of a text share it). logits (B, V): what the
    model said, as it said it; None in a beam search, whose hypotheses add up log-probabilities.
    """

    tokens: Tensor
    start: int
    texts: Tensor
    logits: Tensor | None = None

    @property
    def generated(self) -> Tensor:
        """What the model wrote: (B, T)."""
        return self.tokens[:, self.start :]


Processor = Callable[[Tensor, ProcessorContext], Tensor]
"""scores (B, V) float32, the context of the rows -> scores (B, V); it may change them in place.

It must treat each row by itself, so that a text is written alone as in a batch.
"""


@dataclass(frozen=True)
class Temperature:
    """Divide by t: below 1 the likely become likelier, above 1 all become alike."""

    t: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        return scores / self.t


@dataclass(frozen=True)
class RepetitionPenalty:
    """Make every token that is there already less likely: Keskar et al. 2019, section 4.1.

    Its logit is divided by `penalty`, or multiplied where it is below 0. In a beam search its
    log-probability is multiplied: that hardly moves a token the model is sure of, so loops are
    broken by drawing or greedily, or by `NoRepeatNgram`. transformers does the same in each case.
    It comes first, for it does not look at what others did to the scores.

    >>> context = ProcessorContext(torch.tensor([[0]]), 0, torch.tensor([0]), torch.tensor([[6.0, 1.0]]))
    >>> RepetitionPenalty(2.0)(context.logits.log_softmax(-1), context)
    tensor([[3., 1.]])
    """

    penalty: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        said = scores if context.logits is None else context.logits
        lowered = torch.where(said < 0, said * self.penalty, said / self.penalty)
        return torch.where(_present(context.tokens, said), lowered, said)


@dataclass(frozen=True)
class NoRepeatNgram:
    """Forbid the token that would make the last n tokens come a second time in this order."""

    n: int

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        tokens, n = context.tokens, self.n
        if tokens.shape[1] < n:
            return scores
        before = tokens[:, tokens.shape[1] - n + 1 :]  # (B, n - 1)
        windows = tokens.unfold(1, n, 1)  # (B, P + T - n + 1, n)
        again = (windows[..., :-1] == before[:, None]).all(-1) & (before >= 0).all(-1)[:, None]
        return scores.masked_fill_(_present(windows[..., -1].where(again, -1), scores), NEG_INF)


class BannedSequences:
    """Forbid words, each a sequence of tokens: the last is never written after the others.

    >>> forbid = Forbidden([[1], [2, 3]])
    >>> context = ProcessorContext(torch.tensor([[0, 2]]), 0, torch.tensor([0]))
    >>> forbid(torch.zeros(1, 5), context)
    tensor([[0., -inf, 0., -inf, 0.]])
    """

    def __init__(self, words: Iterable[Sequence[int]]) -> None:
        known = sorted({tuple(word) for word in words}, key=lambda word: (len(word), word))
        if not known or not known[0]:
            raise InputError(f"{len(known)} forbidden words, or an empty one, came; give one token")
        longest = len(known[-1])
        self.sequences = torch.tensor([[-1] * (longest - len(word)) + list(word) for word in known])

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        words = self.sequences.to(scores.device)  # (W, L)
        before, last = words[:, :-1], words[:, -1]  # -1 in `before` agrees with anything
        L = before.shape[1]
        tail = context.tokens[:, max(context.tokens.shape[1] - L, 0) :]  # (B, up to L)
        tail = torch.nn.functional.pad(tail, (L - tail.shape[1], 0), value=-1)
        there = ((tail[:, None] == before) | (before < 0)).all(-1)  # (B, W)
        return scores.masked_fill_(
            _present(last.expand_as(there).where(there, -1), scores), NEG_INF
        )


@dataclass(frozen=True)
class MinLength:
    """Forbid the end until `n` tokens are written."""

    n: int
    end_id: int

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        if context.generated.shape[1] < self.n:
            scores[:, self.end_id] = NEG_INF
        return scores


class ForcedPrefix:
    """Let every answer begin with given tokens: one beginning for all texts, or one for each.

    >>> force = ForcedPrefix([[3, 1]])
    >>> force(torch.zeros(1, 4), ProcessorContext(torch.tensor([[9, 3]]), 1, torch.tensor([0])))
    tensor([[-inf, 0., -inf, -inf]])
    """

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        longest = max(map(len, prefixes), default=0)
        rows = [[*prefix, *[-1] * (longest - len(prefix))] for prefix in prefixes]
        self.prefixes = torch.tensor(rows, dtype=torch.int64).view(len(rows), longest)

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        t = context.generated.shape[1]
        if t >= self.prefixes.shape[1]:
            return scores
        due = self.prefixes[:, t].to(scores.device)  # (1|N)
        due = (due.expand(len(scores)) if len(due) == 1 else due[context.texts])[:, None]  # (B, 1)
        others = torch.arange(scores.shape[1], device=scores.device) != due
        return scores.masked_fill_(others & (due >= 0), NEG_INF)


@dataclass(frozen=True)
class ForcedToken:
    """Let token number `place` of every answer be this one, whatever the model says to it.

    >>> start = ProcessorContext(torch.tensor([[9]]), 1, torch.tensor([0]))  # nothing is written yet
    >>> Forced(token=2, place=0)(torch.tensor([[-1.0, -2.0, -3.0]]), start)
    tensor([[-inf, -inf, 0.]])
    """

    token: int
    position: int

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        if context.generated.shape[1] == self.position:
            scores.fill_(NEG_INF)
            scores[:, self.token] = 0.0
        return scores


@dataclass(frozen=True)
class IgnoreFirst:
    """A processor for which the first `n` tokens written do not count: it looks on behind them.

    >>> late = Behind(1, ForcedPrefix([[3]]))
    >>> context = ProcessorContext(torch.tensor([[9, 2]]), 1, torch.tensor([0]))
    >>> late(torch.zeros(1, 4), context)
    tensor([[-inf, -inf, -inf, 0.]])
    """

    n: int
    processor: Processor

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        if self.n > context.generated.shape[1]:
            return scores
        return self.processor(scores, replace(context, start=context.start + self.n))


@dataclass(frozen=True)
class StartAfter:
    """A processor that is silent until `n` tokens are written; then it sees all of them.

    >>> late = After(1, Forbidden([[2]]))
    >>> late(torch.zeros(1, 4), ProcessorContext(torch.tensor([[9]]), 1, torch.tensor([0])))
    tensor([[0., 0., 0., 0.]])
    """

    n: int
    processor: Processor

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        return self.processor(scores, context) if context.generated.shape[1] >= self.n else scores


@dataclass(frozen=True)
class TopK:
    """Keep the k likeliest tokens (Fan et al. 2018), and those as likely as the last of them."""

    k: int

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        least = scores.topk(min(self.k, scores.shape[1])).values[:, -1:]
        return scores.masked_fill_(scores < least, NEG_INF)


@dataclass(frozen=True)
class TopP:
    """Keep the fewest likeliest tokens that have p of the probability (Holtzman et al. 2020)."""

    p: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        ordered, order = scores.softmax(-1).sort(descending=True, stable=True)
        return _cut(scores, order, ordered.cumsum(-1) - ordered >= self.p)


@dataclass(frozen=True)
class MinP:
    """Keep tokens at least p times as probable as the likeliest (Nguyen et al. 2024)."""

    p: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        probability = scores.softmax(-1)
        least = self.p * probability.amax(-1, keepdim=True)
        return scores.masked_fill_(probability < least, NEG_INF)


@dataclass(frozen=True)
class TypicalP:
    """Keep the tokens whose surprise is nearest to the expected one, p of the probability.

    Meister et al. 2023, equation 9: the fewest of smallest |-log p(y) - H|, H the entropy.
    """

    p: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        log_p = scores.log_softmax(-1)
        probability = log_p.exp()
        entropy = -(probability * log_p).nansum(-1, keepdim=True)  # 0 log 0 is 0
        order = (-log_p - entropy).abs().argsort(dim=-1, stable=True)
        ordered = probability.gather(-1, order)
        return _cut(scores, order, ordered.cumsum(-1) - ordered >= self.p)


def apply_processors(
    scores: Tensor, context: ProcessorContext, processors: Iterable[Processor]
) -> Tensor:
    """The scores after every processor, in order: (B, V). `scores` itself stays as it is."""
    scores = scores.clone()
    for processor in processors:
        scores = processor(scores, context)
    return scores


def _present(tokens: Tensor, scores: Tensor) -> Tensor:
    """Which of V tokens are among `tokens` (B, N), those below 0 aside: (B, V) bool."""
    present = torch.zeros(len(scores), scores.shape[1] + 1, dtype=torch.bool, device=scores.device)
    return present.scatter_(1, tokens.where(tokens >= 0, scores.shape[1]), True)[:, :-1]


def _cut(scores: Tensor, order: Tensor, beyond: Tensor) -> Tensor:
    """Forbid the tokens that are `beyond` (B, V) when they stand in `order` (B, V)."""
    return scores.masked_fill_(torch.zeros_like(beyond).scatter_(1, order, beyond), NEG_INF)
