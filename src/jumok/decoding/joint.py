"""One search for the texts of several requests, which need not begin together.

A text joins at the next step, goes on at its own number of tokens, and leaves when it is done. The
decoder of each text is its own; a step of all of them is one pass. No operation mixes the rows of
different texts, so that the result of a text is that of `generate` alone.

Shapes: N texts, W rows of each (1, or the beams after the first step), V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import Any, Protocol

import torch
from torch import Tensor

from jumok.decoding.beam import BeamState
from jumok.decoding.config import DecodingConfig
from jumok.decoding.finite import check_log_p, non_finite_error
from jumok.decoding.generate import NO_TOKEN, best_allowed, hypothesis_of
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import IncrementalDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import (
    NEG_INF,
    MinLength,
    NoRepeatNgram,
    Processor,
    ProcessorContext,
    RepetitionPenalty,
    apply_processors,
    only_ban_ends,
)
from jumok.decoding.sampling import greedy

MAX_ROWS = 512  # of one step
SHARED_PROCESSORS = (MinLength, NoRepeatNgram, RepetitionPenalty)  # they do not depend on the text


class StepRows(Protocol):
    """A step of several decoders of one model as one pass."""

    def __call__(
        self, decoders: Sequence[Any], ids: Tensor, k: int = 0
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The newest token of each row, ids (N * W, 1) -> logits (N * W, V).

        With k the k best tokens of each row, best first: log-probabilities and ids (N * W, k).
        """


class JointSearch(Protocol):
    """The search for several texts, each with a number."""

    def add(self, number: int, decoder: IncrementalDecoder, inputs: GenerationInputs) -> None:
        """Add a text, which begins at the next step."""

    def remove(self, number: int) -> None:
        """Remove a text that is not done."""

    def step(self) -> dict[int, list[Hypothesis]]:
        """Extend each text by a token; the results of those that are done, best first."""


def can_join(
    inputs: GenerationInputs,
    config: DecodingConfig,
    processors: Sequence[Processor],
    vocabulary_size: int,
) -> bool:
    """Whether a `JointSearch` finds what `generate` does.

    >>> from jumok.decoding import StoppingCriteria
    >>> inputs = GenerationInputs(torch.tensor([[2]]), StoppingCriteria(3, limits=[9]))
    >>> can_join(inputs, DecodingConfig(beam=4), [], 100)
    True
    >>> can_join(inputs, DecodingConfig(sample=True), [], 100)
    False
    """
    return (
        inputs.prompt_ids.shape == (1, 1)
        and inputs.padding is None
        and inputs.stopping.stop_strings is None
        and not (config.sample or config.coverage)
        and 2 * config.beam <= vocabulary_size
        and all(isinstance(each, SHARED_PROCESSORS) for each in processors)
    )


def joint_search(
    config: DecodingConfig, processors: Sequence[Processor], step: StepRows
) -> JointSearch:
    """A search for texts with the same settings, processors and end tokens."""
    kind = JointBeamSearch if config.beam > 1 else JointGreedySearch
    return kind(config, processors, step)


