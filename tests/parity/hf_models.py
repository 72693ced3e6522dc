"""Tiny random models of transformers, and our models with the same weights."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from jumok.models import EncoderDecoder, LanguageModel, TransformerConfig
from jumok.models.weights import load_weights

PAD, BOS, EOS, V = 0, 2, 3, 31
SEED, ENDING = 9, 2.0  # of the weights; gain of the EOS logit: texts end early and late
WIDTH, HEADS, FF, LAYERS, LENGTH = 16, 2, 24, 2, 64


@dataclass(frozen=True)
class Pair:
    """A model of transformers and ours with the same weights."""

    theirs: Any  # a PreTrainedModel
    ours: EncoderDecoder | LanguageModel
    bos_id: int = BOS  # the first target token


def renamed(tensors: dict[str, Tensor], table: list[tuple[str, str]]) -> dict[str, Tensor]:
    """The tensors renamed by the first matching pattern; tensors without a match are left out."""
    result = {}
    for name, tensor in tensors.items():
        for pattern, replacement in table:
            if re.fullmatch(pattern, name):
                result[re.sub(pattern, replacement, name)] = tensor.clone()
                break
    return result


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


def _finished(ours: Any) -> Any:
    return ours.eval().requires_grad_(False)


def gpt2() -> Pair:
    transformers = pytest.importorskip("transformers")
    theirs = randomized_model(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=V, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
                n_inner=FF, bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD,
            )
        )
    )  # fmt: skip
    layer = r"transformer\.h\.(\d+)\."
    into = r"decoder.stack.layers.\1."
    found = renamed(
        theirs.state_dict(),
        [
            (r"transformer\.wte\.weight", "decoder.embedding.tokens.weight"),
            (r"transformer\.wpe\.weight", "decoder.embedding.positions.weight"),
            (r"transformer\.ln_f\.(\w+)", r"decoder.stack.norm.\1"),
            (layer + r"ln_1\.(\w+)", into + r"self_attention_norm.norm.\2"),
            (layer + r"ln_2\.(\w+)", into + r"feed_forward_norm.norm.\2"),
            (layer + r"attn\.c_attn\.(\w+)", into + r"self_attention.qkv.\2"),
            (layer + r"attn\.c_proj\.(\w+)", into + r"self_attention.output.\2"),
            (layer + r"mlp\.c_fc\.(\w+)", into + r"feed_forward.up.\2"),
            (layer + r"mlp\.c_proj\.(\w+)", into + r"feed_forward.down.\2"),
        ],
    )
    tensors = {}
    for name, tensor in found.items():
        conv = re.search(r"(qkv|output|up|down)\.weight", name)
        transposed = tensor.mT if conv else tensor  # Conv1D is a transposed linear layer
        if ".qkv." in name:
            for part, rows in zip(("query", "key", "value"), transposed.chunk(3), strict=True):
                tensors[name.replace("qkv", part)] = rows
        else:
            tensors[name] = transposed
    ours = LanguageModel(
        TransformerConfig(
            vocabulary_size=V, d_model=WIDTH, n_heads=HEADS, d_ff=FF, n_layers=LAYERS,
            positions="learned", max_length=LENGTH, norm_first=True, activation="gelu_tanh",
            scale_embedding=False,
        )
    )  # fmt: skip
    load_weights(ours, tensors)
    return Pair(theirs, _finished(ours))


def marian() -> Pair:
    transformers = pytest.importorskip("transformers")
    theirs = randomized_model(
        transformers.MarianMTModel(
            transformers.MarianConfig(
                vocab_size=V, max_position_embeddings=LENGTH, d_model=WIDTH,
                encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_ffn_dim=FF,
                decoder_ffn_dim=FF, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
                activation_function="swish", scale_embedding=True, pad_token_id=PAD,
                eos_token_id=EOS, decoder_start_token_id=PAD, forced_eos_token_id=None,
            )
        )
    )  # fmt: skip
    for backbone in (theirs.model.encoder, theirs.model.decoder):  # sinusoids are not random
        backbone.embed_positions.weight.copy_(backbone.embed_positions.create_weight())
    ours = EncoderDecoder(
        TransformerConfig(
            vocabulary_size=V, d_model=WIDTH, n_heads=HEADS, d_ff=FF, n_layers=LAYERS,
            positions="sinusoidal_halves", max_length=LENGTH, activation="silu",
        )
    )  # fmt: skip
    load_weights(ours, renamed(theirs.state_dict(), _bart_names()))
    return Pair(theirs, _finished(ours), bos_id=PAD)


def bart() -> Pair:
    transformers = pytest.importorskip("transformers")
    theirs = randomized_model(
        transformers.BartForConditionalGeneration(
            transformers.BartConfig(
                vocab_size=V, max_position_embeddings=LENGTH, d_model=WIDTH,
                encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_ffn_dim=FF,
                decoder_ffn_dim=FF, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
                pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=EOS,
                forced_eos_token_id=None,
            )
        )
    )  # fmt: skip
    tensors = renamed(
        theirs.state_dict(),
        [
            *_bart_names(),
            (r"model\.(\w+)\.embed_positions\.weight", r"\1.embedding.positions.weight"),
            (r"model\.(\w+)\.layernorm_embedding\.(\w+)", r"\1.embedding.norm.\2"),
        ],
    )
    for backbone in ("encoder", "decoder"):  # its first two positions are unused
        name = f"{backbone}.embedding.positions.weight"
        tensors[name] = tensors[name][2:]
    ours = EncoderDecoder(
        TransformerConfig(
            vocabulary_size=V, d_model=WIDTH, n_heads=HEADS, d_ff=FF, n_layers=LAYERS,
            positions="learned", max_length=LENGTH, activation="gelu", scale_embedding=False,
            embedding_norm=True,
        )
    )  # fmt: skip
    load_weights(ours, tensors)
    return Pair(theirs, _finished(ours), bos_id=EOS)


def _bart_names() -> list[tuple[str, str]]:
    layer, into = r"model\.(\w+)\.layers\.(\d+)\.", r"\1.stack.layers.\2."
    names = [(r"model\.shared\.weight", "encoder.embedding.tokens.weight")]
    for theirs, ours in (("self_attn", "self_attention"), ("encoder_attn", "cross_attention")):
        for q, query in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
            names.append((layer + rf"{theirs}\.{q}_proj\.(\w+)", into + rf"{ours}.{query}.\3"))
        names.append((layer + rf"{theirs}_layer_norm\.(\w+)", into + rf"{ours}_norm.norm.\3"))
    return [
        *names,
        (layer + r"fc1\.(\w+)", into + r"feed_forward.up.\3"),
        (layer + r"fc2\.(\w+)", into + r"feed_forward.down.\3"),
        (layer + r"final_layer_norm\.(\w+)", into + r"feed_forward_norm.norm.\3"),
    ]


def t5() -> Pair:
    transformers = pytest.importorskip("transformers")
    theirs = randomized_model(
        transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=V, d_model=WIDTH, d_kv=6, d_ff=FF, num_layers=LAYERS, num_heads=HEADS,
                pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
                tie_word_embeddings=False,
            )
        )
    )  # fmt: skip
    block, into = r"(\w+)\.block\.(\d+)\.layer\.", r"\1.stack.layers.\2."
    names = [
        (r"(\w+)\.embed_tokens\.weight", r"\1.embedding.tokens.weight"),
        (r"lm_head\.weight", "output.weight"),
        (r"(\w+)\.final_layer_norm\.weight", r"\1.stack.norm.weight"),
        (
            r"(\w+)\.block\.0\.layer\.0\.SelfAttention\.relative_attention_bias\.weight",
            r"\1.stack.relative.bias.weight",
        ),
    ]
    for q, query in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
        names.append(
            (block + rf"0\.SelfAttention\.{q}\.weight", into + f"self_attention.{query}.weight")
        )
        names.append(
            (block + rf"1\.EncDecAttention\.{q}\.weight", into + f"cross_attention.{query}.weight")
        )
    names += [
        (block + r"0\.layer_norm\.weight", into + "self_attention_norm.norm.weight"),
        (block + r"\d\.DenseReluDense\.wi\.weight", into + "feed_forward.up.weight"),
        (block + r"\d\.DenseReluDense\.wo\.weight", into + "feed_forward.down.weight"),
        (r"(encoder)\.block\.(\d+)\.layer\.1\.layer_norm\.weight",
         into + "feed_forward_norm.norm.weight"),
        (block + r"1\.layer_norm\.weight", into + "cross_attention_norm.norm.weight"),
        (block + r"2\.layer_norm\.weight", into + "feed_forward_norm.norm.weight"),
    ]  # fmt: skip
    ours = EncoderDecoder(
        TransformerConfig(
            vocabulary_size=V, d_model=WIDTH, n_heads=HEADS, d_head=6, d_ff=FF, n_layers=LAYERS,
            positions="relative", max_length=LENGTH, norm="rms", norm_first=True, norm_eps=1e-6,
            bias=False, attention_scale=1.0, scale_embedding=False, tie_embeddings=False,
        )
    )  # fmt: skip
    load_weights(ours, renamed(theirs.state_dict(), names))
    return Pair(theirs, _finished(ours), bos_id=PAD)


SHAPES = {"gpt2": gpt2, "marian": marian, "bart": bart, "t5": t5}
