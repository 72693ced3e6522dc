"""A plain model's weights, packed for the C++ kernel: in float32, bfloat16 or int8."""

import ctypes
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from jumok.errors import JumokError
from jumok.models.decoder import Decoder
from jumok.models.encoder import Encoder
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel
from jumok.native.build import KernelError
from jumok.native.library import DONE, OUT_OF_MEMORY, Measures, library
from jumok.native.quantize import quantize_rows
from jumok.nn import (
    LearnedPositions,
    MultiHeadAttention,
    RelativePositionBias,
    SinusoidalPositions,
    TransformerLayer,
)
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward

Precision = Literal["float32", "bfloat16", "int8"]

PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "int8")  # as door.cpp numbers them
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")  # as mathematics.h numbers them

_ROWS = 4096  # at a time are quantised: a large vocabulary would double the memory

Named = Iterator[tuple[str, nn.Linear | nn.Embedding | tuple[nn.Linear, ...]]]


class NativeModel:
    """A copy of a model's weights that the C++ kernel writes with; the plain model is the truth.

    Takes an `EncoderDecoder` or a `LanguageModel` of any config. The copy does not follow later
    changes of the plain model. Raises KernelError, with the reason, for what the kernel cannot do
    and when it cannot be compiled; then write with the plain model.

    float32 gives the plain numbers but for the order of sums; bfloat16 rounds weights and inputs
    of linear maps; int8 keeps one byte a weight and quantises each row of inputs as it comes.
    """

    def __init__(self, model: nn.Module, precision: Precision = "int8") -> None:
        reason = obstacle(model)
        if reason is not None:
            raise KernelError(reason)
        if precision not in PRECISIONS:
            raise KernelError(f"precision {precision!r} is unknown; take one of {PRECISIONS}")
        assert isinstance(model, EncoderDecoder | LanguageModel)
        self.precision = precision
        self.reads = isinstance(model, EncoderDecoder)
        self.max_length = model.decoder.embedding.max_length
        self.vocabulary_size = model.output.out_features
        self._library = library()
        self.handle: int = self._library.jumok_model(
            ctypes.byref(_measures(model)), PRECISIONS.index(precision)
        )
        self._computed = 0  # bytes of tables that no training made
        with torch.no_grad():
            for name, maps in _linears(model):
                self._give_linear(name, maps)
            for name, vector in _vectors(model):
                self._give_vector(name, vector)
                self._computed += 0 if vector.requires_grad else 4 * vector.numel()

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._library.jumok_free_model(self.handle)

    @property
    def weight_bytes(self) -> int:
        """What the packed weights take in memory; sines and cosines are none."""
        return int(self._library.jumok_bytes(self.handle)) - self._computed

    def _give_linear(
        self, name: str, maps: nn.Linear | nn.Embedding | tuple[nn.Linear, ...]
    ) -> None:
        together = maps if isinstance(maps, tuple) else (maps,)
        weights = [part.weight.detach().float().cpu() for part in together]
        weight = torch.cat(weights) if len(weights) > 1 else weights[0]  # (N, K)
        biases = [part.bias for part in together if isinstance(part, nn.Linear)]
        kept = [bias.detach().float().cpu() for bias in biases if bias is not None]
        bias = torch.cat(kept) if kept else None
        scale = None
        if self.precision == "int8":
            some = [quantize_rows(rows) for rows in torch.split(weight, _ROWS)]
            packed, scale = torch.cat([q for q, _ in some]), torch.cat([s for _, s in some])
        else:
            packed = weight.to(getattr(torch, self.precision))
        packed = packed.contiguous()
        answer = self._library.jumok_linear(
            self.handle, name.encode(), *packed.shape, _at(packed), _at(scale), _at(bias)
        )
        self._taken(answer, name)

    def _give_vector(self, name: str, vector: Tensor) -> None:
        numbers = vector.detach().float().cpu().contiguous()
        answer = self._library.jumok_vector(
            self.handle, name.encode(), numbers.numel(), _at(numbers)
        )
        self._taken(answer, name)

    @staticmethod
    def _taken(answer: int, name: str) -> None:
        if answer == OUT_OF_MEMORY:
            raise JumokError(
                f"memory ran out while the weights of {name} were packed; free some, or take a "
                "smaller precision"
            )
        assert answer == DONE, name


def obstacle(model: nn.Module) -> str | None:
    """Why the kernel cannot write with this model, in a sentence; None when it can.

    >>> print(obstacle(nn.Linear(1, 1)))
    a Linear came, the fast kernel writes with EncoderDecoder and LanguageModel; use the plain model
    """
    if type(model) not in (EncoderDecoder, LanguageModel):
        return (
            f"a {type(model).__name__} came, the fast kernel writes with EncoderDecoder and "
            "LanguageModel; use the plain model"
        )
    if isinstance(model, EncoderDecoder) and model.output_scale != 1.0:
        return (
            "the model scales its vectors before the output, as T5 does, which the fast kernel does "
            "not; write with the plain model"
        )
    for name, module in model.named_modules():
        if module._forward_hooks or module._forward_pre_hooks:
            return (
                f"{name} is watched, and the fast kernel shows nothing; write with the plain model"
            )
        ours = type(module).__module__.startswith("jumok.")
        theirs = type(module) in _KNOWN
        if not (ours or theirs):
            return (
                f"{name} is a {type(module).__name__}, which the fast kernel does not know; "
                "write with the plain model"
            )
    return None


_KNOWN = (
    *(nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Identity, nn.Embedding, nn.ModuleList),
    *(nn.ReLU, nn.GELU, nn.SiLU),
)


