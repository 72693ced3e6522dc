"""The loop: change the scores, choose, stop, see who is alive, go on.

Shapes: N texts, B rows being written (several answers of a text stand side by side), P tokens
given, T tokens at most, t written so far, V vocabulary.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from jumok.decoding.beam import beam_search, length_norm
from jumok.decoding.callbacks import Continuations, Observer
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.constraint import dead_end, may_end
from jumok.decoding.hypothesis import Written, written
from jumok.decoding.incremental.decoder import Ranking, Writer
from jumok.decoding.inputs import Opening
from jumok.decoding.processors import NEVER, Context, Processor, processed
from jumok.decoding.sampling import Choice, Draws, likeliest
from jumok.errors import InputError

OnToken = Callable[[int, int], None]
"""row, id: called for every token as it is written, the end token aside.

Row number n_best * text + i is answer i of a text. A beam's tokens come when its text is over.
"""


def generate(
    writer: Writer,
    opening: Opening,
    config: DecodingConfig,
    processors: Sequence[Processor] = (),
    on_token: OnToken | None = None,
    observer: Observer | None = None,
) -> list[list[Written]]:
    """`n_best` answers for each text, in the order of the texts: what the config says, no more.

    The processors are all there are: `processors_of(config, ...)` makes those a config asks for.
    An `observer` looks on at a single text.
    """
    if config.beam > 1:
        answers = beam_search(writer, opening, config, processors, observer)
        if on_token is not None:
            _tell(answers, config.n_best, on_token)
        return answers
    choose: Choice = likeliest
    if config.sample:
        if len(opening.keys) != len(opening.first):
            raise InputError(
                f"{len(opening.keys)} keys came to draw {len(opening.first)} texts from; give one "
                "number for each, `key_of` of its tokens for example"
            )
        choose = Draws(opening.keys, seed=config.seed, copies=config.n_best, steps=opening.longest)
    return one_by_one(writer, opening, config, choose, processors, on_token, observer)


@torch.inference_mode()
def one_by_one(
    writer: Writer,
    opening: Opening,
    config: DecodingConfig,
    choose: Choice,
    processors: Sequence[Processor] = (),
    on_token: OnToken | None = None,
    observer: Observer | None = None,
) -> list[list[Written]]:
    """Each row takes one token a step, the one that `choose` names; finished rows leave."""
    sheet = _Sheet(opening, config.n_best)
    plainly = choose is likeliest and not processors and observer is None
    ranking = writer if plainly and isinstance(writer, Ranking) else None
    ids = opening.first
    for t in range(opening.longest):
        if ranking is not None:
            gain, token = (part[:, 0] for part in ranking.best(ids, 1))  # 2 x (B)
        else:
            cached = writer.length
            logits = writer.step(ids)  # (B, V)
            if t == 0 and config.n_best > 1:
                writer.select(sheet.text)
                logits = logits[sheet.text]
            log_p = scores = logits.log_softmax(-1)
            if processors:
                scores = processed(log_p, sheet.context(t, logits), processors)
            if observer is not None:
                observer.scored(cached, log_p, scores)
            token = choose(scores, sheet.alive, t)  # (B)
            gain = log_p.gather(-1, token[:, None])[:, 0]
            if processors:  # they may have left nothing to choose from
                token = token.where(scores.gather(-1, token[:, None])[:, 0] > NEVER, NOTHING)
                stuck = token == NOTHING
                if stuck.any() and not may_end(processors, sheet.context(t, logits))[stuck].all():
                    raise dead_end()
        going = sheet.write(t, token, gain, on_token)
        if observer is not None:
            observer.continued(sheet.continuations(t, token, going))
        if not going:
            break
        if len(going) < len(token):
            rows = torch.tensor(going, device=token.device)
            writer.select(rows)
            sheet.alive, token = sheet.alive[rows], token[rows]
        ids = token[:, None]
    return sheet.answers(config)


NOTHING = -1  # in place of a token: none may be written


class _Sheet:
    """Everything written so far, of the rows alive and of those that left."""

    def __init__(self, opening: Opening, copies: int) -> None:
        device, N = opening.first.device, len(opening.first)
        self.stopping, self.copies = opening.stopping, copies
        self.start = opening.first.shape[1]  # P
        self.text = torch.arange(N, device=device).repeat_interleave(copies)  # of every row
        self.alive = torch.arange(N * copies, device=device)  # (B) rows
        self.tokens = opening.sheet().repeat_interleave(copies, 0)  # (N * copies, P + T)
        self.log_p = torch.zeros(N * copies, opening.longest, device=device)
        self.ids: list[list[int]] = [[] for _ in range(N * copies)]
        self.finished = [False] * (N * copies)
        self.going = list(range(N * copies))  # the rows alive once more, on this side

    def context(self, t: int, logits: Tensor) -> Context:
        """What the processors see of the rows alive, of which the model said logits (B, V)."""
        tokens = self.tokens[self.alive, : self.start + t]
        return Context(tokens, self.start, self.text[self.alive], logits)

    def write(self, t: int, token: Tensor, gain: Tensor, on_token: OnToken | None) -> list[int]:
        """Take the newest tokens (B), their log-probabilities (B); which of the B rows go on."""
        self.tokens[self.alive, self.start + t] = token
        self.log_p[self.alive, t] = gain
        going = []
        for place, (row, newest) in enumerate(zip(self.going, token.tolist(), strict=True)):
            if newest == NOTHING:
                continue
            ids = self.ids[row]
            ids.append(newest)
            if on_token is not None and newest != self.stopping.end_id:
                on_token(row, newest)
            text = row // self.copies
            self.finished[row] = self.stopping.finished(text, ids)
            if not self.finished[row] and not self.stopping.full(text, ids):
                going.append(place)
        self.going = [self.going[place] for place in going]
        return going

    def continuations(self, t: int, token: Tensor, going: Sequence[int]) -> Continuations:
        """What step t made of the B rows alive, of which those at `going` go on."""
        score = self.log_p[self.alive, : t + 1].sum(-1).masked_fill(token == NOTHING, NEVER)
        ended = torch.ones_like(token, dtype=torch.bool)
        ended[list(going)] = False
        return Continuations(torch.arange(len(token), device=token.device), token, score, ended)

    def answers(self, config: DecodingConfig) -> list[list[Written]]:
        """What was written for each text."""
        rows = []
        for ids, log_p, finished in zip(self.ids, self.log_p.tolist(), self.finished, strict=True):
            gains = log_p[: len(ids)]
            rank = sum(gains) / length_norm(max(len(ids), 1), config)
            rows.append(written(ids, gains, self.stopping.end_id, finished, rank))
        return [rows[i : i + self.copies] for i in range(0, len(rows), self.copies)]


def _tell(answers: Iterable[Sequence[Written]], n_best: int, on_token: OnToken) -> None:
    for text, several in enumerate(answers):
        for number, answer in enumerate(several):
            for id in answer.ids:  # noqa: A001  the field's word
                on_token(text * n_best + number, id)
