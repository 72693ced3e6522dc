"""A plain model's weights, packed for the C++ kernel: in float32, bfloat16 or int8."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from jumok.models.decoder import Decoder
from jumok.models.encoder import Encoder
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel
from jumok.native.build import KernelError
from jumok.native.library import ModelDims
from jumok.native.packed_weights import (
    LinearLike,
    PackedWeights,
    WeightPrecision,
    layer_dims,
    layers_of,
    norm_vectors,
    stack_linears,
    stack_vectors,
)
from jumok.nn import LearnedPositions, SinusoidalPositions


class NativeModel:
    """A copy of a model's weights that the C++ kernel writes with; the plain model is the truth.

    Takes an `EncoderDecoder` or a `LanguageModel` of any config. The copy does not follow later
    changes of the plain model. Raises KernelError, with the reason, for what the kernel cannot do
    and when it cannot be compiled; then write with the plain model.

    float32 gives the plain numbers but for the order of sums; bfloat16 rounds weights and inputs
    of linear maps; int8 keeps one byte a weight and quantises each row of inputs as it comes. In
    the tests, small models' logits may differ by 1e-5, 0.05 and 0.2 of the largest (at least 1).

    `packed` is called with each weight that has been copied, for who wants its memory back.
    """

    def __init__(
        self,
        model: nn.Module,
        precision: WeightPrecision = "int8",
        *,
        on_packed: Callable[[Tensor], None] = lambda weight: None,
    ) -> None:
        reason = unsupported_reason(model)
        if reason is not None:
            raise KernelError(reason)
        assert isinstance(model, EncoderDecoder | LanguageModel)
        self.has_encoder = isinstance(model, EncoderDecoder)
        self.max_length = model.decoder.embedding.max_length
        self.vocabulary_size = model.output.out_features
        reading = model.encoder if isinstance(model, EncoderDecoder) else model.decoder
        self.source_vocabulary_size = reading.embedding.tokens.weight.shape[0]
        self._weights = PackedWeights(_model_dims(model), precision, on_packed)
        self._computed = 0  # bytes of tables that no training made
        computed = set(_derived_tables(model))
        with torch.no_grad():
            for name, maps in _linears(model):
                self._weights.upload_linear(name, maps)
            for name, vector in _vectors(model):
                self._weights.upload_vector(name, vector)
                self._computed += 4 * vector.numel() if name in computed else 0

    @property
    def handle(self) -> int:
        """The packed weights, as the kernel knows them."""
        return self._weights.handle

    @property
    def weight_bytes(self) -> int:
        """What the packed weights take in memory; sines and cosines are none."""
        return self._weights.bytes - self._computed


def unsupported_reason(model: nn.Module) -> str | None:
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
            "the model scales its vectors before the output, as T5 does, which the fast kernel "
            "does not; write with the plain model"
        )
    for name, module in model.named_modules():
        if module._forward_hooks or module._forward_pre_hooks:
            return (
                f"{name} is watched, and the fast kernel shows nothing; write with the plain model"
            )
        if is_optimized(module):
            return (
                f"{name} is a fast copy already, and the fast kernel packs plain models; leave "
                'one of the two out, --precision or decoding.kernel = "native"'
            )
        ours = type(module).__module__.startswith("jumok.")
        theirs = type(module) in _SUPPORTED
        if not (ours or theirs):
            return (
                f"{name} is a {type(module).__name__}, which the fast kernel does not know; "
                "write with the plain model"
            )
    return None


def is_optimized(module: nn.Module) -> bool:
    """Whether a module was made by `jumok.inference` or `jumok.native` from a plain one."""
    return type(module).__module__.startswith(("jumok.native.", "jumok.inference."))


_SUPPORTED = (
    *(nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Identity, nn.Embedding, nn.ModuleList),
    *(nn.ReLU, nn.GELU, nn.SiLU),
)


def _model_dims(model: EncoderDecoder | LanguageModel) -> ModelDims:
    """The measures of the model, read from its modules: whatever made them, they are the truth."""
    decoder = model.decoder
    layers = layers_of(decoder.stack)
    read = layers_of(model.encoder.stack) if isinstance(model, EncoderDecoder) else []
    return ModelDims(
        d_model=decoder.embedding.tokens.embedding_dim,
        encoder_layers=len(read),
        decoder_layers=len(layers),
        max_length=decoder.embedding.max_length,
        vocabulary=model.output.out_features,
        embedding_norm=not isinstance(decoder.embedding.norm, nn.Identity),
        embedding_scale=decoder.embedding.tokens.scale,
        **layer_dims(layers[0]),
    )


def _stacks(model: EncoderDecoder | LanguageModel) -> Iterator[tuple[str, Encoder | Decoder]]:
    if isinstance(model, EncoderDecoder):
        yield "encoder", model.encoder
    yield "decoder", model.decoder


def _linears(model: EncoderDecoder | LanguageModel) -> Iterator[tuple[str, LinearLike]]:
    """Every linear map and table of embeddings, as kernel/transformer.h names them."""
    yield "output", model.output
    target = model.decoder.embedding.tokens
    if target.weight is not model.output.weight:
        yield "target", target
    if isinstance(model, EncoderDecoder):
        source = model.encoder.embedding.tokens
        if source.weight is not model.output.weight:
            yield "source", source
    for side, tower in _stacks(model):
        yield from stack_linears(side, tower.stack)


def _vectors(model: EncoderDecoder | LanguageModel) -> Iterator[tuple[str, Tensor]]:
    """Norms and positions, as kernel/transformer.h names them."""
    for side, tower in _stacks(model):
        yield from norm_vectors(f"{side}.embedding_norm", tower.embedding.norm)
        yield from stack_vectors(side, tower.stack, tower.embedding.max_length)
        added = _position_table(tower)
        if added is not None:
            yield f"{side}.positions", added


def _derived_tables(model: EncoderDecoder | LanguageModel) -> Iterator[str]:
    """The names of those that no training made, or not at that length: sines, cosines, biases."""
    for side, tower in _stacks(model):
        yield from (f"{side}.cosine", f"{side}.sine", f"{side}.relative")
        if not isinstance(tower.embedding.positions, LearnedPositions):
            yield f"{side}.positions"


def _position_table(tower: Encoder | Decoder) -> Tensor | None:
    """What is added to the token at each position, (max_length, D); None for nothing."""
    table: Tensor | None = None
    positions, segments = tower.embedding.positions, tower.embedding.segments
    if isinstance(positions, SinusoidalPositions):
        table = positions.table
    elif isinstance(positions, LearnedPositions):
        table = positions.weight[positions.offset :]
    if segments is None:
        return table
    first = segments.weight[:1].expand(tower.embedding.max_length, -1)  # all text is of segment 0
    return first if table is None else table + first
