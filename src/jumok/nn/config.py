"""The hyperparameters of one layer and their validation."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal, Self

from jumok.config_io import check_choices, check_range, unknown_key
from jumok.errors import ConfigError
from jumok.nn.rope import DEFAULT_ROPE, RopeConfig
from jumok.registry import Registry

if TYPE_CHECKING:
    from torch import nn

    from jumok.nn.attention import MultiHeadAttention

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Projection = Literal["linear", "conv1d"]
PositionTerms = Literal["both", "content_to_position", "position_to_content"]

MAX_DIMENSION: Final = 2**31
MAX_LAYERS: Final = 1_000  # letters of `layer_pattern`

ATTENTION: "Registry[type[MultiHeadAttention]]" = Registry(
    "jumok.attention",
    "attention",
    {
        "softmax": "jumok.nn.attention:MultiHeadAttention",
        "disentangled": "jumok.nn.disentangled:DisentangledAttention",
    },
)

NORMS: "Registry[Callable[..., nn.Module]]" = Registry(
    "jumok.norms",
    "norm",
    {
        "layer": "torch.nn:LayerNorm",
        "layer_without_bias": "jumok.nn.norms:layer_norm_without_bias",
        "rms": "torch.nn:RMSNorm",
        "rms_offset": "jumok.nn.norms:OffsetRMSNorm",
    },
)


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """The hyperparameters of one layer; the defaults are the base model of the paper (table 3).

    Of a layer:

    d_model          D, the width of every layer's input and output
    n_heads          H, the number of attention heads
    d_head           K, the width of one head; None: d_model / n_heads
    attention        "softmax": equation (1); "disentangled": with scores of content and relative
                     position (DeBERTa); or a name in the registry "jumok.attention"
    position_terms   of disentangled attention: "both", "content_to_position" (query and position),
                     "position_to_content" (key and position)
    share_position_maps  positions become keys and queries by the maps of the tokens (DeBERTa v3)
    position_norm    normalize the vectors of relative positions (DeBERTa v2 and v3)
    n_kv_heads       heads of keys and values, shared by n_heads / n_kv_heads heads; None: n_heads
    qk_norm          normalize each query and key before the rotation (Qwen3)
    fused_qkv        one matrix product for q, k and v of self-attention; the weights are the same
    d_ff             F, the inner width of the feed-forward layer
    activation       of the feed-forward layer: "relu", "gelu", "gelu_tanh" or "silu"
    ffn_projection   "linear", or "conv1d": convolutions with kernel size 1, same weights (3.3)
    gated            multiply the activations by a second projection (T5 v1.1, Llama)
    bias             whether the linear layers have biases
    attention_bias   biases of attention: "all", "qkv", "none"; None: as `bias`
    norm             "layer" (LayerNorm), "layer_without_bias", "rms", "rms_offset" (multiplied
                     by 1 + weight), or a name in the registry "jumok.norms"
    norm_first       normalize before each sublayer (pre-norm), not after it as in the paper
    first_norm       whether the first layer of a pre-norm stack has a norm before its attention
    sublayer_norm    normalize each sublayer's output before it is added (Gemma, EXAONE 4)
    norm_eps         added to the variance
    attention_scale  factor of the scores; None: 1/sqrt(d_head), equation (1)
    attention_softcap  c: scores are c tanh(score / c); None: unchanged
    layer_pattern    a letter for each layer, repeated: G global, L local, N global, no rotation
    sliding_window   keys that a position of a local layer attends to, itself included
    rope             base and scaling of rotary positions
    local_rope       those of local layers; None: as `rope`
    relative_attention_num_buckets   relative positions: parameters for each head; of disentangled
                                     attention: vectors
    relative_attention_max_distance  from here on, distances share the last bucket
    dropout          probability on the output of each sublayer (5.4)
    attention_dropout   on the attention weights
    activation_dropout  inside the feed-forward layer

    Raises InputError for values that do not fit together, such as 7 heads of a width of 512.
    """

    d_model: int = 512
    n_heads: int = 8
    d_head: int | None = None  # None: d_model / n_heads; T5 sets it independently
    attention: str = "softmax"  # name of a `MultiHeadAttention`, or of a class derived from it
    position_terms: PositionTerms = "both"  # of disentangled attention
    share_position_maps: bool = False  # of disentangled attention; True in DeBERTa v3
    position_norm: bool = False  # of disentangled attention; True in DeBERTa v3
    n_kv_heads: int | None = None  # None: n_heads; fewer share keys and values (Llama)
    qk_norm: bool = False  # of each query and key, before the rotation (Qwen3)
    fused_qkv: bool = False  # x [Wq Wk Wv] in one product; same weights, same result
    d_ff: int = 2048
    activation: Activation = "relu"
    ffn_projection: Projection = "linear"  # conv1d: kernel size 1, same weights and result
    gated: bool = False  # True in T5 v1.1
    bias: bool = True  # False in T5: its linear layers have none
    attention_bias: Literal["all", "qkv", "none"] | None = None  # None: as `bias`; qkv in Qwen2
    norm: str = "layer"  # rms_offset in Gemma: multiplied by 1 + weight
    norm_first: bool = False  # True in GPT-2 and T5
    first_norm: bool = True  # False in ModernBERT, whose embedding is normalized instead
    sublayer_norm: bool = False  # of each sublayer's output before it is added; Gemma, EXAONE 4
    norm_eps: float = 1e-5
    attention_scale: float | None = None  # None: 1/sqrt(d_head); 1.0 in T5
    attention_softcap: float | None = None  # c: scores are c tanh(score / c); 50 in Gemma 2
    layer_pattern: str = "G"  # repeated: Global, Local (within the window), No rotation (global)
    sliding_window: int | None = None  # of local layers: this many keys, the query's own included
    rope: RopeConfig = DEFAULT_ROPE  # of rotary positions
    local_rope: RopeConfig | None = None  # of local layers; None: as `rope`
    relative_attention_num_buckets: int = 32  # relative positions: parameters per head
    relative_attention_max_distance: int = 128  # from here on, distances share the last bucket
    dropout: float = 0.1  # on the output of each sublayer (5.4)
    attention_dropout: float = 0.0  # on the weights; 0.1 in BERT
    activation_dropout: float = 0.0  # inside the feed-forward layer; 0.1 in T5

    def __new__(cls, *_: object, **settings: object) -> Self:
        """Raise ConfigError for an unknown keyword, with the nearest name; Python's names none."""
        for name in settings.keys() - {each.name for each in fields(cls)}:
            raise unknown_key(name, [each.name for each in fields(cls)])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_choices(self)
        ATTENTION.check(self.attention)
        NORMS.check(self.norm)
        _check_attention_and_norm(self)
        _check_layer_pattern(self)
        for name in ("d_model", "n_heads", "d_ff"):
            check_dimension(name, getattr(self, name))
        if self.n_kv_heads is not None:
            check_dimension("n_kv_heads", self.n_kv_heads)
            if self.n_heads % self.n_kv_heads:
                raise ConfigError(
                    "nn.n_heads_not_divisible",
                    "n_heads must be divisible by n_kv_heads, got n_heads={n_heads}, "
                    "n_kv_heads={n_kv_heads}; try {nearest_divisor} key/value heads",
                    n_heads=self.n_heads,
                    n_kv_heads=self.n_kv_heads,
                    nearest_divisor=_nearest_divisor(self.n_heads, self.n_kv_heads),
                )
        if self.d_head is None:
            check_divisible(self.d_model, self.n_heads)
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            check_range(name, getattr(self, name), "[0, 1)")

    @property
    def score_scale(self) -> float:
        """The factor of the scores: `attention_scale`, else 1 / sqrt(terms of a score * d_head).

        >>> LayerConfig(d_model=8, n_heads=2).score_scale
        0.5
        """
        if self.attention_scale is not None:
            return self.attention_scale
        terms = 1
        if self.attention == "disentangled":
            terms = 3 if self.position_terms == "both" else 2
        width = self.d_head or self.d_model // self.n_heads
        return float((terms * width) ** -0.5)

    @property
    def qkv_bias(self) -> bool:
        """Whether the maps to queries, keys and values have biases."""
        return self.bias if self.attention_bias is None else self.attention_bias != "none"

    @property
    def attention_output_bias(self) -> bool:
        """Whether the output map of the attention has a bias."""
        return self.bias if self.attention_bias is None else self.attention_bias == "all"

    def layer_kinds(self, n_layers: int) -> str:
        """The letter of `layer_pattern` for each layer.

        >>> LayerConfig(layer_pattern="LLG", sliding_window=4).layer_kinds(4)
        'LLGL'
        """
        pattern = self.layer_pattern
        return "".join(pattern[i % len(pattern)] for i in range(n_layers))


