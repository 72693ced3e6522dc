"""Where the weights of a model go in the C++ kernel: names, dimensions, tables; numpy alone.

A model is a config and arrays by the names of its weights. Matrices of a file stay as they are:
float32, float16, or bfloat16 as its bits in uint16. Kernel names are those of kernel/transformer.h.

Shapes: D d_model, E width of the embedding, A heads * d_head, F d_ff, K d_head, P positions.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jumok.errors import Message
from jumok.models.config import MAX_TABLE_POSITIONS, TransformerConfig
from jumok.native.library import ModelDims
from jumok.nn.rope import DEFAULT_ROPE

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Floats = NDArray[np.float32]

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")  # order of kernel/vector_math.h


def to_float32(array: Array) -> Floats:
    """An array of weights in float32; uint16 are the bits of bfloat16.

    >>> to_float32(np.array([0x3F80, 0xC000], np.uint16))
    array([ 1., -2.], dtype=float32)
    """
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(array, np.float32)


def to_bfloat16(array: Array) -> NDArray[np.uint16]:
    """The bits of an array in bfloat16, rounded to nearest even.

    >>> to_bfloat16(np.array([1.0, -2.0], np.float32)).tolist() == [0x3F80, 0xC000]
    True
    """
    if array.dtype == np.uint16:
        return np.ascontiguousarray(array)
    bits = to_float32(array).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def table_positions(max_length: int) -> int:
    """The positions that the kernel's tables have: all that a model claims, up to 131,072.

    A file of 100 kB may claim 2^31 positions, whose tables would take gigabytes.
    """
    return min(max_length, MAX_TABLE_POSITIONS)


def encoder_dims(config: TransformerConfig) -> ModelDims:
    """The dimensions of an encoder with this config."""
    d_head = config.d_head or config.d_model // config.n_heads
    scale = d_head**-0.5 if config.attention_scale is None else config.attention_scale
    return ModelDims(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.n_heads,
        d_head=d_head,
        d_ff=config.d_ff,
        encoder_layers=config.n_layers,
        max_length=table_positions(config.max_length),
        vocabulary=config.vocabulary_size,
        activation=ACTIVATIONS.index(config.activation),
        gated=config.gated,
        rms=config.norm == "rms",
        norm_first=config.norm_first,
        embedding_norm=config.embedding_norm,
        norm_eps=config.norm_eps,
        attention_scale=scale,
        embedding_scale=math.sqrt(config.embedding_dim) if config.scale_embedding else 1.0,
    )


def unsupported_encoder(config: TransformerConfig) -> Message | None:
    """Why the kernel cannot compute an encoder of this config from its ids; None if it can.

    >>> unsupported_encoder(TransformerConfig())
    >>> print(unsupported_encoder(TransformerConfig(qk_norm=True)))
    the kernel does not compute encoders with norms of queries and keys
    """
    found = {
        "attention of an extension": config.attention != "softmax",
        "grouped key/value heads": config.n_kv_heads not in (None, config.n_heads),
        "norms of queries and keys": config.qk_norm,
        "an attention softcap": config.attention_softcap is not None,
        "norms after sublayers": config.sublayer_norm,
        "norms of an extension": config.norm not in ("layer", "rms"),
        "positions of an extension": config.positions not in _POSITIONS,
        "local layers": set(config.layer_pattern) != {"G"},
        "a rope base or scaling": config.rope != DEFAULT_ROPE,
        "biases of queries, keys and values alone": config.qkv_bias != config.attention_output_bias,
    }
    for what, has in found.items():
        if has:
            return Message(
                "kernel.unsupported_encoder",
                "the kernel does not compute encoders with {what}",
                what=what,
            )
    return None


_POSITIONS = (
    "sinusoidal",
    "sinusoidal_halves",
    "learned",
    "rotary",
    "sinusoidal_rotary",
    "relative",
    "none",
)


def layer_linears(
    side: str, arrays: Arrays, prefix: str, n_layers: int
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each linear map of a stack: its kernel name, and the maps whose outputs it concatenates.

    >>> arrays = {"stack.layers.0.feed_forward.up.weight": np.zeros((2, 2), np.float32)}
    >>> list(layer_linears("encoder", arrays, "stack.", 1))[0][0]
    'encoder.0.query_key_value'
    """
    for index in range(n_layers):
        layer, name = f"{prefix}layers.{index}.", f"{side}.{index}."
        attention, cross = layer + "self_attention.", layer + "cross_attention."
        feed_forward = layer + "feed_forward."
        yield name + "query_key_value", tuple(attention + x for x in ("query", "key", "value"))
        yield name + "output", (attention + "output",)
        if cross + "query.weight" in arrays:
            yield name + "cross_query", (cross + "query",)
            yield name + "cross_key_value", (cross + "key", cross + "value")
            yield name + "cross_output", (cross + "output",)
        yield name + "up", (feed_forward + "up",)
        if feed_forward + "gate.weight" in arrays:
            yield name + "gate", (feed_forward + "gate",)
        yield name + "down", (feed_forward + "down",)


