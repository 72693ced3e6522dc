"""Watched: the weights of every attention are written out and recorded while the model works."""

from jumok.checks.target import Answers, Subject, batched
from jumok.errors import JumokError
from jumok.nn.hooks import record, shared_copy


def watched(subject: Subject) -> Answers:
    """In one batch, while somebody looks; the model itself is never hooked."""
    view = shared_copy(subject.loaded.model)
    with record(view) as seen:
        answers = batched(subject.with_model(view))
    if not seen:
        raise JumokError("no attention showed its weights; give it a hook point")
    return answers
