"""An encoder's layers in the C++ kernel: whole texts in, their hidden states out."""

import torch
from torch import Tensor

from jumok.errors import InputError, JumokError
from jumok.native.library import OUT_OF_MEMORY, ModelDims
from jumok.native.packed_weights import (
    PackedWeights,
    WeightPrecision,
    layer_dims,
    layers_of,
    stack_linears,
    stack_vectors,
)
from jumok.nn.stack import TransformerStack


class NativeEncoder:
    """A copy of the layers of an encoder whose texts have up to `max_length` tokens.

    Takes a stack of any config without cross-attention; embeddings and heads stay outside. The
    copy does not follow later changes of the stack. Raises KernelError when the kernel cannot be
    had: then read with the plain stack. A token's numbers do not depend on what other texts are
    read with it.
    """

    def __init__(
        self, stack: TransformerStack, max_length: int, precision: WeightPrecision = "int8"
    ) -> None:
        first = layers_of(stack)[0]
        self.max_length = max_length
        self.rotary = stack.rotary is not None
        self._weights = PackedWeights(
            ModelDims(
                d_model=first.self_attention.query.in_features,
                encoder_layers=len(layers_of(stack)),
                max_length=max_length,
                **layer_dims(first),
            ),
            precision,
        )
        with torch.no_grad():
            for name, maps in stack_linears("encoder", stack):
                self._weights.upload_linear(name, maps)
            for name, vector in stack_vectors("encoder", stack, max_length):
                self._weights.upload_vector(name, vector)

    @property
    def weight_bytes(self) -> int:
        """What the packed weights take in memory, with what the layers know of positions."""
        return self._weights.bytes

    def __call__(self, x: Tensor, lengths: Tensor, positions: Tensor, columns: Tensor) -> Tensor:
        """Tokens (n, D) of texts end to end, each so long as `lengths` (b) says -> (n, D) float32.

        positions (n) turn queries and keys where positions are rotary; the distances that a
        relative bias is made of are those of columns (n). All int64, 0 to max_length - 1.
        """
        places = positions if self.rotary else columns
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < self.max_length:
            raise InputError(
                f"positions {int(places.min())} to {int(places.max())} came, the kernel was given "
                f"{self.max_length}; shorten the text, or read with the plain model"
            )
        assert int(lengths.sum()) == len(x) == len(places)
        y = x.detach().to(torch.float32, copy=True).contiguous()  # (n, D)
        first = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)  # (b + 1)
        places = places.to(torch.int32).contiguous()
        answer = self._weights.library.jumok_encode(
            self._weights.handle,
            y.data_ptr(),
            first.data_ptr(),
            len(lengths),
            places.data_ptr(),
            torch.get_num_threads(),
        )
        if answer == OUT_OF_MEMORY:
            raise JumokError(
                f"memory ran out while {len(lengths)} texts of {len(x)} tokens were read; read "
                "fewer at once"
            )
        return y
