"""convert_to_hf: equal outputs in transformers, or an error that names the settings to change."""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models import (
    EncoderDecoder,
    LanguageModel,
    MaskedLanguageModel,
    ReplacedTokenDetector,
    TextClassifier,
    TokenClassifier,
    TransformerConfig,
)
from jumok.models.weights import named_weights
from jumok.nn.masks import AttentionMask
from jumok.nn.rope import RopeConfig
from jumok.pretrained.adapt import SourceModel
from jumok.pretrained.family import HeadKind
from jumok.pretrained.state_dict import model_from_hf
from jumok.pretrained.to_hf import HFModel, convert_to_hf
from tests.errors import raises
from tests.nn.tolerances import randomized

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

SMALL_CONFIG: Mapping[str, Any] = {
    "vocabulary_size": 50,
    "d_model": 24,
    "n_heads": 3,
    "d_ff": 40,
    "n_layers": 2,
    "max_length": 16,
    "activation": "gelu",
}
LABELS = ("부정", "중립", "긍정")
IDS = {"pad": 0, "bos": 2, "eos": 3}


def config(**options: Any) -> TransformerConfig:
    return TransformerConfig(**{**SMALL_CONFIG, **options})


def source_model(
    kind: HeadKind, model: nn.Module, options: TransformerConfig, **extra: Any
) -> SourceModel:
    """A model with random weights, as a `SourceModel`."""
    weights = {name: p.detach() for name, p in named_weights(randomized(model).eval()).items()}
    labelled = kind in ("text_classifier", "token_classifier")
    return SourceModel(kind, options, weights, LABELS if labelled else (), ids=IDS, **extra)


def load_in_transformers(converted: HFModel, folder: Path) -> Any:
    """Load it with transformers; no tensor may be missing or unexpected."""
    (folder / "config.json").write_text(json.dumps(converted.config))
    save_file(converted.tensors, folder / "model.safetensors", {"format": "pt"})
    [name] = converted.config["architectures"]
    model, message = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not any(message.values()), message
    return model.eval()


def rows() -> tuple[Tensor, Tensor]:
    """ids (3, 9), attention mask (3, 9) with padding on the right."""
    mask = torch.arange(9) < torch.tensor([9, 5, 2])[:, None]
    ids = torch.randint(4, 50, (3, 9), generator=torch.Generator().manual_seed(5))
    return ids.masked_fill(~mask, 0), mask


@torch.no_grad()
def difference(kind: HeadKind, model: Any, hf_model: Any, segments: Tensor | None = None) -> float:
    """max|a-b| / max(1, max|b|) of the logits of mask tokens."""
    ids, mask = rows()
    inputs = {"input_ids": ids, "attention_mask": mask.long()}
    if segments is not None:
        inputs["token_type_ids"] = segments
    if kind == "encoder_decoder":
        targets = ids[:, :5].clamp(min=1, max=43)
        b = hf_model(**inputs, decoder_input_ids=targets).logits
        a = model(ids, targets, AttentionMask.from_padding(mask))
    elif kind == "text_classifier":
        b, a = hf_model(**inputs).logits, model(ids, mask, segments=segments)
    else:
        causal = kind == "language_model"
        extra = {} if causal else {"segments": segments}
        a = model(ids, AttentionMask.from_padding(mask, causal=causal), **extra)[mask]
        b = hf_model(**inputs).logits[mask]
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))


def family(converted: HFModel) -> str:
    return str(converted.config["model_type"])


ENCODERS = [
    {"norm_first": first, "positions": positions, "scale_embedding": scaled, "embedding_norm": True}
    for first, positions, scaled in product(
        (False, True), ("learned", "sinusoidal", "sinusoidal_halves"), (False, True)
    )
    if not (first and scaled)
]


