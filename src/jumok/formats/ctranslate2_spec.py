"""Convert jumok's modules to CTranslate2 model specs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from jumok.errors import ExportError, Message, ModelFileError
from jumok.models import Decoder, Encoder, EncoderDecoder, LanguageModel
from jumok.models.backbones import backbones
from jumok.native.torch_weights import activation_name
from jumok.nn import (
    LearnedPositions,
    MultiHeadAttention,
    RelativePositionBias,
    SinusoidalPositions,
)
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec
    from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
    from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
    from ctranslate2.specs.transformer_spec import (
        FeedForwardSpec,
        TransformerDecoderSpec,
        TransformerEncoderSpec,
    )


@dataclass(frozen=True)
class SpecVocabulary:
    """The tokens of a model's ids, and its special tokens.

    CTranslate2 appends [EOS] to sources itself, except for imported tokenizers, whose templates
    already contain the special tokens.
    """

    source: Sequence[str]
    target: Sequence[str]  # the same as `source` for a joint vocabulary
    bos: str
    eos: str
    unk: str
    adds_eos: bool = True

    @classmethod
    def of(
        cls, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, n_source: int, n_target: int
    ) -> "SpecVocabulary":
        """The tokens of a model with n embedding rows; rows without a piece get a placeholder.

        Raises InputError for a vocabulary with duplicate pieces.
        """
        source, target = _pieces(source_tokenizer, n_source), _pieces(target_tokenizer, n_target)
        bos, eos = target[target_tokenizer.decoder_start_id], target[target_tokenizer.eos_id]
        whole = isinstance(source_tokenizer, PretrainedTokenizer)
        return cls(source, target, bos, eos, source[source_tokenizer.unk_id], adds_eos=not whole)


def _pieces(vocabulary: Tokenizer, n: int) -> list[str]:
    pieces = [vocabulary.piece(i) for i in range(len(vocabulary))]
    pieces += [f"[ROW {i}]" for i in range(len(pieces), n)]
    if len(set(pieces)) < len(pieces):
        duplicate = next(piece for piece in pieces if pieces.count(piece) > 1)
        raise ModelFileError(
            "pretrained.piece_twice",
            "CTranslate2 needs unique pieces, got {duplicate!r} more than once",
            duplicate=duplicate,
        )
    return pieces


def unsupported_reason(model: nn.Module) -> Message | None:
    """Why CTranslate2 does not support a model; None if it does.

    >>> print(unsupported_reason(nn.Linear(1, 1)))
    CTranslate2 needs an encoder-decoder or a language model, got the class Linear
    """
    if not isinstance(model, EncoderDecoder | LanguageModel):
        return Message(
            "export.ctranslate2_kind",
            "CTranslate2 needs an encoder-decoder or a language model, got the class {kind}",
            kind=type(model).__name__,
        )
    for name, backbone in backbones(model).items():
        if extensions := backbone.stack.extensions():
            return _not_written(extensions[0], name)
        embedding = backbone.embedding
        if type(embedding.positions) not in (LearnedPositions, SinusoidalPositions, type(None)):
            return _not_written("positions of an extension", name)
        if embedding.positions is not None and backbone.stack.rotary is not None:
            return _not_written("positions that are added and rotate", name)
        if not isinstance(embedding.projection, nn.Identity):
            return Message(
                "export.ctranslate2_projection",
                "CTranslate2 does not support an embedding projection ({name}); train without "
                "model.d_embedding",
                name=name,
            )
        if embedding.segments is not None and embedding.positions is None:
            return Message(
                "export.ctranslate2_segments",
                "CTranslate2 does not support segment embeddings without positions ({name}); "
                "train with model.n_segments = 0",
                name=name,
            )
    if isinstance(model, LanguageModel) and model.decoder.stack.relative is not None:
        return Message(
            "export.ctranslate2_relative",
            "CTranslate2 computes relative positions of prompts differently after the first layer; "
            'train a language model with model.positions = "rotary"',
        )
    return None


def _not_written(extension: str, name: str) -> Message:
    return Message(
        "export.ctranslate2_extension",
        "jumok writes no {extension} ({name}) for CTranslate2",
        extension=extension,
        name=name,
    )


def specification(
    model: EncoderDecoder | LanguageModel, vocabulary: SpecVocabulary
) -> "TransformerSpec | TransformerDecoderModelSpec":
    """The spec of a model with copies of its weights.

    Raises InputError for a model that CTranslate2 does not support.
    """
    from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec

    reason = unsupported_reason(model)
    if reason is not None:
        raise ExportError(reason)
    decoder = _decoder(model)
    if isinstance(model, EncoderDecoder):
        spec = TransformerSpec(_encoder(model.encoder), decoder)
        spec.register_source_vocabulary(list(vocabulary.source))
        spec.register_target_vocabulary(list(vocabulary.target))
        spec.config.decoder_start_token = vocabulary.bos
        spec.config.add_source_eos = vocabulary.adds_eos
    else:
        spec = TransformerDecoderModelSpec(decoder)
        spec.register_vocabulary(list(vocabulary.target))
    spec.config.bos_token, spec.config.eos_token = vocabulary.bos, vocabulary.eos
    spec.config.unk_token = vocabulary.unk
    spec.config.layer_norm_epsilon = model.decoder.stack.layers[0].self_attention_norm.norm.eps
    spec.validate()
    return spec


def _settings(backbone: Encoder | Decoder) -> dict[str, Any]:
    """The settings of the spec of a backbone."""
    layers = backbone.stack.layers
    return {
        "num_layers": len(layers),
        "num_heads": layers[0].self_attention.n_heads,
        "pre_norm": layers[0].self_attention_norm.norm_first,
        "activation": _activation(layers[0].feed_forward),
        "layernorm_embedding": not isinstance(backbone.embedding.norm, nn.Identity),
        "relative_attention_bias": backbone.stack.relative is not None,
        "ffn_glu": isinstance(layers[0].feed_forward, GatedFeedForward),
        "rms_norm": isinstance(layers[0].self_attention_norm.norm, nn.RMSNorm),
        "rotary_dim": None if backbone.stack.rotary is None else 0,  # 0: the whole head
        "rotary_interleave": False,
        "rotary_base": 10_000,  # no other is written
    }


def _encoder(backbone: Encoder) -> "TransformerEncoderSpec":
    from ctranslate2.specs.transformer_spec import TransformerEncoderSpec

    spec = TransformerEncoderSpec(**_settings(backbone))
    _fill_backbone(spec, backbone)
    spec.embeddings[0].weight = _copy(backbone.embedding.tokens.weight)
    return spec


def _decoder(model: EncoderDecoder | LanguageModel) -> "TransformerDecoderSpec":
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec

    backbone, cross = model.decoder, isinstance(model, EncoderDecoder)
    spec = TransformerDecoderSpec(with_encoder_attention=cross, **_settings(backbone))
    _fill_backbone(spec, backbone)
    spec.embeddings.weight = _copy(backbone.embedding.tokens.weight)
    for layer, part in zip(backbone.stack.layers, spec.layer, strict=True):
        if layer.cross_attention is not None and layer.cross_attention_norm is not None:
            _fill_attention(
                part.attention,
                layer.cross_attention,
                layer.cross_attention_norm.norm,
                is_self_attention=False,
            )
    _fill_linear(spec.projection, model.output)
    if isinstance(model, EncoderDecoder) and model.output_scale != 1.0:
        spec.scale_outputs = model.output_scale
    return spec


def _fill_backbone(
    spec: "TransformerEncoderSpec | TransformerDecoderSpec", backbone: Encoder | Decoder
) -> None:
    """Everything except the token embedding and the cross-attention."""
    stack, embedding = backbone.stack, backbone.embedding
    spec.scale_embeddings = float(embedding.tokens.scale)
    if stack.relative is None and stack.rotary is None:  # else it would compute sinusoids
        spec.position_encodings.encodings = _position_table(backbone)
    if isinstance(embedding.norm, nn.LayerNorm | nn.RMSNorm):
        _fill_norm(spec.layernorm_embedding, embedding.norm)
    if isinstance(stack.norm, nn.LayerNorm | nn.RMSNorm):
        _fill_norm(spec.layer_norm, stack.norm)
    for layer, part in zip(stack.layers, spec.layer, strict=True):
        _fill_attention(
            part.self_attention,
            layer.self_attention,
            layer.self_attention_norm.norm,
            is_self_attention=True,
        )
        if isinstance(stack.relative, RelativePositionBias):
            part.self_attention.relative_attention_bias = _copy(stack.relative.bias.weight)
            distance = torch.tensor(stack.relative.max_distance, dtype=torch.int32)
            part.self_attention.relative_attention_max_distance = distance.numpy()[()]
        _fill_feed_forward(part.ffn, layer.feed_forward, layer.feed_forward_norm.norm)


def _position_table(backbone: Encoder | Decoder) -> Tensor:
    """Position embeddings plus those of segment 0, (max_length, D)."""
    positions, segments = backbone.embedding.positions, backbone.embedding.segments
    table = torch.zeros(backbone.embedding.max_length, backbone.embedding.tokens.embedding_dim)
    if isinstance(positions, SinusoidalPositions):
        table += positions.table[positions.offset :].cpu()
    elif isinstance(positions, LearnedPositions):
        table += _copy(positions.weight[positions.offset :])
    if segments is not None:
        table += _copy(segments.weight[:1])
    return table


def _fill_attention(
    spec: "MultiHeadAttentionSpec",
    attention: MultiHeadAttention,
    norm: nn.Module,
    *,
    is_self_attention: bool,
) -> None:
    """Query, key and value in one linear map for self-attention, else query and key-value."""
    _fill_norm(spec.layer_norm, norm)
    query, key, value = attention.query, attention.key, attention.value
    parts = [(query, key, value)] if is_self_attention else [(query,), (key, value)]
    for index, maps in enumerate(parts):
        _fill_linear(spec.linear[index], *maps)
    _fill_linear(spec.linear[-1], attention.output)
    spec.queries_scale = float(attention.scale)


def _fill_feed_forward(
    spec: "FeedForwardSpec", feed_forward: PositionwiseFeedForward, norm: nn.Module
) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear_0, feed_forward.up)
    if isinstance(feed_forward, GatedFeedForward):
        _fill_linear(spec.linear_0_noact, feed_forward.gate)
    _fill_linear(spec.linear_1, feed_forward.down)


def _fill_linear(spec: "LinearSpec", *maps: nn.Linear) -> None:
    """Several linear maps of the same input, concatenated."""
    spec.weight = torch.cat([_copy(each.weight) for each in maps])
    biases = [_copy(each.bias) for each in maps if each.bias is not None]
    if biases:
        spec.bias = torch.cat(biases)


def _fill_norm(spec: "LayerNormSpec", norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    spec.gamma = _copy(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _copy(norm.bias)


def _activation(feed_forward: PositionwiseFeedForward) -> "Activation":
    from ctranslate2.specs.common_spec import Activation

    names = {"relu": "RELU", "gelu_tanh": "GELUTanh", "gelu": "GELU", "silu": "SWISH"}
    return Activation[names[activation_name(feed_forward.activation)]]


def _copy(weight: Tensor) -> Tensor:
    """A copy in float32: the converter scales weights in place when quantizing."""
    return weight.detach().float().cpu().clone()
