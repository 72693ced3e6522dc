"""Speculative decoding: a small model guesses some tokens ahead, the large one checks all at once.

Leviathan et al. 2023, algorithm 1. The draft model draws tokens x_1 ... x_k, each from its own
distribution q_i; the target model computes all its p_i in one pass. In order, x_i is kept with
probability min(1, p_i(x_i) / q_i(x_i)); the first that is not is replaced by a draw from
max(0, p_i - q_i), made to sum to 1, and the rest is forgotten. If all are kept, one more token is
drawn from p_{k+1}. What is written then has exactly the target's distribution, however bad the
draft (appendix A.1); a good one saves passes of the target.

Greedy is the case where p and q are 1 on their likeliest token: a guess is kept if it is what the
target would write (section 2.2). The output is that of plain greedy, as far as one pass over
several tokens computes the numbers of single steps: two tokens whose logits differ in the last
float32 digits alone may change places.

One text at a time: of several rows each would keep another number of guesses, and a batch fills
the machine as it is. Shapes: P tokens given, T tokens written, k tokens guessed, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.decoding.beam import length_norm
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.constraint import can_end_here, no_continuation_error
from jumok.decoding.generate import OnToken
from jumok.decoding.hypothesis import Hypothesis, hypothesis
from jumok.decoding.incremental.decoder import IncrementalDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import NEG_INF, Processor, ProcessorContext, apply_processors
from jumok.decoding.sampling import philox_stream, sample_inverse_cdf, softmax64, uniform
from jumok.errors import InputError


@dataclass(frozen=True)
class SpeculativeResult:
    """What was written, and how well it was guessed."""

    hypothesis: Hypothesis
    target_passes: int  # of the target
    proposed: int  # tokens the draft offered
    accepted: int  # of them


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
    """What `generate` would write with the target alone, for one text; `ahead` guesses a pass.

    Both writers are fresh, know the same tokens and are given the same processors. Raises
    InputError for several texts or answers, a beam, or writers of different vocabularies.

    >>> from jumok.decoding import CausalLMDecoder, Stopping
    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, config = LanguageModel(small).eval(), DecodingConfig(max_length=7)
    >>> opening = GenerationInputs(torch.tensor([[4, 5]]), Stopping(-1, [7]))
    >>> writers = [CausalLMDecoder(model, room=8) for _ in range(2)]
    >>> found = speculative(*writers, opening, config)  # a draft that guesses everything right
    >>> len(found.answer.ids), found.passes, found.kept == found.guessed
    (7, 2, True)
    """
    if len(inputs.prompt_ids) != 1 or config.beam > 1 or config.n_best > 1:
        raise InputError(
            f"{len(inputs.prompt_ids)} texts, a beam of {config.beam} and n_best {config.n_best} came; "
            "speculative decoding writes one answer to one text: call it for each"
        )
    if target.vocabulary_size != draft.vocabulary_size:
        raise InputError(
            f"the target chooses from {target.vocabulary_size} tokens, the draft from "
            f"{draft.vocabulary_size}; train the draft with the target's vocabulary"
        )
    if config.sample and len(inputs.sample_keys) != 1:
        raise InputError(
            f"{len(inputs.sample_keys)} keys came to draw a text from; give one, such as text_key(its ids)"
        )
    if n_draft_tokens < 1:
        raise InputError(f"ahead {n_draft_tokens} guesses nothing; give 1 or more")
    text = _Text(inputs, config, processors, on_token)
    passes = guessed = kept = 0
    while not text.over:
        guesses = text.guess(draft, min(n_draft_tokens, text.room - 1))
        agreed = text.check(target, guesses)
        for writer in (target, draft):  # of what is written all but the newest is remembered
            writer.rewind(max(writer.length - len(text) + 1, 0))
        passes, guessed, kept = passes + 1, guessed + len(guesses), kept + agreed
    return SpeculativeResult(text.answer(), passes, guessed, kept)


@dataclass(frozen=True)
class _Guess:
    token: int
    q: Tensor  # (V) float64: what it was drawn from


class _Text:
    """One text while it is written: its tokens, and how the next is chosen."""

    def __init__(
        self,
        opening: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        on_token: OnToken | None,
    ) -> None:
        self._config, self._processors, self._on_token = config, processors, on_token
        self._stopping = opening.stopping
        self._start = opening.prompt_ids.shape[1]  # P
        self._sheet = opening.token_buffer()  # (1, P + T)
        self._first = opening.prompt_ids
        self._text = torch.zeros(1, dtype=torch.int64, device=opening.prompt_ids.device)
        self._chance = None
        if config.sample:
            self._chance = philox_stream(config.seed, opening.sample_keys[0], for_draft=True)
        self._ids: list[int] = []
        self._log_p: list[float] = []
        self._finished = self.over = False

    def __len__(self) -> int:
        """P + T: the tokens so far."""
        return self._start + len(self._ids)

    @property
    def room(self) -> int:
        """How many more tokens may be written."""
        return self._stopping.limits[0] - len(self._ids)

    def guess(self, draft: IncrementalDecoder, most: int) -> list[_Guess]:
        """Up to `most` tokens ahead; none behind an end."""
        guesses: list[_Guess] = []
        while len(guesses) < most:
            place = len(self) + len(guesses)
            q = self._distribution(draft.step(self._unread(draft, place)), place)
            if q is None:
                break
            token = self._draw(q)
            guesses.append(_Guess(token, q))
            self._sheet[0, place] = token
            if token == self._stopping.end_id:
                break
        return guesses

    def check(self, target: IncrementalDecoder, guesses: list[_Guess]) -> int:
        """Write the guesses the target agrees with and a token of its own; how many agreed."""
        unread = self._unread(target, len(self) + len(guesses))
        logits = target.step_all(unread)[:, -len(guesses) - 1 :]  # (1, k + 1, V)
        for number in range(len(guesses) + 1):
            p = self._distribution(logits[:, number], len(self))
            if p is None:  # the processors left nothing to choose from
                if not can_end_here(
                    self._processors, self._context(logits[:, number], len(self))
                ).all():
                    raise no_continuation_error()
                self.over = True
                return number
            kept = number < len(guesses) and self._keeps(guesses[number], p)
            if kept:
                token = guesses[number].token
            elif number < len(guesses):
                token = self._draw((p - guesses[number].q).clamp(min=0))
            else:
                token = self._draw(p)
            self._write(token, logits[0, number])
            if self.over or not kept:
                return number + kept
        raise AssertionError("the last token is the target's own")

    def answer(self) -> Hypothesis:
        """What was written."""
        rank = sum(self._log_p) / length_norm(max(len(self._ids), 1), self._config)
        end_id = self._stopping.end_id
        return hypothesis(self._ids, self._log_p, end_id, self._finished, float(rank))

    def _unread(self, writer: IncrementalDecoder, end: int) -> Tensor:
        """The tokens before `end` that a writer has not been given yet: (1, 1 or more)."""
        tokens = torch.cat([self._first, self._sheet[:, self._start :]], 1)  # fillers as they came
        return tokens[:, writer.length : end]

    def _distribution(self, logits: Tensor, place: int) -> Tensor | None:
        """What the token at `place` is drawn from, (1, V) -> (V) float64; None: nothing may be."""
        context = self._context(logits, place)
        scores = apply_processors(logits.log_softmax(-1), context, self._processors)[0]
        if scores.max() == NEG_INF:
            return None
        if self._chance is not None:
            return softmax64(scores)
        only = torch.full_like(scores, NEG_INF)
        only[scores.argmax()] = 0.0
        return softmax64(only)

    def _context(self, logits: Tensor, place: int) -> ProcessorContext:
        """What the processors see before the token at `place`."""
        return ProcessorContext(self._sheet[:, :place], self._start, self._text, logits)

    def _keeps(self, guess: _Guess, p: Tensor) -> bool:
        """True with probability min(1, p / q)."""
        return self._uniform() * float(guess.q[guess.token]) < float(p[guess.token])

    def _draw(self, weights: Tensor) -> int:
        """A token with probability proportional to its weight (V)."""
        return int(sample_inverse_cdf(weights, self._uniform()))

    def _uniform(self) -> float:
        """The next random number; without chance, 0."""
        return 0.0 if self._chance is None else float(uniform(self._chance, 1)[0])

    def _write(self, token: int, logits: Tensor) -> None:
        self._sheet[0, len(self)] = token
        self._ids.append(token)
        self._log_p.append(float(logits.log_softmax(-1)[token]))
        if self._on_token is not None and token != self._stopping.end_id:
            self._on_token(0, token)
        self._finished = self._stopping.finished(0, self._ids)
        self.over = self._finished or self._stopping.reached_limit(0, self._ids)
