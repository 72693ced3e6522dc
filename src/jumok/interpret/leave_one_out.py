"""Why a classifier answered as it did: its answer once more without each of the words.

Shapes: L labels, H heads, T queries, S keys.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from jumok.evaluation.regression import spearman
from jumok.interpret.eojeol import eojeol_spans as words_of
from jumok.interpret.schema import Classification, Explained, Tokens, TraceInfo, Word
from jumok.interpret.trace import Trace
from jumok.models import EncoderDecoderClassifier
from jumok.tasks.pipeline.outputs import Prediction
from jumok.tasks.pipeline.pipeline import Pipeline

MAX_WORDS = 64  # of a sequence that are deleted
MIN_WORDS = 3  # for a correlation


def explain_predictions(
    loaded: Pipeline, texts: Sequence[str], logits: Tensor, trace: Trace, *, ablate: bool
) -> TraceInfo:
    """The header of a trace with the answers (B, L), and what each word did to them.

    Of a long text the first 64 words are deleted, one at a time. The agreement is Spearman's
    correlation, over the words, of how much the likeliest label's probability changes without a
    word and how much attention was paid to it (`attention_received`); None under 3 words.
    """
    labels, notes = loaded.labels, list(trace.info.notes)
    found = []
    for sequence, probabilities in enumerate(logits.float().softmax(-1).tolist()):
        tokens = trace.info.tokens("source", sequence)
        spans = words_of(tokens.text) if ablate else []
        if len(spans) > MAX_WORDS:
            notes.append(
                f"Only the first {MAX_WORDS} of {len(spans)} words were deleted one at a time."
            )
            spans = spans[:MAX_WORDS]
        changed = score_without(loaded, texts[sequence], spans)
        found.append(
            Explained(
                probabilities=tuple(probabilities),
                words=tuple(
                    Word(text=tokens.text[begin:end], span=(begin, end), without=row)
                    for (begin, end), row in zip(spans, changed, strict=True)
                ),
                agreement=_agreement(loaded, trace, sequence, probabilities, changed),
            )
        )
    answers = Classification(labels=labels, sequences=tuple(found))
    return replace(trace.info, classification=answers, notes=tuple(notes))


def score_without(
    loaded: Pipeline, text: str, spans: Sequence[tuple[int, int]]
) -> list[tuple[float, ...]]:
    """The probabilities of all labels for the text without each of the words, all at once."""
    answers = loaded.predict([remove_span(text, span) for span in spans]) if spans else []
    found = []
    for answer in answers:
        assert isinstance(answer, Prediction)
        found.append(tuple(answer.probabilities[label] for label in loaded.labels))
    return found


def remove_span(text: str, span: tuple[int, int]) -> str:
    r"""The text without a word and the blanks behind it; without those before it at the end.

    >>> [without("이 영화 정말", span) for span in ((2, 4), (5, 7))]
    ['이 정말', '이 영화']
    >>> without("춥다\t덥다", (0, 2))
    '\t덥다'
    """
    begin, end = span
    while end < len(text) and text[end].isspace() and text[end] != "\t":
        end += 1
    if end == len(text) or text[end] == "\t":
        while begin and text[begin - 1].isspace() and text[begin - 1] != "\t":
            begin -= 1
    return text[:begin] + text[end:]


def attention_received(loaded: Pipeline, trace: Trace, sequence: int) -> NDArray[np.float64]:
    """How much attention is paid to each source token in the end, (S,): 1 in all.

    The mean over the heads of the last layer, of the rows that are pooled to one vector: the
    first token's for the pooling "first", else all real ones. Of note 002's encoder-decoder the
    rows of its decoder, which look back at the source.
    """
    crossing = isinstance(loaded.model, EncoderDecoderClassifier)
    block = trace.info.block("cross" if crossing else "encoder")
    heads = trace.weights(block.name, block.layers - 1, sequence).astype(np.float64)  # (H, T, S)
    weights: NDArray[np.float64] = heads.mean(0)  # (T, S)
    real = np.array(trace.info.tokens(block.queries, sequence).real, dtype=np.bool_)
    first = not crossing and loaded.recipe.model.pooling == "first"
    rows = weights[:1] if first else weights[real]  # (pooled, S)
    paid: NDArray[np.float64] = rows.mean(0)
    return paid


def _agreement(
    loaded: Pipeline,
    trace: Trace,
    sequence: int,
    probabilities: Sequence[float],
    changed: Sequence[Sequence[float]],
) -> float | None:
    if len(changed) < MIN_WORDS:
        return None
    best = int(np.argmax(probabilities))
    changes = [abs(row[best] - probabilities[best]) for row in changed]
    tokens: Tokens = trace.info.tokens("source", sequence)
    paid = np.zeros(len(changed))
    for word, attention in zip(
        tokens.words, attention_received(loaded, trace, sequence), strict=True
    ):
        if 0 <= word < len(paid):
            paid[word] += attention
    return spearman(changes, paid)
