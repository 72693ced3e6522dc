"""Search results in the order of a cross-encoder, which reads query and text together.

Nogueira and Cho 2019, "Passage re-ranking with BERT", section 3. A model of `regression` of pairs
gives each one score.
"""

from collections.abc import Sequence
from typing import Protocol

from jumok.errors import InputError
from jumok.tasks.pipeline.outputs import Output, RegressionOutput
from jumok.tasks.pipeline.vector_index import Match

CANDIDATES = 30  # lines of a search that are read again


class Predictor(Protocol):
    """A pipeline, or a model of the engine."""

    def predict(self, texts: Sequence[tuple[str, str]]) -> Sequence[Output]:
        """One output for each pair."""


def reranked(model: Predictor, query: str, matches: Sequence[Match]) -> list[Match]:
    """The matches by the score of a model for (query, text), best first; of equal ones as given.

    A TAB in a text is read as a space. The model has passed `check_reranker`.
    """
    if not matches:
        return []
    pairs = [(_plain(query), _plain(match.text)) for match in matches]
    scores = [_score(output) for output in model.predict(pairs)]
    found = [
        Match(match.line, round(score, 4), match.text)
        for match, score in zip(matches, scores, strict=True)
    ]
    order = sorted(range(len(found)), key=lambda i: -scores[i])  # stable
    return [found[i] for i in order]


def check_reranker(name: object, model: Predictor) -> None:
    """Raise InputError for a model without one score of a pair of texts."""
    try:
        (output,) = model.predict([("a", "b")])
    except InputError:  # it reads no pairs
        output = None
    if not isinstance(output, RegressionOutput):
        raise InputError(
            "search.no_reranker",
            "--rerank needs a model with one score for a pair of texts, got {name}; train one with "
            "the task regression and data.pair",
            name=str(name),
        )


def _score(output: Output) -> float:
    assert isinstance(output, RegressionOutput)  # `check_reranker`
    return output.score


def _plain(text: str) -> str:
    return text.replace("\t", " ")
