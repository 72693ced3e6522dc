"""Logits processors: functions that change the next-token scores before a token is chosen.

Scores are log-probabilities (B, V); a processor lowers some of them or scales all, and a score of
-inf is never chosen. They are not normalised again, so a beam with banned words adds up the model's
own log-probabilities; outside beam search a repetition penalty returns logits. Shapes: B rows, P
prompt tokens, T generated tokens, V vocabulary, W banned sequences, L tokens of one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jumok.errors import DecodingError

NEG_INF = float("-inf")


@dataclass(frozen=True)
class ProcessorContext:
    """The tokens of the rows so far: the first `start` are the prompt, the rest is generated.

    tokens (B, P + T) int64, -1 at padding; texts (B) int64: the index of the text of each row
    (beams of a text share it). logits (B, V): the model's, unchanged; None in beam search, whose
    hypotheses add up log-probabilities.

    >>> context = ProcessorContext(torch.tensor([[2, 7, 8]]), start=1, texts=torch.tensor([0]))
    >>> context.generated
    tensor([[7, 8]])
    """

    tokens: Tensor
    start: int
    texts: Tensor
    logits: Tensor | None = None

    @property
    def generated(self) -> Tensor:
        """The generated tokens: (B, T)."""
        return self.tokens[:, self.start :]


Processor = Callable[[Tensor, ProcessorContext], Tensor]
"""scores (B, V) float32, the context of the rows -> scores (B, V); it may change them in place.

Rows must not depend on each other, so that a text has the same output in every batch.
"""


@dataclass(frozen=True)
class Temperature:
    """Divide by t: below 1 sharpens the distribution, above 1 flattens it."""

    t: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        return scores / self.t


@dataclass(frozen=True)
class RepetitionPenalty:
    """Lower every token that already occurs: Keskar et al. 2019, section 4.1.

    Its logit is divided by `penalty`, or multiplied if it is below 0. In beam search its
    log-probability is multiplied: that hardly changes a token of probability near 1, so it breaks
    repetition loops in greedy search and sampling only; `NoRepeatNgram` does in all. transformers
    does the same in each case. It must be the first processor: it ignores its input scores.

    >>> logits = torch.tensor([[6.0, 1.0]])
    >>> context = ProcessorContext(torch.tensor([[0]]), 0, torch.tensor([0]), logits)
    >>> RepetitionPenalty(2.0)(logits.log_softmax(-1), context)
    tensor([[3., 1.]])
    """

    penalty: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        logits = scores if context.logits is None else context.logits
        lowered = torch.where(logits < 0, logits * self.penalty, logits / self.penalty)
        return torch.where(_present(context.tokens, logits), lowered, logits)


@dataclass(frozen=True)
class NoRepeatNgram:
    """Ban the token that would repeat an n-gram."""

    n: int

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        tokens, n = context.tokens, self.n
        if tokens.shape[1] < n:
            return scores
        before = tokens[:, tokens.shape[1] - n + 1 :]  # (B, n - 1)
        windows = tokens.unfold(1, n, 1)  # (B, P + T - n + 1, n)
        repeated = (windows[..., :-1] == before[:, None]).all(-1) & (before >= 0).all(-1)[:, None]
        return scores.masked_fill_(_present(windows[..., -1].where(repeated, -1), scores), NEG_INF)


class BannedSequences:
    """Ban token sequences: the last token of one is never chosen after the others.

    >>> forbid = BannedSequences([[1], [2, 3]])
    >>> context = ProcessorContext(torch.tensor([[0, 2]]), 0, torch.tensor([0]))
    >>> forbid(torch.zeros(1, 5), context)
    tensor([[0., -inf, 0., -inf, 0.]])
    """

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        known = sorted({tuple(each) for each in sequences}, key=lambda each: (len(each), each))
        if not known or not known[0]:
            raise DecodingError(
                "decoding.no_sequences",
                "sequences must be one or more, each of at least one token, got {got}",
                got=f"an empty one among {len(known)}" if known else "none",
            )
        longest = len(known[-1])
        self.sequences = torch.tensor([[-1] * (longest - len(each)) + list(each) for each in known])

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        banned = self.sequences.to(scores.device)  # (W, L)
        before, last = banned[:, :-1], banned[:, -1]  # -1 in `before` matches any token
        matches = _matches(before, context)  # (B, W)
        return scores.masked_fill_(
            _present(last.expand_as(matches).where(matches, -1), scores), NEG_INF
        )


@dataclass(frozen=True)
class MinLength:
    """Ban the end token until `n` tokens are generated."""

    n: int
    end_id: int

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        if context.generated.shape[1] < self.n:
            scores[:, self.end_id] = NEG_INF
        return scores


def only_ban_ends(processors: Sequence[Processor]) -> bool:
    """Whether the processors ban some end tokens and nothing else.

    Then the k best tokens are among the k + len(processors) best before the processors.
    """
    return all(isinstance(each, MinLength) for each in processors)


def without_early_ends(
    log_p: Tensor, token: Tensor, t: int, processors: Sequence[Processor]
) -> Tensor:
    """The scores of the best tokens of each row, after processors that `only_ban_ends`.

    log_p and token (B, C), t generated tokens -> (B, C).

    >>> log_p, token = torch.tensor([[-0.5, -1.0]]), torch.tensor([[3, 8]])
    >>> without_early_ends(log_p, token, 1, [MinLength(2, end_id=3)])
    tensor([[-inf, -1.]])
    """
    for each in processors:
        assert isinstance(each, MinLength)
        if t < each.n:
            log_p = log_p.masked_fill(token == each.end_id, NEG_INF)
    return log_p


class ForcedPrefix:
    """Force the first tokens of every output: one prefix for all texts, or one for each.

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
        forced = self.prefixes[:, t].to(scores.device)  # (1|N)
        if len(forced) > 1:
            forced = forced[context.texts]
        forced = forced.expand(len(scores))[:, None]  # (B, 1)
        others = torch.arange(scores.shape[1], device=scores.device) != forced
        return scores.masked_fill_(others & (forced >= 0), NEG_INF)


