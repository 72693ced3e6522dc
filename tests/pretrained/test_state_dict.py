"""Invalid checkpoints: every wrong tensor and every unsupported config value is reported."""

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
from jumok.pretrained.state_dict import PretrainedModel, hf_state_dict, model_from_hf
from tests.errors import raises
from tests.pretrained.file_changes import Change, drop_tensor, rename_tensors, set_tensor
from tests.pretrained.hf_variants import HAS_EXAONE, VARIANTS

pytest.importorskip("transformers")

Files = tuple[dict[str, Any], dict[str, torch.Tensor]]
QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Files]:
    """A function that reads the config.json and tensors of a variant."""
    folders: dict[str, Path] = {}

    def read(name: str) -> Files:
        if name not in folders:
            [variant] = [variant for variant in VARIANTS if variant.name == name]
            folders[name] = tmp_path_factory.mktemp(name)
            variant.save(folders[name])
        config = json.loads((folders[name] / "config.json").read_text())
        return config, load_file(folders[name] / "model.safetensors")

    return read


def load_error(files: Files, *changes: Change) -> str:
    """The error message for the changed files."""
    for change in changes:
        change(*files)
    with pytest.raises(InputError) as caught:
        model_from_hf(*files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def load_changed(files: Files, *changes: Change) -> PretrainedModel:
    for change in changes:
        change(*files)
    return model_from_hf(*files)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bert-masked", drop_tensor(QUERY), f"{QUERY} is missing"),
        ("bert-masked", set_tensor("bert.extra", torch.ones(2)), "bert.extra is unexpected"),
        (
            "bert-masked",
            rename_tensors("layer.1", "layer.2"),
            "layer.1.attention.self.key.bias is missing",
        ),
        ("bert-masked", rename_tensors("layer.1", "layer.2"), "and 20 more"),
        ("bert-masked", set_tensor(QUERY, torch.ones(24, 23)), f"{QUERY} is (24, 23), and its "),
        ("bert-masked", set_tensor(QUERY, torch.tensor(1.0)), f"{QUERY} is (), and its "),
        (
            "bert-masked",
            set_tensor(QUERY, torch.ones(24, 24).int()),
            f"{QUERY} must be floating point, got int32",
        ),
        (
            "bert-masked",
            set_tensor(QUERY, torch.ones(24, 24, dtype=torch.bool)),
            "must be floating point, got bool",
        ),
        (
            "bert-masked",
            set_tensor("cls.predictions.decoder.bias", torch.ones(61)),
            "cls.predictions.decoder.bias differs from cls.predictions.bias, to which it is tied",
        ),
        (
            "bert-masked",
            set_tensor("bert.embeddings.position_ids", torch.ones(1, 20)),
            "bert.embeddings.position_ids has other values than the config defines",
        ),
        (
            "bert-masked",
            set_tensor("cls.predictions.transform.LayerNorm.gamma", torch.ones(24)),
            "a tensor must have one name, got its old and new names",
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
            "attn.bias has other values",
        ),
        (
            "gpt2-language",
            set_tensor("transformer.h.1.attn.bias", torch.ones(2, 1, 9, 9)),
            "has other values",
        ),
        (
            "gpt2-language",
            set_tensor("transformer.h.0.attn.masked_bias", torch.tensor(0.0)),
            "masked_bias has other values",
        ),
        (
            "t5-relu",
            set_tensor("encoder.embed_tokens.weight", torch.ones(61, 24)),
            "encoder.embed_tokens.weight differs from shared.weight, to which it is tied",
        ),
        (
            "t5-v1.1",
            drop_tensor("encoder.block.0.layer.1.DenseReluDense.wi_1.weight"),
            "wi_1.weight is",
        ),
        (
            "marian-plain",
            set_tensor("model.encoder.embed_positions.weight", torch.ones(20, 24)),
            "embed_positions.weight has other values",
        ),
        (
            "bart-plain",
            set_tensor("final_logits_bias", torch.tensor(0.0)),
            "final_logits_bias is ()",
        ),
        ("marian-two-tables", drop_tensor("model.decoder.embed_tokens.weight"), "is missing"),
    ],
)
def test_each_wrong_tensor_is_reported(
    stored: Callable[[str], Files], name: str, change: Change, message: str
) -> None:
    assert message in load_error(stored(name), change)


def test_one_message_lists_all_errors(stored: Callable[[str], Files]) -> None:
    message = load_error(
        stored("bert-texts"),
        drop_tensor("classifier.bias"),
        set_tensor("bert.extra", torch.ones(1)),
        set_tensor(QUERY, torch.ones(24, 5)),
    )
    assert all(name in message for name in ("classifier.bias", "bert.extra", QUERY))
    assert "BertForSequenceClassification" in message


@pytest.mark.parametrize("name", ["bart-plain", "marian-two-tables"])
def test_missing_optional_bias_is_zero(stored: Callable[[str], Files], name: str) -> None:
    config, tensors = stored(name)
    doubles = {tensor_name: tensor.double() for tensor_name, tensor in tensors.items()}
    opened = load_changed((config, doubles), drop_tensor("final_logits_bias"))
    bias = opened.model.get_submodule("output").bias
    assert isinstance(bias, torch.Tensor)
    assert not bias.any()
    assert bias.dtype == torch.float64
    assert "final_logits_bias" not in opened.names


