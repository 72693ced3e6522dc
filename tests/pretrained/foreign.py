"""Tiny random models of transformers, of every family and variant, to be compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

V = 61


@dataclass(frozen=True)
class Variant:
    """A class of transformers, the name of its config and what is said in it."""

    name: str
    architecture: str
    config: str
    settings: Mapping[str, Any]

    def model(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
        """The model in eval mode, every weight drawn anew: no bias is 0, no gain 1."""
        import transformers

        config = getattr(transformers, self.config)(**self.settings)
        config._attn_implementation = "eager"
        model = getattr(transformers, self.architecture)(config).to(dtype).eval()
        return redrawn(model, seed)

    def save(self, folder: Path, seed: int = 0) -> Any:
        """The model, also saved as transformers saves it."""
        model = self.model(seed)
        model.save_pretrained(folder)
        return model


@torch.no_grad()
def redrawn(model: Any, seed: int) -> Any:
    """Every parameter and every bias kept as a buffer drawn anew."""
    generator = torch.Generator().manual_seed(seed)
    fixed = ("position_ids", "token_type_ids", "embed_positions", "attn.bias", "masked_bias")
    learned = "embed_positions" if "bart" in type(model).__name__.lower() else "-"
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not tensor.is_floating_point() or (
            any(word in name for word in fixed) and learned not in name
        ):
            continue
        drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        gain = "norm" in name.lower() or "ln_" in name
        scale = 0.3 if tensor.ndim < 2 or "bias" in name else tensor.shape[-1] ** -0.5
        drawn = drawn * scale + (1.0 if gain and name.endswith("weight") else 0.0)
        tensor.copy_(drawn.to(tensor.dtype))
    return model


BERT = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
}
ROBERTA = BERT | {"type_vocab_size": 1, "max_position_embeddings": 22, "pad_token_id": 1}
ELECTRA = BERT | {"embedding_size": 16}
DISTIL = {
    "vocab_size": V,
    "dim": 24,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 40,
    "max_position_embeddings": 20,
}
GPT2 = {"vocab_size": V, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 20}
T5 = {
    "vocab_size": V,
    "d_model": 24,
    "d_kv": 7,
    "d_ff": 40,
    "num_layers": 2,
    "num_heads": 3,
    "decoder_start_token_id": 0,
}
BART = {
    "vocab_size": V,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 20,
}
MARIAN = BART | {"pad_token_id": V - 1, "decoder_start_token_id": V - 1, "eos_token_id": 0}
LABELS = {
    "id2label": {0: "부정", 1: "중립", 2: "긍정"},
    "label2id": {"부정": 0, "중립": 1, "긍정": 2},
}


def _of(family: str, config: str, common: Mapping[str, Any], *rows: Any) -> list[Variant]:
    return [
        Variant(f"{family}-{name}", architecture, config, {**common, **settings})
        for name, architecture, settings in rows
    ]


VARIANTS = [
    *_of(
        "bert",
        "BertConfig",
        BERT,
        ("bare", "BertModel", {}),
        ("masked", "BertForMaskedLM", {}),
        ("untied", "BertForMaskedLM", {"tie_word_embeddings": False}),
        ("pretraining", "BertForPreTraining", {"hidden_act": "gelu_new"}),
        ("texts", "BertForSequenceClassification", LABELS),
        ("tokens", "BertForTokenClassification", LABELS | {"hidden_act": "relu"}),
        ("one-head", "BertForMaskedLM", {"num_attention_heads": 1, "hidden_act": "silu"}),
        ("segments", "BertForSequenceClassification", LABELS | {"type_vocab_size": 5}),
        ("eps", "BertModel", {"layer_norm_eps": 1e-3, "num_hidden_layers": 1}),
    ),
    *_of(
        "roberta",
        "RobertaConfig",
        ROBERTA,
        ("bare", "RobertaModel", {}),
        ("masked", "RobertaForMaskedLM", {}),
        ("untied", "RobertaForMaskedLM", {"tie_word_embeddings": False, "hidden_act": "relu"}),
        ("texts", "RobertaForSequenceClassification", LABELS),
        ("tokens", "RobertaForTokenClassification", LABELS),
        ("pad-0", "RobertaForMaskedLM", {"pad_token_id": 0}),
    ),
    *_of(
        "xlm-roberta",
        "XLMRobertaConfig",
        ROBERTA,
        ("masked", "XLMRobertaForMaskedLM", {}),
        ("texts", "XLMRobertaForSequenceClassification", LABELS),
    ),
    *_of(
        "electra",
        "ElectraConfig",
        ELECTRA,
        ("bare", "ElectraModel", {}),
        ("generator", "ElectraForMaskedLM", {}),
        ("discriminator", "ElectraForPreTraining", {}),
        ("wide", "ElectraForPreTraining", {"embedding_size": 24, "hidden_act": "gelu_new"}),
        ("texts", "ElectraForSequenceClassification", LABELS),
        ("tokens", "ElectraForTokenClassification", LABELS | {"embedding_size": 24}),
    ),
    *_of(
        "distilbert",
        "DistilBertConfig",
        DISTIL,
        ("bare", "DistilBertModel", {}),
        ("masked", "DistilBertForMaskedLM", {}),
        ("texts", "DistilBertForSequenceClassification", LABELS),
        ("tokens", "DistilBertForTokenClassification", LABELS | {"sinusoidal_pos_embds": True}),
    ),
    *_of(
        "gpt2",
        "GPT2Config",
        GPT2,
        ("bare", "GPT2Model", {}),
        ("language", "GPT2LMHeadModel", {}),
        ("untied", "GPT2LMHeadModel", {"tie_word_embeddings": False}),
        ("inner", "GPT2LMHeadModel", {"n_inner": 50, "activation_function": "relu"}),
        ("unscaled", "GPT2LMHeadModel", {"scale_attn_weights": False, "n_layer": 1}),
    ),
    *_of(
        "t5",
        "T5Config",
        T5,
        ("relu", "T5ForConditionalGeneration", {}),
        ("gated", "T5ForConditionalGeneration", {"feed_forward_proj": "gated-gelu"}),
        (
            "v1.1",
            "T5ForConditionalGeneration",
            {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        ),
        ("silu", "T5ForConditionalGeneration", {"feed_forward_proj": "gated-silu"}),
        (
            "buckets",
            "T5ForConditionalGeneration",
            {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 10},
        ),
        ("deep", "T5ForConditionalGeneration", {"num_layers": 1, "num_decoder_layers": 3}),
        ("bare", "T5Model", {}),
        ("encoder", "T5EncoderModel", {}),
    ),
    *_of("mt5", "MT5Config", T5, ("gated", "MT5ForConditionalGeneration", {})),
    *_of(
        "bart",
        "BartConfig",
        BART,
        ("plain", "BartForConditionalGeneration", {}),
        ("scaled", "BartForConditionalGeneration", {"scale_embedding": True}),
        ("deep", "BartForConditionalGeneration", {"encoder_layers": 1, "decoder_layers": 3}),
        ("bare", "BartModel", {"activation_function": "relu"}),
        ("untied", "BartForConditionalGeneration", {"tie_word_embeddings": False}),
    ),
    *_of("mbart", "MBartConfig", BART, ("plain", "MBartForConditionalGeneration", {})),
    *_of(
        "marian",
        "MarianConfig",
        MARIAN,
        ("plain", "MarianMTModel", {"activation_function": "swish", "scale_embedding": True}),
        (
            "two-tables",
            "MarianMTModel",
            {
                "share_encoder_decoder_embeddings": False,
                "decoder_vocab_size": V - 7,
                "decoder_start_token_id": V - 8,
                "pad_token_id": V - 8,
            },
        ),
        ("bare", "MarianModel", {}),
    ),
    *_of("pegasus", "PegasusConfig", BART, ("plain", "PegasusForConditionalGeneration", {})),
]