@dataclass(frozen=True)
class ForcedToken:
    """Force the token at `position` of every output, with probability 1.

    >>> start = ProcessorContext(torch.tensor([[9]]), 1, torch.tensor([0]))  # T is 0
    >>> ForcedToken(token=2, position=0)(torch.tensor([[-1.0, -2.0, -3.0]]), start)
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
    """A processor that does not see the first `n` generated tokens, and starts after them.

    >>> late = IgnoreFirst(1, ForcedPrefix([[3]]))
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
    """A processor that is inactive until `n` tokens are generated; then it sees all of them.

    >>> late = StartAfter(1, BannedSequences([[2]]))
    >>> late(torch.zeros(1, 4), ProcessorContext(torch.tensor([[9]]), 1, torch.tensor([0])))
    tensor([[0., 0., 0., 0.]])
    """

    n: int
    processor: Processor

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        return self.processor(scores, context) if context.generated.shape[1] >= self.n else scores


@dataclass(frozen=True)
class OnlyAt:
    """A processor that is active at one position of every output.

    >>> first = OnlyAt(0, BannedSequences([[2]]))
    >>> first(torch.zeros(1, 4), ProcessorContext(torch.tensor([[9]]), 1, torch.tensor([0])))
    tensor([[0., 0., -inf, 0.]])
    """

    position: int
    processor: Processor

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        active = context.generated.shape[1] == self.position
        return self.processor(scores, context) if active else scores


