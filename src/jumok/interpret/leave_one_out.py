"""Leave-one-out explanations: the predictions of a classifier without each of the words.

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
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.text.ragged import Ragged

MAX_WORDS = 64  # left out of a sequence, one at a time
MIN_WORDS = 3  # for a correlation


def explain_predictions(
    pipeline: Pipeline, texts: Sequence[str], logits: Tensor, trace: Trace, *, ablate: bool
) -> TraceInfo:
    """The header of a trace with the predictions (B, L), and the effect of each word on them.

    Only words that the model read are left out, the first 64 of them. From a text longer than
    max_length a word's tokens are removed and no others move in. The agreement is Spearman's
    correlation, over the words, of the change of the predicted label's probability without the word
    and the attention that the word receives (`attention_received`); None under 3 words.
    """
    labels, notes = pipeline.labels, list(trace.info.notes)
    found = []
    for sequence, probabilities in enumerate(logits.float().softmax(-1).tolist()):
        tokens = trace.info.tokens("source", sequence)
        spans = words_of(tokens.text)
        words = words_read(tokens) if ablate else []
        if len(words) > MAX_WORDS:
            notes.append(
                f"Only the first {MAX_WORDS} of {len(words)} words were left out one at a time."
            )
            words = words[:MAX_WORDS]
        if tokens.truncated:
            changed = score_without_tokens(pipeline, tokens, words)
        else:
            changed = score_without(pipeline, texts[sequence], [spans[word] for word in words])
        found.append(
            Explained(
                probabilities=tuple(probabilities),
                words=tuple(
                    Word(text=tokens.text[slice(*spans[word])], span=spans[word], without=row)
                    for word, row in zip(words, changed, strict=True)
                ),
                agreement=_agreement(pipeline, trace, sequence, probabilities, words, changed),
            )
        )
    classification = Classification(labels=labels, sequences=tuple(found))
    return replace(trace.info, classification=classification, notes=tuple(notes))


def score_without(
    pipeline: Pipeline, text: str, spans: Sequence[tuple[int, int]]
) -> list[tuple[float, ...]]:
    """The probabilities of all labels for the text without each of the words, in one batch."""
    answers = pipeline.predict([remove_span(text, span) for span in spans]) if spans else []
    found = []
    for answer in answers:
        assert isinstance(answer, Prediction)
        found.append(tuple(answer.probabilities[label] for label in pipeline.labels))
    return found


def score_without_tokens(
    pipeline: Pipeline, tokens: Tokens, words: Sequence[int]
) -> list[tuple[float, ...]]:
    """The probabilities of all labels for the same token ids without those of each of the words."""
    real = [
        (token, word)
        for token, word, is_real in zip(tokens.ids, tokens.words, tokens.real, strict=True)
        if is_real
    ]
    rows = Ragged.from_lists([[i for i, own in real if own != word] for word in words])
    logits = predict_all(pipeline.model, rows, pipeline.vocabulary, pipeline.device)
    return [tuple(row) for row in logits.softmax(-1).tolist()]


def words_read(tokens: Tokens) -> list[int]:
    """The indices of the words (eojeols) of which the model read at least one piece.

    A tokenizer may drop a word that it read, a single U+200B for instance; a truncated text alone
    has words that were not read.
    """
    everything = range(len(words_of(tokens.text)))
    if not tokens.truncated:
        return list(everything)
    read = set(tokens.words)
    return [word for word in everything if word in read]


def remove_span(text: str, span: tuple[int, int]) -> str:
    r"""The text without a word and the spaces after it, or before it at the end of a text.

    >>> [remove_span("이 영화 정말", span) for span in ((2, 4), (5, 7))]
    ['이 정말', '이 영화']
    >>> remove_span("춥다\t덥다", (0, 2))
    '\t덥다'
    """
    begin, end = span
    while end < len(text) and text[end].isspace() and text[end] != "\t":
        end += 1
    if end == len(text) or text[end] == "\t":
        while begin and text[begin - 1].isspace() and text[begin - 1] != "\t":
            begin -= 1
    return text[:begin] + text[end:]


def attention_received(pipeline: Pipeline, trace: Trace, sequence: int) -> NDArray[np.float64]:
    """The attention that each source token receives in the last layer, (S,); the sum is 1.

    The mean over the heads, and over the queries that are pooled: the first token for the pooling
    "first", else all real ones; for an encoder-decoder classifier, the cross-attention of its
    decoder.
    """
    is_encoder_decoder = isinstance(pipeline.model, EncoderDecoderClassifier)
    block = trace.info.block("cross" if is_encoder_decoder else "encoder")
    heads = trace.weights(block.name, block.layers - 1, sequence).astype(np.float64)  # (H, T, S)
    weights: NDArray[np.float64] = heads.mean(0)  # (T, S)
    real = np.array(trace.info.tokens(block.queries, sequence).real, dtype=np.bool_)
    first = not is_encoder_decoder and pipeline.recipe.model.pooling == "first"
    rows = weights[:1] if first else weights[real]  # (pooled, S)
    received: NDArray[np.float64] = rows.mean(0)
    return received


def _agreement(
    pipeline: Pipeline,
    trace: Trace,
    sequence: int,
    probabilities: Sequence[float],
    words: Sequence[int],
    changed: Sequence[Sequence[float]],
) -> float | None:
    if len(changed) < MIN_WORDS:
        return None
    best = int(np.argmax(probabilities))
    changes = [abs(row[best] - probabilities[best]) for row in changed]
    tokens: Tokens = trace.info.tokens("source", sequence)
    received = dict.fromkeys(words, 0.0)
    for word, attention in zip(
        tokens.words, attention_received(pipeline, trace, sequence), strict=True
    ):
        if word in received:
            received[word] += attention
    return spearman(changes, list(received.values()))
