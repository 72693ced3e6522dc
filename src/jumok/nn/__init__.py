"""The parts of the Transformer, one idea per file: attention, masks, positions, layers, stacks."""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.nn.attention import MultiHeadAttention, attention_weights
    from jumok.nn.attention_kernels import fused_attention
    from jumok.nn.cache import NO_CACHE, DecoderCache, KeyValueCache
    from jumok.nn.config import LayerConfig
    from jumok.nn.dropout import Dropout
    from jumok.nn.embedding import SegmentEmbedding, TokenEmbedding
    from jumok.nn.feedforward import GatedFeedForward, PointwiseConv, PositionwiseFeedForward
    from jumok.nn.hooks import HookPoint, record
    from jumok.nn.layer import ResidualNorm, TransformerLayer
    from jumok.nn.masks import NO_MASK, AttentionMask, positions_from_mask
    from jumok.nn.positions import (
        LearnedPositions,
        RelativePositionBias,
        RotaryPositions,
        SinusoidalPositions,
        sinusoids,
    )
    from jumok.nn.rope import RopeConfig
    from jumok.nn.stack import TransformerStack

__all__ = [
    "NO_CACHE",
    "NO_MASK",
    "AttentionMask",
    "DecoderCache",
    "Dropout",
    "GatedFeedForward",
    "HookPoint",
    "KeyValueCache",
    "LayerConfig",
    "LearnedPositions",
    "MultiHeadAttention",
    "PointwiseConv",
    "PositionwiseFeedForward",
    "RelativePositionBias",
    "ResidualNorm",
    "RopeConfig",
    "RotaryPositions",
    "SegmentEmbedding",
    "SinusoidalPositions",
    "TokenEmbedding",
    "TransformerLayer",
    "TransformerStack",
    "attention_weights",
    "fused_attention",
    "positions_from_mask",
    "record",
    "sinusoids",
]

__getattr__, __dir__ = lazy_names(__name__)  # imported on first access: a config needs no torch
