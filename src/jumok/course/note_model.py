"""The model of the course, which ships with jumok as "note", and a trace of two sentences."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumok.interpret.trace import Trace

SENTENCES = ("겨울은 추워요.", "감기 조심하세요.")  # 6 and 5 pieces: the second gets padding


def note_trace() -> "Trace":
    """The trace of the model "note" translating `SENTENCES` into English.

    >>> note_trace().info.task
    'sequence_to_sequence'
    """
    from jumok.interpret.tracing import trace
    from jumok.tasks.runs.load import load

    return trace(load("note", device="cpu"), SENTENCES)