_NORMS = {  # kernel name of a layer's norm: its module
    "self_attention_norm": "self_attention_norm.norm",
    "cross_attention_norm": "cross_attention_norm.norm",
    "feed_forward_norm": "feed_forward_norm.norm",
    "self_attention_sublayer_norm": "self_attention_norm.sublayer_norm",
    "feed_forward_sublayer_norm": "feed_forward_norm.sublayer_norm",
    "query_norm": "self_attention.query_norm",
    "key_norm": "self_attention.key_norm",
}


def layer_norms(
    side: str, arrays: Arrays, prefix: str, n_layers: int, *, offset: bool = False
) -> Iterator[tuple[str, Floats]]:
    """The norms of a stack that there are; with `offset` their weights are relative to 1."""
    yield from norm_vectors(f"{side}.norm", arrays, f"{prefix}norm", offset=offset)
    for index in range(n_layers):
        for name, module in _NORMS.items():
            found = f"{prefix}layers.{index}.{module}"
            yield from norm_vectors(f"{side}.{index}.{name}", arrays, found, offset=offset)


def norm_vectors(
    name: str, arrays: Arrays, module: str, *, offset: bool = False
) -> Iterator[tuple[str, Floats]]:
    """The weight and the bias of a norm, those that there are."""
    for part in ("weight", "bias"):
        if f"{module}.{part}" in arrays:
            values = to_float32(arrays[f"{module}.{part}"])
            yield f"{name}.{part}", 1.0 + values if offset and part == "weight" else values


