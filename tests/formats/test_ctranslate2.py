"""`--to ctranslate2`: the same log-probabilities, the same texts."""

from pathlib import Path

import pytest
import torch
from torch import nn

from jumok import load
from jumok.decoding import DecodingConfig, GenerationRequest, generate_lm, generate_seq2seq
from jumok.export.samples import random_rows, to_lists
from jumok.formats.ctranslate2 import CTranslate2
from jumok.formats.ctranslate2_model import ConvertedModel, convert
from jumok.formats.ctranslate2_spec import SpecVocabulary, unsupported_reason
from jumok.formats.parity import target_log_probs, text_log_probs
from jumok.models import EncoderDecoder, LanguageModel, TextClassifier
from jumok.models.weights import named_weights
from tests.export.small_models import config, drawn

pytest.importorskip("ctranslate2")

SOURCE, TARGET = ([f"{side}{i}" for i in range(40)] for side in "st")
# Another engine adds in another order, and its int8 products depend on the processor (with AVX2
# weights and inputs are shifted otherwise than with VNNI). Largest differences of log-probabilities
# seen with AVX2: 2.6e-5 in float32 (T5, whose scores are not scaled), 0.225 in int8.
FLOAT32_TOLERANCE, INT8_TOLERANCE = 5e-5, 0.4
TOGETHER = SpecVocabulary(TARGET, TARGET, bos="t2", eos="t3", unk="t1")
T5 = {
    "positions": "relative",
    "norm": "rms",
    "norm_first": True,
    "gated": True,
    "activation": "gelu_tanh",
    "bias": False,
    "d_head": 12,
    "attention_scale": 1.0,
    "scale_embedding": False,
    "scale_output": True,
    "norm_eps": 1e-6,
}
GPT2 = {"positions": "learned", "norm_first": True, "activation": "gelu", "output_bias": True}
LLAMA = {
    "positions": "rotary",
    "norm": "rms",
    "norm_first": True,
    "gated": True,
    "activation": "silu",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"n_decoder_layers": 1, "embedding_norm": True},
        {"positions": "sinusoidal_halves", "norm_first": True, "tie_embeddings": False},
        {"positions": "learned", "n_segments": 2, "output_bias": True, "activation": "silu"},
        {"positions": "none", "activation": "gelu"},
        {"ffn_projection": "conv1d", "fused_qkv": True, "position_offset": 1},
        LLAMA,
        T5,
    ],
)
def test_encoder_decoders(changes: dict[str, object], tmp_path: Path) -> None:
    model = drawn(EncoderDecoder(config(**changes)))
    assert isinstance(model, EncoderDecoder)
    sources = [[*row[:-1], 3] for row in to_lists(random_rows(model, 8))]
    targets = [row[::-1][1:] for row in sources]
    convert(model, TOGETHER, tmp_path, "float32")
    converted = ConvertedModel(tmp_path, TOGETHER, "float32", has_encoder=True)
    actual = [target_log_probs(model, *pair, 2, 3) for pair in zip(sources, targets, strict=True)]
    assert_near(converted.log_probabilities(sources, targets), actual)
    for beam in (1, 4):
        how = DecodingConfig(beam=beam, early_stopping=True, max_length=12)
        for source, written in zip(sources, converted.generate(sources, beam, 12), strict=True):
            ids = torch.tensor([source])
            [[best]] = generate_seq2seq(
                model, ids, None, GenerationRequest(how, end_id=3), bos_id=2
            )
            assert written == best.ids


@pytest.mark.parametrize("changes", [GPT2, LLAMA, {"positions": "sinusoidal"}])
def test_language_models(changes: dict[str, object], tmp_path: Path) -> None:
    model = drawn(LanguageModel(config(**changes)))
    assert isinstance(model, LanguageModel)
    texts = [row for row in to_lists(random_rows(model, 8)) if len(row) > 4]
    convert(model, TOGETHER, tmp_path, "float32")
    converted = ConvertedModel(tmp_path, TOGETHER, "float32", has_encoder=False)
    actual = [text_log_probs(model, text) for text in texts]
    assert_near(converted.log_probabilities(texts, []), actual)
    prompts = [text[:4] for text in texts]
    for beam in (1, 4):
        how = DecodingConfig(beam=beam, early_stopping=True, max_length=12)
        answers = generate_lm(model, torch.tensor(prompts), None, GenerationRequest(how, end_id=3))
        assert converted.generate(prompts, beam, 12) == [best.ids for (best,) in answers]
    unequal = [text[: 1 + number % 5] for number, text in enumerate(texts)]
    alone = [converted.generate([prompt], 1, 12)[0] for prompt in unequal]
    assert converted.generate(unequal, 1, 12) == alone


def test_two_vocabularies_and_int8(tmp_path: Path) -> None:
    model = drawn(EncoderDecoder(config(vocabulary_size=30, target_vocabulary_size=40)))
    assert isinstance(model, EncoderDecoder)
    before = {name: weight.clone() for name, weight in named_weights(model).items()}
    overrides = SpecVocabulary([*SOURCE[:29], "t3"], TARGET, bos="t2", eos="t3", unk="s1")
    convert(model, overrides, tmp_path, "int8")
    for name, weight in named_weights(model).items():
        assert torch.equal(weight, before[name])  # the converter scales its own copies
    converted = ConvertedModel(tmp_path, overrides, "int8", has_encoder=True)
    (reference,) = converted.log_probabilities([[5, 6, 7, 29]], [[8, 9, 10]])
    actual = target_log_probs(model, [5, 6, 7, 29], [8, 9, 10], 2, 3)
    assert reference == pytest.approx(actual, abs=INT8_TOLERANCE)
    assert reference != pytest.approx(actual, abs=1e-5)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TextClassifier(config(), 2), "got the class TextClassifier"),
        (LanguageModel(config(positions="relative")), "relative positions of prompts"),
        (
            EncoderDecoder(config(positions="rotary", n_segments=2)),
            "segment embeddings without positions",
        ),
        (EncoderDecoder(config(positions="sinusoidal_rotary")), "positions that are added and"),
    ],
)
def test_unsupported_models(model: nn.Module, message: str) -> None:
    reason = unsupported_reason(model)
    assert reason is not None
    assert message in str(reason)


def test_words_of_a_vocabulary(reading_run: Path) -> None:
    vocabulary = load(reading_run).vocabulary
    n = len(vocabulary)
    overrides = SpecVocabulary.of(vocabulary, vocabulary, n, n + 2)
    assert (overrides.bos, overrides.eos, overrides.unk) == ("[BOS]", "[EOS]", "[UNK]")
    assert overrides.source == overrides.target[:n]
    assert overrides.target[n:] == [f"[ROW {n}]", f"[ROW {n + 1}]"]


def test_the_usage_example(reading_run: Path) -> None:
    text = CTranslate2().usage_example(load(reading_run))
    compile(text, "README.md", "exec")
    assert 'SentencePieceProcessor("vocabulary.model")' in text
    assert "translate_batch([tokens]" in text


def assert_near(reference: list[list[float]], actual: list[list[float]]) -> None:
    assert [len(row) for row in reference] == [len(row) for row in actual]
    for a, b in zip(reference, actual, strict=True):
        assert a == pytest.approx(b, abs=FLOAT32_TOLERANCE)
