"""Writing: from a model's next-token logits to whole sequences."""

from jumok.decoding.alignment import Alignment, align
from jumok.decoding.beam import beam_search
from jumok.decoding.config import DecodingConfig
from jumok.decoding.ensemble import EnsembleWriter
from jumok.decoding.generate import OnToken, generate
from jumok.decoding.opening import Opening
from jumok.decoding.processors import Context, Processor
from jumok.decoding.requests import continue_texts, write_targets
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
    "Context",
    "DecodingConfig",
    "EncoderDecoderWriter",
    "EnsembleWriter",
    "LanguageModelWriter",
    "OnToken",
    "Opening",
    "Processor",
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
    "write_targets",
]
