"""Random configurations of ModernBERT and DeBERTa, drawn from a seed.

Heads, widths, biases, tied tables, activations, pooling; windows shorter than the texts and two
rotations; buckets of distances and each term of the attention of DeBERTa.
"""

import random
from typing import Any

from tests.pretrained.hf_variants import Variant

HEADS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
SPECIAL = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
ACTIVATIONS = ("gelu", "relu", "silu", "gelu_new")


def random_encoder(family: str, seed: int) -> Variant:
    """The configuration of this family and seed."""
    draw = random.Random(f"{family} {seed}")
    heads = draw.choice([1, 2, 3, 4, 6])
    values: dict[str, Any] = {
        "vocab_size": draw.randint(51, 90),
        "hidden_size": 2 * heads * draw.randint(2, 6),
        "intermediate_size": draw.randint(5, 60),
        "num_hidden_layers": draw.randint(1, 4),
        "num_attention_heads": heads,
        "max_position_embeddings": draw.randint(18, 40),
        "tie_word_embeddings": draw.random() < 0.7,
        "pad_token_id": 0,
        **dict.fromkeys(SPECIAL, 1),
        "num_labels": draw.randint(1, 5),
    }
    head = HEADS[seed % len(HEADS)]
    values |= _OWN[family](draw, values["num_hidden_layers"])
    name, config = FAMILIES[family]
    return Variant(f"{family}-random-{seed}", name + head, config, values)


def _modernbert(draw: random.Random, layers: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "hidden_activation": draw.choice(ACTIVATIONS),
        "classifier_activation": draw.choice(ACTIVATIONS),
        "norm_eps": draw.choice([1e-6, 1e-5, 1e-3]),
        "local_attention": draw.choice([1, 2, 4, 5, 10, 16, 100]),
        "classifier_pooling": draw.choice(["cls", "mean"]),
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": draw.choice([50.0, 1e4, 1.6e5])}
            for kind in ("full_attention", "sliding_attention")
        },
    }
    for name in ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"):
        found[name] = draw.random() < 0.3
    if draw.random() < 0.5:
        return found | {"global_attn_every_n_layers": draw.choice([1, 2, 3])}
    kinds = ["sliding_attention", "full_attention"]
    return found | {"layer_types": [draw.choice(kinds) for _ in range(layers)]}


def _deberta(draw: random.Random, layers: int) -> dict[str, Any]:
    return {
        "hidden_act": draw.choice(ACTIVATIONS),
        "pooler_hidden_act": draw.choice(["gelu", "tanh", "relu"]),
        "layer_norm_eps": draw.choice([1e-7, 1e-5, 1e-3]),
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "type_vocab_size": draw.choice([0, 2]),
        "position_biased_input": draw.random() < 0.3,
        "relative_attention": draw.random() < 0.9,
        "max_relative_positions": draw.choice([-1, 7, 16, 40]),
        "position_buckets": draw.choice([-1, 2, 3, 4, 6]),
        "pos_att_type": draw.choice(["p2c|c2p", "c2p|p2c", ["c2p"], ["p2c"], ["p2c", "c2p"]]),
        "share_att_key": draw.random() < 0.5,
        "norm_rel_ebd": draw.choice(["none", "layer_norm"]),
        "legacy": draw.random() < 0.7,
    }


FAMILIES = {
    "modernbert": ("ModernBert", "ModernBertConfig"),
    "deberta-v2": ("DebertaV2", "DebertaV2Config"),
}
_OWN = {"modernbert": _modernbert, "deberta-v2": _deberta}
