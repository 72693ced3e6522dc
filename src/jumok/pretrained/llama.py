"""The Llama family: pre-norm decoders with RMSNorm, rotary positions and gated layers.

Llama, Mistral, Qwen2, Qwen3, Gemma 3 (text), EXAONE 3.5 and EXAONE 4. The differences are in the
config: key/value heads, biases, norms, windows and rotations for each layer.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jumok.errors import ModelFileError
from jumok.models.config import TransformerConfig
from jumok.nn.rope import RopeConfig
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_rotary_frequencies
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import NameRule, rule, with_prefix

_ATTENTION = tuple(
    rule(f"self_attn.{theirs}", f"self_attention.{ours}")
    for theirs, ours in (
        *(("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("o_proj", "output")),
        *(("q_norm", "query_norm"), ("k_norm", "key_norm")),
    )
)
_FEED_FORWARD = (
    rule("mlp.gate_proj", "feed_forward.up"),  # the one that is activated
    rule("mlp.up_proj", "feed_forward.gate"),
    rule("mlp.down_proj", "feed_forward.down"),
)
_PRE_NORMS = (
    rule("input_layernorm", "self_attention_norm.norm"),
    rule("post_attention_layernorm", "feed_forward_norm.norm"),
)
_SUBLAYER_NORMS = (
    rule("post_attention_layernorm", "self_attention_norm.sublayer_norm"),
    rule("post_feedforward_layernorm", "feed_forward_norm.sublayer_norm"),
)
_BOTH_NORMS = (
    rule("input_layernorm", "self_attention_norm.norm"),
    rule("pre_feedforward_layernorm", "feed_forward_norm.norm"),
    *_SUBLAYER_NORMS,
)


def _backbone(*norms: NameRule) -> tuple[NameRule, ...]:
    layer = (*_ATTENTION, *_FEED_FORWARD, *norms)
    return (
        rule("model.embed_tokens", "decoder.embedding.tokens"),
        *with_prefix("model.layers.{}", "decoder.stack.layers.{}", layer),
        rule("model.norm", "decoder.stack.norm"),
    )


_EXAONE = (
    rule("transformer.wte", "decoder.embedding.tokens"),
    *with_prefix(
        "transformer.h.{}",
        "decoder.stack.layers.{}",
        (
            rule("ln_1", "self_attention_norm.norm"),
            rule("attn.attention.q_proj", "self_attention.query"),
            rule("attn.attention.k_proj", "self_attention.key"),
            rule("attn.attention.v_proj", "self_attention.value"),
            rule("attn.attention.out_proj", "self_attention.output"),
            rule("ln_2", "feed_forward_norm.norm"),
            rule("mlp.c_fc_0", "feed_forward.up"),
            rule("mlp.c_fc_1", "feed_forward.gate"),
            rule("mlp.c_proj", "feed_forward.down"),
        ),
    ),
    rule("transformer.ln_f", "decoder.stack.norm"),
)
_EXAONE_SYNONYMS = (  # of transformers in memory, and in part in its files of a body alone
    (r"^(model\.)?embed_tokens\b", "transformer.wte"),
    (r"^(model\.)?layers\b", "transformer.h"),
    (r"^(model\.)?norm\b", "transformer.ln_f"),
    (r"\binput_layernorm\b", "ln_1"),
    (r"\bpost_attention_layernorm\b", "ln_2"),
    (r"\bself_attn\.o_proj\b", "attn.attention.out_proj"),
    (r"\bself_attn\b", "attn.attention"),
    (r"\bgate_proj\b", "c_fc_0"),
    (r"\bup_proj\b", "c_fc_1"),
    (r"\bdown_proj\b", "c_proj"),
)


def _common(
    reader: ConfigReader,
    *,
    sizes: tuple[int, int, int, int, int],  # vocabulary, width, feed-forward, layers, heads
    max_length: int,
    n_kv_heads: int | None = None,
    d_head: int | None = None,
    eps: float = 1e-6,
    tied: bool = False,
    layers_key: str = "num_hidden_layers",
    activation_key: str = "hidden_act",
    activation: str = "silu",
    eps_key: str = "rms_norm_eps",
    **own: Any,
) -> TransformerConfig:
    """The config of a family with these defaults; `own` are the fields that it alone has."""
    vocabulary, width, d_ff, layers, heads = sizes
    n_heads = reader.positive_int("num_attention_heads", heads)
    d_model = reader.positive_int("hidden_size", width)
    config: dict[str, Any] = {
        "vocabulary_size": reader.positive_int("vocab_size", vocabulary),
        "d_model": d_model,
        "n_layers": reader.layer_count(layers_key, layers),
        "n_heads": n_heads,
        "n_kv_heads": reader.positive_int("num_key_value_heads", n_kv_heads or n_heads),
        "d_head": reader.positive_int("head_dim", d_head or max(1, d_model // n_heads)),
        "d_ff": reader.positive_int("intermediate_size", d_ff),
        "activation": reader.activation(activation_key, activation),
        "gated": True,
        "bias": False,
        "norm": "rms",
        "norm_first": True,
        "norm_eps": reader.epsilon(eps_key, eps),
        "positions": "rotary",
        "max_length": reader.positive_int("max_position_embeddings", max_length),
        "scale_embedding": False,
        "tie_embeddings": reader.boolean("tie_word_embeddings", tied),
        "dropout": 0.0,
        "attention_dropout": reader.probability("attention_dropout", 0.0),
    }
    return TransformerConfig(**config | own)


def read_rope(
    reader: ConfigReader, base: float, max_length: int, layer_type: str | None = None
) -> RopeConfig:
    """The rotation of a config.json: `rope_parameters` of transformers 5, else the older keys.

    `rope_theta` and `rope_scaling` are the older ones; `layer_type` selects the parameters of one
    kind of layer where they differ.
    """
    name, parameters = "rope_parameters", reader.table("rope_parameters")
    nested = parameters.get(layer_type) if layer_type else None
    if isinstance(nested, Mapping):
        name, parameters = f"{name}.{layer_type}", nested
    elif any(isinstance(value, Mapping) for value in parameters.values()):
        parameters = {}
    if not parameters:
        name = "rope_scaling"
        parameters = {"rope_theta": reader.get("rope_theta"), **reader.table("rope_scaling")}
    rope = reader.reader_of(name, parameters)
    kind = rope.string("rope_type", rope.string("type", "default"))
    if kind not in ("default", "linear", "llama3"):
        raise ModelFileError(
            "pretrained.unknown_rope_type",
            "config.json: rope_type must be default, linear or llama3, got {ascii}, which jumok "
            "does not support; use another checkpoint",
            ascii=ascii(kind)[:40],
        )
    rope.check_supported("partial_rotary_factor", 1.0, 1)
    theta = rope.positive_number("rope_theta", base)
    if kind == "default":
        return RopeConfig(base=theta)
    factor = rope.positive_number("factor", 1.0)
    if kind == "linear":
        return RopeConfig(base=theta, scaling="linear", factor=factor)
    return RopeConfig(
        base=theta,
        scaling="llama3",
        factor=factor,
        low_frequency_factor=rope.positive_number("low_freq_factor", 1.0),
        high_frequency_factor=rope.positive_number("high_freq_factor", 4.0),
        original_length=rope.positive_int("original_max_position_embeddings", max_length),
    )


def read_layers(reader: ConfigReader, default: str, window: int | None) -> dict[str, Any]:
    """The pattern of local and global layers: `layer_types`, else `default`.

    `default` has a letter for each layer. Without a window all layers are global.
    """
    names = reader.get("layer_types")
    if names is not None:
        letters = {"full_attention": "G", "sliding_attention": "L"}
        if not isinstance(names, list) or not all(name in letters for name in map(str, names)):
            raise ModelFileError(
                "pretrained.unknown_layer_types",
                "config.json: layer_types must be a list of full_attention and "
                "sliding_attention, got {ascii}",
                ascii=ascii(names)[:60],
            )
        if len(names) != len(default):
            raise ModelFileError(
                "pretrained.number_of_layer_types",
                "config.json: layer_types must name {n_default} layers, got {n_names}",
                n_default=len(default),
                n_names=len(names),
            )
        default = "".join(letters[str(name)] for name in names)
    if window is None or "L" not in default:
        return {"layer_pattern": "G", "sliding_window": None}
    pattern = "L" if set(default) == {"L"} else default
    return {"layer_pattern": pattern, "sliding_window": window}


def _window(reader: ConfigReader, default: int | None) -> int | None:
    if "sliding_window" in reader.values and reader.values["sliding_window"] is None:
        return None
    return default if default is None else reader.positive_int("sliding_window", default)


def _llama(reader: ConfigReader) -> TransformerConfig:
    reader.check_supported("pretraining_tp", 1)
    length = reader.positive_int("max_position_embeddings", 2048)
    return _common(
        reader,
        sizes=(32_000, 4096, 11_008, 32, 32),
        max_length=2048,
        bias=reader.boolean("mlp_bias", False),
        attention_bias="all" if reader.boolean("attention_bias", False) else "none",
        rope=read_rope(reader, 10_000.0, length),
    )


def _mistral(reader: ConfigReader) -> TransformerConfig:
    reader.check_supported("layer_types")
    length = reader.positive_int("max_position_embeddings", 131_072)
    window = _window(reader, 4096)
    layers = reader.layer_count("num_hidden_layers", 32)
    return _common(
        reader,
        sizes=(32_000, 4096, 14_336, 32, 32),
        max_length=131_072,
        n_kv_heads=8,
        rope=read_rope(reader, 10_000.0, length),
        **read_layers(reader, "L" * layers, window),
    )


def _qwen(reader: ConfigReader, **own: Any) -> TransformerConfig:
    length = reader.positive_int("max_position_embeddings", 32_768)
    layers = reader.layer_count("num_hidden_layers", 32)
    first = reader.non_negative_int("max_window_layers", 28)
    window = _window(reader, 4096) if reader.boolean("use_sliding_window", False) else None
    pattern = "".join("L" if i >= first else "G" for i in range(layers))
    return _common(
        reader,
        sizes=(151_936, 4096, 22_016, 32, 32),
        max_length=32_768,
        n_kv_heads=32,
        rope=read_rope(reader, 10_000.0, length),
        **read_layers(reader, pattern, window),
        **own,
    )


def _qwen3(reader: ConfigReader) -> TransformerConfig:
    bias = "all" if reader.boolean("attention_bias", False) else "none"
    return _qwen(reader, qk_norm=True, attention_bias=bias, d_head=128)


def _gemma3(reader: ConfigReader) -> TransformerConfig:
    reader.check_supported("use_bidirectional_attention", False)
    reader.check_supported("attn_logit_softcapping")  # transformers 5 ignores it
    length = reader.positive_int("max_position_embeddings", 131_072)
    layers = reader.layer_count("num_hidden_layers", 26)
    every = reader.positive_int("sliding_window_pattern", 6)
    pattern = "".join("L" if (i + 1) % every else "G" for i in range(layers))
    found = read_layers(reader, pattern, _window(reader, 4096))
    rope = read_rope(reader, 1_000_000.0, length, "full_attention")
    base = reader.positive_number("rope_local_base_freq", 10_000.0)
    local = _local_rope(reader, base, length) if found["sliding_window"] is not None else None
    cap = reader.get("final_logit_softcapping")
    return _common(
        reader,
        sizes=(262_208, 2304, 9216, 26, 8),
        max_length=131_072,
        n_kv_heads=4,
        d_head=256,
        tied=True,
        activation_key="hidden_activation",
        activation="gelu_pytorch_tanh",
        norm="rms_offset",
        sublayer_norm=True,
        qk_norm=True,
        scale_embedding=True,
        attention_scale=reader.positive_number("query_pre_attn_scalar", 256.0) ** -0.5,
        attention_bias="all" if reader.boolean("attention_bias", False) else "none",
        output_softcap=None
        if cap is None
        else reader.positive_number("final_logit_softcapping", 1),
        rope=rope,
        local_rope=local,
        **found,
    )


def _local_rope(reader: ConfigReader, base: float, length: int) -> RopeConfig:
    """Local layers have a rotation of their own, never scaled in files of older versions."""
    nested = reader.table("rope_parameters").get("sliding_attention")
    if isinstance(nested, Mapping):
        return read_rope(reader, base, length, "sliding_attention")
    return RopeConfig(base=base)


def _exaone4(reader: ConfigReader) -> TransformerConfig:
    length = reader.positive_int("max_position_embeddings", 2048)
    layers = reader.layer_count("num_hidden_layers", 32)
    window = _window(reader, 4096)
    found = read_layers(reader, _exaone4_pattern(reader, layers, window), window)
    if window is not None:  # then only local layers are rotated
        found["layer_pattern"] = found["layer_pattern"].replace("G", "N")
    return _common(
        reader,
        sizes=(102_400, 4096, 16_384, 32, 32),
        max_length=2048,
        n_kv_heads=32,
        eps=1e-5,
        norm_first=False,
        sublayer_norm=True,
        qk_norm=True,
        rope=read_rope(reader, 10_000.0, length),
        **found,
    )


def _exaone4_pattern(reader: ConfigReader, layers: int, window: int | None) -> str:
    """A letter for each layer: every n-th is global, or a pattern such as LLLG is repeated."""
    if window is None or reader.get("layer_types") is not None:
        return "G" * layers
    pattern = reader.get("sliding_window_pattern", 4)
    if isinstance(pattern, str) and pattern and set(pattern) <= set("LG"):
        letters = "".join(pattern[i % len(pattern)] for i in range(layers))
        return letters[:-1] + "G"  # the last layer is global whatever the pattern
    every = reader.positive_int("sliding_window_pattern", 4)
    return "".join("L" if (i + 1) % every else "G" for i in range(layers))


def _exaone(reader: ConfigReader) -> TransformerConfig:
    """Files of the published code; without its `num_layers`, of transformers (5.24 and later)."""
    published = "num_layers" in reader.values
    length = 2048 if published else 4096

    def key(older: str, newer: str) -> str:
        return older if older in reader.values else newer

    return _common(
        reader,
        sizes=(102_400, 4096, 16_384 if published else 14_336, 32, 32),
        max_length=length,
        n_kv_heads=None if published else 8,
        eps=1e-5,
        bias=reader.boolean("mlp_bias", False),
        attention_bias="all" if reader.boolean("attention_bias", False) else "none",
        layers_key=key("num_layers", "num_hidden_layers"),
        activation_key=key("activation_function", "hidden_act"),
        eps_key=key("layer_norm_epsilon", "rms_norm_eps"),
        rope=read_rope(
            reader,
            10_000.0 if published else 500_000.0,
            reader.positive_int("max_position_embeddings", length),
        ),
    )


def _family(
    model_type: str,
    name: str,
    read_config: Callable[[ConfigReader], TransformerConfig],
    backbone: tuple[NameRule, ...],
    *,
    body: str = "",
    tied: bool = False,
    same_as: str = "",
    synonyms: tuple[tuple[str, str], ...] = (),
) -> Family:
    """A family whose classes are called `name`..., or `same_as`... as well."""
    prefix = backbone[0].hf_name.partition(".")[0] + "."
    tokens = f"{backbone[0].hf_name}.weight"

    def heads(reader: ConfigReader) -> Mapping[str, Head]:
        shares = reader.boolean("tie_word_embeddings", tied)
        aliases = {"lm_head.weight": tokens} if shares else {}
        found: dict[str, Head] = {}
        for each in filter(None, (name, same_as)):
            found[f"{each}ForCausalLM"] = Head(
                "language_model", (rule("lm_head", "output"),), aliases=aliases
            )
            found[body or f"{each}Model"] = Head("decoder", has_task=False)
        return found

    return Family(
        model_type=model_type,
        prefix=prefix,
        read_config=read_config,
        backbone=lambda config: backbone,
        heads=heads,
        derived_buffers={r".*rotary(_emb)?\.inv_freq": is_rotary_frequencies},
        synonyms=synonyms,
    )


LLAMA = _family("llama", "Llama", _llama, _backbone(*_PRE_NORMS))
MISTRAL = _family("mistral", "Mistral", _mistral, _backbone(*_PRE_NORMS))
QWEN2 = _family(
    "qwen2", "Qwen2", lambda reader: _qwen(reader, attention_bias="qkv"), _backbone(*_PRE_NORMS)
)
QWEN3 = _family("qwen3", "Qwen3", _qwen3, _backbone(*_PRE_NORMS))
GEMMA3 = _family(
    "gemma3_text",
    "Gemma3",
    _gemma3,
    _backbone(*_BOTH_NORMS),
    body="Gemma3TextModel",
    tied=True,
)
EXAONE4 = _family("exaone4", "Exaone4", _exaone4, _backbone(*_SUBLAYER_NORMS))
EXAONE = _family("exaone", "Exaone", _exaone, _EXAONE, same_as="Llama", synonyms=_EXAONE_SYNONYMS)
