"""The generation loop: change the logits, choose a token, stop, go on.

Shapes: N texts, B unfinished rows (n_best adjacent rows for each text), P prompt tokens, T new
tokens at most, t generated so far, V vocabulary.
"""

from collections.abc import Iterable, Sequence
from math import isnan

import torch
from torch import Tensor

from jumok.decoding.beam import beam_search, length_norm
from jumok.decoding.callbacks import OnToken, StepCallback, StepResult
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.constraint import can_end_here, no_continuation_error
from jumok.decoding.finite import check_log_p, non_finite_error
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import (
    IncrementalDecoder,
    SupportsSearch,
    SupportsTopK,
)
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import (
    NEG_INF,
    Processor,
    ProcessorContext,
    apply_processors,
    only_ban_ends,
    without_early_ends,
)
from jumok.decoding.sampling import CategoricalSampler, Sampler, greedy
from jumok.decoding.stopping import StoppingCriteria
from jumok.errors import DecodingError

NO_TOKEN = -1  # in place of a token where the processors allow none


def generate(
    decoder: IncrementalDecoder,
    inputs: GenerationInputs,
    config: DecodingConfig,
    processors: Sequence[Processor] = (),
    on_token: OnToken | None = None,
    callback: StepCallback | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each text, in the order of the texts.

    Only `processors` change the scores: `build_processors(config, ...)` makes those of a config.
    A `callback` is for a single text.

    >>> import torch
    >>> from jumok.decoding import CausalLMDecoder, StoppingCriteria
    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> decoder = CausalLMDecoder(LanguageModel(small).eval(), capacity=8)
    >>> prompts, stopping = torch.tensor([[4, 5]]), StoppingCriteria(end_id=3, limits=[1])
    >>> [[best]] = generate(decoder, GenerationInputs(prompts, stopping), DecodingConfig())
    >>> len(best.log_probabilities)
    1

    Raises InputError for sampling without a key for each text, for a constraint that nothing can
    satisfy, and for scores that are not finite.
    """
    if callback is None and isinstance(decoder, SupportsSearch):
        found = decoder.search(inputs, config, processors, on_token)
        if found is not None:
            return found
    if config.beam > 1:
        hypotheses = beam_search(decoder, inputs, config, processors, callback)
        if on_token is not None:
            _report_tokens(hypotheses, config.n_best, on_token)
        return hypotheses
    sampler: Sampler = greedy
    if config.sample:
        if len(inputs.sample_keys) != len(inputs.prompt_ids):
            raise DecodingError(
                "decoding.sample_keys_of_texts",
                "sample_keys must have one number for each of the {n_prompt_ids} texts, got "
                "{n_sample_keys}; try `text_key` of the tokens of each",
                n_prompt_ids=len(inputs.prompt_ids),
                n_sample_keys=len(inputs.sample_keys),
            )
        sampler = CategoricalSampler(
            inputs.sample_keys,
            seed=config.fixed_seed,
            copies=config.n_best,
            steps=inputs.max_new_tokens,
        )
    return decode_tokenwise(decoder, inputs, config, sampler, processors, on_token, callback)


@torch.inference_mode()
def decode_tokenwise(
    decoder: IncrementalDecoder,
    inputs: GenerationInputs,
    config: DecodingConfig,
    sampler: Sampler,
    processors: Sequence[Processor] = (),
    on_token: OnToken | None = None,
    callback: StepCallback | None = None,
) -> list[list[Hypothesis]]:
    """One token a step for each row, chosen by the sampler; finished rows leave the batch."""
    state = GenerationState(inputs, config.n_best, keeps_tokens=bool(processors))
    argmax_only = sampler is greedy and only_ban_ends(processors) and callback is None
    n_top = 1 + len(processors)
    argmax_only &= n_top <= decoder.vocabulary_size
    ranking = decoder if argmax_only and isinstance(decoder, SupportsTopK) else None
    ids = inputs.prompt_ids
    for _ in range(inputs.max_new_tokens):
        if ranking is not None:
            top = ranking.top_k(ids, n_top)  # 2 x (B, C)
            log_p, token = best_allowed(*top, state.t, processors)  # 2 x (B)
        else:
            n_cached, logits = decoder.length, decoder.step(ids)  # (B, V)
            if state.t == 0 and config.n_best > 1:  # the rows of a text share its prompt
                decoder.reorder(state.texts)
                logits = logits[state.texts]
            # change the logits
            log_probs = scores = logits.log_softmax(-1)
            check_log_p(log_probs)
            if processors:
                context = state.context(logits)
                scores = apply_processors(log_probs, context, processors)
            if callback is not None:
                callback.on_scores(n_cached, log_probs, scores)
            # choose
            token = sampler(scores, state.rows, state.t)  # (B)
            log_p = log_probs.gather(-1, token[:, None])[:, 0]
            if processors:
                token = _allowed(token, scores, processors, context)
        # stop
        unfinished = state.advance(token, log_p, on_token)
        if callback is not None:
            callback.on_step(state.step_result(token, unfinished))
        if not unfinished:
            break
        # go on
        if len(unfinished) < len(token):
            kept = torch.tensor(unfinished, device=token.device)
            decoder.reorder(kept)
            state.rows, token = state.rows[kept], token[kept]
        ids = token[:, None]
    return state.hypotheses(config)


class GenerationState:
    """The generated tokens of all rows, and which rows are not finished."""

    def __init__(self, inputs: GenerationInputs, n_best: int, *, keeps_tokens: bool) -> None:
        device, N = inputs.prompt_ids.device, len(inputs.prompt_ids)
        self.stopping, self.n_best = inputs.stopping, n_best
        self.start = inputs.prompt_ids.shape[1]  # P
        self.t = 0
        self.texts = torch.arange(N, device=device).repeat_interleave(n_best)  # of every row
        self.rows = torch.arange(N * n_best, device=device)  # (B): the unfinished ones
        self.tokens: Tensor | None = None  # (N * n_best, P + T), for processors
        if keeps_tokens:
            self.tokens = inputs.token_buffer().repeat_interleave(n_best, 0)
        self.log_p: list[list[float]] = [[] for _ in range(N * n_best)]
        self.ids: list[list[int]] = [[] for _ in range(N * n_best)]
        self.finished = [False] * (N * n_best)
        self._rows = list(range(N * n_best))  # `rows` without a transfer from the device

    def context(self, logits: Tensor) -> ProcessorContext:
        """The processors' view of the unfinished rows, whose logits are (B, V)."""
        assert self.tokens is not None
        tokens = self.tokens[self.rows, : self.start + self.t]
        return ProcessorContext(tokens, self.start, self.texts[self.rows], logits)

    def advance(self, token: Tensor, log_p: Tensor, on_token: OnToken | None) -> list[int]:
        """Append the tokens (B) with their log-probabilities (B); return which rows go on.

        They are numbered from 0 to B - 1.
        """
        if self.tokens is not None:
            self.tokens[self.rows, self.start + self.t] = token
        self.t += 1
        unfinished = []
        stopping, end_ids, n_best = self.stopping, self.stopping.end_ids, self.n_best
        log_ps = log_p.tolist()
        if isnan(sum(log_ps)):  # so are the logits
            raise non_finite_error("logits")
        steps = zip(self._rows, token.tolist(), log_ps, strict=True)
        for index, (row, newest, newest_log_p) in enumerate(steps):
            if newest == NO_TOKEN:
                continue
            ids = self.ids[row]
            ids.append(newest)
            self.log_p[row].append(newest_log_p)
            if newest in end_ids:
                self.finished[row] = True
                continue
            if on_token is not None:
                on_token(row, newest)
            text = row // n_best
            if stopping.stop_strings is not None and stopping.finished(text, ids):
                self.finished[row] = True
            elif len(ids) < stopping.limits[text]:
                unfinished.append(index)
        self._rows = [self._rows[index] for index in unfinished]
        return unfinished

    def step_result(self, token: Tensor, unfinished: Sequence[int]) -> StepResult:
        """The newest step of the B rows, of which those at `unfinished` go on."""
        sums = [sum(self.log_p[row]) for row in self.rows.tolist()]
        score = torch.tensor(sums, dtype=torch.float32, device=token.device)
        score.masked_fill_(token == NO_TOKEN, NEG_INF)
        ended = torch.ones_like(token, dtype=torch.bool)
        ended[list(unfinished)] = False
        return StepResult(torch.arange(len(token), device=token.device), token, score, ended)

    def hypotheses(self, config: DecodingConfig) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each text."""
        rows = []
        for ids, log_p, finished in zip(self.ids, self.log_p, self.finished, strict=True):
            rows.append(hypothesis_of(ids, log_p, self.stopping, finished, config))
        return [rows[i : i + self.n_best] for i in range(0, len(rows), self.n_best)]


def best_allowed(
    log_p: Tensor, token: Tensor, t: int, processors: Sequence[Processor]
) -> tuple[Tensor, Tensor]:
    """The best of each row's tokens (B, C), best first, after processors that `only_ban_ends`.

    Its log-probability and its id, both (B).
    """
    if processors:
        scores = without_early_ends(log_p, token, t, processors)
        order = scores.argsort(dim=-1, descending=True, stable=True)
        log_p, token = log_p.gather(1, order), token.gather(1, order)
    return log_p[:, 0], token[:, 0]


def hypothesis_of(
    ids: Sequence[int],
    log_p: Sequence[float],
    stopping: StoppingCriteria,
    finished: bool,
    config: DecodingConfig,
) -> Hypothesis:
    """The hypothesis of generated tokens and their log-probabilities."""
    rank = sum(log_p) / float(length_norm(max(len(ids), 1), config))
    return Hypothesis.from_tokens(ids, log_p, stopping.end_of(ids), finished, rank)


def _allowed(
    token: Tensor, scores: Tensor, processors: Sequence[Processor], context: ProcessorContext
) -> Tensor:
    """The tokens (B), with NO_TOKEN in rows of which every score is -inf.

    Raises InputError where such a row may not end as it is.
    """
    token = token.where(scores.gather(-1, token[:, None])[:, 0] > NEG_INF, NO_TOKEN)
    dead = token == NO_TOKEN
    if dead.any() and not can_end_here(processors, context)[dead].all():
        raise no_continuation_error()
    return token


def _report_tokens(texts: Iterable[Sequence[Hypothesis]], n_best: int, on_token: OnToken) -> None:
    for text, hypotheses in enumerate(texts):
        for number, hypothesis in enumerate(hypotheses):
            for id in hypothesis.ids:  # noqa: A001  the field's word
                on_token(text * n_best + number, id)
