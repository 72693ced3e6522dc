"""Writing: from a model's next-token logits to whole sequences."""

from jumok.decoding.alignment import Alignment, align
from jumok.decoding.beam import beam_search
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints import Constraint, Language, word_list
from jumok.decoding.draft import Draft
from jumok.decoding.ensemble import EnsembleWriter
from jumok.decoding.generate import OnToken, generate
from jumok.decoding.observing import Continuations, Observer
from jumok.decoding.opening import Opening
from jumok.decoding.processors import Context, Processor
from jumok.decoding.regular_expression import regular_expression
from jumok.decoding.requests import continue_texts, write_targets
from jumok.decoding.speculative import Speculated, speculative
from jumok.decoding.spelling import Spelling, spelling_of
from jumok.decoding.stopping import Stopping, StopTexts, TextStreams, cut
from jumok.decoding.writer import (
    AttentiveWriter,
    EncoderDecoderWriter,
    LanguageModelWriter,
    Writer,
    left_padded,
)
from jumok.decoding.written import Written

__all__ = [
    "Alignment",
    "AttentiveWriter",
    "Constraint",
    "Context",
    "Continuations",
    "DecodingConfig",
    "Draft",
    "EncoderDecoderWriter",
    "EnsembleWriter",
    "Language",
    "LanguageModelWriter",
    "Observer",
    "OnToken",
    "Opening",
    "Processor",
    "Speculated",
    "Spelling",
    "StopTexts",
    "Stopping",
    "TextStreams",
    "Writer",
    "Written",
    "align",
    "beam_search",
    "continue_texts",
    "cut",
    "generate",
    "left_padded",
    "regular_expression",
    "speculative",
    "spelling_of",
    "word_list",
    "write_targets",
]
