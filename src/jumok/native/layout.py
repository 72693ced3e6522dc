"""Where the weights of a model go in the C++ kernel: names, dimensions, tables; numpy alone.

A model is a config and arrays by the names of its weights. Matrices of a file stay as they are:
float32, float16, or bfloat16 as its bits in uint16. Kernel names are those of kernel/transformer.h.

Shapes: D d_model, E width of the embedding, A heads * d_head, F d_ff, K d_head, P positions.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jumok.errors import Message
from jumok.models.config import MAX_TABLE_POSITIONS, TransformerConfig
from jumok.native.library import ModelDims
from jumok.nn.rope import DEFAULT_ROPE, RopeConfig

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


GeneratorKind = Literal["encoder_decoder", "decoder"]


def encoder_dims(config: TransformerConfig) -> ModelDims:
    """The dimensions of an encoder with this config."""
    return _dims(config, encoder_layers=config.n_layers, vocabulary=config.vocabulary_size)


def generator_dims(config: TransformerConfig, kind: GeneratorKind) -> ModelDims:
    """The dimensions of an encoder-decoder, or of a language model, with this config."""
    has_encoder = kind == "encoder_decoder"
    return _dims(
        config,
        encoder_layers=config.n_layers if has_encoder else 0,
        decoder_layers=decoder_layers(config),
        cross=has_encoder,
        vocabulary=config.output_size,
    )


def decoder_layers(config: TransformerConfig) -> int:
    """The layers of the decoder."""
    return config.n_layers if config.n_decoder_layers is None else config.n_decoder_layers


def _dims(config: TransformerConfig, **parts: int) -> ModelDims:
    d_head = config.d_head or config.d_model // config.n_heads
    return ModelDims(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads or config.n_heads,
        d_head=d_head,
        d_ff=config.d_ff,
        max_length=table_positions(config.max_length),
        activation=ACTIVATIONS.index(config.activation),
        gated=config.gated,
        rms=config.norm.startswith("rms"),
        norm_first=config.norm_first,
        sublayer_norm=config.sublayer_norm,
        qk_norm=config.qk_norm,
        embedding_norm=config.embedding_norm,
        norm_eps=config.norm_eps,
        attention_scale=config.score_scale,
        embedding_scale=math.sqrt(config.embedding_dim) if config.scale_embedding else 1.0,
        **parts,
    )


def unsupported_encoder(config: TransformerConfig) -> Message | None:
    """Why the kernel cannot compute an encoder of this config from its ids; None if it can.

    >>> unsupported_encoder(TransformerConfig())
    >>> print(unsupported_encoder(TransformerConfig(qk_norm=True)))
    the kernel does not compute encoders with norms of queries and keys
    """
    found = {
        "attention of an extension": config.attention not in ("softmax", "disentangled"),
        "grouped key/value heads": config.n_kv_heads not in (None, config.n_heads),
        "norms of queries and keys": config.qk_norm,
        "an attention softcap": config.attention_softcap is not None,
        "norms after sublayers": config.sublayer_norm,
        "norms of an extension": config.norm not in (*_LAYER_NORMS, "rms"),
        "positions of an extension": config.positions not in _POSITIONS,
        "layers without rotation": "N" in config.layer_pattern,
        "a rope scaling": any(
            rope is not None and rope != RopeConfig(base=rope.base)
            for rope in (config.rope, config.local_rope)
        ),
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


def unsupported_generator(config: TransformerConfig, kind: GeneratorKind) -> Message | None:
    """Why the kernel cannot compute a model of this config that generates; None if it can.

    >>> unsupported_generator(TransformerConfig(n_kv_heads=4, qk_norm=True), "decoder")
    >>> print(unsupported_generator(TransformerConfig(scale_output=True), "encoder_decoder"))
    the kernel does not compute models with scaling before the output
    """
    if kind == "encoder_decoder":
        reason = unsupported_encoder(config)
        if reason is not None:
            return reason
    found = {
        "local layers": "L" in config.layer_pattern and kind == "encoder_decoder",
        "disentangled attention": config.attention == "disentangled",
        "scaling before the output": config.scale_output and kind == "encoder_decoder",
        "a softcap": (config.output_softcap, config.attention_softcap) != (None, None),
        "attention of an extension": config.attention != "softmax",
        "norms of an extension": config.norm not in (*_LAYER_NORMS, "rms", "rms_offset"),
        "positions of an extension": config.positions not in _POSITIONS,
        "a rope base or scaling": (config.rope, config.local_rope) != (DEFAULT_ROPE, None),
        "embeddings of another width": config.d_embedding is not None,
    }
    for what, has in found.items():
        if has:
            return Message(
                "kernel.unsupported_generator",
                "the kernel does not compute models with {what}",
                what=what,
            )
    return None


_LAYER_NORMS = ("layer", "layer_without_bias")
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
    config: TransformerConfig, arrays: Arrays, side: str = "encoder"
) -> Iterator[tuple[str, Floats]]:
    """The tables of the positions and segments of one side, and the windows of its layers."""
    n, kind, prefix = table_positions(config.max_length), config.positions, f"{side}."
    first = config.position_offset
    if kind == "learned":
        table = arrays[f"{prefix}embedding.positions.weight"]
        yield f"{side}.positions", to_float32(table[first : first + n])
    elif kind in ("sinusoidal", "sinusoidal_halves", "sinusoidal_rotary"):
        halves = kind == "sinusoidal_halves"
        table = sinusoids(first + n, config.embedding_dim, halves=halves)
        yield f"{side}.positions", table[first:]
    if kind in ("rotary", "sinusoidal_rotary"):
        d_head = config.d_head or config.d_model // config.n_heads
        for layers, rope in (("", config.rope), ("local_", config.local_rope)):
            if rope is not None:
                cosine, sine = rotary_tables(n, d_head, rope.base)
                yield f"{side}.{layers}cosine", cosine
                yield f"{side}.{layers}sine", sine
    elif kind == "relative":
        yield (
            f"{side}.relative",
            relative_table(
                n,
                to_float32(arrays[f"{prefix}stack.relative.bias.weight"]),
                config.relative_attention_max_distance,
                bidirectional=side == "encoder",
            ),
        )
    if config.attention == "disentangled":
        where = RelativeLayout.of(config)
        yield from relative_vectors(side, arrays, f"{prefix}stack.", n, where)
    if side == "encoder":
        yield from encoder_windows(config.layer_kinds(config.n_layers), config.sliding_window)
    if f"{prefix}embedding.segments.weight" in arrays:
        yield f"{side}.segments", to_float32(arrays[f"{prefix}embedding.segments.weight"])


@dataclass(frozen=True)
class RelativeLayout:
    """Where the relative positions of a stack with disentangled attention are.

    `terms` are the names of the keys and queries in the kernel, those that there are, and of the
    map in an attention that makes them.
    """

    n_layers: int
    n_heads: int
    max_distance: int
    norm_eps: float
    rms: bool
    terms: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, config: TransformerConfig) -> "RelativeLayout":
        """That of an encoder with this config."""
        shared = config.share_position_maps
        terms = (
            ("position_key", "key" if shared else "position_key"),
            ("position_query", "query" if shared else "position_query"),
        )
        kept = {"content_to_position": terms[:1], "position_to_content": terms[1:]}
        return cls(
            *(config.n_layers, config.n_heads, config.relative_attention_max_distance),
            *(config.norm_eps, config.norm == "rms", kept.get(config.position_terms, terms)),
        )


def relative_vectors(
    side: str, arrays: Arrays, prefix: str, length: int, layout: RelativeLayout
) -> Iterator[tuple[str, Floats]]:
    """The buckets of distances, and the keys and queries of relative positions of each layer.

    The weights begin with `prefix`, such as "encoder.stack.".
    """
    vectors = to_float32(arrays[f"{prefix}relative.table.weight"])  # (N, D)
    norm = dict(norm_vectors("norm", arrays, f"{prefix}relative.norm"))
    if norm:
        vectors = apply_norm(norm, vectors, layout.norm_eps, rms=layout.rms)
    yield f"{side}.buckets", distance_buckets(length, len(vectors), layout.max_distance)
    for index in range(layout.n_layers):
        for name, linear in layout.terms:
            module = f"{prefix}layers.{index}.self_attention.{linear}"
            found = vectors @ to_float32(arrays[f"{module}.weight"]).T  # (N, A)
            if f"{module}.bias" in arrays:
                found = found + to_float32(arrays[f"{module}.bias"])
            by_head = found.reshape(len(found), layout.n_heads, -1).swapaxes(0, 1)  # (H, N, K)
            yield f"{side}.{index}.{name}", np.ascontiguousarray(by_head)


def generator_tables(
    config: TransformerConfig, side: str, arrays: Arrays
) -> Iterator[tuple[str, Floats]]:
    """The tables of one side of a model that generates; all of its tokens are of segment 0."""
    tables = dict(position_tables(config, arrays, side))
    segments = tables.pop(f"{side}.segments", None)
    if segments is not None:
        n, name = table_positions(config.max_length), f"{side}.positions"
        first = np.broadcast_to(segments[:1], (n, segments.shape[1]))
        tables[name] = tables[name] + first if name in tables else first
    yield from tables.items()


def encoder_windows(kinds: str, window: int | None) -> Iterator[tuple[str, Floats]]:
    """The window of each local layer of an encoder: `kinds` has a letter for each layer.

    >>> list(encoder_windows("GL", 5))
    [('encoder.1.window', array([5.], dtype=float32))]
    """
    for index, kind in enumerate(kinds):
        if kind == "L":
            yield f"encoder.{index}.window", np.array([window], np.float32)


def decoder_layer_rotations(config: TransformerConfig) -> list[tuple[int, int]]:
    """The window of each layer of a decoder (0: none), and its rotation: 0 none, 1 shared."""
    kinds = config.layer_kinds(decoder_layers(config))
    return [(config.sliding_window or 0 if kind == "L" else 0, int(kind != "N")) for kind in kinds]


def tied_names(config: TransformerConfig, kind: GeneratorKind) -> dict[str, str]:
    """The weights of a model that generates which are others, and under which names these are.

    >>> tied_names(TransformerConfig(), "decoder")
    {'output.weight': 'decoder.embedding.tokens.weight'}
    """
    source, target = (f"{side}.embedding.tokens.weight" for side in ("encoder", "decoder"))
    tied: dict[str, str] = {}
    if kind == "encoder_decoder" and config.tying in ("all", "inputs"):
        tied[target] = source
    if config.tying in ("all", "target"):
        tied["output.weight"] = tied.get(target, target)
    return tied


def token_tables(config: TransformerConfig, kind: GeneratorKind) -> Iterator[tuple[str, str]]:
    """The output map and the tables of tokens that are not tied to it: kernel name and module."""
    tied = tied_names(config, kind)
    output = tied.get("output.weight", "output.weight")
    yield "output", "output"
    for name, side in (("source", "encoder"), ("target", "decoder")):
        module = f"{side}.embedding.tokens"
        if side == "encoder" and kind == "decoder":
            continue
        if tied.get(f"{module}.weight", f"{module}.weight") != output:
            yield name, module


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


def rotary_tables(
    length: int, d_head: int, base: float = DEFAULT_ROPE.base
) -> tuple[Floats, Floats]:
    """The cosines and sines of rotary positions without scaling, 2 x (P, K).

    Angles are float32, as `jumok.nn.rope` computes them.
    """
    exponent = np.arange(0, d_head, 2, dtype=np.float32) / np.float32(d_head)
    power = (base ** exponent.astype(np.float64)).astype(np.float32)
    angle = np.arange(length, dtype=np.float32)[:, None] * (np.float32(1) / power)  # (P, K/2)
    both = np.concatenate([angle, angle], -1).astype(np.float64)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def relative_table(
    length: int, bias: Floats, max_distance: int, *, bidirectional: bool = True
) -> Floats:
    """T5's bias of every distance from 1 - P to P - 1, (H, 2 P - 1), of bias (buckets, H)."""
    n_buckets = len(bias) // 2 if bidirectional else len(bias)
    n_exact = n_buckets // 2
    signed = np.arange(1 - length, length)  # key minus query
    distance = np.abs(signed) if bidirectional else np.maximum(-signed, 0)
    far = np.maximum(distance, 1).astype(np.float32) / np.float32(n_exact)
    ratio = np.log(far) / np.float32(math.log(max_distance / n_exact))
    bucket = n_exact + (ratio * np.float32(n_buckets - n_exact)).astype(np.int64)
    bucket = np.where(distance < n_exact, distance, np.minimum(bucket, n_buckets - 1))
    if bidirectional:
        bucket = bucket + (signed > 0) * n_buckets
    return np.ascontiguousarray(bias[bucket].T)


