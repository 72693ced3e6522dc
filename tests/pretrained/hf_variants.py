"""Tiny random models of transformers in every family and variant, as references.

All dropout rates are 0, so that train and eval mode are equal.
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from packaging.version import Version
from safetensors.torch import load_file, save_file
from torch import nn

from jumok.nn.positions import sinusoids
from tests.pretrained.file_changes import (
    Change,
    copy_tensor,
    rename_tensors,
    set_config,
    set_tensor,
)

V = 61
HAS_EXAONE = Version(version("transformers")) >= Version("5.24")  # its class ExaoneConfig
SCALES = (  # larger weights make generated tokens vary
    (r"\b(fc1|fc2|wi|wi_0|wi_1|wo|c_fc|c_proj|intermediate|lin1|lin2)\b|output\.dense", 3.0),
    (r"position|wpe", 3.0),
    (r"(gate|up|down)_proj|mlp\.W[io]", 3.0),
    (r"shared|embed_tokens|wte|word_embeddings|tok_embeddings", 2.0),
)


@dataclass(frozen=True)
class Variant:
    """A class of transformers, the class of its config, and the values of that config.

    The modules in `untied` have weights of their own where transformers would tie them.
    `file_changes` are applied to the saved files.
    """

    name: str
    architecture: str
    config: str
    config_values: Mapping[str, Any]
    untied: tuple[str, ...] = ()
    file_changes: tuple[Change, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()  # patterns of tensor names, and their replacements

    def model(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
        """The model in eval mode with random weights: no bias is 0, no norm weight is 1."""
        import transformers

        config = getattr(transformers, self.config)(**self.config_values)
        # Llama's eager attention takes the softmax in float32
        exact = dtype == torch.float64 and hasattr(config, "rope_parameters")
        config._attn_implementation = "sdpa" if exact else "eager"
        model = getattr(transformers, self.architecture)(config).to(dtype).eval()
        for name in self.untied:
            module = model.get_submodule(name)
            module.weight = nn.Parameter(torch.empty_like(module.weight))
        return randomize(model, seed + zlib.crc32(self.name.encode()), SCALES)

    def save(self, folder: Path, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
        """The model; also saves it, with the file changes applied."""
        model = self.model(seed, dtype)
        model.save_pretrained(folder)
        if self.file_changes or self.renamed:
            config_path, weights_path = folder / "config.json", folder / "model.safetensors"
            config, tensors = json.loads(config_path.read_text()), load_file(weights_path)
            tensors = {self.stored_name(name): tensor for name, tensor in tensors.items()}
            for change in self.file_changes:
                change(config, tensors)
            config_path.write_text(json.dumps(config))
            save_file(tensors, weights_path)
        return model

    def stored_name(self, name: str) -> str:
        """The name under which a tensor of the model is stored."""
        for pattern, replacement in self.renamed:
            name = re.sub(pattern, replacement, name)
        return name


@torch.no_grad()
def randomize(model: Any, seed: int, scales: Sequence[tuple[str, float]] = ()) -> Any:
    """Set every parameter, and every bias stored as a buffer, to random values.

    Matrices whose names match one of the patterns are scaled by its factor.
    """
    generator = torch.Generator().manual_seed(seed)
    fixed = (
        *("position_ids", "token_type_ids", "embed_positions", "attn.bias", "masked_bias"),
        *("inv_freq", "embed_scale"),
    )
    learned = "embed_positions" if "bart" in type(model).__name__.lower() else "-"
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not tensor.is_floating_point() or (
            any(word in name for word in fixed) and learned not in name
        ):
            continue
        values = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        is_norm = "norm" in name.lower() or re.search(r"\bln(_\w+)?\.", name)
        scale = 0.3 if tensor.ndim < 2 or "bias" in name else tensor.shape[-1] ** -0.5
        if tensor.ndim == 2:
            scale *= next((factor for part, factor in scales if re.search(part, name)), 1.0)
        values = values * scale + (1.0 if is_norm and name.endswith("weight") else 0.0)
        tensor.copy_(values.to(tensor.dtype))
    return model


BERT = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
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
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "seq_classif_dropout": 0.0,
}
DEBERTA = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "relative_attention": True,
    "position_buckets": 6,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "pos_att_type": "p2c|c2p",
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "pad_token_id": 0,
}
MODERNBERT = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "local_attention": 6,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 160_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    },
}
GPT2 = {
    "vocab_size": V,
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 3,
    "n_positions": 20,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}
T5 = {
    "vocab_size": V,
    "d_model": 24,
    "d_kv": 7,
    "d_ff": 40,
    "num_layers": 2,
    "num_heads": 3,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.0,
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
    "dropout": 0.0,
}
LLAMA = {
    "vocab_size": V,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 20,
    "pad_token_id": 0,
}
EXAONE_NAMES = (
    (r"^model\.embed_tokens", "transformer.wte"),
    (r"^model\.norm", "transformer.ln_f"),
    (r"^model\.layers", "transformer.h"),
    (r"input_layernorm", "ln_1"),
    (r"post_attention_layernorm", "ln_2"),
    (r"self_attn\.([qkv])_proj", r"attn.attention.\1_proj"),
    (r"self_attn\.o_proj", "attn.attention.out_proj"),
    (r"mlp\.gate_proj", "mlp.c_fc_0"),
    (r"mlp\.up_proj", "mlp.c_fc_1"),
    (r"mlp\.down_proj", "mlp.c_proj"),
)
EXAONE_CONFIG = (
    set_config(
        model_type="exaone",
        architectures=["ExaoneForCausalLM"],
        num_hidden_layers=None,
        num_layers=3,
        hidden_act=None,
        activation_function="silu",
        rms_norm_eps=None,
        layer_norm_epsilon=1e-5,
    ),
)
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
MARIAN = BART | {"pad_token_id": V - 1, "decoder_start_token_id": V - 1, "eos_token_id": 0}
LABELS = {
    "id2label": {0: "부정", 1: "중립", 2: "긍정"},
    "label2id": {"부정": 0, "중립": 1, "긍정": 2},
}


POSITION_IDS = torch.arange(20)[None]


def random_tensor(*shape: int) -> torch.Tensor:
    """A random tensor."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


