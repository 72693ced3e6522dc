"""The layers of an encoder in the C++ kernel: embedded texts in, their hidden states out."""

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
    table_positions,
)
from jumok.native.threads import kernel_threads
from jumok.nn.stack import TransformerStack
from jumok.torch_ops import one_torch_thread


class NativeEncoder:
    """A copy of the layers of an encoder for texts of up to `max_length` tokens (at most 131,072).

    Supports a stack of any config without cross-attention; embeddings and heads stay in PyTorch.
    Later changes of the stack do not change the copy. Raises KernelError if the kernel is not
    available; use the PyTorch stack then. The hidden states of a text do not depend on the batch.
    """

    def __init__(
        self, stack: TransformerStack, max_length: int, precision: WeightPrecision = "int8"
    ) -> None:
        first = layers_of(stack)[0]
        self.max_length = max_length = table_positions(max_length)
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
            for name, linear in stack_linears("encoder", stack):
                self._weights.upload_linear(name, linear)
            for name, vector in stack_vectors("encoder", stack, max_length):
                self._weights.upload_vector(name, vector)

    @property
    def weight_bytes(self) -> int:
        """The memory of the packed weights, position tables included."""
        return self._weights.bytes

    def __call__(self, x: Tensor, lengths: Tensor, positions: Tensor, columns: Tensor) -> Tensor:
        """Concatenated tokens (n, D) of texts of `lengths` (b) -> hidden states (n, D) float32.

        Rotary positions use positions (n); relative biases use the distances between columns (n).
        All are int64 from 0 to max_length - 1.
        """
        index = positions if self.rotary else columns
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < self.max_length:
            raise InputError(
                "kernel.positions_range",
                "positions must be from 0 to {max_length}, got {min} to {max}; shorten the text, "
                "or use the PyTorch model",
                max_length=self.max_length - 1,
                min=int(index.min()),
                max=int(index.max()),
            )
        assert int(lengths.sum()) == len(x) == len(index)
        with one_torch_thread():
            y = x.detach().to(torch.float32, copy=True).contiguous()  # (n, D)
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)  # (b + 1)
        index = index.to(torch.int32).contiguous()
        status = self._weights.library.jumok_encode(
            self._weights.handle,
            y.data_ptr(),
            offsets.data_ptr(),
            len(lengths),
            index.data_ptr(),
            kernel_threads(),
        )
        if status == OUT_OF_MEMORY:
            raise JumokError(
                "kernel.out_of_memory_in_encoding",
                "memory ran out while {n_lengths} texts of {n_x} tokens were encoded; use a "
                "smaller batch",
                n_lengths=len(lengths),
                n_x=len(x),
            )
        return y
