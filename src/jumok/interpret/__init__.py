"""Interpretability: traces of attention and generation, muted heads, leave-one-out scores.

The names of `__all__` are imported on first access. `jumok.trace` makes a trace.
"""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.interpret.aggregate import (
        DisplayOptions,
        display_weights,
        renormalize,
        token_groups,
    )
    from jumok.interpret.bertviz import BertViz, from_attention, to_bertviz
    from jumok.interpret.decoding_trace import trace_forced, trace_generation
    from jumok.interpret.head_patterns import HeadScores, score_heads
    from jumok.interpret.hf_trace.trace import trace_transformers
    from jumok.interpret.interventions import Effects, patch_heads, patch_hidden, sweep_heads
    from jumok.interpret.logit_lens import lens_logits
    from jumok.interpret.schema import (
        Beam,
        Block,
        Candidate,
        Chosen,
        Classification,
        Decoding,
        Explained,
        ModelInfo,
        Step,
        Tokens,
        TraceInfo,
        Word,
    )
    from jumok.interpret.trace import Trace

__all__ = [
    "Beam",
    "BertViz",
    "Block",
    "Candidate",
    "Chosen",
    "Classification",
    "Decoding",
    "DisplayOptions",
    "Effects",
    "Explained",
    "HeadScores",
    "ModelInfo",
    "Step",
    "Tokens",
    "Trace",
    "TraceInfo",
    "Word",
    "display_weights",
    "from_attention",
    "lens_logits",
    "patch_heads",
    "patch_hidden",
    "renormalize",
    "score_heads",
    "sweep_heads",
    "to_bertviz",
    "token_groups",
    "trace_forced",
    "trace_generation",
    "trace_transformers",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "aggregate": ("DisplayOptions", "display_weights", "renormalize", "token_groups"),
        "bertviz": ("BertViz", "from_attention", "to_bertviz"),
        "decoding_trace": ("trace_forced", "trace_generation"),
        "head_patterns": ("HeadScores", "score_heads"),
        "hf_trace.trace": ("trace_transformers",),
        "interventions": ("Effects", "patch_heads", "patch_hidden", "sweep_heads"),
        "logit_lens": ("lens_logits",),
        "schema": (
            *("Beam", "Block", "Candidate", "Chosen", "Classification", "Decoding", "Explained"),
            *("ModelInfo", "Step", "Tokens", "TraceInfo", "Word"),
        ),
        "trace": ("Trace",),
    },
)
