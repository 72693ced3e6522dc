"""Tiny random models of transformers, and our models with the same weights."""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from jumok.models import EncoderDecoder, LanguageModel
from jumok.pretrained.checkpoint import open_checkpoint
from jumok.pretrained.state_dict import model_from_hf

PAD, BOS, EOS, V = 0, 2, 3, 31
SEED, ENDING = 9, 2.0  # of the weights; gain of the EOS logit: texts end early and late
WIDTH, HEADS, FF, LAYERS, LENGTH = 16, 2, 24, 2, 64
BART = {
    "vocab_size": V,
    "max_position_embeddings": LENGTH,
    "d_model": WIDTH,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_ffn_dim": FF,
    "decoder_ffn_dim": FF,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "pad_token_id": PAD,
    "eos_token_id": EOS,
    "forced_eos_token_id": None,
}


@dataclass(frozen=True)
class Pair:
    """A model of transformers and ours with the same weights."""

    theirs: Any  # a PreTrainedModel
    ours: EncoderDecoder | LanguageModel
    bos_id: int = BOS  # the first target token


def randomized_model(theirs: Any) -> Any:
    """Random parameters, so that no 0 or 1 hides a missing term and texts differ."""
    torch.manual_seed(SEED)
    for name, parameter in theirs.named_parameters():
        gain = 1.0 if re.search(r"(norm|ln_\w+)\.weight", name) else 0.0
        spread = 0.3 if parameter.ndim > 1 else 0.1
        parameter.data.copy_(gain + spread * torch.randn_like(parameter))
        if len(parameter) == V:
            parameter.data[EOS] *= ENDING
    return theirs.eval().requires_grad_(False)


def imported(theirs: Any, bos_id: int) -> Pair:
    """The pair, by way of the files that transformers saves."""
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        stored = open_checkpoint(Path(folder))
        ours: Any = model_from_hf(stored.config, stored.tensors).model
    return Pair(theirs, ours.eval().requires_grad_(False), bos_id)


def gpt2() -> Pair:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=V, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        n_inner=FF, bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD,
    )  # fmt: skip
    return imported(randomized_model(transformers.GPT2LMHeadModel(config)), BOS)


def marian() -> Pair:
    transformers = pytest.importorskip("transformers")
    config = transformers.MarianConfig(
        **BART, activation_function="swish", scale_embedding=True, decoder_start_token_id=PAD
    )
    theirs = randomized_model(transformers.MarianMTModel(config))
    for backbone in (theirs.model.encoder, theirs.model.decoder):  # sinusoids are not random
        backbone.embed_positions.weight.copy_(backbone.embed_positions.create_weight())
    return imported(theirs, PAD)


def bart() -> Pair:
    transformers = pytest.importorskip("transformers")
    config = transformers.BartConfig(**BART, bos_token_id=BOS, decoder_start_token_id=EOS)
    model = transformers.BartForConditionalGeneration(config)
    return imported(randomized_model(model), EOS)


def t5() -> Pair:
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=V, d_model=WIDTH, d_kv=6, d_ff=FF, num_layers=LAYERS, num_heads=HEADS,
        pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    return imported(randomized_model(model), PAD)


SHAPES = {"gpt2": gpt2, "marian": marian, "bart": bart, "t5": t5}
