"""GPT-2 (Radford et al. 2019), for example skt/kogpt2: a pre-norm decoder.

Its linear maps are stored as (in, out), with query, key and value concatenated in one of them.
"""

from collections.abc import Mapping

from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_causal_mask, is_negative_infinity
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import CONV1D, rule, with_prefix

LAYER = (
    rule("ln_1", "self_attention_norm.norm"),
    rule(
        "attn.c_attn",
        "self_attention.query",
        "self_attention.key",
        "self_attention.value",
        transform=CONV1D,
    ),
    rule("attn.c_proj", "self_attention.output", transform=CONV1D),
    rule("ln_2", "feed_forward_norm.norm"),
    rule("mlp.c_fc", "feed_forward.up", transform=CONV1D),
    rule("mlp.c_proj", "feed_forward.down", transform=CONV1D),
)
DECODER = (
    rule("wte", "decoder.embedding.tokens"),
    rule("wpe", "decoder.embedding.positions"),
    *with_prefix("h.{}", "decoder.stack.layers.{}", LAYER),
    rule("ln_f", "decoder.stack.norm"),
)


def _config(reader: ConfigReader) -> TransformerConfig:
    reader.check_supported("scale_attn_by_inverse_layer_idx", False)
    reader.check_supported("add_cross_attention", False)
    width = reader.positive_int("n_embd", 768)
    return TransformerConfig(
        vocabulary_size=reader.positive_int("vocab_size", 50_257),
        d_model=width,
        n_layers=reader.layer_count("n_layer", 12),
        n_heads=reader.positive_int("n_head", 12),
        d_ff=reader.positive_int("n_inner", 4 * width),
        activation=reader.activation("activation_function", "gelu_new"),
        norm_first=True,
        norm_eps=reader.epsilon("layer_norm_epsilon", 1e-5),
        attention_scale=None if reader.boolean("scale_attn_weights", True) else 1.0,
        positions="learned",
        max_length=reader.positive_int("n_positions", 1_024),
        scale_embedding=False,
        tie_embeddings=reader.boolean("tie_word_embeddings", True),
        dropout=reader.probability("resid_pdrop", 0.1),
        attention_dropout=reader.probability("attn_pdrop", 0.1),
    )


def _heads(reader: ConfigReader) -> Mapping[str, Head]:
    tied = reader.boolean("tie_word_embeddings", True)
    return {
        "GPT2LMHeadModel": Head(
            "language_model",
            (rule("lm_head", "output"),),
            aliases={"lm_head.weight": "transformer.wte.weight"} if tied else {},
        ),
        "GPT2Model": Head("decoder", has_task=False),
    }


GPT2 = Family(
    model_type="gpt2",
    prefix="transformer.",
    read_config=_config,
    backbone=lambda config: with_prefix("transformer", "", DECODER),
    heads=_heads,
    derived_buffers={
        r"transformer\.h\.\d+\.attn\.bias": is_causal_mask,
        r"transformer\.h\.\d+\.attn\.masked_bias": is_negative_infinity,
    },
)
