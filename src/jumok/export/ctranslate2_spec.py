"""Our modules as CTranslate2 describes models: read from the modules, for they are the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models import Decoder, Encoder, EncoderDecoder, LanguageModel
from jumok.nn import (
    LearnedPositions,
    MultiHeadAttention,
    SinusoidalPositions,
    TransformerLayer,
)
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward
from jumok.tasks.inputs.special_tokens import decoder_start_id
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
class Words:
    """What the ids of a model stand for, and which of them frame a text.

    CTranslate2 puts the end behind a source itself; whole sources, of imported tokenisers with
    frames of their own, stand as they are.
    """

    source: Sequence[str]
    target: Sequence[str]  # the same as `source` where both share a vocabulary
    begin: str
    end: str
    unknown: str
    ends_source: bool = True

    @classmethod
    def of(cls, reading: Tokenizer, writing: Tokenizer, n_source: int, n_target: int) -> "Words":
        """The pieces of a model with so many rows; rows behind the last piece get a name too.

        Raises InputError for a vocabulary with twins.
        """
        source, target = _pieces(reading, n_source), _pieces(writing, n_target)
        begin, end = target[decoder_start_id(writing)], target[writing.eos_id]
        whole = isinstance(reading, PretrainedTokenizer)
        return cls(source, target, begin, end, source[reading.unk_id], ends_source=not whole)


def _pieces(vocabulary: Tokenizer, n: int) -> list[str]:
    pieces = [vocabulary.piece(i) for i in range(len(vocabulary))]
    pieces += [f"[ROW {i}]" for i in range(len(pieces), n)]
    if len(set(pieces)) < len(pieces):
        twice = next(piece for piece in pieces if pieces.count(piece) > 1)
        raise InputError(
            f"the vocabulary has {twice!r} twice, and CTranslate2 tells pieces by their text; "
            "use --to hf"
        )
    return pieces


def obstacle(model: nn.Module) -> str | None:
    """What CTranslate2 cannot express of a model, in a sentence; None when it can all.

    >>> print(obstacle(nn.Linear(1, 1)))
    a Linear came, CTranslate2 writes with encoder-decoders and language models; use --to onnx
    """
    if not isinstance(model, EncoderDecoder | LanguageModel):
        return (
            f"a {type(model).__name__} came, CTranslate2 writes with encoder-decoders and language "
            "models; use --to onnx"
        )
    for name, tower in _towers(model):
        embedding = tower.embedding
        if not isinstance(embedding.projection, nn.Identity):
            return (
                f"the {name} widens its embeddings, which CTranslate2 does not; use --to hf, or "
                "train without model.d_embedding"
            )
        if embedding.segments is not None and embedding.positions is None:
            return (
                f"the {name} adds segments and no positions to its tokens, which CTranslate2 does "
                "not; use --to hf, or train with model.n_segments = 0"
            )
    if isinstance(model, LanguageModel) and model.decoder.stack.relative is not None:
        return (
            "a language model with relative positions came, whose prompts CTranslate2 reads with "
            'others from the second layer on; train one with model.positions = "rotary"'
        )
    return None


def specification(
    model: EncoderDecoder | LanguageModel, words: Words
) -> "TransformerSpec | TransformerDecoderModelSpec":
    """The model with copies of its weights, ready to be optimised and saved.

    Raises InputError, with the reason, for what CTranslate2 cannot express.
    """
    from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec

    reason = obstacle(model)
    if reason is not None:
        raise InputError(reason)
    decoder = _decoder(model)
    if isinstance(model, EncoderDecoder):
        spec = TransformerSpec(_encoder(model.encoder), decoder)
        spec.register_source_vocabulary(list(words.source))
        spec.register_target_vocabulary(list(words.target))
        spec.config.decoder_start_token = words.begin
        spec.config.add_source_eos = words.ends_source
    else:
        spec = TransformerDecoderModelSpec(decoder)
        spec.register_vocabulary(list(words.target))
    spec.config.bos_token, spec.config.eos_token = words.begin, words.end
    spec.config.unk_token = words.unknown
    spec.config.layer_norm_epsilon = _layers(model.decoder)[0].self_attention_norm.norm.eps
    spec.validate()
    return spec


def _towers(model: EncoderDecoder | LanguageModel) -> list[tuple[str, Encoder | Decoder]]:
    towers: list[tuple[str, Encoder | Decoder]] = [("decoder", model.decoder)]
    return [("encoder", model.encoder), *towers] if isinstance(model, EncoderDecoder) else towers


def _encoder(tower: Encoder) -> "TransformerEncoderSpec":
    from ctranslate2.specs.transformer_spec import TransformerEncoderSpec

    layers = _layers(tower)
    spec = TransformerEncoderSpec(
        len(layers),
        layers[0].self_attention.n_heads,
        pre_norm=layers[0].self_attention_norm.norm_first,
        activation=_activation(layers[0].feed_forward),
        layernorm_embedding=not isinstance(tower.embedding.norm, nn.Identity),
        relative_attention_bias=tower.stack.relative is not None,
        ffn_glu=isinstance(layers[0].feed_forward, GatedFeedForward),
        rms_norm=isinstance(layers[0].self_attention_norm.norm, nn.RMSNorm),
        rotary_dim=None if tower.stack.rotary is None else 0,  # 0: the whole head
        rotary_interleave=False,
        rotary_base=10_000 if tower.stack.rotary is None else tower.stack.rotary.base,
    )
    _fill_tower(spec, tower)
    spec.embeddings[0].weight = _copied(tower.embedding.tokens.weight)
    return spec


def _decoder(model: EncoderDecoder | LanguageModel) -> "TransformerDecoderSpec":
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec

    tower = model.decoder
    layers = _layers(tower)
    spec = TransformerDecoderSpec(
        len(layers),
        layers[0].self_attention.n_heads,
        pre_norm=layers[0].self_attention_norm.norm_first,
        activation=_activation(layers[0].feed_forward),
        layernorm_embedding=not isinstance(tower.embedding.norm, nn.Identity),
        with_encoder_attention=isinstance(model, EncoderDecoder),
        relative_attention_bias=tower.stack.relative is not None,
        ffn_glu=isinstance(layers[0].feed_forward, GatedFeedForward),
        rms_norm=isinstance(layers[0].self_attention_norm.norm, nn.RMSNorm),
        rotary_dim=None if tower.stack.rotary is None else 0,
        rotary_interleave=False,
        rotary_base=10_000 if tower.stack.rotary is None else tower.stack.rotary.base,
    )
    _fill_tower(spec, tower)
    spec.embeddings.weight = _copied(tower.embedding.tokens.weight)
    for layer, part in zip(layers, spec.layer, strict=True):
        if layer.cross_attention is not None and layer.cross_attention_norm is not None:
            _fill_attention(
                part.attention, layer.cross_attention, layer.cross_attention_norm.norm, itself=False
            )
    _fill_linear(spec.projection, model.output)
    if isinstance(model, EncoderDecoder) and model.output_scale != 1.0:
        spec.scale_outputs = model.output_scale
    return spec


def _fill_tower(
    spec: "TransformerEncoderSpec | TransformerDecoderSpec", tower: Encoder | Decoder
) -> None:
    """All but the table of tokens and what looks at an encoder."""
    stack, embedding = tower.stack, tower.embedding
    spec.scale_embeddings = float(embedding.tokens.scale)
    if stack.relative is None and stack.rotary is None:  # they would be computed as sinusoids
        spec.position_encodings.encodings = _added(tower)
    if isinstance(embedding.norm, nn.LayerNorm | nn.RMSNorm):
        _fill_norm(spec.layernorm_embedding, embedding.norm)
    if isinstance(stack.norm, nn.LayerNorm | nn.RMSNorm):
        _fill_norm(spec.layer_norm, stack.norm)
    for layer, part in zip(_layers(tower), spec.layer, strict=True):
        _fill_attention(
            part.self_attention, layer.self_attention, layer.self_attention_norm.norm, itself=True
        )
        if stack.relative is not None:
            part.self_attention.relative_attention_bias = _copied(stack.relative.bias.weight)
            distance = torch.tensor(stack.relative.max_distance, dtype=torch.int32)
            part.self_attention.relative_attention_max_distance = distance.numpy()[()]
        _fill_feed_forward(part.ffn, layer.feed_forward, layer.feed_forward_norm.norm)


def _added(tower: Encoder | Decoder) -> Tensor:
    """What is added to the token at each position, (max_length, D): all text is of segment 0."""
    positions, segments = tower.embedding.positions, tower.embedding.segments
    table = torch.zeros(tower.embedding.max_length, tower.embedding.tokens.embedding_dim)
    if isinstance(positions, SinusoidalPositions):
        table += positions.table.cpu()
    elif isinstance(positions, LearnedPositions):
        table += _copied(positions.weight[positions.offset :])
    if segments is not None:
        table += _copied(segments.weight[:1])
    return table


def _fill_attention(
    spec: "MultiHeadAttentionSpec", attention: MultiHeadAttention, norm: nn.Module, *, itself: bool
) -> None:
    """Queries, keys and values as one map where all are made of the same x, else as two."""
    _fill_norm(spec.layer_norm, norm)
    query, key, value = attention.query, attention.key, attention.value
    parts = [(query, key, value)] if itself else [(query,), (key, value)]
    for place, maps in enumerate(parts):
        _fill_linear(spec.linear[place], *maps)
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
    """Several maps of the same inputs side by side."""
    spec.weight = torch.cat([_copied(each.weight) for each in maps])
    biases = [_copied(each.bias) for each in maps if each.bias is not None]
    if biases:
        spec.bias = torch.cat(biases)


def _fill_norm(spec: "LayerNormSpec", norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    spec.gamma = _copied(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _copied(norm.bias)


def _activation(feed_forward: PositionwiseFeedForward) -> "Activation":
    from ctranslate2.specs.common_spec import Activation

    match feed_forward.activation:
        case nn.ReLU():
            return Activation.RELU
        case nn.GELU(approximate="tanh"):
            return Activation.GELUTanh
        case nn.GELU():
            return Activation.GELU
        case _:
            return Activation.SWISH


def _layers(tower: Encoder | Decoder) -> list[TransformerLayer]:
    return list(tower.stack.layers)  # type: ignore[arg-type]


def _copied(weight: Tensor) -> Tensor:
    """A copy in float32: the converter scales weights in place when it quantises them."""
    return weight.detach().float().cpu().clone()
