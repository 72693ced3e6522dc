"""An encoder without layers: the pooled vectors of the tokens of a text, with numpy alone.

Such static embeddings are what is left of a sentence encoder whose vectors a table of tokens has
learned (Reimers and Gurevych 2020, section 2; model2vec and tokenlearn by MinishLab).
Shapes: N texts, V vocabulary, D model width, L outputs.
"""

import numpy as np
from numpy.typing import NDArray

from jumok.errors import Message
from jumok.models.config import TransformerConfig
from jumok.models.finite_weights import check_finite_array
from jumok.models.int8_weights import SUFFIX, dequantize_rows
from jumok.native.layout import Arrays, Floats, to_float32
from jumok.native.session import Head, HeadPooling
from jumok.text.ragged import Ragged

BLOCK = 256  # texts at a time: their sums stay in the processor's cache
MIN_LENGTH = np.float32(1e-12)  # a shorter vector is divided by this, as in PyTorch


def unsupported_token_vectors(config: TransformerConfig, head: Head) -> Message | None:
    """Why numpy does not compute this encoder without layers; None if it does."""
    found = {
        "positions, segments or norms": config.positions != "none"
        or bool(config.n_segments)
        or config.embedding_norm
        or config.norm_first,
        "a projected embedding": config.d_embedding is not None,
        f"the pooling {head.pooling}": head.pooling == "compare",
        f"the pooler {head.pooler}": bool(head.pooler),
    }
    for what, has in found.items():
        if has:
            return Message(
                "engine.unsupported_token_vectors",
                "the engine does not compute an encoder without layers that has {what}",
                what=what,
            )
    return None


class TokenVectors:
    """A table of token vectors (V, D) and a head, called like an `EncoderSession`.

    What a text gets does not depend on the others: its vectors are summed in order.
    """

    def __init__(self, config: TransformerConfig, arrays: Arrays, head: Head) -> None:
        for name, array in arrays.items():
            check_finite_array(name, array, "the weights")
        factor = np.float32(config.embedding_dim**0.5 if config.scale_embedding else 1)
        name = "encoder.embedding.tokens.weight"
        scale = arrays.get(name + SUFFIX)
        table = to_float32(arrays[name]) if scale is None else dequantize_rows(arrays[name], scale)
        self._table = table * factor if factor != 1 else table
        self._head = head
        self._output: tuple[Floats, Floats] | None = None  # (L, D), (L,)
        if head.output:
            weight, bias = (to_float32(arrays[f"{head.output}.{x}"]) for x in ("weight", "bias"))
            self._output = weight, bias

    def detach(self) -> None:
        """Copy what is read from the file of the weights."""
        self._table = np.require(self._table, requirements="O")  # as stored, or scaled already
        if self._output is not None:
            weight, bias = self._output
            self._output = weight.copy(), bias.copy()

    def vectors(self, rows: Ragged, pooling: HeadPooling, *, normalize: bool) -> Floats:
        """One vector per text, (N, D), perhaps divided by its length; zeros without tokens."""
        found = self._pooled(rows, pooling)
        if normalize:
            norms = np.sqrt(np.einsum("nd,nd->n", found, found))  # (N,)
            np.divide(found, np.maximum(norms, MIN_LENGTH)[:, None], out=found)
        return found

    def outputs(self, rows: Ragged, token_types: NDArray[np.int32] | None = None) -> Floats:
        """The outputs of the head, (N, L); there are no vectors of token types."""
        x = self.vectors(rows, self._head.pooling, normalize=self._head.normalize)
        if self._output is None:
            return x
        weight, bias = self._output
        # Row by row: a product of several rows may differ in its last bits.
        y: Floats = np.stack([weight @ each for each in x]) if len(x) else x[:, :0]
        return y + bias if len(x) else np.empty((0, len(bias)), np.float32)

    def _pooled(self, rows: Ragged, pooling: HeadPooling) -> Floats:
        found = np.zeros((len(rows), self._table.shape[1]), np.float32)
        longest_first = np.argsort(-rows.lengths, kind="stable")
        longest_first = longest_first[: np.count_nonzero(rows.lengths)]
        for first in range(0, len(longest_first), BLOCK):
            texts = longest_first[first : first + BLOCK]
            found[texts] = self._pooled_block(
                rows.ids, rows.offsets[texts], rows.lengths[texts], pooling
            )
        return found

    def _pooled_block(
        self,
        ids: NDArray[np.int32],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        pooling: HeadPooling,
    ) -> Floats:
        """The vectors of texts at `starts`, whose lengths fall: one token of each at a time."""
        if pooling in ("first", "last"):
            return self._table[ids[starts if pooling == "first" else starts + lengths - 1]]
        join = np.maximum if pooling == "max" else np.add
        x: Floats = self._table[ids[starts]]
        for t in range(1, int(lengths[0])):
            n = int(np.searchsorted(-lengths, -t))  # texts with more than t tokens
            join(x[:n], self._table[ids[starts[:n] + t]], out=x[:n])
        if pooling == "mean":
            np.divide(x, lengths[:, None].astype(np.float32), out=x)
        return x