def _measures(model: EncoderDecoder | LanguageModel) -> Measures:
    """The measures of the model, read from its modules: whatever made them, they are the truth."""
    decoder = model.decoder
    layer = _layers(decoder)[0]
    attention, around = layer.attention, layer.around_attention
    return Measures(
        d_model=decoder.embedding.tokens.embedding_dim,
        n_heads=attention.n_heads,
        d_head=attention.query.out_features // attention.n_heads,
        d_ff=layer.feed_forward.up.out_features,
        encoder_layers=len(_layers(model.encoder)) if isinstance(model, EncoderDecoder) else 0,
        decoder_layers=len(_layers(decoder)),
        cross=layer.cross is not None,
        max_length=decoder.embedding.max_length,
        vocabulary=model.output.out_features,
        activation=ACTIVATIONS.index(_activation(layer.feed_forward)),
        gated=isinstance(layer.feed_forward, GatedFeedForward),
        rms=isinstance(around.norm, nn.RMSNorm),
        norm_first=around.norm_first,
        embedding_norm=not isinstance(decoder.embedding.norm, nn.Identity),
        norm_eps=around.norm.eps,
        attention_scale=attention.scale,
        embedding_scale=decoder.embedding.tokens.scale,
    )


def _activation(feed_forward: PositionwiseFeedForward) -> str:
    match feed_forward.activation:
        case nn.ReLU():
            return "relu"
        case nn.GELU(approximate="tanh"):
            return "gelu_tanh"
        case nn.GELU():
            return "gelu"
        case _:
            return "silu"


def _layers(tower: Encoder | Decoder) -> list[TransformerLayer]:
    return list(tower.stack.layers)  # type: ignore[arg-type]


def _towers(model: EncoderDecoder | LanguageModel) -> Iterator[tuple[str, Encoder | Decoder]]:
    if isinstance(model, EncoderDecoder):
        yield "encoder", model.encoder
    yield "decoder", model.decoder


def _linears(model: EncoderDecoder | LanguageModel) -> Named:
    """Every linear map and table of embeddings, as kernel/transformer.h names them."""
    yield "output", model.output
    target = model.decoder.embedding.tokens
    if target.weight is not model.output.weight:
        yield "target", target
    if isinstance(model, EncoderDecoder):
        source = model.encoder.embedding.tokens
        if source.weight is not model.output.weight:
            yield "source", source
    for side, tower in _towers(model):
        for number, layer in enumerate(_layers(tower)):
            here = f"{side}.{number}."
            own, cross, feed_forward = layer.attention, layer.cross, layer.feed_forward
            yield here + "query_key_value", (own.query, own.key, own.value)
            yield here + "output", own.output
            if isinstance(cross, MultiHeadAttention):
                yield here + "cross_query", cross.query
                yield here + "cross_key_value", (cross.key, cross.value)
                yield here + "cross_output", cross.output
            yield here + "up", feed_forward.up
            if isinstance(feed_forward, GatedFeedForward):
                yield here + "gate", feed_forward.gate
            yield here + "down", feed_forward.down


def _vectors(model: EncoderDecoder | LanguageModel) -> Iterator[tuple[str, Tensor]]:
    """Norms and positions, as kernel/transformer.h names them."""
    for side, tower in _towers(model):
        yield from _norm(f"{side}.embedding_norm", tower.embedding.norm)
        yield from _norm(f"{side}.norm", tower.stack.norm)
        for number, layer in enumerate(_layers(tower)):
            here = f"{side}.{number}.around_"
            yield from _norm(here + "attention", layer.around_attention.norm)
            if layer.around_cross is not None:
                yield from _norm(here + "cross", layer.around_cross.norm)
            yield from _norm(here + "feed_forward", layer.around_feed_forward.norm)
        added = _added(tower)
        if added is not None:
            yield f"{side}.positions", added
        places = torch.arange(tower.embedding.max_length)
        if tower.stack.rotary is not None:
            turn = tower.stack.rotary.cpu()(places[None])
            yield f"{side}.cosine", turn.cosine
            yield f"{side}.sine", turn.sine
        if tower.stack.relative is not None:
            yield f"{side}.relative", _relative(tower.stack.relative, len(places))


def _norm(name: str, norm: nn.Module) -> Iterator[tuple[str, Tensor]]:
    if isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        yield f"{name}.gain", norm.weight
    if isinstance(norm, nn.LayerNorm):
        yield f"{name}.shift", norm.bias


def _added(tower: Encoder | Decoder) -> Tensor | None:
    """What is added to the token at each position, (max_length, D); None for nothing."""
    table: Tensor | None = None
    positions, segments = tower.embedding.positions, tower.embedding.segments
    if isinstance(positions, SinusoidalPositions):
        table = positions.table
    elif isinstance(positions, LearnedPositions):
        table = positions.weight[positions.first :]
    if segments is None:
        return table
    first = segments.weight[:1].expand(tower.embedding.max_length, -1)  # all text is of segment 0
    return first if table is None else table + first


def _relative(bias: RelativePositionBias, max_length: int) -> Tensor:
    """The bias of every distance from 1 - max_length to max_length - 1: (H, 2 max_length - 1)."""
    distance = torch.arange(1 - max_length, max_length, device=bias.bias.weight.device)
    return bias.bias(bias.bucket(distance)).T  # type: ignore[no-any-return]


def _at(tensor: Tensor | None) -> int | None:
    """The address of a tensor's numbers; null for none."""
    return None if tensor is None else tensor.data_ptr()
