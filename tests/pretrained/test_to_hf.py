"""Our models in the words of transformers: the same numbers, or a sentence that says why not."""

import json
import re
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
from jumok.pretrained.adapt import SourceModel
from jumok.pretrained.family import HeadKind
from jumok.pretrained.state_dict import model_from_hf
from jumok.pretrained.to_hf import HFModel, convert_to_hf
from tests.nn.tolerances import randomized

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

MEASURES: Mapping[str, Any] = {
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


def config(**measures: Any) -> TransformerConfig:
    return TransformerConfig(**{**MEASURES, **measures})


def ours(kind: HeadKind, model: nn.Module, measures: TransformerConfig, **more: Any) -> SourceModel:
    """A model with every weight drawn anew, as it is to be expressed."""
    weights = {name: p.detach() for name, p in named_weights(randomized(model).eval()).items()}
    labelled = kind in ("text_classifier", "token_classifier")
    return SourceModel(kind, measures, weights, LABELS if labelled else (), ids=IDS, **more)


def opened(found: HFModel, folder: Path) -> Any:
    """What transformers makes of it; no tensor may be missing or left over."""
    (folder / "config.json").write_text(json.dumps(found.config))
    save_file(found.tensors, folder / "model.safetensors", {"format": "pt"})
    [name] = found.config["architectures"]
    model, told = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
    return model.eval()


def rows() -> tuple[Tensor, Tensor]:
    """ids (3, 9), real (3, 9) with padding on the right."""
    real = torch.arange(9) < torch.tensor([9, 5, 2])[:, None]
    ids = torch.randint(4, 50, (3, 9), generator=torch.Generator().manual_seed(5))
    return ids.masked_fill(~real, 0), real


@torch.no_grad()
def difference(kind: HeadKind, model: Any, theirs: Any, segments: Tensor | None = None) -> float:
    """max|a-b| / max(1, max|b|) of the logits of real tokens."""
    ids, real = rows()
    asked = {"input_ids": ids, "attention_mask": real.long()}
    if segments is not None:
        asked["token_type_ids"] = segments
    if kind == "encoder_decoder":
        given = ids[:, :5].clamp(min=1, max=43)
        b = theirs(**asked, decoder_input_ids=given).logits
        a = model(ids, given, AttentionMask.from_padding(real))
    elif kind == "text_classifier":
        b, a = theirs(**asked).logits, model(ids, real, segments=segments)
    else:
        causal = kind == "language_model"
        more = {} if causal else {"segments": segments}
        a = model(ids, AttentionMask.from_padding(real, causal=causal), **more)[real]
        b = theirs(**asked).logits[real]
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))


def family(found: HFModel) -> str:
    return str(found.config["model_type"])


ENCODERS = [
    {"norm_first": first, "positions": positions, "scale_embedding": scaled, "embedding_norm": True}
    for first, positions, scaled in product(
        (False, True), ("learned", "sinusoidal", "sinusoidal_halves"), (False, True)
    )
    if not (first and scaled)
]


@pytest.mark.parametrize("measures", ENCODERS, ids=lambda m: "-".join(map(str, m.values())))
def test_encoders(tmp_path: Path, measures: dict[str, Any]) -> None:
    """A post-norm one is a BERT, a pre-norm one a MegatronBERT, whatever counts its positions."""
    if measures["norm_first"]:
        measures = measures | {"embedding_norm": False}
    said = config(**measures, n_segments=2)
    model = TextClassifier(said, 3, "first", "tanh")
    found = convert_to_hf(ours("text_classifier", model, said, pooler="tanh"))
    assert family(found) == ("megatron-bert" if said.norm_first else "bert")
    theirs = opened(found, tmp_path)
    segments = (torch.arange(9) > 1).long().expand(3, 9)
    assert difference("text_classifier", model, theirs, segments) <= 1e-5
    assert [theirs.config.id2label[i] for i in range(3)] == list(LABELS)
    assert theirs.config.pad_token_id == 0


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_what_fills_in_blanks(tmp_path: Path, scaled: bool, tied: bool) -> None:
    said = config(scale_embedding=scaled, tie_embeddings=tied, embedding_norm=True)
    model = MaskedLanguageModel(said)
    found = convert_to_hf(ours("masked_language_model", model, said))
    assert found.config["architectures"] == ["BertForMaskedLM"]
    assert difference("masked_language_model", model, opened(found, tmp_path)) <= 1e-5