@pytest.mark.parametrize("options", ENCODERS, ids=lambda m: "-".join(map(str, m.values())))
def test_encoders(tmp_path: Path, options: dict[str, Any]) -> None:
    """Post-norm encoders become BERT, pre-norm encoders MegatronBERT, with any positions."""
    if options["norm_first"]:
        options = options | {"embedding_norm": False}
    model_config = config(**options, n_segments=2)
    model = TextClassifier(model_config, 3, "first", "tanh")
    converted = convert_to_hf(source_model("text_classifier", model, model_config, pooler="tanh"))
    assert family(converted) == ("megatron-bert" if model_config.norm_first else "bert")
    hf_model = load_in_transformers(converted, tmp_path)
    segments = (torch.arange(9) > 1).long().expand(3, 9)
    assert difference("text_classifier", model, hf_model, segments) <= 1e-5
    assert [hf_model.config.id2label[i] for i in range(3)] == list(LABELS)
    assert hf_model.config.pad_token_id == 0


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_masked_language_models(tmp_path: Path, scaled: bool, tied: bool) -> None:
    model_config = config(scale_embedding=scaled, tie_embeddings=tied, embedding_norm=True)
    model = MaskedLanguageModel(model_config)
    converted = convert_to_hf(source_model("masked_language_model", model, model_config))
    assert converted.config["architectures"] == ["BertForMaskedLM"]
    assert (
        difference("masked_language_model", model, load_in_transformers(converted, tmp_path))
        <= 1e-5
    )


def test_token_classifiers(tmp_path: Path) -> None:
    model_config = config(embedding_norm=True, positions="learned", activation="relu")
    model = TokenClassifier(model_config, 3)
    converted = convert_to_hf(source_model("token_classifier", model, model_config))
    assert converted.config["architectures"] == ["BertForTokenClassification"]
    assert difference("token_classifier", model, load_in_transformers(converted, tmp_path)) <= 1e-5


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_language_models(tmp_path: Path, positions: Any, activation: Any) -> None:
    model_config = config(
        norm_first=True,
        positions=positions,
        activation=activation,
        tie_embeddings=activation != "silu",
        scale_embedding=activation != "gelu",
    )
    model = LanguageModel(model_config)
    converted = convert_to_hf(source_model("language_model", model, model_config))
    assert converted.config["architectures"] == ["GPT2LMHeadModel"]
    assert difference("language_model", model, load_in_transformers(converted, tmp_path)) <= 1e-5


T5: Mapping[str, Any] = {
    "norm_first": True,
    "positions": "relative",
    "norm": "rms",
    "bias": False,
    "attention_scale": 1.0,
    "scale_embedding": False,
    "norm_eps": 1e-6,
}


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ("marian", {}),
        ("marian", {"positions": "sinusoidal_halves", "scale_embedding": False}),
        ("marian", {"d_model": 21, "activation": "relu", "n_decoder_layers": 1}),
        ("marian", {"target_vocabulary_size": 44}),
        ("marian", {"target_vocabulary_size": 44, "tie_embeddings": False}),
        ("marian", {"output_bias": True}),
        ("marian", {"tie_embeddings": "inputs"}),
        ("pegasus", {"norm_first": True}),
        ("bart", {"positions": "learned", "embedding_norm": True}),
        ("mbart", {"positions": "learned", "embedding_norm": True, "norm_first": True}),
        ("t5", T5),
        ("t5", {**T5, "gated": True, "activation": "gelu_tanh", "d_head": 5}),
        (
            "t5",
            {**T5, "activation": "relu", "scale_output": True, "relative_attention_num_buckets": 8},
        ),
        ("t5", {**T5, "tie_embeddings": "inputs", "activation": "silu", "max_length": 2**17}),
    ],
)
def test_encoder_decoders(tmp_path: Path, expected: str, options: dict[str, Any]) -> None:
    model_config = config(**options)
    model = EncoderDecoder(model_config)
    converted = convert_to_hf(source_model("encoder_decoder", model, model_config))
    assert family(converted) == expected
    hf_model = load_in_transformers(converted, tmp_path)
    assert difference("encoder_decoder", model, hf_model) <= 1e-5
    assert hf_model.generation_config.decoder_start_token_id == IDS["bos"]
    assert hf_model.generation_config.eos_token_id == IDS["eos"]


