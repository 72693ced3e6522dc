"""Decoding: from next-token logits to whole sequences."""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.decoding.alignment import Alignment, align
    from jumok.decoding.api import GenerationRequest, generate_lm, generate_seq2seq
    from jumok.decoding.beam import beam_search
    from jumok.decoding.callbacks import OnToken, StepCallback, StepResult
    from jumok.decoding.config import DecodingConfig
    from jumok.decoding.constraints.constraint import Constraint, TokenAutomaton, any_text_of
    from jumok.decoding.constraints.regex import compile_regex
    from jumok.decoding.constraints.token_bytes import TokenBytes, read_token_bytes
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
    from jumok.decoding.speculative import DraftModel, SpeculativeResult
    from jumok.decoding.stopping import (
        StoppingCriteria,
        StopStrings,
        TextStreamer,
        truncate_at_stop,
    )

__all__ = [
    "Alignment",
    "AttentionRecordingDecoder",
    "CausalLMDecoder",
    "Constraint",
    "DecodingConfig",
    "DraftModel",
    "EnsembleDecoder",
    "GenerationInputs",
    "GenerationRequest",
    "Hypothesis",
    "IncrementalDecoder",
    "OnToken",
    "Processor",
    "ProcessorContext",
    "Seq2SeqDecoder",
    "SpeculativeResult",
    "StepCallback",
    "StepResult",
    "StopStrings",
    "StoppingCriteria",
    "TextStreamer",
    "TokenAutomaton",
    "TokenBytes",
    "align",
    "any_text_of",
    "beam_search",
    "compile_regex",
    "generate_lm",
    "generate_seq2seq",
    "left_pad",
    "read_token_bytes",
    "truncate_at_stop",
]

# Imported on first access: a classifier needs little of them.
__getattr__, __dir__ = lazy_names(__name__)
