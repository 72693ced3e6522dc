"""Hypotheses to outputs: the texts they decode to, their tokens and candidates; without torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.stopping import truncate_at_stop
from jumok.tasks.pipeline.outputs import Candidate, GeneratedText, GeneratedToken
from jumok.text.streaming import common_prefix_length
from jumok.text.tokenizer import Tokenizer, piece_or_empty


@dataclass(frozen=True)
class Generated:
    """A generated text and the hypothesis that it was decoded from."""

    text: str
    hypothesis: Hypothesis


def decoded_texts(
    tokenizer: Tokenizer, hypotheses: Sequence[Hypothesis], stop: Sequence[str] = ()
) -> list[Generated]:
    """The text of each hypothesis, up to the first stop string."""
    texts = tokenizer.decode_batch([hypothesis.ids for hypothesis in hypotheses])
    return [
        Generated(truncate_at_stop(text, stop), hypothesis)
        for text, hypothesis in zip(texts, hypotheses, strict=True)
    ]


def added_texts(
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    hypotheses: Sequence[Hypothesis],
    stop: Sequence[str] = (),
) -> list[Generated]:
    """What each continuation adds to the prompt, including the space before its first word."""
    rows = [prompt, *([*prompt, *each.ids] for each in hypotheses)]
    before, *wholes = tokenizer.decode_batch(rows)
    return [
        Generated(truncate_at_stop(whole[common_prefix_length(before, whole) :], stop), hypothesis)
        for whole, hypothesis in zip(wholes, hypotheses, strict=True)
    ]


def to_generated_text(
    text: str, candidates: Sequence[Generated], tokenizer: Tokenizer, n_best: int
) -> GeneratedText:
    """The output for a text from all candidates that were generated for it, the best first.

    The tokenizer is that of the outputs; with an `n_best` of 1 no candidates are kept.
    """
    best = candidates[0].hypothesis
    listed = tuple(
        Candidate(each.text, each.hypothesis.score, each.hypothesis.rank) for each in candidates
    )
    return GeneratedText(
        text,
        candidates[0].text,
        best.score,
        n_best=listed if n_best > 1 else None,
        loop=None if best.loop is None else str(best.loop),
        tokens=_tokens(tokenizer, best),
        attention=best.attention,
        finish_reason="stop" if best.finished else "length",
    )


def _tokens(tokenizer: Tokenizer, hypothesis: Hypothesis) -> tuple[GeneratedToken, ...]:
    """The generated tokens, including the [EOS] at the end."""
    ids, log_p = hypothesis.ids, hypothesis.log_probabilities
    if len(log_p) > len(ids):
        ids = [*ids, tokenizer.eos_id]
    return tuple(
        GeneratedToken(piece_or_empty(tokenizer, id_), id_, log)
        for id_, log in zip(ids, log_p, strict=True)
    )
