"""Writing: from a model's next-token logits to whole sequences."""

from jumok.decoding.config import DecodingConfig
from jumok.decoding.greedy import greedy
from jumok.decoding.writer import EncoderDecoderWriter, LanguageModelWriter, Writer, left_padded
from jumok.decoding.written import Written

__all__ = [
    "DecodingConfig",
    "EncoderDecoderWriter",
    "LanguageModelWriter",
    "Writer",
    "Written",
    "greedy",
    "left_padded",
]