def check_dimension(name: str, size: int) -> None:
    """Raises InputError for a dimension below 1 or above `MAX_DIMENSION`."""
    check_range(name, size, "[1, inf)")
    check_range(name, size, f"[1, {MAX_DIMENSION}]")


def _check_attention_and_norm(config: LayerConfig) -> None:
    """Raises InputError for unusable hyperparameters of attention and norms."""
    if config.d_head is not None:
        check_dimension("d_head", config.d_head)
    for name in ("norm_eps", "attention_scale", "attention_softcap"):
        value = getattr(config, name)
        if value is not None:
            check_range(name, value, "(0, inf)", "; or leave it out")
    buckets = config.relative_attention_num_buckets
    distance = config.relative_attention_max_distance
    if not config.first_norm and not config.norm_first:
        raise ConfigError(
            "nn.first_norm_of_post_norm",
            "first_norm must be true with norm_first = false, whose norms follow the sublayers; "
            "leave it out",
        )
    disentangled = config.attention == "disentangled"
    if disentangled and (buckets % 2 or config.n_kv_heads not in (None, config.n_heads)):
        raise ConfigError(
            "nn.disentangled",
            'attention = "disentangled" needs an even relative_attention_num_buckets and no '
            "n_kv_heads, got {buckets} and {n_kv_heads}; change them",
            buckets=buckets,
            n_kv_heads=config.n_kv_heads,
        )
    # Half of the buckets for either direction: as many as distances, if each has its own.
    least = buckets // 2 + (not disentangled)
    check_range("relative_attention_num_buckets", buckets, f"[4, {MAX_DIMENSION}]")
    more = "; more than half of the buckets"
    check_range("relative_attention_max_distance", distance, f"[{least}, {MAX_DIMENSION}]", more)