def distance_buckets(length: int, n_buckets: int, max_distance: int) -> Floats:
    """`RelativeEmbedding.bucket` of every distance from 1 - P to P - 1, query minus key: (2 P - 1).

    >>> distance_buckets(4, 8, 16)
    array([1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    half = n_buckets // 2
    distance = np.arange(1 - length, length)
    if half < max_distance:
        n_single = half // 2
        far = np.maximum(np.abs(distance), n_single).astype(np.float32) / np.float32(n_single)
        longest = np.float32(math.log(np.float32((max_distance - 1) / n_single)))
        ratio = np.log(far.astype(np.float64)).astype(np.float32) / longest
        shared = n_single + np.ceil(ratio * np.float32(n_single - 1)).astype(np.int64)
        distance = np.where(np.abs(distance) <= n_single, distance, shared * np.sign(distance))
    return np.clip(distance + half, 0, n_buckets - 1).astype(np.float32)


def apply_norm(norm: Mapping[str, Floats], x: Floats, eps: float, *, rms: bool) -> Floats:
    """LayerNorm or RMSNorm of each row x (n, D), with "norm.weight" and perhaps "norm.bias"."""
    centered = x if rms else x - x.mean(-1, keepdims=True)
    variance = np.square(centered).mean(-1, keepdims=True)
    y: Floats = centered / np.sqrt(variance + np.float32(eps)) * norm["norm.weight"]
    return y + norm["norm.bias"] if "norm.bias" in norm else y


Shapes = dict[str, tuple[int, ...]]


def encoder_shapes(config: TransformerConfig) -> Shapes:
    """The shape of every weight of an `Encoder` that the kernel supports, by its name.

    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> encoder_shapes(config)["encoder.embedding.tokens.weight"]
    (10, 8)
    """
    return _side_shapes("encoder", config, config.n_layers, config.vocabulary_size)


def generator_shapes(config: TransformerConfig, kind: GeneratorKind) -> Shapes:
    """The same of a model that generates; tied weights have the first of their names."""
    shapes: Shapes = {"output.weight": (config.output_size, config.d_model)}
    if config.output_bias:
        shapes["output.bias"] = (config.output_size,)
    if kind == "encoder_decoder":
        shapes |= encoder_shapes(config)
    cross = kind == "encoder_decoder"
    shapes |= _side_shapes(
        "decoder", config, decoder_layers(config), config.output_size, cross=cross
    )
    tied = tied_names(config, kind)
    return {name: shape for name, shape in shapes.items() if name not in tied}


def _side_shapes(
    side: str, config: TransformerConfig, n_layers: int, vocabulary: int, *, cross: bool = False
) -> Shapes:
    D, E, F = config.d_model, config.embedding_dim, config.d_ff
    K = config.d_head or D // config.n_heads
    A, A_kv = config.n_heads * K, (config.n_kv_heads or config.n_heads) * K
    shapes: Shapes = {}

    def linear(name: str, outputs: int, inputs: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = (outputs, inputs)
        if bias:
            shapes[f"{name}.bias"] = (outputs,)

    def norm(name: str, width: int) -> None:
        shapes[f"{name}.weight"] = (width,)
        if config.norm == "layer":
            shapes[f"{name}.bias"] = (width,)

    embedding, stack = f"{side}.embedding.", f"{side}.stack."
    shapes[embedding + "tokens.weight"] = (vocabulary, E)
    if config.positions == "learned":
        rows = config.position_offset + config.max_length
        shapes[embedding + "positions.weight"] = (rows, E)
    if config.positions == "relative":
        buckets = config.relative_attention_num_buckets
        shapes[stack + "relative.bias.weight"] = (buckets, config.n_heads)
    if config.attention == "disentangled":
        shapes[stack + "relative.table.weight"] = (config.relative_attention_num_buckets, D)
        if config.position_norm:
            norm(stack + "relative.norm", D)
    if config.n_segments:
        shapes[embedding + "segments.weight"] = (config.n_segments, E)
    if config.embedding_norm:
        norm(embedding + "norm", E)
    if config.d_embedding is not None:
        linear(embedding + "projection", D, E, bias=True)
    attentions = ("self_attention", "cross_attention") if cross else ("self_attention",)
    for index in range(n_layers):
        layer = f"{stack}layers.{index}."
        for attention in attentions:
            linear(f"{layer}{attention}.query", A, D, config.qkv_bias)
            for name in ("key", "value"):
                linear(f"{layer}{attention}.{name}", A_kv, D, config.qkv_bias)
            linear(f"{layer}{attention}.output", D, A, config.attention_output_bias)
            if config.attention == "disentangled" and not config.share_position_maps:
                for name, without in (
                    ("position_key", "position_to_content"),
                    ("position_query", "content_to_position"),
                ):
                    if config.position_terms != without:
                        linear(f"{layer}{attention}.{name}", A, D, config.qkv_bias)
            if config.qk_norm:
                norm(f"{layer}{attention}.query_norm", K)
                norm(f"{layer}{attention}.key_norm", K)
        for name in ("up", "gate") if config.gated else ("up",):
            linear(f"{layer}feed_forward.{name}", F, D, config.bias)
        linear(layer + "feed_forward.down", D, F, config.bias)
        for sublayer in (*attentions, "feed_forward"):
            first = index == 0 and sublayer == "self_attention"
            if (config.norm_first or not config.sublayer_norm) and (config.first_norm or not first):
                norm(f"{layer}{sublayer}_norm.norm", D)
            if config.sublayer_norm:
                norm(f"{layer}{sublayer}_norm.sublayer_norm", D)
    if config.norm_first or config.sublayer_norm:
        norm(stack + "norm", D)
    return shapes
