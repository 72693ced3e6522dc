"""Speculative decoding: a small model proposes some tokens, the large one verifies all in one pass.

Leviathan et al. 2023, algorithm 1. The draft model samples tokens x_1 ... x_k, each from its own
distribution q_i; the target model computes all its p_i in one pass. In order, x_i is accepted with
probability min(1, p_i(x_i) / q_i(x_i)); the first rejected one is replaced by a sample from
max(0, p_i - q_i), normalised, and the rest is discarded. If all are accepted, one more token is
sampled from p_{k+1}. The output then has exactly the target's distribution, however bad the draft
is (appendix A.1); a good draft saves passes of the target.

Greedy search is the case where p and q are 1 on their argmax: a proposed token is accepted if it is
the target's argmax (section 2.2). The output equals plain greedy search, as far as one pass over
several tokens computes the numbers of single steps: two tokens whose logits differ only in the last
float32 digits may be swapped.

One text at a time: several rows would accept different numbers of tokens, and a batch uses the
hardware well without a draft. Shapes: P prompt tokens, T new tokens, k draft tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.decoding.beam import length_norm
from jumok.decoding.callbacks import OnToken
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.constraint import can_end_here, no_continuation_error
from jumok.decoding.finite import check_log_p
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import GenerativeModel, IncrementalDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import NEG_INF, Processor, ProcessorContext, apply_processors
from jumok.decoding.random_numbers import draw_uniform, philox_stream
from jumok.decoding.sampling import sample_inverse_cdf, softmax64
from jumok.errors import DecodingError


@dataclass(eq=False)
class DraftModel:
    """A draft model, and the acceptance statistics of all texts that were generated with it.

    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> print(DraftModel(LanguageModel(small), target_passes=5, proposed=20, accepted=13))
    13 of 20 draft tokens accepted, 5 passes of the model
    """

    model: GenerativeModel
    target_passes: int = 0
    proposed: int = 0  # tokens
    accepted: int = 0  # of the proposed tokens

    def generate(
        self,
        target: IncrementalDecoder,
        draft: IncrementalDecoder,
        inputs: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        on_token: OnToken | None = None,
    ) -> list[list[Hypothesis]]:
        """The output of `generate` with the target alone, for one text."""
        result = speculative(target, draft, inputs, config, processors, on_token)
        self.target_passes += result.target_passes
        self.proposed += result.proposed
        self.accepted += result.accepted
        return [[result.hypothesis]]

    def __str__(self) -> str:
        """The acceptance statistics."""
        return (
            f"{self.accepted} of {self.proposed} draft tokens accepted, "
            f"{self.target_passes} passes of the model"
        )


@dataclass(frozen=True)
class SpeculativeResult:
    """The generated text, and how many of the proposed tokens were accepted.

    >>> result = SpeculativeResult(Hypothesis([4, 5], -0.7, True), 2, proposed=4, accepted=1)
    >>> result.accepted / result.proposed
    0.25
    """

    hypothesis: Hypothesis
    target_passes: int
    proposed: int  # tokens
    accepted: int  # of the proposed tokens


@torch.inference_mode()
def speculative(
    target: IncrementalDecoder,
    draft: IncrementalDecoder,
    inputs: GenerationInputs,
    config: DecodingConfig,
    processors: Sequence[Processor] = (),
    on_token: OnToken | None = None,
    *,
    n_draft_tokens: int = 4,
) -> SpeculativeResult:
    """The output of `generate` with the target alone, for one text.

    Both decoders are new and have the same vocabulary. Raises InputError for several texts or
    hypotheses, a beam, or decoders of different vocabularies.

    >>> from jumok.decoding import CausalLMDecoder, StoppingCriteria
    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, config = LanguageModel(small).eval(), DecodingConfig(max_length=7)
    >>> inputs = GenerationInputs(torch.tensor([[4, 5]]), StoppingCriteria(-1, [7]))
    >>> decoders = [CausalLMDecoder(model, capacity=8) for _ in range(2)]
    >>> result = speculative(*decoders, inputs, config)  # the draft is the target itself
    >>> len(result.hypothesis.ids), result.target_passes, result.accepted == result.proposed
    (7, 2, True)
    """
    keyless = config.sample and len(inputs.sample_keys) != 1
    if len(inputs.prompt_ids) != 1 or config.beam > 1 or config.n_best > 1 or keyless:
        raise DecodingError(
            "decoding.speculative_needs_one_text",
            "speculative decoding must have 1 text, beam 1 and n_best 1, and in sampling 1 key "
            "(`text_key`), got {n_prompt_ids} texts, beam {beam}, n_best {n_best} and {n_keys} "
            "keys; call it once for each text",
            n_prompt_ids=len(inputs.prompt_ids),
            beam=config.beam,
            n_best=config.n_best,
            n_keys=len(inputs.sample_keys),
        )
    if target.vocabulary_size != draft.vocabulary_size:
        raise DecodingError(
            "decoding.draft_of_other_vocabulary",
            "the draft must have the target's vocabulary of {vocabulary_size} tokens, got "
            "{vocabulary_size_2}; train the draft with the target's vocabulary",
            vocabulary_size=target.vocabulary_size,
            vocabulary_size_2=draft.vocabulary_size,
        )
    state = _State(inputs, config, processors, on_token)
    passes = proposed = accepted = 0
    while not state.done:
        drafted = state.propose(draft, min(n_draft_tokens, state.remaining - 1))
        n_accepted = state.verify(target, drafted)
        for decoder in (target, draft):  # every token but the newest stays in the cache
            decoder.rewind(max(decoder.length - len(state) + 1, 0))
        passes, proposed, accepted = passes + 1, proposed + len(drafted), accepted + n_accepted
    return SpeculativeResult(state.hypothesis(), passes, proposed, accepted)


@dataclass(frozen=True)
class _DraftToken:
    id: int
    q: Tensor  # (V) float64: the distribution it was sampled from


class _State:
    """The tokens of one text, and how the next is chosen."""

    def __init__(
        self,
        inputs: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        on_token: OnToken | None,
    ) -> None:
        self._config, self._processors, self._on_token = config, processors, on_token
        self._stopping = inputs.stopping
        self._start = inputs.prompt_ids.shape[1]  # P
        self._tokens = inputs.token_buffer()  # (1, P + T)
        self._prompt = inputs.prompt_ids
        self._text = torch.zeros(1, dtype=torch.int64, device=inputs.prompt_ids.device)
        self._stream = None
        if config.sample:
            self._stream = philox_stream(config.fixed_seed, inputs.sample_keys[0], for_draft=True)
        self._ids: list[int] = []
        self._log_p: list[float] = []
        self._finished = self.done = False

    def __len__(self) -> int:
        """P + T: the tokens so far."""
        return self._start + len(self._ids)

    @property
    def remaining(self) -> int:
        """The number of tokens that may still be generated."""
        return self._stopping.limits[0] - len(self._ids)

    def propose(self, draft: IncrementalDecoder, maximum: int) -> list[_DraftToken]:
        """Up to `maximum` draft tokens; none after an end token."""
        drafted: list[_DraftToken] = []
        while len(drafted) < maximum:
            position = len(self) + len(drafted)
            q = self._distribution(draft.step(self._unread(draft, position)), position)
            if q is None:
                break
            token = self._sample(q)
            drafted.append(_DraftToken(token, q))
            self._tokens[0, position] = token
            if token in self._stopping.end_ids:
                break
        return drafted

    def verify(self, target: IncrementalDecoder, drafted: list[_DraftToken]) -> int:
        """Append the accepted draft tokens and one token of the target; return how many agreed."""
        unread = self._unread(target, len(self) + len(drafted))
        logits = target.step_all(unread)[:, -len(drafted) - 1 :]  # (1, k + 1, V)
        for number in range(len(drafted) + 1):
            p = self._distribution(logits[:, number], len(self))
            if p is None:  # every score is -inf
                context = self._context(logits[:, number], len(self))
                if not can_end_here(self._processors, context).all():
                    raise no_continuation_error()
                self.done = True
                return number
            accepted = False
            if number == len(drafted):
                token = self._sample(p)
            else:
                token, q = drafted[number].id, drafted[number].q
                accepted = self._uniform() * float(q[token]) < float(p[token])  # min(1, p / q)
                if not accepted:
                    token = self._sample((p - q).clamp(min=0))
            self._append(token, logits[0, number])
            if self.done or not accepted:
                return number + accepted
        raise AssertionError("the last token is the target's own")

    def hypothesis(self) -> Hypothesis:
        """The generated text."""
        rank = sum(self._log_p) / length_norm(max(len(self._ids), 1), self._config)
        end_id = self._stopping.end_of(self._ids)
        return Hypothesis.from_tokens(self._ids, self._log_p, end_id, self._finished, float(rank))

    def _unread(self, decoder: IncrementalDecoder, end: int) -> Tensor:
        """The tokens before `end` that the decoder has not read: (1, 1 or more)."""
        tokens = torch.cat([self._prompt, self._tokens[:, self._start :]], 1)  # padding unchanged
        return tokens[:, decoder.length : end]

    def _distribution(self, logits: Tensor, position: int) -> Tensor | None:
        """The distribution of the token at `position`, (1, V) -> (V) float64; None if all -inf."""
        context = self._context(logits, position)
        log_p = logits.log_softmax(-1)
        check_log_p(log_p)
        scores = apply_processors(log_p, context, self._processors)[0]
        if scores.max() == NEG_INF:
            return None
        if self._stream is not None:
            return softmax64(scores)
        argmax = torch.full_like(scores, NEG_INF)
        argmax[scores.argmax()] = 0.0
        return softmax64(argmax)

    def _context(self, logits: Tensor, position: int) -> ProcessorContext:
        """The processors' view before the token at `position`."""
        return ProcessorContext(self._tokens[:, :position], self._start, self._text, logits)

    def _sample(self, weights: Tensor) -> int:
        """A token with probability proportional to its weight (V)."""
        return int(sample_inverse_cdf(weights, self._uniform()))

    def _uniform(self) -> float:
        """The next random number; 0 in greedy search."""
        return 0.0 if self._stream is None else float(draw_uniform(self._stream, 1)[0])

    def _append(self, token: int, logits: Tensor) -> None:
        self._tokens[0, len(self)] = token
        self._ids.append(token)
        self._log_p.append(float(logits.log_softmax(-1)[token]))
        if self._on_token is not None and token not in self._stopping.end_ids:
            self._on_token(0, token)
        self._finished = self._stopping.finished(0, self._ids)
        self.done = self._finished or self._stopping.reached_limit(0, self._ids)
