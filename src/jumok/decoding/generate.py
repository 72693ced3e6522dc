"""The loop: change the scores, choose, stop, see who is alive, go on.

Shapes: N texts, B rows being written (several answers of a text stand side by side), P tokens
given, T tokens at most, t written so far, V vocabulary.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from jumok.decoding.beam import beam_search, length_norm
from jumok.decoding.callbacks import StepCallback, StepResult
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.constraint import can_end_here, no_continuation_error
from jumok.decoding.hypothesis import Hypothesis, hypothesis
from jumok.decoding.incremental.decoder import IncrementalDecoder, SupportsTopK
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import NEG_INF, Processor, ProcessorContext, apply_processors
from jumok.decoding.sampling import CategoricalSampler, Sampler, greedy
from jumok.errors import InputError

OnToken = Callable[[int, int], None]
"""row, id: called for every token as it is written, the end token aside.

Row number n_best * text + i is answer i of a text. A beam's tokens come when its text is over.
"""


def generate(
    decoder: IncrementalDecoder,
    inputs: GenerationInputs,
    config: DecodingConfig,
    processors: Sequence[Processor] = (),
    on_token: OnToken | None = None,
    callback: StepCallback | None = None,
) -> list[list[Hypothesis]]:
    """`n_best` answers for each text, in the order of the texts: what the config says, no more.

    The processors are all there are: `build_processors(config, ...)` makes those a config asks for.
    An `callback` looks on at a single text.
    """
    if config.beam > 1:
        answers = beam_search(decoder, inputs, config, processors, callback)
        if on_token is not None:
            _tell(answers, config.n_best, on_token)
        return answers
    choose: Sampler = greedy
    if config.sample:
        if len(inputs.sample_keys) != len(inputs.prompt_ids):
            raise InputError(
                f"{len(inputs.sample_keys)} keys came to draw {len(inputs.prompt_ids)} texts from; give one "
                "number for each, `text_key` of its tokens for example"
            )
        choose = CategoricalSampler(
            inputs.sample_keys, seed=config.seed, copies=config.n_best, steps=inputs.max_new_tokens
        )
    return decode_tokenwise(decoder, inputs, config, choose, processors, on_token, callback)


@torch.inference_mode()
def decode_tokenwise(
    decoder: IncrementalDecoder,
    inputs: GenerationInputs,
    config: DecodingConfig,
    choose: Sampler,
    processors: Sequence[Processor] = (),
    on_token: OnToken | None = None,
    callback: StepCallback | None = None,
) -> list[list[Hypothesis]]:
    """Each row takes one token a step, the one that `choose` names; finished rows leave."""
    sheet = _Sheet(inputs, config.n_best)
    plainly = choose is greedy and not processors and callback is None
    ranking = decoder if plainly and isinstance(decoder, SupportsTopK) else None
    ids = inputs.prompt_ids
    for t in range(inputs.max_new_tokens):
        if ranking is not None:
            gain, token = (part[:, 0] for part in ranking.top_k(ids, 1))  # 2 x (B)
        else:
            cached = decoder.length
            logits = decoder.step(ids)  # (B, V)
            if t == 0 and config.n_best > 1:
                decoder.reorder(sheet.text)
                logits = logits[sheet.text]
            log_p = scores = logits.log_softmax(-1)
            if processors:
                scores = apply_processors(log_p, sheet.context(t, logits), processors)
            if callback is not None:
                callback.on_scores(cached, log_p, scores)
            token = choose(scores, sheet.alive, t)  # (B)
            gain = log_p.gather(-1, token[:, None])[:, 0]
            if processors:  # they may have left nothing to choose from
                token = token.where(scores.gather(-1, token[:, None])[:, 0] > NEG_INF, NO_TOKEN)
                stuck = token == NO_TOKEN
                if (
                    stuck.any()
                    and not can_end_here(processors, sheet.context(t, logits))[stuck].all()
                ):
                    raise no_continuation_error()
        going = sheet.write(t, token, gain, on_token)
        if callback is not None:
            callback.on_step(sheet.continuations(t, token, going))
        if not going:
            break
        if len(going) < len(token):
            rows = torch.tensor(going, device=token.device)
            decoder.reorder(rows)
            sheet.alive, token = sheet.alive[rows], token[rows]
        ids = token[:, None]
    return sheet.answers(config)


NO_TOKEN = -1  # in place of a token: none may be written


class _Sheet:
    """Everything written so far, of the rows alive and of those that left."""

    def __init__(self, opening: GenerationInputs, copies: int) -> None:
        device, N = opening.prompt_ids.device, len(opening.prompt_ids)
        self.stopping, self.copies = opening.stopping, copies
        self.start = opening.prompt_ids.shape[1]  # P
        self.text = torch.arange(N, device=device).repeat_interleave(copies)  # of every row
        self.alive = torch.arange(N * copies, device=device)  # (B) rows
        self.tokens = opening.token_buffer().repeat_interleave(copies, 0)  # (N * copies, P + T)
        self.log_p = torch.zeros(N * copies, opening.max_new_tokens, device=device)
        self.ids: list[list[int]] = [[] for _ in range(N * copies)]
        self.finished = [False] * (N * copies)
        self.going = list(range(N * copies))  # the rows alive once more, on this side

    def context(self, t: int, logits: Tensor) -> ProcessorContext:
        """What the processors see of the rows alive, of which the model said logits (B, V)."""
        tokens = self.tokens[self.alive, : self.start + t]
        return ProcessorContext(tokens, self.start, self.text[self.alive], logits)

    def write(self, t: int, token: Tensor, gain: Tensor, on_token: OnToken | None) -> list[int]:
        """Take the newest tokens (B), their log-probabilities (B); which of the B rows go on."""
        self.tokens[self.alive, self.start + t] = token
        self.log_p[self.alive, t] = gain
        going = []
        for place, (row, newest) in enumerate(zip(self.going, token.tolist(), strict=True)):
            if newest == NO_TOKEN:
                continue
            ids = self.ids[row]
            ids.append(newest)
            if on_token is not None and newest != self.stopping.end_id:
                on_token(row, newest)
            text = row // self.copies
            self.finished[row] = self.stopping.finished(text, ids)
            if not self.finished[row] and not self.stopping.reached_limit(text, ids):
                going.append(place)
        self.going = [self.going[place] for place in going]
        return going

    def continuations(self, t: int, token: Tensor, going: Sequence[int]) -> StepResult:
        """What step t made of the B rows alive, of which those at `going` go on."""
        score = self.log_p[self.alive, : t + 1].sum(-1).masked_fill(token == NO_TOKEN, NEG_INF)
        ended = torch.ones_like(token, dtype=torch.bool)
        ended[list(going)] = False
        return StepResult(torch.arange(len(token), device=token.device), token, score, ended)

    def answers(self, config: DecodingConfig) -> list[list[Hypothesis]]:
        """What was written for each text."""
        rows = []
        for ids, log_p, finished in zip(self.ids, self.log_p.tolist(), self.finished, strict=True):
            gains = log_p[: len(ids)]
            rank = sum(gains) / length_norm(max(len(ids), 1), config)
            rows.append(hypothesis(ids, gains, self.stopping.end_id, finished, rank))
        return [rows[i : i + self.copies] for i in range(0, len(rows), self.copies)]


def _tell(answers: Iterable[Sequence[Hypothesis]], n_best: int, on_token: OnToken) -> None:
    for text, several in enumerate(answers):
        for number, answer in enumerate(several):
            for id in answer.ids:  # noqa: A001  the field's word
                on_token(text * n_best + number, id)