INVALID_CONFIGS: list[tuple[str, dict[str, Any], str]] = [
    ("bert-masked", {"model_type": "mamba"}, "model_type must be a known name, got 'mamba'"),
    ("bert-masked", {"model_type": None}, "got ''"),
    ("bert-masked", {"model_type": 3}, "model_type must be a string, got 3"),
    ("bert-masked", {"architectures": ["BertForMultipleChoice"]}, "got 'BertForMultipleChoice'"),
    ("bert-masked", {"hidden_act": "quick_gelu"}, "hidden_act must be one of relu"),
    ("bert-masked", {"hidden_act": 1}, "must be a string, got 1"),
    ("bert-masked", {"is_decoder": True}, "is_decoder must be False, got True"),
    ("bert-masked", {"add_cross_attention": True}, "add_cross_attention must be False, got True"),
    (
        "bert-masked",
        {"position_embedding_type": "relative_key"},
        "must be 'absolute', got 'relative_key'",
    ),
    ("bert-masked", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
    ("bert-masked", {"num_attention_heads": 5}, "must be divisible by n_heads"),
    ("bert-masked", {"num_attention_heads": 0}, "from 1 to"),
    ("bert-masked", {"num_attention_heads": True}, "an integer"),
    ("bert-masked", {"num_attention_heads": 3.0}, "an integer"),
    ("bert-masked", {"num_attention_heads": "3"}, "an integer"),
    ("bert-masked", {"num_hidden_layers": 10**9}, "from 1 to 1,000"),
    ("bert-masked", {"num_hidden_layers": -1}, "from 1 to 1,000"),
    (
        "bert-masked",
        {"hidden_size": 10**4000},
        "hidden_size must be an integer from 1 to 2,147,483,647, got 1000",
    ),
    ("bert-masked", {"hidden_size": 3 * 10**8}, "got a model of at least"),
    ("bert-masked", {"vocab_size": 2**31 - 1}, "got a model of at least"),
    ("bert-masked", {"max_position_embeddings": 2**31 - 1}, "got a model of at least"),
    (
        "bert-masked",
        {"num_hidden_layers": 1000, "intermediate_size": 10**6},
        "got a model of at least",
    ),
    ("bert-masked", {"type_vocab_size": -2}, "from 0 to"),
    ("bert-masked", {"type_vocab_size": 2**31 - 1}, "got a model of at least"),
    ("bert-masked", {"hidden_dropout_prob": math.nan}, "must be a number from 0"),
    ("bert-masked", {"hidden_dropout_prob": 1.0}, "must be a number from 0"),
    ("bert-masked", {"hidden_dropout_prob": math.inf}, "must be a number from 0"),
    ("bert-masked", {"attention_probs_dropout_prob": "0.1"}, "must be a number"),
    (
        "bert-masked",
        {"layer_norm_eps": 0},
        "layer_norm_eps must be a number from 1e-30 to 1, got 0",
    ),
    ("bert-masked", {"layer_norm_eps": -1e-12}, "layer_norm_eps"),
    ("bert-masked", {"tie_word_embeddings": "yes"}, "must be true or false"),
    ("bert-texts", {"id2label": ["a", "b"]}, "an object from ids to names"),
    ("bert-texts", {"id2label": {"0": "a", "2": "b"}}, "one name for every id from 0"),
    ("bert-texts", {"id2label": {}}, "one name for every id from 0"),
    ("bert-texts", {"id2label": {"0": 1, "1": 2}}, "an object from ids to names"),
    ("bert-texts", {"id2label": None, "num_labels": 10**9}, "from 1 to 100,000"),
    ("bert-texts", {"id2label": {"0": "a", "1": "b"}}, "classifier.weight is (3, 24)"),
    ("roberta-masked", {"pad_token_id": 50}, "must be more than the offset 51"),
    ("roberta-masked", {"pad_token_id": -1}, "a token id"),
    ("electra-generator", {"embedding_size": 0}, "from 1 to"),
    ("distilbert-masked", {"activation": "mish"}, "activation must be one of relu"),
    ("distilbert-masked", {"dim": 25}, "does not divide"),
    ("gpt2-language", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse"),
    ("gpt2-language", {"add_cross_attention": True}, "add_cross_attention"),
    ("gpt2-language", {"n_head": 48}, "does not divide"),
    ("t5-relu", {"feed_forward_proj": "twice-gelu"}, "got 'twice-gelu'"),
    ("t5-relu", {"feed_forward_proj": "gated-mish"}, "feed_forward_proj must be one of relu"),
    ("t5-relu", {"is_decoder": True}, "is_decoder must be False, got True"),
    ("t5-relu", {"relative_attention_num_buckets": 2}, "give 4 buckets or more"),
    ("t5-relu", {"relative_attention_max_distance": 16}, "more than half of it"),
    ("t5-relu", {"relative_attention_num_buckets": 10**6}, "more than half of it"),
    ("t5-relu", {"d_kv": 2**31 - 1}, "got a model of at least"),
    ("bart-plain", {"decoder_ffn_dim": 41}, "must be equal, got 40 and 41"),
    ("bart-plain", {"decoder_attention_heads": 2}, "must be equal, got 3 and 2"),
    ("bart-plain", {"activation_function": None, "dropout": -0.1}, "got -0.1"),
    ("marian-plain", {"max_position_embeddings": 10**8}, "max_position_embeddings"),
    ("marian-plain", {"share_encoder_decoder_embeddings": 1}, "must be true or false"),
    ("marian-two-tables", {"decoder_vocab_size": 0}, "from 1 to"),
    ("pegasus-plain", {"d_model": 2**20}, "does not divide"),
    ("pegasus-plain", {"d_model": 3 * 2**20}, "got a model of at least"),
]


@pytest.mark.parametrize(
    ("name", "keys", "message"), INVALID_CONFIGS, ids=lambda value: str(value)[:50]
)
def test_invalid_config_values_raise_input_error(
    stored: Callable[[str], Files], name: str, keys: Mapping[str, Any], message: str
) -> None:
    config, tensors = stored(name)
    message = load_error((config | keys, tensors))
    assert message in message
    assert len(message) < 2_000


@pytest.mark.parametrize("name", [variant.name for variant in VARIANTS if variant.file_changes])
def test_empty_file_raises_input_error(stored: Callable[[str], Files], name: str) -> None:
    config, _ = stored(name)
    with raises(InputError, "pretrained.wrong_tensors"):
        model_from_hf(config, {})


def test_dropout_rates_are_read(stored: Callable[[str], Files]) -> None:
    dropout_keys = {
        "bert-masked": ("hidden_dropout_prob", "attention_probs_dropout_prob", ""),
        "distilbert-masked": ("dropout", "attention_dropout", ""),
        "gpt2-language": ("resid_pdrop", "attn_pdrop", ""),
        "bart-plain": ("dropout", "attention_dropout", "activation_dropout"),
    }
    for name, keys in dropout_keys.items():
        config, _ = stored(name)
        rates = dict(zip(keys, (0.2, 0.3, 0.4), strict=True))
        rates.pop("", None)
        found = parse_config(config | rates, []).config
        read = (found.dropout, found.attention_dropout, found.activation_dropout)
        assert read[: len(rates)] == tuple(rates.values()), name
    config, _ = stored("t5-relu")
    found = parse_config(config | {"dropout_rate": 0.25}, []).config
    assert (found.dropout, found.attention_dropout, found.activation_dropout) == (0.25,) * 3


def test_labels_are_in_the_order_of_their_ids(stored: Callable[[str], Files]) -> None:
    config, tensors = stored("bert-texts")
    assert model_from_hf(config, tensors).architecture.labels == ("부정", "중립", "긍정")
    config["id2label"] = {"2": "긍정", "0": "부정", "1": "중립"}
    assert parse_config(config, []).labels == ("부정", "중립", "긍정")
    del config["id2label"]
    assert parse_config(config | {"num_labels": 3}, []).labels == ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize("model_type", FAMILIES.names())
def test_missing_keys_have_the_defaults_of_the_family(
    model_type: str,
) -> None:
    """The defaults of transformers: a minimal and a complete config.json give the same config."""
    from transformers import CONFIG_MAPPING, AutoConfig

    if model_type not in CONFIG_MAPPING:  # exaone before transformers 5.24
        pytest.skip(f"this transformers has no class for {model_type}")
    complete = AutoConfig.for_model(model_type).to_dict() | {"architectures": None}
    family = FAMILIES.get(model_type)
    backbone = next(name for name, head in family.heads(_reader({})).items() if not head.rules)
    minimal = {"model_type": model_type, "architectures": [backbone]}
    assert parse_config(minimal, []).config == parse_config(complete | minimal, []).config


def test_exaone_of_transformers_opens_under_the_names_it_has_in_memory() -> None:
    if not HAS_EXAONE:
        pytest.skip("this transformers has no class for exaone")
    [variant] = [each for each in VARIANTS if each.name == "exaone-saved"]
    hf = variant.model()
    config = hf.config.to_dict() | {"architectures": ["LlamaForCausalLM"]}
    opened = model_from_hf(config, hf.state_dict())
    ids = torch.randint(5, 50, (2, 9))
    assert torch.allclose(opened.model(ids), hf(ids).logits, atol=1e-5)
    written = hf_state_dict(opened.model, opened.architecture, opened.names, opened.unused)
    assert written.keys() == hf.state_dict().keys()


def _reader(values: Mapping[str, Any]) -> Any:
    from jumok.pretrained.config_reader import ConfigReader

    return ConfigReader(values)


def test_weights_are_not_copied(stored: Callable[[str], Files]) -> None:
    config, tensors = stored("gpt2-language")
    opened = model_from_hf(config, tensors)
    addresses = {tensor.untyped_storage().data_ptr() for tensor in tensors.values()}
    assert all(p.untyped_storage().data_ptr() in addresses for p in opened.model.parameters())