def position_tables(
    config: TransformerConfig, arrays: Arrays, prefix: str = "encoder."
) -> Iterator[tuple[str, Floats]]:
    """The tables of an encoder's positions and segments, those that there are."""
    n, kind = table_positions(config.max_length), config.positions
    first = config.position_offset
    if kind == "learned":
        table = arrays[f"{prefix}embedding.positions.weight"]
        yield "encoder.positions", to_float32(table[first : first + n])
    elif kind in ("sinusoidal", "sinusoidal_halves", "sinusoidal_rotary"):
        halves = kind == "sinusoidal_halves"
        table = sinusoids(first + n, config.embedding_dim, halves=halves)
        yield "encoder.positions", table[first:]
    if kind in ("rotary", "sinusoidal_rotary"):
        cosine, sine = rotary_tables(n, config.d_head or config.d_model // config.n_heads)
        yield "encoder.cosine", cosine
        yield "encoder.sine", sine
    elif kind == "relative":
        yield (
            "encoder.relative",
            relative_table(
                n,
                to_float32(arrays[f"{prefix}stack.relative.bias.weight"]),
                config.relative_attention_max_distance,
            ),
        )
    if f"{prefix}embedding.segments.weight" in arrays:
        yield "encoder.segments", to_float32(arrays[f"{prefix}embedding.segments.weight"])


def sinusoids(length: int, width: int, *, halves: bool = False) -> Floats:
    """`jumok.nn.sinusoids`, (P, E): the same numbers.

    >>> sinusoids(2, 4).round(2)[1]
    array([0.84, 0.54, 0.01, 1.  ], dtype=float32)
    """
    n_sines = (width + 1) // 2
    angle = np.arange(length)[:, None] / 10_000.0 ** (2.0 * np.arange(n_sines) / width)
    sine, cosine = np.sin(angle), np.cos(angle)[:, : width // 2]
    if halves:
        return np.concatenate([sine, cosine], -1).astype(np.float32)
    table = np.empty((length, width), np.float32)
    table[:, 0::2], table[:, 1::2] = sine, cosine
    return table


def rotary_tables(length: int, d_head: int) -> tuple[Floats, Floats]:
    """The cosines and sines of rotary positions with the default base, 2 x (P, K).

    Angles are float32, as `jumok.nn.rope` computes them.
    """
    exponent = np.arange(0, d_head, 2, dtype=np.float32) / np.float32(d_head)
    power = (DEFAULT_ROPE.base ** exponent.astype(np.float64)).astype(np.float32)
    angle = np.arange(length, dtype=np.float32)[:, None] * (np.float32(1) / power)  # (P, K/2)
    both = np.concatenate([angle, angle], -1).astype(np.float64)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def relative_table(length: int, bias: Floats, max_distance: int) -> Floats:
    """T5's bias of every distance from 1 - P to P - 1, (H, 2 P - 1), of bias (buckets, H)."""
    half = len(bias) // 2
    n_exact = half // 2
    distance = np.arange(1 - length, length)
    far = np.maximum(np.abs(distance), 1).astype(np.float32) / np.float32(n_exact)
    ratio = np.log(far) / np.float32(math.log(max_distance / n_exact))
    bucket = n_exact + (ratio * np.float32(half - n_exact)).astype(np.int64)
    near = np.abs(distance) < n_exact
    bucket = np.where(near, np.abs(distance), np.minimum(bucket, half - 1))
    return np.ascontiguousarray(bias[bucket + (distance > 0) * half].T)


def encoder_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every weight of an `Encoder` that the kernel supports, by its name.

    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> encoder_shapes(config)["encoder.embedding.tokens.weight"]
    (10, 8)
    """
    D, E, F = config.d_model, config.embedding_dim, config.d_ff
    A = config.n_heads * (config.d_head or D // config.n_heads)
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, outputs: int, inputs: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = (outputs, inputs)
        if bias:
            shapes[f"{name}.bias"] = (outputs,)

    def norm(name: str, width: int) -> None:
        shapes[f"{name}.weight"] = (width,)
        if config.norm == "layer":
            shapes[f"{name}.bias"] = (width,)

    embedding, stack = "encoder.embedding.", "encoder.stack."
    shapes[embedding + "tokens.weight"] = (config.vocabulary_size, E)
    if config.positions == "learned":
        rows = config.position_offset + config.max_length
        shapes[embedding + "positions.weight"] = (rows, E)
    if config.positions == "relative":
        buckets = config.relative_attention_num_buckets
        shapes[stack + "relative.bias.weight"] = (buckets, config.n_heads)
    if config.n_segments:
        shapes[embedding + "segments.weight"] = (config.n_segments, E)
    if config.embedding_norm:
        norm(embedding + "norm", E)
    if config.d_embedding is not None:
        linear(embedding + "projection", D, E, bias=True)
    for index in range(config.n_layers):
        layer = f"{stack}layers.{index}."
        for name in ("query", "key", "value"):
            linear(f"{layer}self_attention.{name}", A, D, config.qkv_bias)
        linear(layer + "self_attention.output", D, A, config.attention_output_bias)
        for name in ("up", "gate") if config.gated else ("up",):
            linear(f"{layer}feed_forward.{name}", F, D, config.bias)
        linear(layer + "feed_forward.down", D, F, config.bias)
        norm(layer + "self_attention_norm.norm", D)
        norm(layer + "feed_forward_norm.norm", D)
    if config.norm_first:
        norm(stack + "norm", D)
    return shapes