def test_what_tags_tokens(tmp_path: Path) -> None:
    said = config(embedding_norm=True, positions="learned", activation="relu")
    model = TokenClassifier(said, 3)
    found = convert_to_hf(ours("token_classifier", model, said))
    assert found.config["architectures"] == ["BertForTokenClassification"]
    assert difference("token_classifier", model, opened(found, tmp_path)) <= 1e-5


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_language_models(tmp_path: Path, positions: Any, activation: Any) -> None:
    said = config(
        norm_first=True,
        positions=positions,
        activation=activation,
        tie_embeddings=activation != "silu",
        scale_embedding=activation != "gelu",
    )
    model = LanguageModel(said)
    found = convert_to_hf(ours("language_model", model, said))
    assert found.config["architectures"] == ["GPT2LMHeadModel"]
    assert difference("language_model", model, opened(found, tmp_path)) <= 1e-5


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
    ("wanted", "measures"),
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
def test_what_reads_and_writes(tmp_path: Path, wanted: str, measures: dict[str, Any]) -> None:
    said = config(**measures)
    model = EncoderDecoder(said)
    found = convert_to_hf(ours("encoder_decoder", model, said))
    assert family(found) == wanted
    theirs = opened(found, tmp_path)
    assert difference("encoder_decoder", model, theirs) <= 1e-5
    assert theirs.generation_config.decoder_start_token_id == IDS["bos"]
    assert theirs.generation_config.eos_token_id == IDS["eos"]


def test_the_way_back(tmp_path: Path) -> None:
    """What was expressed opens as a foreign checkpoint and gives the same."""
    said = config(norm_first=True)
    model = EncoderDecoder(said)
    found = convert_to_hf(ours("encoder_decoder", model, said))
    again: Any = model_from_hf(found.config, found.tensors).model.eval()
    ids, real = rows()
    mask = AttentionMask.from_padding(real)
    with torch.no_grad():
        difference = (model(ids, ids[:, :4], mask) - again(ids, ids[:, :4], mask)).abs().max()
    assert float(difference) <= 1e-5


def test_weights_that_came_stay_as_they_are() -> None:
    said = config(embedding_norm=True, scale_embedding=True, tie_embeddings=True)
    one = ours("masked_language_model", MaskedLanguageModel(said), said)
    before = {name: tensor.clone() for name, tensor in one.weights.items()}
    convert_to_hf(one)
    assert all(torch.equal(one.weights[name], tensor) for name, tensor in before.items())


# What cannot be said

REFUSED: list[tuple[HeadKind, dict[str, Any], dict[str, Any], str, list[str]]] = [
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
    "text_classifier": lambda said: TextClassifier(said, 3),
    "token_classifier": lambda said: TokenClassifier(said, 3),
    "masked_language_model": MaskedLanguageModel,
    "language_model": LanguageModel,
    "encoder_decoder": EncoderDecoder,
}


@pytest.mark.parametrize(("kind", "measures", "more", "nearest", "wanted"), REFUSED)
def test_a_refusal_names_what_would_do(
    kind: HeadKind, measures: dict[str, Any], more: dict[str, Any], nearest: str, wanted: list[str]
) -> None:
    said = config(**measures)
    pooler = {"pooler": "tanh"} if kind == "text_classifier" and "pooling" not in more else {}
    with pytest.raises(InputError) as caught:
        convert_to_hf(ours(kind, MODULES[kind](said), said, **(pooler | more)))
    told = re.fullmatch(
        r"transformers cannot express this model; a (\S+) could, with (.+); train it so, or "
        r"export it to onnx or ctranslate2",
        str(caught.value),
    )
    assert told
    assert told[1] == nearest or not nearest
    assert sorted(told[2].split(", ")) == sorted(wanted)


def test_of_some_models_nobody_has_a_like() -> None:
    said = config()
    with pytest.raises(InputError, match="transformers has no model like a replaced token detec"):
        convert_to_hf(ours("replaced_token_detector", ReplacedTokenDetector(said), said))


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_a_refusal_names_makes_it_possible(case: int) -> None:
    """The recipe with every key it names can be expressed."""
    kind, measures, more, _, wanted = REFUSED[case]
    changed, kept = dict(measures), dict(more)
    for words in wanted:
        key, _, value = words.removeprefix("no ").removeprefix("model.").partition(" = ")
        if words.startswith("no "):
            changed.pop(key)
        elif key in ("pooling", "pooler"):
            kept[key] = json.loads(value)
        else:
            changed[key] = json.loads(value)
    if kind == "text_classifier":
        kept = {"pooler": "tanh"} | kept
    said = config(**changed)
    model = (
        TextClassifier(said, 3, kept.get("pooling", "first"), kept["pooler"])
        if kind == "text_classifier"
        else MODULES[kind](said)
    )
    assert convert_to_hf(ours(kind, model, said, **kept)).tensors
