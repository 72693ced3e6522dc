"""The weights of a PyTorch model, packed for the C++ kernel in one of its precisions."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from jumok.errors import Message
from jumok.models.backbones import backbones
from jumok.models.decoder import Decoder
from jumok.models.encoder import Encoder
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel, SoftcappedLinear
from jumok.native.build import KernelError
from jumok.native.decoder_session import DecoderWeights
from jumok.native.layout import Floats, table_positions
from jumok.native.library import ModelDims
from jumok.native.packed_weights import DecoderPrecision
from jumok.native.torch_weights import (
    TensorArrays,
    as_array,
    has_offset_norms,
    layer_dims,
    rotation_tables,
)
from jumok.nn import LearnedPositions, SinusoidalPositions

GenerativeModel = EncoderDecoder | LanguageModel


class NativeModel:
    """A copy of a model's weights for decoding with the C++ kernel; the model is the reference.

    Supports an `EncoderDecoder` or a `LanguageModel` of any config. Later changes of the model do
    not change the copy. Raises KernelError with the reason if the model is not supported or the
    kernel cannot be compiled; use the PyTorch model then.

    float32 differs from the model only in the order of summation; bfloat16 rounds the weights and
    inputs of linear maps; int8 stores one byte per weight and quantizes each row of inputs; q8_0
    and q4_0 store blocks of 32 weights with a scale, as GGUF files do, and quantize the inputs by
    blocks as well. In the tests, logits of small models may differ by 1e-5, 0.05 and 0.2 of the
    largest (at least 1), and in blocks by 0.1 (q4_0: 0.2) from those of a model with the same
    weights.

    `on_packed` is called with each weight after it is copied, for example to release its memory.
    """

    def __init__(
        self,
        model: nn.Module,
        precision: DecoderPrecision = "int8",
        *,
        on_packed: Callable[[Tensor], None] = lambda weight: None,
    ) -> None:
        reason = unsupported_reason(model)
        if reason is not None:
            raise KernelError(reason)
        assert isinstance(model, GenerativeModel)
        parts, arrays = backbones(model), TensorArrays(model)
        self.weights = weights = DecoderWeights(_model_dims(model), precision)
        self.vocabulary_size = weights.vocabulary_size
        self.max_length = weights.max_length
        self._derived_bytes = 0

        def release(modules: Sequence[str]) -> None:
            for module in modules:
                on_packed(arrays.tensor(f"{module}.weight"))

        with torch.no_grad():
            for name, module in _token_tables(model):
                weights.add_tokens(name, arrays, module)
                release([module])
            for side, part in parts.items():
                offset = has_offset_norms(part.stack)
                weights.add_stack(side, arrays, offset_norms=offset, on_packed=release)
                for name, table, derived in _tables(side, part):
                    weights.add_table(name, table)
                    self._derived_bytes += 4 * table.size if derived else 0
        self._set_layers(model)

    def _set_layers(self, model: GenerativeModel) -> None:
        """Set the window and the rotation of each decoder layer."""
        stack = model.decoder.stack
        own = stack.local_rotary is not stack.rotary
        rotary = {"G": 1, "L": 2 if own else 1, "N": 0}
        for index, kind in enumerate(stack.kinds):
            window = stack.sliding_window or 0 if kind == "L" else 0
            self.weights.set_layer(index, window, rotary[kind])

    @property
    def weight_bytes(self) -> int:
        """The memory of the packed weights, without derived tables such as sinusoids."""
        return self.weights.packed.bytes - self._derived_bytes


def unsupported_reason(model: nn.Module) -> Message | None:
    """Why the kernel does not support this model, in one sentence; None if it does.

    >>> print(unsupported_reason(nn.Linear(1, 1)))
    the C++ kernel supports EncoderDecoder and LanguageModel, got Linear; use the PyTorch model
    """
    if type(model) not in (EncoderDecoder, LanguageModel):
        return Message(
            "kernel.unsupported_model",
            "the C++ kernel supports EncoderDecoder and LanguageModel, got {kind}; use the PyTorch "
            "model",
            kind=type(model).__name__,
        )
    if getattr(model, "output_scale", 1.0) != 1.0:
        return Message(
            "kernel.scaled_output",
            "the C++ kernel does not support scaling before the output map, as in T5; use the "
            "PyTorch model",
        )
    for name, module in model.named_modules():
        if module._forward_hooks or module._forward_pre_hooks:
            return Message(
                "kernel.hooks",
                "the C++ kernel does not call hooks, got a hook on {name}; use the PyTorch model",
                name=name,
            )
        if is_optimized(module):
            return Message(
                "kernel.optimized_model",
                "the C++ kernel packs unoptimized models, and {name} is already optimized; leave "
                'out either --precision or decoding.kernel = "native"',
                name=name,
            )
        path = type(module).__module__
        from_jumok = path.startswith("jumok.") and not path.startswith("jumok.experiment.")
        if not from_jumok and type(module) not in _SUPPORTED:
            return Message(
                "kernel.unsupported_module",
                "the C++ kernel does not support the {kind} at {name}; use the PyTorch model",
                kind=type(module).__name__,
                name=name,
            )
    capped = isinstance(model.output, SoftcappedLinear)
    for part in backbones(model).values():
        extensions = part.stack.extensions()
        if capped or "an attention softcap" in extensions:
            return Message(
                "kernel.softcaps", "the C++ kernel does not support softcaps; use the PyTorch model"
            )
        if extensions and type(model) is EncoderDecoder:
            return Message(
                "kernel.language_models_only",
                "the C++ kernel supports {extension} in language models only; use the PyTorch "
                "model",
                extension=extensions[0],
            )
    return None


def is_optimized(module: nn.Module) -> bool:
    """Whether a module is an optimized copy made by `jumok.inference` or `jumok.native`."""
    return type(module).__module__.startswith(("jumok.native.", "jumok.inference."))


_SUPPORTED = (
    *(nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Identity, nn.Embedding, nn.ModuleList),
    *(nn.ReLU, nn.GELU, nn.SiLU),
)


def _model_dims(model: GenerativeModel) -> ModelDims:
    """The dimensions of the model, read from its modules rather than from its config."""
    decoder = model.decoder
    n_layers = {side: len(part.stack.layers) for side, part in backbones(model).items()}
    return ModelDims(
        d_model=decoder.embedding.tokens.embedding_dim,
        encoder_layers=n_layers.get("encoder", 0),
        decoder_layers=n_layers["decoder"],
        max_length=table_positions(decoder.embedding.max_length),
        vocabulary=model.output.out_features,
        embedding_norm=not isinstance(decoder.embedding.norm, nn.Identity),
        embedding_scale=decoder.embedding.tokens.scale,
        **layer_dims(decoder.stack.layers[0]),
    )


def _token_tables(model: GenerativeModel) -> Iterator[tuple[str, str]]:
    """The output map, and the tables of tokens that are not tied to it, and their modules."""
    yield "output", "output"
    tables = {"encoder": "source", "decoder": "target"}
    for side, part in backbones(model).items():
        if part.embedding.tokens.weight is not model.output.weight:
            yield tables[side], f"{side}.embedding.tokens"


def _tables(side: str, part: Encoder | Decoder) -> Iterator[tuple[str, Floats, bool]]:
    """The tables of positions of one side, and whether they are computed from other weights."""
    n = table_positions(part.embedding.max_length)
    for name, table in rotation_tables(side, part.stack, n):
        yield name, table, True
    added = _position_table(part)
    if added is not None:
        learned = isinstance(part.embedding.positions, LearnedPositions)
        yield f"{side}.positions", as_array(added.float().contiguous()), not learned


def _position_table(backbone: Encoder | Decoder) -> Tensor | None:
    """The vector added to the token embedding at each position, (max_length, D); None if none."""
    table: Tensor | None = None
    n = table_positions(backbone.embedding.max_length)
    positions, segments = backbone.embedding.positions, backbone.embedding.segments
    if isinstance(positions, SinusoidalPositions):
        table = positions.table[positions.offset :][:n]
    elif isinstance(positions, LearnedPositions):
        table = positions.weight[positions.offset :][:n]
    if segments is None:
        return table
    first = segments.weight[:1].expand(n, -1)  # always segment 0
    return first if table is None else table + first
