"""Checkpoints that are not what they say: every tensor accounted for, every setting understood."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from jumok.errors import InputError
from jumok.pretrained.architecture import FAMILIES, parse_config
from jumok.pretrained.state_dict import PretrainedModel, model_from_hf
from tests.pretrained.file_changes import Change, drop_tensor, rename_tensors, set_tensor
from tests.pretrained.hf_variants import VARIANTS

pytest.importorskip("transformers")

Files = tuple[dict[str, Any], dict[str, torch.Tensor]]
QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Files]:
    """config.json and the tensors of a variant, to be changed at will."""
    folders: dict[str, Path] = {}

    def read(name: str) -> Files:
        if name not in folders:
            [variant] = [each for each in VARIANTS if each.name == name]
            folders[name] = tmp_path_factory.mktemp(name)
            variant.save(folders[name])
        config = json.loads((folders[name] / "config.json").read_text())
        return config, load_file(folders[name] / "model.safetensors")

    return read


def refusal(files: Files, *changes: Change) -> str:
    """The sentence that refuses the changed files."""
    for change in changes:
        change(*files)
    with pytest.raises(InputError) as caught:
        model_from_hf(*files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed(files: Files, *changes: Change) -> PretrainedModel:
    for change in changes:
        change(*files)
    return model_from_hf(*files)


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("bert-masked", drop_tensor(QUERY), f"{QUERY} is missing"),
        ("bert-masked", set_tensor("bert.extra", torch.ones(2)), "bert.extra is unexpected"),
        (
            "bert-masked",
            rename_tensors("layer.1", "layer.2"),
            "layer.1.attention.self.key.bias is missing",
        ),
        ("bert-masked", rename_tensors("layer.1", "layer.2"), "and 20 more"),
        ("bert-masked", set_tensor(QUERY, torch.ones(24, 23)), f"{QUERY} is (24, 23), its "),
        ("bert-masked", set_tensor(QUERY, torch.tensor(1.0)), f"{QUERY} is (), its "),
        ("bert-masked", set_tensor(QUERY, torch.ones(24, 24).int()), f"{QUERY} holds int32"),
        ("bert-masked", set_tensor(QUERY, torch.ones(24, 24, dtype=torch.bool)), "holds bool"),
        (
            "bert-masked",
            set_tensor("cls.predictions.decoder.bias", torch.ones(61)),
            "cls.predictions.decoder.bias is not cls.predictions.bias, with which it is tied",
        ),
        (
            "bert-masked",
            set_tensor("bert.embeddings.position_ids", torch.ones(1, 20)),
            "bert.embeddings.position_ids is not what the config says it is",
        ),
        (
            "bert-masked",
            set_tensor("cls.predictions.transform.LayerNorm.gamma", torch.ones(24)),
            "the old and the new name of one tensor",
        ),
        ("bert-texts", drop_tensor("classifier.bias"), "classifier.bias is missing"),
        ("bert-bare", set_tensor("extra.bias", torch.ones(2)), "extra.bias is unexpected"),
        (
            "gpt2-language",
            set_tensor("transformer.h.0.attn.c_attn.weight", torch.ones(24, 71)),
            "71",
        ),
        (
            "gpt2-language",
            set_tensor("transformer.h.0.attn.c_attn.bias", torch.tensor(1.0)),
            "is ()",
        ),
        (
            "gpt2-language",
            set_tensor("transformer.h.0.attn.bias", torch.ones(1, 1, 20, 20)),
            "attn.bias is not what",
        ),
        (
            "gpt2-language",
            set_tensor("transformer.h.1.attn.bias", torch.ones(2, 1, 9, 9)),
            "is not",
        ),
        (
            "gpt2-language",
            set_tensor("transformer.h.0.attn.masked_bias", torch.tensor(0.0)),
            "masked_bias is not what",
        ),
        (
            "t5-relu",
            set_tensor("encoder.embed_tokens.weight", torch.ones(61, 24)),
            "encoder.embed_tokens.weight is not shared.weight, with which it is tied",
        ),
        (
            "t5-v1.1",
            drop_tensor("encoder.block.0.layer.1.DenseReluDense.wi_1.weight"),
            "wi_1.weight is",
        ),
        (
            "marian-plain",
            set_tensor("model.encoder.embed_positions.weight", torch.ones(20, 24)),
            "embed_positions.weight is not what",
        ),
        (
            "bart-plain",
            set_tensor("final_logits_bias", torch.tensor(0.0)),
            "final_logits_bias is ()",
        ),
        ("marian-two-tables", drop_tensor("model.decoder.embed_tokens.weight"), "is missing"),
    ],
)
def test_every_tensor_is_accounted_for(
    stored: Callable[[str], Files], name: str, change: Change, told: str
) -> None:
    assert told in refusal(stored(name), change)


def test_one_sentence_lists_them_all(stored: Callable[[str], Files]) -> None:
    told = refusal(
        stored("bert-texts"),
        drop_tensor("classifier.bias"),
        set_tensor("bert.extra", torch.ones(1)),
        set_tensor(QUERY, torch.ones(24, 5)),
    )
    assert all(name in told for name in ("classifier.bias", "bert.extra", QUERY))
    assert "BertForSequenceClassification" in told


@pytest.mark.parametrize("name", ["bart-plain", "marian-two-tables"])
def test_a_bias_that_is_not_stored_is_zero(stored: Callable[[str], Files], name: str) -> None:
    config, tensors = stored(name)
    doubles = {each: tensor.double() for each, tensor in tensors.items()}
    opened = changed((config, doubles), drop_tensor("final_logits_bias"))
    bias = opened.model.get_submodule("output").bias
    assert isinstance(bias, torch.Tensor)
    assert not bias.any()
    assert bias.dtype == torch.float64
    assert "final_logits_bias" not in opened.names


REFUSED_SETTINGS: list[tuple[str, dict[str, Any], str]] = [
    ("bert-masked", {"model_type": "mamba"}, "model_type 'mamba' came; bert, "),
    ("bert-masked", {"model_type": None}, "model_type '' came"),
    ("bert-masked", {"model_type": 3}, "give a text"),
    ("bert-masked", {"architectures": ["BertForMultipleChoice"]}, "'BertForMultipleChoice' came"),
    ("bert-masked", {"hidden_act": "quick_gelu"}, "hidden_act 'quick_gelu' came; give one of relu"),
    ("bert-masked", {"hidden_act": 1}, "give a text"),
    ("bert-masked", {"is_decoder": True}, "is_decoder True came"),
    ("bert-masked", {"add_cross_attention": True}, "add_cross_attention True came"),
    ("bert-masked", {"position_embedding_type": "relative_key"}, "'absolute' can be read"),
    ("bert-masked", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
    ("bert-masked", {"num_attention_heads": 5}, "must be divisible by n_heads"),
    ("bert-masked", {"num_attention_heads": 0}, "from 1 to"),
    ("bert-masked", {"num_attention_heads": True}, "whole number"),
    ("bert-masked", {"num_attention_heads": 3.0}, "whole number"),
    ("bert-masked", {"num_attention_heads": "3"}, "whole number"),
    ("bert-masked", {"num_hidden_layers": 10**9}, "from 1 to 1,000"),
    ("bert-masked", {"num_hidden_layers": -1}, "from 1 to 1,000"),
    ("bert-masked", {"hidden_size": 10**4000}, "hidden_size 1000"),
    ("bert-masked", {"hidden_size": 3 * 10**8}, "numbers or more"),
    ("bert-masked", {"vocab_size": 2**31 - 1}, "numbers or more"),
    ("bert-masked", {"max_position_embeddings": 2**31 - 1}, "numbers or more"),
    ("bert-masked", {"num_hidden_layers": 1000, "intermediate_size": 10**6}, "numbers or more"),
    ("bert-masked", {"type_vocab_size": -2}, "from 0 to"),
    ("bert-masked", {"type_vocab_size": 2**31 - 1}, "numbers or more"),
    ("bert-masked", {"hidden_dropout_prob": math.nan}, "give a number from 0"),
    ("bert-masked", {"hidden_dropout_prob": 1.0}, "give a number from 0"),
    ("bert-masked", {"hidden_dropout_prob": math.inf}, "give a number from 0"),
    ("bert-masked", {"attention_probs_dropout_prob": "0.1"}, "give a number"),
    ("bert-masked", {"layer_norm_eps": 0}, "layer_norm_eps 0 came"),
    ("bert-masked", {"layer_norm_eps": -1e-12}, "layer_norm_eps"),
    ("bert-masked", {"tie_word_embeddings": "yes"}, "give true or false"),
    ("bert-texts", {"id2label": ["a", "b"]}, "a table of names by number"),
    ("bert-texts", {"id2label": {"0": "a", "2": "b"}}, "a name for every number from 0"),
    ("bert-texts", {"id2label": {}}, "a name for every number from 0"),
    ("bert-texts", {"id2label": {"0": 1, "1": 2}}, "a table of names by number"),
    ("bert-texts", {"id2label": None, "num_labels": 10**9}, "from 1 to 100,000"),
    ("bert-texts", {"id2label": {"0": "a", "1": "b"}}, "classifier.weight is (3, 24)"),
    ("roberta-masked", {"pad_token_id": 50}, "rows of the table are never used"),
    ("roberta-masked", {"pad_token_id": -1}, "the id of a token"),
    ("electra-generator", {"embedding_size": 0}, "from 1 to"),
    ("distilbert-masked", {"activation": "mish"}, "activation 'mish' came"),
    ("distilbert-masked", {"dim": 25}, "does not divide"),
    ("gpt2-language", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse"),
    ("gpt2-language", {"add_cross_attention": True}, "add_cross_attention"),
    ("gpt2-language", {"n_head": 48}, "does not divide"),
    ("t5-relu", {"feed_forward_proj": "twice-gelu"}, "feed_forward_proj 'twice-gelu' came"),
    ("t5-relu", {"feed_forward_proj": "gated-mish"}, "feed_forward_proj 'mish' came"),
    ("t5-relu", {"is_decoder": True}, "is_decoder True came"),
    ("t5-relu", {"relative_attention_num_buckets": 2}, "give 4 buckets or more"),
    ("t5-relu", {"relative_attention_max_distance": 16}, "more than half of it"),
    ("t5-relu", {"relative_attention_num_buckets": 10**6}, "more than half of it"),
    ("t5-relu", {"d_kv": 2**31 - 1}, "numbers or more"),
    ("bart-plain", {"decoder_ffn_dim": 41}, "encoder_ffn_dim 40 and decoder_ffn_dim 41 came"),
    ("bart-plain", {"decoder_attention_heads": 2}, "decoder_attention_heads 2 came"),
    ("bart-plain", {"activation_function": None, "dropout": -0.1}, "dropout -0.1 came"),
    ("marian-plain", {"max_position_embeddings": 10**8}, "max_position_embeddings"),
    ("marian-plain", {"share_encoder_decoder_embeddings": 1}, "give true or false"),
    ("marian-two-tables", {"decoder_vocab_size": 0}, "from 1 to"),
    ("pegasus-plain", {"d_model": 2**20}, "does not divide"),
    ("pegasus-plain", {"d_model": 3 * 2**20}, "numbers or more"),
]


@pytest.mark.parametrize(
    ("name", "keys", "told"), REFUSED_SETTINGS, ids=lambda value: str(value)[:50]
)
def test_settings_that_cannot_be(
    stored: Callable[[str], Files], name: str, keys: Mapping[str, Any], told: str
) -> None:
    config, tensors = stored(name)
    message = refusal((config | keys, tensors))
    assert told in message
    assert len(message) < 2_000


@pytest.mark.parametrize("name", [variant.name for variant in VARIANTS if variant.file_changes])
def test_nothing_is_made_of_an_empty_file(stored: Callable[[str], Files], name: str) -> None:
    config, _ = stored(name)
    with pytest.raises(InputError, match="is missing"):
        model_from_hf(config, {})


def test_dropouts_are_those_of_the_config(stored: Callable[[str], Files]) -> None:
    said = {
        "bert-masked": ("hidden_dropout_prob", "attention_probs_dropout_prob", ""),
        "distilbert-masked": ("dropout", "attention_dropout", ""),
        "gpt2-language": ("resid_pdrop", "attn_pdrop", ""),
        "bart-plain": ("dropout", "attention_dropout", "activation_dropout"),
    }
    for name, keys in said.items():
        config, _ = stored(name)
        rates = dict(zip(keys, (0.2, 0.3, 0.4), strict=True))
        rates.pop("", None)
        found = parse_config(config | rates, []).config
        read = (found.dropout, found.attention_dropout, found.activation_dropout)
        assert read[: len(rates)] == tuple(rates.values()), name
    config, _ = stored("t5-relu")
    found = parse_config(config | {"dropout_rate": 0.25}, []).config
    assert (found.dropout, found.attention_dropout, found.activation_dropout) == (0.25,) * 3


def test_labels_keep_their_names_and_order(stored: Callable[[str], Files]) -> None:
    config, tensors = stored("bert-texts")
    assert model_from_hf(config, tensors).architecture.labels == ("부정", "중립", "긍정")
    config["id2label"] = {"2": "긍정", "0": "부정", "1": "중립"}
    assert parse_config(config, []).labels == ("부정", "중립", "긍정")
    del config["id2label"]
    assert parse_config(config | {"num_labels": 3}, []).labels == ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_config_that_says_next_to_nothing_has_the_measures_of_its_family(
    model_type: str,
) -> None:
    """The defaults are those of transformers: `TransformerConfig` from {} and from all they say."""
    from transformers import AutoConfig

    whole = AutoConfig.for_model(model_type).to_dict() | {"architectures": None}
    family = FAMILIES[model_type]
    bare = next(name for name, head in family.heads(_settings({})).items() if not head.rules)
    said = {"model_type": model_type, "architectures": [bare]}
    assert parse_config(said, []).config == parse_config(whole | said, []).config


def _settings(values: Mapping[str, Any]) -> Any:
    from jumok.pretrained.config_reader import ConfigReader

    return ConfigReader(values)


def test_weights_are_those_of_the_file_not_copies(stored: Callable[[str], Files]) -> None:
    config, tensors = stored("gpt2-language")
    opened = model_from_hf(config, tensors)
    places = {tensor.untyped_storage().data_ptr() for tensor in tensors.values()}
    assert all(p.untyped_storage().data_ptr() in places for p in opened.model.parameters())
