"""Interpretability: traces of attention and generation, muted heads, leave-one-out scores.

The names of `__all__` are imported on first access. `jumok.trace` makes a trace.
"""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.interpret.aggregate import DisplayOptions, display_weights, renormalize, token_groups
    from jumok.interpret.bertviz import BertViz, from_attention, to_bertviz
    from jumok.interpret.checkpoint_trace import trace_checkpoints
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
        CircuitGraph,
        Classification,
        Decoding,
        Explained,
        Frame,
        GraphEdge,
        GraphFeature,
        GraphNode,
        GraphPeak,
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
    "CircuitGraph",
    "Classification",
    "Decoding",
    "DisplayOptions",
    "Effects",
    "Explained",
    "Frame",
    "GraphEdge",
    "GraphFeature",
    "GraphNode",
    "GraphPeak",
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
    "trace_checkpoints",
    "trace_forced",
    "trace_generation",
    "trace_transformers",
]

__getattr__, __dir__ = lazy_names(__name__)
