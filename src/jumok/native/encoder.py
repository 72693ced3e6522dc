"""The layers of an encoder in the C++ kernel: embedded texts in, their hidden states out."""

import torch
from torch import Tensor, nn

from jumok.models.embedding import InputEmbedding
from jumok.native.layout import table_positions
from jumok.native.library import ModelDims
from jumok.native.packed_weights import WeightPrecision
from jumok.native.session import EncoderSession
from jumok.native.torch_weights import (
    TensorArrays,
    embedding_tables,
    has_offset_norms,
    is_plain,
    layer_dims,
    rotation_tables,
)
from jumok.nn.stack import TransformerStack
from jumok.torch_ops import one_torch_thread


class NativeEncoder:
    """A copy of the layers of an encoder for texts of up to `max_length` tokens (at most 131,072).

    Supports a stack of any config without cross-attention; embeddings and heads stay in PyTorch.
    Later changes of the stack do not change the copy. Raises KernelError if the kernel is not
    available; use the PyTorch stack then. The hidden states of a text do not depend on the batch.
    `.session` computes them, and from the ids of texts where `.reads_ids`.
    """

    def __init__(
        self,
        stack: TransformerStack,
        max_length: int,
        precision: WeightPrecision = "int8",
        embedding: InputEmbedding | None = None,
    ) -> None:
        """With an `embedding` the session computes from ids; see `reads_ids`."""
        layers = stack.layers
        self.max_length = max_length = table_positions(max_length)
        self.rotary = stack.rotary is not None
        self.has_windows = "L" in stack.kinds
        dims = ModelDims(
            d_model=layers[0].self_attention.query.in_features,
            encoder_layers=len(layers),
            max_length=max_length,
            **layer_dims(layers[0]),
        )
        self.reads_ids = embedding is not None and is_plain(embedding, layers[0])
        if embedding is not None and self.reads_ids:
            dims.vocabulary = embedding.tokens.num_embeddings
            dims.embedding_norm = not isinstance(embedding.norm, nn.Identity)
            dims.embedding_scale = embedding.tokens.scale
        self.session = EncoderSession(dims, precision)
        with torch.no_grad():
            arrays = TensorArrays(stack)
            self.session.add_layers(arrays, "", offset_norms=has_offset_norms(stack))
            for name, table in rotation_tables("encoder", stack, max_length):
                self.session.add_table(name, table)
            if embedding is not None and self.reads_ids:
                self.session.add_embedding(TensorArrays(embedding), "")
                for name, table in embedding_tables(embedding, max_length):
                    self.session.add_table(f"encoder.{name}", table)

    @property
    def weight_bytes(self) -> int:
        """The memory of the packed weights, position tables included."""
        return self.session.weight_bytes

    def __call__(self, x: Tensor, lengths: Tensor, positions: Tensor, columns: Tensor) -> Tensor:
        """Concatenated tokens (n, D) of texts of `lengths` (b) -> hidden states (n, D) float32.

        Rotary positions use positions (n); relative biases use the distances between columns (n).
        All are int64 from 0 to max_length - 1. Windows count the tokens of a text.
        """
        index = positions if self.rotary else columns
        assert int(lengths.sum()) == len(x) == len(index)
        with one_torch_thread():
            y = x.detach().to(torch.float32, copy=True).contiguous()  # (n, D)
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)  # (b + 1)
        columns = index.to(torch.int32).contiguous()
        self.session.encode_embedded(y.numpy(), offsets.numpy(), columns.numpy())
        return y