POOLER = (
    set_tensor("bert.pooler.dense.weight", random_tensor(24, 24)),
    set_tensor("bert.pooler.dense.bias", random_tensor(24)),
)
CAUSAL_MASK = torch.ones(20, 20, dtype=torch.uint8).tril()[None, None]
BUFFERS = tuple(
    set_tensor(f"transformer.h.{layer}.attn.{name}", tensor)
    for layer in range(2)
    for name, tensor in (("bias", CAUSAL_MASK), ("masked_bias", torch.tensor(-1e4)))
)
TABLES = tuple(f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))


def _of(family: str, config: str, common: Mapping[str, Any], *rows: Any) -> list[Variant]:
    return [
        Variant(f"{family}-{name}", architecture, config, {**common, **settings}, *files)
        for name, architecture, settings, *files in rows
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
        ("five-heads", "BertForMaskedLM", {"hidden_size": 35, "num_attention_heads": 5}),
        ("one-segment", "BertForMaskedLM", {"type_vocab_size": 1}),
        (
            "old-names",
            "BertForPreTraining",
            {},
            (),
            (
                rename_tensors(r"LayerNorm\.weight$", "LayerNorm.gamma"),
                rename_tensors(r"LayerNorm\.bias$", "LayerNorm.beta"),
                set_tensor("bert.embeddings.position_ids", POSITION_IDS),
            ),
        ),
        (
            "all-stored",
            "BertForMaskedLM",
            {},
            (),
            (
                copy_tensor(
                    "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"
                ),
                copy_tensor("cls.predictions.decoder.bias", "cls.predictions.bias"),
                set_tensor("cls.seq_relationship.weight", random_tensor(2, 24)),
                set_tensor("cls.seq_relationship.bias", random_tensor(2)),
                *POOLER,
            ),
        ),
        ("unsaid", "BertForMaskedLM", {}, (), (set_config(architectures=None),)),
        ("unsaid-bare", "BertModel", {}, (), (set_config(architectures=None),)),
        ("prefixed", "BertModel", {}, (), (rename_tensors("^", "bert."),)),
        (
            "headed",
            "BertForTokenClassification",
            LABELS,
            (),
            (set_config(architectures=["BertModel"]),),
        ),
    ),
    *_of(
        "megatron-bert",
        "MegatronBertConfig",
        BERT,
        ("bare", "MegatronBertModel", {}),
        ("masked", "MegatronBertForMaskedLM", {}),
        ("untied", "MegatronBertForMaskedLM", {"tie_word_embeddings": False}),
        ("texts", "MegatronBertForSequenceClassification", LABELS),
        ("tokens", "MegatronBertForTokenClassification", LABELS | {"hidden_act": "relu"}),
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
        ("two-heads", "RobertaForMaskedLM", {"num_attention_heads": 2, "num_hidden_layers": 1}),
        (
            "all-stored",
            "RobertaForMaskedLM",
            {},
            (),
            (
                copy_tensor("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
                copy_tensor("lm_head.decoder.bias", "lm_head.bias"),
                set_tensor("roberta.embeddings.position_ids", torch.arange(22)[None]),
                set_tensor(
                    "roberta.embeddings.token_type_ids", torch.zeros(1, 22, dtype=torch.long)
                ),
                set_tensor("roberta.pooler.dense.weight", random_tensor(24, 24)),
                set_tensor("roberta.pooler.dense.bias", random_tensor(24)),
            ),
        ),
    ),
    *_of(
        "xlm-roberta",
        "XLMRobertaConfig",
        ROBERTA,
        ("masked", "XLMRobertaForMaskedLM", {}),
        ("texts", "XLMRobertaForSequenceClassification", LABELS),
        ("tokens", "XLMRobertaForTokenClassification", LABELS),
        ("bare", "XLMRobertaModel", {}),
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
        ("untied", "ElectraForMaskedLM", {"tie_word_embeddings": False}),
        (
            "all-stored",
            "ElectraForMaskedLM",
            {},
            (),
            (
                copy_tensor(
                    "generator_lm_head.weight", "electra.embeddings.word_embeddings.weight"
                ),
                set_tensor("electra.embeddings.position_ids", POSITION_IDS),
            ),
        ),
    ),
    *_of(
        "distilbert",
        "DistilBertConfig",
        DISTIL,
        ("bare", "DistilBertModel", {}),
        ("masked", "DistilBertForMaskedLM", {}),
        ("texts", "DistilBertForSequenceClassification", LABELS),
        ("tokens", "DistilBertForTokenClassification", LABELS | {"sinusoidal_pos_embds": True}),
        ("untied", "DistilBertForMaskedLM", {"tie_word_embeddings": False, "activation": "relu"}),
        (
            "twice",
            "DistilBertForMaskedLM",
            {},
            (),
            (
                copy_tensor(
                    "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"
                ),
            ),
        ),
    ),
    *_of(
        "modernbert",
        "ModernBertConfig",
        MODERNBERT,
        ("bare", "ModernBertModel", {}),
        ("masked", "ModernBertForMaskedLM", {}),
        ("untied", "ModernBertForMaskedLM", {"tie_word_embeddings": False, "norm_bias": True}),
        ("texts", "ModernBertForSequenceClassification", LABELS),
        (
            "mean",
            "ModernBertForSequenceClassification",
            LABELS | {"classifier_pooling": "mean", "classifier_bias": True},
        ),
        ("tokens", "ModernBertForTokenClassification", LABELS | {"hidden_activation": "silu"}),
        ("biased", "ModernBertModel", {"attention_bias": True, "mlp_bias": True}),
        ("global", "ModernBertForMaskedLM", {"global_attn_every_n_layers": 1}),
        ("local", "ModernBertModel", {"layer_types": ["sliding_attention"] * 3}),
        ("unsaid", "ModernBertForMaskedLM", {}, (), (set_config(architectures=None),)),
        (
            "unsaid-tokens",
            "ModernBertForSequenceClassification",
            LABELS,
            (),
            (set_config(architectures=None),),
        ),
        (
            "first-files",  # the keys of the published files
            "ModernBertForMaskedLM",
            {},
            (),
            (
                set_config(
                    rope_parameters=None,
                    layer_types=None,
                    global_rope_theta=160_000.0,
                    local_rope_theta=50.0,
                    global_attn_every_n_layers=3,
                    position_embedding_type="absolute",
                    reference_compile=None,
                    repad_logits_with_grad=False,
                    layer_norm_eps=1e-5,
                ),
                copy_tensor("decoder.weight", "model.embeddings.tok_embeddings.weight"),
            ),
        ),
    ),
    *_of(
        "deberta-v2",
        "DebertaV2Config",
        DEBERTA,
        ("bare", "DebertaV2Model", {}),
        ("masked", "DebertaV2ForMaskedLM", {}),
        ("untied", "DebertaV2ForMaskedLM", {"tie_word_embeddings": False}),
        ("texts", "DebertaV2ForSequenceClassification", LABELS),
        ("tokens", "DebertaV2ForTokenClassification", LABELS | {"share_att_key": False}),
        ("c2p", "DebertaV2ForMaskedLM", {"pos_att_type": ["c2p"], "share_att_key": False}),
        ("p2c", "DebertaV2Model", {"pos_att_type": ["p2c"], "norm_rel_ebd": "none"}),
        ("every-distance", "DebertaV2Model", {"position_buckets": -1}),
        ("absolute", "DebertaV2ForMaskedLM", {"relative_attention": False, "type_vocab_size": 2}),
        ("both", "DebertaV2Model", {"position_biased_input": True}),
        ("published", "DebertaV2ForMaskedLM", {"legacy": False}),
        ("unsaid", "DebertaV2ForMaskedLM", {}, (), (set_config(architectures=None),)),
        (
            "v3-files",  # without a class, with the heads of the training and a table
            "DebertaV2Model",
            {},
            (),
            (
                set_config(architectures=None),
                rename_tensors("^", "deberta."),
                set_tensor("lm_predictions.lm_head.bias", random_tensor(V)),
                set_tensor("mask_predictions.dense.weight", random_tensor(24, 24)),
                set_tensor("deberta.embeddings.position_embeddings.weight", random_tensor(20, 24)),
            ),
        ),
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
        ("one-head", "GPT2LMHeadModel", {"n_head": 1, "n_layer": 1}),
        (
            "all-stored",
            "GPT2LMHeadModel",
            {},
            (),
            (*BUFFERS, copy_tensor("lm_head.weight", "transformer.wte.weight")),
        ),
        ("body", "GPT2LMHeadModel", {}, (), (*BUFFERS, rename_tensors(r"^transformer\.", ""))),
        ("unsaid", "GPT2LMHeadModel", {}, (), (set_config(architectures=None),)),
        ("headed", "GPT2LMHeadModel", {}, ("lm_head",), (set_config(architectures=["GPT2Model"]),)),
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
        (
            "few-buckets",
            "T5ForConditionalGeneration",
            {"relative_attention_num_buckets": 6, "relative_attention_max_distance": 5},
        ),
        ("own-head", "T5ForConditionalGeneration", {}, ("lm_head",)),
        (
            "v1.1-own-head",
            "T5ForConditionalGeneration",
            {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
            ("lm_head",),
        ),
        (
            "v1.1-old-config",
            "T5ForConditionalGeneration",
            {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
            ("lm_head",),
            (set_config(tie_word_embeddings=False, scale_decoder_outputs=None),),
        ),
        (
            "all-stored",
            "T5ForConditionalGeneration",
            {},
            (),
            (
                copy_tensor("encoder.embed_tokens.weight", "shared.weight"),
                copy_tensor("decoder.embed_tokens.weight", "shared.weight"),
                copy_tensor("lm_head.weight", "shared.weight"),
                set_tensor(
                    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
                    random_tensor(32, 3),
                ),
            ),
        ),
        (
            "second-name",
            "T5EncoderModel",
            {},
            (),
            (rename_tensors("^shared", "encoder.embed_tokens"),),
        ),
        ("unsaid", "T5ForConditionalGeneration", {}, (), (set_config(architectures=None),)),
        ("unsaid-encoder", "T5EncoderModel", {}, (), (set_config(architectures=None),)),
        ("bare", "T5Model", {}),
        ("encoder", "T5EncoderModel", {}),
    ),
    *_of(
        "mt5",
        "MT5Config",
        T5,
        ("gated", "MT5ForConditionalGeneration", {}),
        ("own-head", "MT5ForConditionalGeneration", {}, ("lm_head",)),
        ("bare", "MT5Model", {"feed_forward_proj": "relu"}),
    ),
    *_of(
        "bart",
        "BartConfig",
        BART,
        ("plain", "BartForConditionalGeneration", {}),
        ("scaled", "BartForConditionalGeneration", {"scale_embedding": True}),
        ("deep", "BartForConditionalGeneration", {"encoder_layers": 1, "decoder_layers": 3}),
        ("bare", "BartModel", {"activation_function": "relu"}),
        ("untied", "BartForConditionalGeneration", {"tie_word_embeddings": False}),
        (
            "all-stored",
            "BartForConditionalGeneration",
            {},
            (),
            (
                *(
                    copy_tensor(table, "model.shared.weight")
                    for table in (*TABLES, "lm_head.weight")
                ),
                set_tensor("model.encoder.version", torch.tensor([3.0])),
                set_tensor("model.decoder.version", torch.tensor([3.0])),
            ),
        ),
        (
            "headed",
            "BartForConditionalGeneration",
            {},
            (),
            (set_config(architectures=["BartModel"]),),
        ),
        ("own-head", "BartForConditionalGeneration", {}, ("lm_head",)),
    ),
    *_of(
        "mbart",
        "MBartConfig",
        BART,
        ("plain", "MBartForConditionalGeneration", {}),
        ("bare", "MBartModel", {"scale_embedding": True, "activation_function": "relu"}),
        ("untied", "MBartForConditionalGeneration", {"tie_word_embeddings": False}),
    ),
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
        (
            "two-outputs",
            "MarianMTModel",
            {
                "share_encoder_decoder_embeddings": False,
                "decoder_vocab_size": V - 7,
                "decoder_start_token_id": V - 8,
                "pad_token_id": V - 8,
                "tie_word_embeddings": False,
            },
        ),
        ("untied", "MarianMTModel", {"tie_word_embeddings": False}),
        ("odd-width", "MarianMTModel", {"d_model": 21, "scale_embedding": True}),
        (
            "all-stored",
            "MarianMTModel",
            {},
            (),
            (
                *(
                    copy_tensor(table, "model.shared.weight")
                    for table in (*TABLES, "lm_head.weight")
                ),
                *(
                    set_tensor(
                        f"model.{side}.embed_positions.weight", sinusoids(20, 24, halves=True)
                    )
                    for side in ("encoder", "decoder")
                ),
            ),
        ),
        ("bare", "MarianModel", {}),
    ),
    *_of(
        "pegasus",
        "PegasusConfig",
        BART,
        ("plain", "PegasusForConditionalGeneration", {}),
        ("scaled", "PegasusForConditionalGeneration", {"scale_embedding": True}),
        ("bare", "PegasusModel", {"encoder_layers": 1}),
    ),
    *_of(
        "llama",
        "LlamaConfig",
        LLAMA,
        ("plain", "LlamaForCausalLM", {}),
        ("tied", "LlamaForCausalLM", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
        ("llama3", "LlamaForCausalLM", {"rope_parameters": LLAMA3_ROPE, "head_dim": 8}),
        (
            "linear",
            "LlamaForCausalLM",
            {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 200.0}},
        ),
        (
            "biased",
            "LlamaForCausalLM",
            {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4},
        ),
        ("bare", "LlamaModel", {"hidden_act": "gelu"}),
        (
            "old-config",
            "LlamaForCausalLM",
            {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": True},
            (),
            (
                set_config(
                    rope_parameters=None,
                    rope_theta=500.0,
                    rope_scaling={key: v for key, v in LLAMA3_ROPE.items() if key != "rope_theta"},
                ),
                copy_tensor("lm_head.weight", "model.embed_tokens.weight"),
            ),
        ),
        ("unsaid", "LlamaForCausalLM", {}, (), (set_config(architectures=None),)),
    ),
    *_of(
        "mistral",
        "MistralConfig",
        LLAMA,
        ("window", "MistralForCausalLM", {"sliding_window": 5}),
        ("whole", "MistralForCausalLM", {"sliding_window": None, "head_dim": 8}),
        ("bare", "MistralModel", {"sliding_window": 1}),
    ),
    *_of(
        "qwen2",
        "Qwen2Config",
        LLAMA,
        ("plain", "Qwen2ForCausalLM", {}),
        (
            "window",
            "Qwen2ForCausalLM",
            {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
        ),
        ("bare", "Qwen2Model", {"tie_word_embeddings": True}),
    ),
    *_of(
        "qwen3",
        "Qwen3Config",
        LLAMA,
        ("plain", "Qwen3ForCausalLM", {"head_dim": 10}),
        (
            "window",
            "Qwen3ForCausalLM",
            {
                "use_sliding_window": True,
                "sliding_window": 3,
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                "head_dim": 8,
                "tie_word_embeddings": True,
                "attention_bias": True,
            },
        ),
        ("bare", "Qwen3Model", {"head_dim": 6}),
    ),
    *_of(
        "gemma3_text",
        "Gemma3TextConfig",
        LLAMA | {"head_dim": 8, "query_pre_attn_scalar": 5, "sliding_window": 4},
        ("plain", "Gemma3ForCausalLM", {"sliding_window_pattern": 2}),
        (
            "capped",
            "Gemma3ForCausalLM",
            {
                "final_logit_softcapping": 3.0,
                "rope_parameters": {
                    "full_attention": {
                        "rope_type": "linear",
                        "factor": 8.0,
                        "rope_theta": 1000.0,
                    },
                    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                },
            },
        ),
        ("bare", "Gemma3TextModel", {"attention_bias": True, "head_dim": 6}),
    ),
    *_of(
        "exaone4",
        "Exaone4Config",
        LLAMA | {"head_dim": 8},
        (
            "global",
            "Exaone4ForCausalLM",
            {"sliding_window": None, "layer_types": ["full_attention"] * 3},
        ),
        (
            "hybrid",
            "Exaone4ForCausalLM",
            {
                "sliding_window": 4,
                "sliding_window_pattern": 2,
                "rope_parameters": LLAMA3_ROPE,
                "tie_word_embeddings": True,
            },
        ),
        ("bare", "Exaone4Model", {"sliding_window": 3, "sliding_window_pattern": 3}),
    ),
    *_of(
        "exaone",
        "LlamaConfig",
        LLAMA,
        ("plain", "LlamaForCausalLM", {"rms_norm_eps": 1e-5}, (), EXAONE_CONFIG, EXAONE_NAMES),
        (
            "tied",
            "LlamaForCausalLM",
            {"tie_word_embeddings": True, "rope_parameters": LLAMA3_ROPE, "rms_norm_eps": 1e-5},
            (),
            EXAONE_CONFIG,
            EXAONE_NAMES,
        ),
    ),
    *(
        _of(
            "exaone",
            "ExaoneConfig",
            LLAMA | {"bos_token_id": 1, "eos_token_id": 2},
            (
                "saved",
                "LlamaForCausalLM",
                {"attention_bias": True, "mlp_bias": True, "head_dim": 8},
                (),
                (),
                EXAONE_NAMES,
            ),
            (
                "saved-tied",
                "LlamaForCausalLM",
                {"tie_word_embeddings": True, "rope_parameters": LLAMA3_ROPE},
                (),
                (),
                EXAONE_NAMES,
            ),
            ("saved-bare", "LlamaModel", {}, (), (), EXAONE_NAMES),
        )
        if HAS_EXAONE
        else ()
    ),
]