class SequenceBias:
    """Add a number to the score of the last token of a sequence, after its other tokens.

    >>> bias = SequenceBias([((1,), 2.0), ((2, 3), -1.0)])
    >>> context = ProcessorContext(torch.tensor([[0, 2]]), 0, torch.tensor([0]))
    >>> bias(torch.zeros(1, 5), context)
    tensor([[ 0.,  2.,  0., -1.,  0.]])
    """

    def __init__(self, biases: Sequence[tuple[Sequence[int], float]]) -> None:
        longest = max(len(ids) for ids, _ in biases)
        rows = [[-1] * (longest - len(ids)) + list(ids) for ids, _ in biases]
        self.sequences, self.biases = torch.tensor(rows), torch.tensor([b for _, b in biases])

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        sequences, biases = self.sequences.to(scores.device), self.biases.to(scores)  # (W, L), (W)
        matches = _matches(sequences[:, :-1], context)  # (B, W)
        return scores.index_add_(1, sequences[:, -1], torch.where(matches, biases, 0.0))


@dataclass(frozen=True)
class TopK:
    """Keep the k highest scores (Fan et al. 2018), and those equal to the lowest of them."""

    k: int

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        lowest = scores.topk(min(self.k, scores.shape[1])).values[:, -1:]
        return scores.masked_fill_(scores < lowest, NEG_INF)


@dataclass(frozen=True)
class TopP:
    """Keep the smallest set of most probable tokens with probability p (Holtzman et al. 2020)."""

    p: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        ordered, order = scores.softmax(-1).sort(descending=True, stable=True)
        return _ban_in_order(scores, order, ordered.cumsum(-1) - ordered >= self.p)


@dataclass(frozen=True)
class MinP:
    """Keep tokens at least p times as probable as the argmax (Nguyen et al. 2024)."""

    p: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        probability = scores.softmax(-1)
        minimum = self.p * probability.amax(-1, keepdim=True)
        return scores.masked_fill_(probability < minimum, NEG_INF)


@dataclass(frozen=True)
class TypicalP:
    """Locally typical sampling: Meister et al. 2023, equation 9.

    Keep the smallest set of smallest |-log p(y) - H| with probability p; H is the entropy.
    """

    p: float

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        log_p = scores.log_softmax(-1)
        probability = log_p.exp()
        entropy = -(probability * log_p).nansum(-1, keepdim=True)  # 0 log 0 is 0
        order = (-log_p - entropy).abs().argsort(dim=-1, stable=True)
        ordered = probability.gather(-1, order)
        return _ban_in_order(scores, order, ordered.cumsum(-1) - ordered >= self.p)


def apply_processors(
    scores: Tensor, context: ProcessorContext, processors: Iterable[Processor]
) -> Tensor:
    """The scores after every processor, in order: (B, V). `scores` is not modified."""
    scores = scores.clone()
    for processor in processors:
        scores = processor(scores, context)
    return scores


def _matches(before: Tensor, context: ProcessorContext) -> Tensor:
    """Whether the rows end with these tokens, -1 for any: (W, L) -> (B, W)."""
    L = before.shape[1]
    tail = context.tokens[:, max(context.tokens.shape[1] - L, 0) :]  # (B, up to L)
    tail = torch.nn.functional.pad(tail, (L - tail.shape[1], 0), value=-1)
    return ((tail[:, None] == before) | (before < 0)).all(-1)


def _present(tokens: Tensor, scores: Tensor) -> Tensor:
    """Which of V tokens are in `tokens` (B, N), ignoring negative ones: (B, V) bool."""
    present = torch.zeros(len(scores), scores.shape[1] + 1, dtype=torch.bool, device=scores.device)
    return present.scatter_(1, tokens.where(tokens >= 0, scores.shape[1]), True)[:, :-1]


def _ban_in_order(scores: Tensor, order: Tensor, banned: Tensor) -> Tensor:
    """Ban the tokens of `order` (B, V) where `banned` (B, V) is True."""
    return scores.masked_fill_(torch.zeros_like(banned).scatter_(1, order, banned), NEG_INF)