def test_converted_model_can_be_loaded(tmp_path: Path) -> None:
    """A converted model loads as a Hugging Face checkpoint with equal outputs."""
    model_config = config(norm_first=True)
    model = EncoderDecoder(model_config)
    converted = convert_to_hf(source_model("encoder_decoder", model, model_config))
    again: Any = model_from_hf(converted.config, converted.tensors).model.eval()
    ids, mask = rows()
    mask = AttentionMask.from_padding(mask)
    with torch.no_grad():
        difference = (model(ids, ids[:, :4], mask) - again(ids, ids[:, :4], mask)).abs().max()
    assert float(difference) <= 1e-5


def test_source_weights_do_not_change() -> None:
    model_config = config(embedding_norm=True, scale_embedding=True, tie_embeddings=True)
    source = source_model("masked_language_model", MaskedLanguageModel(model_config), model_config)
    before = {name: tensor.clone() for name, tensor in source.weights.items()}
    convert_to_hf(source)
    assert all(torch.equal(source.weights[name], tensor) for name, tensor in before.items())


# Unsupported models

ROTARY: dict[str, Any] = {
    "norm_first": True,
    "positions": "rotary",
    "norm": "rms",
    "gated": True,
    "bias": False,
    "activation": "silu",
    "n_heads": 4,
    "n_kv_heads": 2,
    "n_layers": 4,
}
POST = {"norm_first": False, "sublayer_norm": True, "qk_norm": True}
LLAMA3 = {"scaling": "llama3", "factor": 8.0, "original_length": 6, "base": 100.0}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "llama"),
        ({"rope": RopeConfig(scaling="linear", factor=4.0)}, "llama"),
        ({"rope": RopeConfig(**LLAMA3)}, "llama"),
        ({"layer_pattern": "L", "sliding_window": 4}, "mistral"),
        ({"qk_norm": True, "d_head": 8}, "qwen3"),
        ({"qk_norm": True, "layer_pattern": "LLG", "sliding_window": 3}, "qwen3"),
        ({"qk_norm": True, "layer_pattern": "L", "sliding_window": 3}, "qwen3"),
        ({"qk_norm": True, "rope": RopeConfig(**LLAMA3)}, "qwen3"),
        (POST, "exaone4"),
        (POST | {"layer_pattern": "LLLN", "sliding_window": 4}, "exaone4"),
        (POST | {"layer_pattern": "LN", "sliding_window": 3, "scale_embedding": True}, "exaone4"),
    ],
)
def test_decoders_of_the_llama_family(
    tmp_path: Path, options: dict[str, Any], expected: str, tied: bool
) -> None:
    """The texts are longer than the windows."""
    model_config = config(**{**ROTARY, "scale_embedding": False, "tie_embeddings": tied, **options})
    model = LanguageModel(model_config)
    converted = convert_to_hf(source_model("language_model", model, model_config))
    assert family(converted) == expected
    assert difference("language_model", model, load_in_transformers(converted, tmp_path)) <= 1e-5
    again: Any = model_from_hf(converted.config, converted.tensors).model.eval()
    ids, mask = rows()
    causal = AttentionMask.from_padding(mask, causal=True)
    with torch.no_grad():
        ours, found = model(ids, causal)[mask], again(ids, causal)[mask]
    torch.testing.assert_close(found, ours, rtol=0, atol=1e-5 * float(ours.abs().max()))


