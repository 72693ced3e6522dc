"""Decoding: from next-token logits to whole sequences."""

from jumok.decoding.alignment import Alignment, align
from jumok.decoding.api import generate_lm, generate_seq2seq
from jumok.decoding.beam import beam_search
from jumok.decoding.callbacks import StepCallback, StepResult
from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.constraint import Constraint, TokenAutomaton, any_text_of
from jumok.decoding.constraints.regex import compile_regex
from jumok.decoding.constraints.token_bytes import TokenBytes, read_token_bytes
from jumok.decoding.draft import DraftModel
from jumok.decoding.generate import OnToken, generate
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import (
    AttentionRecordingDecoder,
    CausalLMDecoder,
    IncrementalDecoder,
    Seq2SeqDecoder,
    left_pad,
)
from jumok.decoding.incremental.ensemble import EnsembleDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import Processor, ProcessorContext
from jumok.decoding.speculative import SpeculativeResult, speculative
from jumok.decoding.stopping import StoppingCriteria, StopStrings, TextStreamer, truncate_at_stop

__all__ = [
    "Alignment",
    "AttentionRecordingDecoder",
    "Constraint",
    "ProcessorContext",
    "StepResult",
    "DecodingConfig",
    "DraftModel",
    "Seq2SeqDecoder",
    "EnsembleDecoder",
    "TokenAutomaton",
    "CausalLMDecoder",
    "StepCallback",
    "OnToken",
    "GenerationInputs",
    "Processor",
    "SpeculativeResult",
    "TokenBytes",
    "StopStrings",
    "StoppingCriteria",
    "TextStreamer",
    "IncrementalDecoder",
    "Hypothesis",
    "align",
    "beam_search",
    "generate_lm",
    "truncate_at_stop",
    "generate",
    "left_pad",
    "compile_regex",
    "speculative",
    "read_token_bytes",
    "any_text_of",
    "generate_seq2seq",
]
