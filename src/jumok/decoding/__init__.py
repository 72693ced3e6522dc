"""Decoding: from next-token logits to whole sequences."""

from jumok.decoding.alignment import Alignment, align
from jumok.decoding.api import continue_texts, write_targets
from jumok.decoding.beam import beam_search
from jumok.decoding.callbacks import Continuations, Observer
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.constraint import Constraint, Language, word_list
from jumok.decoding.constraints.regex import regular_expression
from jumok.decoding.constraints.token_bytes import Spelling, spelling_of
from jumok.decoding.draft import Draft
from jumok.decoding.generate import OnToken, generate
from jumok.decoding.hypothesis import Written
from jumok.decoding.incremental.decoder import (
    AttentiveWriter,
    EncoderDecoderWriter,
    LanguageModelWriter,
    Writer,
    left_padded,
)
from jumok.decoding.incremental.ensemble import EnsembleWriter
from jumok.decoding.inputs import Opening
from jumok.decoding.processors import Context, Processor
from jumok.decoding.speculative import Speculated, speculative
from jumok.decoding.stopping import Stopping, StopTexts, TextStreams, cut

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