UNSUPPORTED: list[tuple[HeadKind, dict[str, Any], dict[str, Any], str, list[str]]] = [
    ("text_classifier", {"embedding_norm": True}, {"pooling": "mean"}, "bert",
     ['model.pooling = "first"', 'model.pooler = "tanh"']),
    ("text_classifier", {"embedding_norm": True}, {"pooler": "gelu"}, "bert",
     ['model.pooler = "tanh"']),
    ("token_classifier", {"positions": "rotary", "embedding_norm": True, "d_head": 4}, {}, "bert",
     ['model.positions = "learned"', "no model.d_head"]),
    ("token_classifier", {}, {}, "bert", ["model.embedding_norm = true"]),
    ("masked_language_model", {"norm": "rms", "gated": True, "embedding_norm": True}, {}, "bert",
     ['model.norm = "layer"', "model.gated = false"]),
    ("masked_language_model", {"d_embedding": 12, "embedding_norm": True}, {}, "bert",
     ["no model.d_embedding"]),
    ("language_model", {}, {}, "gpt2", ["model.norm_first = true"]),
    ("language_model", {"norm_first": True, "positions": "rotary"}, {}, "gpt2",
     ['model.positions = "learned"']),
    ("language_model", {"norm_first": True, "bias": False}, {}, "gpt2", ["model.bias = true"]),
    ("language_model", {**ROTARY, "qk_norm": True, "norm": "layer"}, {}, "qwen3",
     ['model.norm = "rms"']),
    ("language_model", {**ROTARY, "attention_bias": "qkv"}, {}, "llama",
     ["no model.attention_bias"]),
    ("language_model", {**ROTARY, "layer_pattern": "LLLG", "sliding_window": 4}, {}, "mistral",
     ['model.layer_pattern = "L"']),
    ("encoder_decoder", {"positions": "rotary"}, {}, "marian",
     ['model.positions = "sinusoidal_halves"']),
    ("encoder_decoder", {"positions": "learned"}, {}, "marian",
     ['model.positions = "sinusoidal_halves"']),
    ("encoder_decoder", {"positions": "learned", "norm": "rms", "embedding_norm": True}, {}, "bart",
     ['model.norm = "layer"']),
    ("masked_language_model", {"activation": "relu", "embedding_norm": True}, {}, "bert",
     ['model.head_activation = "relu"']),
    ("encoder_decoder", {**T5, "max_length": 99, "bias": True}, {}, "t5", ["model.bias = false"]),
    ("encoder_decoder", {"norm_first": True, "target_vocabulary_size": 44}, {}, "",
     ["model.norm_first = false"]),
]  # fmt: skip
MODULES: Mapping[HeadKind, Any] = {
    "text_classifier": lambda model_config: TextClassifier(model_config, 3),
    "token_classifier": lambda model_config: TokenClassifier(model_config, 3),
    "masked_language_model": MaskedLanguageModel,
    "language_model": LanguageModel,
    "encoder_decoder": EncoderDecoder,
}


def test_kinds_without_equivalent() -> None:
    model_config = config()
    with raises(InputError, "pretrained.transformers_no_equivalent"):
        convert_to_hf(
            source_model(
                "replaced_token_detector", ReplacedTokenDetector(model_config), model_config
            )
        )


@pytest.mark.parametrize("case", range(len(UNSUPPORTED)))
def test_named_settings_make_the_conversion_possible(case: int) -> None:
    """With every named setting the model can be converted."""
    kind, options, extra, _, expected = UNSUPPORTED[case]
    changed, kept = dict(options), dict(extra)
    for setting in expected:
        key, _, value = setting.removeprefix("no ").removeprefix("model.").partition(" = ")
        if setting.startswith("no "):
            changed.pop(key)
        elif key in ("pooling", "pooler"):
            kept[key] = json.loads(value)
        else:
            changed[key] = json.loads(value)
    if kind == "text_classifier":
        kept = {"pooler": "tanh"} | kept
    model_config = config(**changed)
    model = (
        TextClassifier(model_config, 3, kept.get("pooling", "first"), kept["pooler"])
        if kind == "text_classifier"
        else MODULES[kind](model_config)
    )
    assert convert_to_hf(source_model(kind, model, model_config, **kept)).tensors