class _Texts:
    """The texts of a search: those that have begun, and those that wait for the next step."""

    def __init__(self, rows: int) -> None:
        self.decoders: dict[int, IncrementalDecoder] = {}
        self._rows = rows  # of each text
        self._waiting: dict[int, GenerationInputs] = {}

    def add(self, number: int, decoder: IncrementalDecoder, inputs: GenerationInputs) -> None:
        self.decoders[number], self._waiting[number] = decoder, inputs

    def remove(self, number: int) -> bool:
        """Remove a text; False if it has not begun."""
        del self.decoders[number]
        return self._waiting.pop(number, None) is None

    def begin(self) -> dict[int, GenerationInputs]:
        """The texts that begin now: as many as there is space for, the first ones first."""
        running = len(self.decoders) - len(self._waiting)
        n = max(MAX_ROWS // self._rows - running, 0 if running else 1)
        new = {number: self._waiting[number] for number in list(self._waiting)[:n]}
        for number in new:
            del self._waiting[number]
        return new


class JointGreedySearch:
    """Greedy search for several texts, each at its own number of tokens."""

    def __init__(
        self, config: DecodingConfig, processors: Sequence[Processor], step: StepRows
    ) -> None:
        self._config, self._processors, self._step = config, processors, step
        self._texts = _Texts(1)
        self._inputs: dict[int, GenerationInputs] = {}
        self._tokens: dict[int, list[int]] = {}  # the first one is the prompt
        self._log_p: dict[int, list[float]] = {}

    def add(self, number: int, decoder: IncrementalDecoder, inputs: GenerationInputs) -> None:
        """Add a text, which begins at the next step."""
        self._texts.add(number, decoder, inputs)

    def remove(self, number: int) -> None:
        """Remove a text that is not done."""
        if self._texts.remove(number):
            del self._inputs[number], self._tokens[number], self._log_p[number]

    @torch.inference_mode()
    def step(self) -> dict[int, list[Hypothesis]]:
        """Extend each text by a token; the results of those that are done."""
        for number, inputs in self._texts.begin().items():
            self._inputs[number], self._log_p[number] = inputs, []
            self._tokens[number] = inputs.prompt_ids[0].tolist()
        decoders = [self._texts.decoders[number] for number in self._tokens]
        ids = torch.tensor([tokens[-1] for tokens in self._tokens.values()])[:, None]
        log_p, token = (each.tolist() for each in self._best(decoders, ids))
        if isnan(sum(log_p)):  # so are the logits
            raise non_finite_error("logits")
        done = {}
        for number, newest, own in zip(list(self._tokens), token, log_p, strict=True):
            tokens, stopping = self._tokens[number], self._inputs[number].stopping
            if newest != NO_TOKEN:
                tokens.append(newest)
                self._log_p[number].append(own)
            ids_of_text = tokens[1:]
            finished = newest in stopping.end_ids
            if newest == NO_TOKEN or finished or stopping.reached_limit(0, ids_of_text):
                found = hypothesis_of(
                    ids_of_text, self._log_p[number], stopping, finished, self._config
                )
                done[number] = [found]
                self.remove(number)
        return done

    def _best(self, decoders: Sequence[IncrementalDecoder], ids: Tensor) -> tuple[Tensor, Tensor]:
        """The best token of each text and its log-probability, both (N)."""
        n_top = 1 + len(self._processors)
        if only_ban_ends(self._processors) and n_top <= decoders[0].vocabulary_size:
            top = self._step(decoders, ids, n_top)
            assert isinstance(top, tuple)
            lengths = [len(each) - 1 for each in self._tokens.values()] if self._processors else []
            return best_allowed(*top, torch.tensor(lengths)[:, None], self._processors)
        logits = self._step(decoders, ids)
        assert isinstance(logits, Tensor)
        log_p = logits.log_softmax(-1)
        check_log_p(log_p)
        groups: dict[int, list[int]] = {}  # rows with the same number of tokens
        tokens = list(self._tokens.values())
        for row, each in enumerate(tokens):
            groups.setdefault(len(each), []).append(row)
        best = torch.empty(len(tokens), dtype=torch.int64)
        for rows in groups.values():
            chosen = slice(None) if len(groups) == 1 else torch.tensor(rows)
            context = ProcessorContext(
                torch.tensor([tokens[row] for row in rows]), 1, torch.tensor(rows), logits[chosen]
            )
            scores = apply_processors(log_p[chosen], context, self._processors)
            token = greedy(scores, context.texts, 0)
            highest = scores.gather(1, token[:, None])[:, 0]
            best[chosen] = token.where(highest > NEG_INF, NO_TOKEN)
        return log_p.gather(1, best.clamp(min=0)[:, None])[:, 0], best


class JointBeamSearch:
    """Beam search for several texts, each at its own number of tokens."""

    def __init__(
        self, config: DecodingConfig, processors: Sequence[Processor], step: StepRows
    ) -> None:
        self._config, self._processors, self._step = config, processors, step
        self._ranks = only_ban_ends(processors)  # the decoder finds the best tokens itself
        self._texts = _Texts(config.beam)
        self._state: BeamState | None = None  # of the texts after their first token

    def add(self, number: int, decoder: IncrementalDecoder, inputs: GenerationInputs) -> None:
        """Add a text, which begins at the next step."""
        self._texts.add(number, decoder, inputs)

    def remove(self, number: int) -> None:
        """Remove a text that is not done."""
        if self._texts.remove(number) and self._state is not None:
            self._state.drop([number])

    @torch.inference_mode()
    def step(self) -> dict[int, list[Hypothesis]]:
        """Extend each text by a token; the results of those that are done, best first."""
        states = [] if self._state is None or not len(self._state.texts) else [self._state]
        if new := self._texts.begin():
            states.append(self._first_state(new))
        ids = torch.cat([state.newest for state in states])
        decoders = [
            self._texts.decoders[number] for state in states for number in state.texts.tolist()
        ]
        log_p, token = self._candidates(decoders, ids)
        sizes = [len(state.newest) for state in states]
        done: dict[int, list[Hypothesis]] = {}
        for state, own_log_p, own_token in zip(
            states, torch.split(log_p, sizes), torch.split(token, sizes), strict=True
        ):
            self._advance(state, own_log_p, own_token)
            done |= state.results
            state.results = {}
        for number in done:
            self._texts.remove(number)
        self._state = states[0]
        for state in states[1:]:
            if len(self._state.texts):
                self._state.join(state)
            else:
                self._state = state
        return done

    def _first_state(self, new: dict[int, GenerationInputs]) -> BeamState:
        """The state of texts that begin."""
        inputs = list(new.values())
        limits = [each.stopping.limits[0] for each in inputs]
        joined = GenerationInputs(
            torch.cat([each.prompt_ids for each in inputs]),
            replace(inputs[0].stopping, limits=limits, prompts=()),
        )
        return BeamState(joined, self._config, None, self._processors, list(new))

    def _candidates(
        self, decoders: Sequence[IncrementalDecoder], ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The best tokens and log-probabilities of rows (N * W, C), or with processors all."""
        if self._ranks:
            n_top = 2 * self._config.beam + len(self._processors)
            found = self._step(decoders, ids, min(n_top, decoders[0].vocabulary_size))
            assert isinstance(found, tuple)
            check_log_p(found[0])
            return found
        logits = self._step(decoders, ids)
        assert isinstance(logits, Tensor)
        log_p = logits.log_softmax(-1)
        check_log_p(log_p)
        return log_p, log_p  # the tokens are those of all columns

    def _advance(self, state: BeamState, log_p: Tensor, token: Tensor) -> None:
        """One step of the texts of a state."""
        if self._ranks:
            scores = state.allowed(log_p, token)
        else:
            scores, token = state.processed(log_p).topk(2 * self._config.beam)
            log_p = log_p.gather(1, token)
        candidates = state.candidates(log_p, scores, token)
        state.update(candidates, state.stopped(candidates))
        state.advance()
        for number, rows in zip(state.texts.tolist(), state.alive.parent, strict=True):
            self._texts.decoders[number].reorder(rows)
