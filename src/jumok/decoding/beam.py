"""Beam search: keep the K hypotheses of highest score for each text, and extend each by a token.

The score of a hypothesis Y = y_1 ... y_t (the end token is one of its tokens) is

    s(Y) = sum_i log p(y_i | y_<i, x)                 after the processors, if there are any

Each step makes all continuations of the K alive hypotheses of a text and considers the 2K of
highest score. Those that end (end token, stop string, or the text's limit) and are among the first
K become finished; of those that do not end, the first K stay alive. Finished ones are ranked by

    rank(Y) = s(Y) / lp(t) + cp(Y)
    lp(t)   = t^alpha                  length_norm "power"
            = ((5 + t) / 6)^alpha      length_norm "gnmt": Wu et al. 2016, equation 14
    cp(Y)   = beta sum_j log min(sum_i a_ij, 1)

where a_ij is the cross-attention weight of y_i on source token j, the mean of all layers and heads.
The K of highest rank are kept. The search of a text ends, and its rows leave the batch, at its
limit, or when K are finished and, by `early_stopping`,

    True     at once
    False    the best alive hypothesis, ranked at its current length, is not better than the worst
             finished one
    "never"  no continuation of it can be better: its score ranked at the best possible length

Ties: of equal scores the hypothesis that ranked higher comes first, then the smaller token id; of
equal ranks the one finished earlier. (Which of several equal scores are among the 2K is left to
`torch.topk`; it is the same for one text and in a batch.)

transformers' `generate(num_beams=K, max_new_tokens=n)` gives the same with length_norm "power",
its length_penalty as alpha, coverage 0, max_length n and the same early_stopping. Its
`sequences_scores` are our ranks.

Shapes: N unfinished texts, K beams, W alive hypotheses of a text (1 at first, then up to K), C
candidates (2K), T new tokens at most, t generated so far, V vocabulary, S source tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from jumok.decoding.callbacks import StepCallback, StepResult
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.constraint import can_end_here, no_continuation_error
from jumok.decoding.finite import check_log_p
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import IncrementalDecoder, SupportsAttention, SupportsTopK
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import (
    NEG_INF,
    Processor,
    ProcessorContext,
    apply_processors,
    only_ban_ends,
    without_early_ends,
)
from jumok.errors import DecodingError

MIN_COLUMNS = 32  # of tokens that buffers have at first


@dataclass(frozen=True)
class Hypotheses:
    """W hypotheses of each of N texts, best first; -inf is the value of an empty place."""

    value: Tensor  # (N, W) float32: the score of an alive one, the rank of a finished one
    tokens: Tensor  # (N, W, P + T) int64
    log_p: Tensor  # (N, W, T) float32: of the model, without processors
    length: Tensor  # (N, W) int64: generated tokens
    ended: Tensor  # (N, W) bool: by the end token or a stop string
    parent: Tensor  # (N, W) int64: the index of the alive one it extends
    attended: Tensor  # (N, W, S) float32: attention on each source token; S is 0 without coverage

    def gather(self, index: Tensor) -> "Hypotheses":
        """The ones at index (N, M) of each text, in that order."""

        def take(part: Tensor) -> Tensor:
            expanded = index if part.ndim == 2 else index[..., None]
            return part.take_along_dim(expanded, 1)

        return self._map(take)

    def of_texts(self, texts: Tensor) -> "Hypotheses":
        """The ones of these texts (N')."""
        return self._map(lambda part: part[texts])

    def widened(self, columns: int) -> "Hypotheses":
        """These hypotheses with space for `columns` tokens each, prompt included."""
        more = columns - self.tokens.shape[-1]
        if more <= 0:
            return self
        pad = torch.nn.functional.pad
        return replace(
            self, tokens=pad(self.tokens, (0, more), value=-1), log_p=pad(self.log_p, (0, more))
        )

    def concat(self, others: "Hypotheses") -> "Hypotheses":
        """These, then the others, of the same texts."""
        pairs = ((getattr(self, f.name), getattr(others, f.name)) for f in fields(self))
        return Hypotheses(*(torch.cat(pair, 1) for pair in pairs))

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Hypotheses":
        return Hypotheses(*(function(getattr(self, f.name)) for f in fields(self)))


@torch.inference_mode()
def beam_search(
    decoder: IncrementalDecoder,
    inputs: GenerationInputs,
    config: DecodingConfig,
    processors: Sequence[Processor] = (),
    callback: StepCallback | None = None,
) -> list[list[Hypothesis]]:
    """For each text the `n_best` hypotheses of highest rank, best first.

    There are fewer where fewer exist. Where the processors forbid every token before any hypothesis
    is finished, they are those alive at that step. A `callback` is for a single text.

    Raises InputError for coverage with a decoder that does not return its attention weights.

    >>> from jumok.decoding import Seq2SeqDecoder, StoppingCriteria
    >>> from jumok.models import EncoderDecoder, TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> source = torch.tensor([[4, 5, 6]])  # (N, S)
    >>> decoder = Seq2SeqDecoder(EncoderDecoder(small).eval(), source, capacity=4)
    >>> inputs = GenerationInputs(torch.tensor([[2]]), StoppingCriteria(end_id=3, limits=[4]))
    >>> [found] = beam_search(decoder, inputs, DecodingConfig(beam=3, n_best=2))
    >>> len(found), found[0].score >= found[1].score
    (2, True)
    """
    if config.coverage and not isinstance(decoder, SupportsAttention):
        raise DecodingError(
            "decoding.coverage_needs_attention",
            "the decoder must return attention weights with decoding.coverage {coverage}, got "
            "{type_decoder}; try an AttentionRecordingDecoder, or coverage 0",
            coverage=config.coverage,
            type_decoder=type(decoder).__name__,
        )
    recording = decoder if config.coverage and isinstance(decoder, SupportsAttention) else None
    source_mask = None if recording is None else recording.source_mask()
    search = BeamState(inputs, config, source_mask, processors)
    scores_only = only_ban_ends(processors) and callback is None
    ranking = decoder if scores_only and isinstance(decoder, SupportsTopK) else None
    n_top = min(search.n_top, decoder.vocabulary_size)  # of a row; the 2K are among them
    ids = inputs.prompt_ids
    while True:
        if ranking is not None:
            log_p, token = ranking.top_k(ids, n_top)  # 2 x (N * W, C)
            check_log_p(log_p)
            scores = search.allowed(log_p, token)
        else:
            n_cached = decoder.length
            log_p = decoder.step(ids).log_softmax(-1)  # (N * W, V)
            check_log_p(log_p)
            scores = search.processed(log_p)
            if callback is not None:
                callback.on_scores(n_cached, log_p, scores)
            scores, token = scores.topk(n_top)
            log_p = log_p.gather(1, token)
        if recording is not None:
            search.attend(recording.attention())
        candidates = search.candidates(log_p, scores, token)
        stopped = search.stopped(candidates)
        search.update(candidates, stopped)
        if callback is not None:
            callback.on_step(search.step_result(candidates, stopped))
        rows = search.advance()
        if not len(rows):
            return [search.results[text] for text in range(len(inputs.prompt_ids))]
        decoder.reorder(rows)
        ids = search.newest  # (N * W, 1)


class BeamState:
    """The state of the search of every text after t tokens."""

    def __init__(
        self,
        inputs: GenerationInputs,
        config: DecodingConfig,
        source_mask: Tensor | None,
        processors: Sequence[Processor],
    ) -> None:
        self.config, self.stopping, self.processors = config, inputs.stopping, processors
        self.start = inputs.prompt_ids.shape[1]  # P
        self.width = 1  # rows of the decoder for each text
        self.results: dict[int, list[Hypothesis]] = {}  # of the texts that are done
        device, N = inputs.prompt_ids.device, len(inputs.prompt_ids)
        self.t = 0
        self.texts = torch.arange(N, device=device)  # the unfinished ones
        self.limits = torch.tensor(inputs.stopping.limits, device=device)  # (N)
        self.source_mask = source_mask  # (N, S); None without coverage
        S = 0 if source_mask is None else source_mask.shape[1]
        T = min(inputs.max_new_tokens, MIN_COLUMNS)  # more follow when they are needed
        tokens = inputs.token_buffer()[:, None, : self.start + T]

        def hypotheses(W: int, value: float) -> Hypotheses:
            return Hypotheses(
                value=torch.full((N, W), value, device=device),
                tokens=tokens.repeat(1, W, 1),
                log_p=torch.zeros(N, W, T, device=device),
                length=torch.zeros(N, W, dtype=torch.int64, device=device),
                ended=torch.zeros(N, W, dtype=torch.bool, device=device),
                parent=torch.zeros(N, W, dtype=torch.int64, device=device),
                attended=torch.zeros(N, W, S, device=device),
            )

        self.alive = hypotheses(1, 0.0)
        self.finished = hypotheses(config.beam, NEG_INF)

    @property
    def context(self) -> ProcessorContext:
        """The processors' view of the alive hypotheses."""
        tokens = self.alive.tokens[..., : self.start + self.t].flatten(0, 1)
        texts = self.texts.repeat_interleave(self.alive.value.shape[1])
        return ProcessorContext(tokens, self.start, texts)  # tokens (N * W, P + t)

    def processed(self, log_p: Tensor) -> Tensor:
        """The scores (N * W, V) of log-probabilities (N * W, V)."""
        if not self.processors:
            return log_p
        return apply_processors(log_p, self.context, self.processors)

    @property
    def n_top(self) -> int:
        """How many of a row's best tokens `allowed` needs."""
        return 2 * self.config.beam + len(self.processors)

    def allowed(self, log_p: Tensor, token: Tensor) -> Tensor:
        """The scores of the best tokens of each row, both (N * W, C), if `only_ban_ends`."""
        return without_early_ends(log_p, token, self.t, self.processors)

    @property
    def newest(self) -> Tensor:
        """The last token of the alive hypotheses: (N * W, 1)."""
        return self.alive.tokens[..., self.start + self.t - 1].flatten()[:, None]

    def candidates(self, log_p: Tensor, scores: Tensor, token: Tensor) -> Hypotheses:
        """The 2K continuations of highest score, from the best of each row (N * W, C): (N, C)."""
        N, C = len(self.texts), token.shape[1]
        total = (scores + self.alive.value.view(-1, 1)).view(N, -1)  # (N, W * C)
        value, index = total.topk(min(2 * self.config.beam, total.shape[1]))  # (N, C)
        parent = index.div(C, rounding_mode="floor")
        token, log_p = (part.view(N, -1).gather(1, index) for part in (token, log_p))
        order = _by_value(value, parent * 2**32 + token)  # more than any vocabulary size
        value, token, log_p, parent = (
            part.gather(1, order) for part in (value, token, log_p, parent)
        )
        t = self.t
        if (needed := self.start + t + 1) > self.alive.tokens.shape[-1]:
            self._widen(2 * needed)
        chosen = self.alive.gather(parent)
        chosen.tokens[..., self.start + t] = token
        chosen.log_p[..., t] = log_p
        ended = torch.isin(token, token.new_tensor(self.stopping.end_ids))
        length = torch.full_like(token, t + 1)
        return Hypotheses(
            value, chosen.tokens, chosen.log_p, length, ended, parent, chosen.attended
        )

    def stopped(self, candidates: Hypotheses) -> Tensor:
        """Which of the candidates end at this step: (N, C) bool."""
        if self.stopping.stop_strings is not None:
            so_far = candidates.tokens[..., self.start :].tolist()
            found = [
                [self.stopping.finished(number, ids[: self.t + 1]) for ids in text]
                for number, text in zip(self.texts.tolist(), so_far, strict=True)
            ]
            candidates.ended.copy_(torch.tensor(found))
        return candidates.ended | (self.t + 1 >= self.limits[:, None])

    def update(self, candidates: Hypotheses, stopped: Tensor) -> None:
        """Add the best of those that ended to the finished, keep the best of the others alive."""
        K = self.config.beam
        if self.processors:
            self._finish_dead_ends(candidates)
        self.t += 1
        rank = self._rank(candidates)
        new = replace(candidates, value=rank.masked_fill(~self._finishing(stopped), NEG_INF))
        both = self.finished.concat(new)
        order = both.value.argsort(dim=-1, descending=True, stable=True)
        self.finished = both.gather(order[:, :K])
        order = stopped.int().argsort(dim=-1, stable=True)
        continuing = replace(candidates, value=candidates.value.masked_fill(stopped, NEG_INF))
        self.alive = continuing.gather(order[:, :K])

    def _finish_dead_ends(self, candidates: Hypotheses) -> None:
        """Finish the alive hypotheses of texts where no token is allowed and none is finished.

        Raises InputError where none of them satisfies the constraints as it is.
        """
        dead = (candidates.value[:, 0] == NEG_INF) & (self.finished.value[:, 0] == NEG_INF)  # (N)
        if dead.any():
            alive = self.alive.value > NEG_INF
            complete = alive & can_end_here(self.processors, self.context).view_as(alive)
            if (dead & alive.any(1) & ~complete.any(1)).any():
                raise no_continuation_error()
            rank = self._rank(self.alive).masked_fill(~(complete & dead[:, None]), NEG_INF)
            left = replace(self.alive, value=rank)
            both = self.finished.concat(left)
            order = both.value.argsort(dim=-1, descending=True, stable=True)
            self.finished = both.gather(order[:, : self.config.beam])

    def step_result(self, candidates: Hypotheses, stopped: Tensor) -> StepResult:
        """The newest step of the only text: the candidates that finished, then the alive ones."""
        finished = candidates.gather(self._finishing(stopped)[0].nonzero().T)
        both = finished.concat(self.alive)
        ended = torch.arange(both.value.shape[1], device=stopped.device) < finished.value.shape[1]
        token = both.tokens[0, :, self.start + self.t - 1]
        return StepResult(both.parent[0], token, both.value[0], ended)

    def _finishing(self, stopped: Tensor) -> Tensor:
        """Which of the candidates that end are among the first K: (N, C) bool."""
        return stopped & (torch.arange(stopped.shape[1], device=stopped.device) < self.config.beam)

    def attend(self, attention: Tensor) -> None:
        """Add the attention weights of the newest tokens, (N * W, S)."""
        attended = self.alive.attended + attention.view(self.alive.attended.shape)
        self.alive = replace(self.alive, attended=attended)

    def advance(self) -> Tensor:
        """Store the results of the texts that are done; return the rows the others continue."""
        done = self._is_done()
        first_row = torch.arange(len(done), device=done.device)[:, None] * self.width  # (N, 1)
        rows = first_row + self.alive.parent  # (N, W)
        self.width = rows.shape[1]
        if any(done.tolist()):
            self._store_results(done)
            alive = ~done
            rows = rows[alive]
            self.source_mask = None if self.source_mask is None else self.source_mask[alive]
            self._keep(alive)
        return rows.flatten()

    def _keep(self, texts: Tensor) -> None:
        """Keep some of the texts, (N) bool, with their hypotheses."""
        self.texts, self.limits = self.texts[texts], self.limits[texts]
        self.alive, self.finished = self.alive.of_texts(texts), self.finished.of_texts(texts)

    def _widen(self, columns: int) -> None:
        self.alive, self.finished = self.alive.widened(columns), self.finished.widened(columns)

    def _rank(self, hypotheses: Hypotheses) -> Tensor:
        """s / lp + cp of each hypothesis of t tokens: (N, W)."""
        norm = length_norm(max(self.t, 1), self.config)
        return hypotheses.value / norm + self._coverage(hypotheses)

    def _is_done(self) -> Tensor:
        """Which texts are done: (N) bool."""
        best, worst = self.alive.value[:, 0], self.finished.value[:, -1]
        match self.config.early_stopping:
            case True:
                hopeless = torch.ones_like(best, dtype=torch.bool)
            case False:
                hopeless = self._rank(self.alive).amax(-1) <= worst
            case "never":
                length = self.limits if self.config.length_penalty > 0 else self.t
                hopeless = best / length_norm(length, self.config) <= worst
        return (best == NEG_INF) | ((worst > NEG_INF) & hopeless)

    def _coverage(self, hypotheses: Hypotheses) -> Tensor | float:
        """cp of each hypothesis: (N, W)."""
        if self.source_mask is None:
            return 0.0
        covered = hypotheses.attended.clamp(min=torch.finfo(torch.float32).tiny, max=1.0)
        missed = covered.log().masked_fill(~self.source_mask[:, None], 0.0)  # (N, W, S)
        return self.config.coverage * missed.sum(-1)

    def _store_results(self, done: Tensor) -> None:
        """Store the `n_best` of each text that is done."""
        n_best = torch.arange(self.config.n_best, device=done.device).expand(int(done.sum()), -1)
        best = self.finished.of_texts(done).gather(n_best)
        parts = (best.value, best.tokens[..., self.start :], best.log_p, best.length, best.ended)
        for text, *rows in zip(
            self.texts[done].tolist(), *(part.tolist() for part in parts), strict=True
        ):
            found = [
                Hypothesis.from_tokens(
                    ids[:length],
                    log_p[:length],
                    self.stopping.end_of(ids[:length]),
                    ended,
                    rank,
                )
                for rank, ids, log_p, length, ended in zip(*rows, strict=True)
                if rank > NEG_INF
            ]
            self.results[text] = found or [
                Hypothesis([], 0.0, finished=False)
            ]  # every score is NaN


def length_norm(t: Tensor | int, config: DecodingConfig) -> Tensor | float:
    """lp(t): the divisor of the score of t tokens.

    >>> length_norm(4, DecodingConfig(length_penalty=0.5))
    2.0
    >>> length_norm(7, DecodingConfig(length_penalty=1.0, length_norm="gnmt"))
    2.0
    """
    base = t if config.length_norm == "power" else (5 + t) / 6
    return base ** float(config.length_penalty)


def _by_value(value: Tensor, number: Tensor) -> Tensor:
    """The order by value, highest first, of equals the smallest number first: (N, C)."""
    order = number.argsort(dim=-1)
    return order.gather(1, value.gather(1, order).argsort(dim=-1, descending=True, stable=True))