def _check_layer_pattern(config: LayerConfig) -> None:
    """Raises InputError for letters other than G, L, N and for windows without local layers."""
    pattern, window = config.layer_pattern, config.sliding_window
    if not 1 <= len(pattern) <= MAX_LAYERS or not set(pattern) <= set("GLN"):
        raise ConfigError(
            "nn.layer_pattern",
            "layer_pattern must be letters G (global), L (local) and N (global without "
            "rotation), got {pattern!r}; try LLLG",
            pattern=pattern[:24],
        )
    if window is not None:
        check_dimension("sliding_window", window)
    if ("L" in pattern) != (window is not None):
        raise ConfigError(
            "nn.sliding_window_without_local_layers",
            "sliding_window must be given with local layers and not without, got "
            "layer_pattern={pattern!r}, sliding_window={window}; {advice}",
            pattern=pattern[:24],
            window=window,
            advice="set sliding_window" if window is None else 'try layer_pattern = "L"',
        )
    if config.local_rope is not None and window is None:
        raise ConfigError(
            "nn.local_rope_without_local_layers",
            "local_rope must be left out without local layers; use rope",
        )


def check_divisible(d_model: int, n_heads: int) -> None:
    """Raise ConfigError unless the width of a model is divided evenly among its heads."""
    if d_model % n_heads:
        raise ConfigError(
            "nn.d_model_not_divisible",
            "d_model must be divisible by n_heads, got d_model={d_model}, n_heads={n_heads}; "
            "try {nearest_divisor} heads",
            d_model=d_model,
            n_heads=n_heads,
            nearest_divisor=_nearest_divisor(d_model, n_heads),
        )


def _nearest_divisor(n: int, target: int) -> int:
    """The divisor of n nearest to `target`; the larger one of a tie.

    >>> _nearest_divisor(512, 7)
    8
    """
    smaller = (i for i in range(1, math.isqrt(n) + 1) if n % i == 0)
    divisors = (divisor for i in smaller for divisor in (i, n // i))
    return min(divisors, key=lambda i: (abs(i - target), -i))
