"""GPT-2 (Radford et al. 2019): skt/kogpt2 and its kind, a pre-norm decoder.

Its linear maps are kept as (in, out), and query, key and value lie side by side in one of them.
"""

from collections.abc import Mapping

from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.derived_buffers import large_negative, triangle
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import CONV1D, line, under

LAYER = (
    line("ln_1", "around_attention.norm"),
    line("attn.c_attn", "attention.query", "attention.key", "attention.value", turn=CONV1D),
    line("attn.c_proj", "attention.output", turn=CONV1D),
    line("ln_2", "around_feed_forward.norm"),
    line("mlp.c_fc", "feed_forward.up", turn=CONV1D),
    line("mlp.c_proj", "feed_forward.down", turn=CONV1D),
)
DECODER = (
    line("wte", "decoder.embedding.tokens"),
    line("wpe", "decoder.embedding.positions"),
    *under("h.{}", "decoder.stack.layers.{}", LAYER),
    line("ln_f", "decoder.stack.norm"),
)


def _config(settings: Settings) -> TransformerConfig:
    settings.refuse("scale_attn_by_inverse_layer_idx", False)
    settings.refuse("add_cross_attention", False)
    width = settings.size("n_embd", 768)
    return TransformerConfig(
        vocabulary_size=settings.size("vocab_size", 50_257),
        d_model=width,
        n_layers=settings.layers("n_layer", 12),
        n_heads=settings.size("n_head", 12),
        d_ff=settings.size("n_inner", 4 * width),
        activation=settings.activation("activation_function", "gelu_new"),
        norm_first=True,
        norm_eps=settings.small("layer_norm_epsilon", 1e-5),
        attention_scale=None if settings.flag("scale_attn_weights", True) else 1.0,
        positions="learned",
        max_length=settings.size("n_positions", 1_024),
        scale_embedding=False,
        tie_embeddings=settings.flag("tie_word_embeddings", True),
        dropout=settings.share("resid_pdrop", 0.1),
        attention_dropout=settings.share("attn_pdrop", 0.1),
    )


def _heads(settings: Settings) -> Mapping[str, Head]:
    tied = settings.flag("tie_word_embeddings", True)
    return {
        "GPT2LMHeadModel": Head(
            "language_model",
            (line("lm_head", "output"),),
            same={"lm_head.weight": "transformer.wte.weight"} if tied else {},
        ),
        "GPT2Model": Head("decoder", answers=False),
    }


GPT2 = Family(
    model_type="gpt2",
    prefix="transformer.",
    config=_config,
    body=lambda config: under("transformer", "", DECODER),
    heads=_heads,
    computed={
        r"transformer\.h\.\d+\.attn\.bias": triangle,
        r"transformer\.h\.\d+\.attn\.masked_bias": large_negative,
    },
)
