"""What replaces the layers of an encoder: the C++ kernel, or PyTorch in a lower precision.

Shapes: B batch, T positions, D model width; b texts of a group, w the length of its longest, n
tokens without padding.
"""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.embedding import InputEmbedding
from jumok.native.encoder import NativeEncoder
from jumok.native.kernel_choice import KernelChoice
from jumok.native.packed_weights import WeightPrecision
from jumok.native.quantize import quantize_int8, to_bfloat16
from jumok.nn import NO_MASK, AttentionMask
from jumok.nn.stack import TransformerStack
from jumok.torch_ops import one_torch_thread

BATCH_TOKENS = 512  # of a call of the kernel: enough for its threads, few enough for the caches


class NativeStack(nn.Module):
    """The layers of an encoder in the C++ kernel; the hidden states of padding are 0.

    Tokens are concatenated without padding, in groups of texts of similar length.
    """

    batch_tokens = BATCH_TOKENS

    def __init__(self, encoder: NativeEncoder, precision: WeightPrecision) -> None:
        super().__init__()
        self.encoder = encoder
        self.kernel_choice = KernelChoice("native", precision, "an encoder without padding")

    @torch.no_grad()
    def forward(self, x: Tensor, positions: Tensor, mask: AttentionMask = NO_MASK) -> Tensor:
        """x (B, T, D) at positions (B|1, T) -> (B, T, D). Raises InputError for other masks."""
        B, T, D = x.shape
        padding_mask = _padding_mask(mask, B, T)
        tokens, positions = x.reshape(B * T, D), positions.expand(B, T).flatten()
        with one_torch_thread():  # the kernel's threads need the processor alone
            y = torch.zeros_like(tokens)
        for index, group_mask in group_by_length(padding_mask, self.batch_tokens):
            lengths, columns = group_mask.sum(1), group_mask.nonzero()[:, 1]  # (b), (n)
            if self.encoder.has_windows and bool(
                (columns >= lengths.repeat_interleave(lengths)).any()
            ):
                raise InputError(
                    "inference.padding_inside_of_windows",
                    "padding must be before or after the tokens of a text for the kernel, which "
                    "counts its windows in tokens; move it to one side, or use the unoptimized "
                    "model",
                )
            real = index[group_mask]  # (n)
            with one_torch_thread():
                group = tokens[real]
            hidden = self.encoder(group, lengths, positions[real], columns)
            with one_torch_thread():
                y[real] = hidden.to(x.dtype)
        return y.view(B, T, D)


class TorchStack(nn.Module):
    """A copy of the layers of an encoder in PyTorch; only its inner precision differs."""

    def __init__(self, stack: TransformerStack, precision: WeightPrecision, reason: str) -> None:
        super().__init__()
        convert = quantize_int8 if precision == "int8" else to_bfloat16
        self.stack = copy.deepcopy(stack).eval() if precision == "float32" else convert(stack)
        self.dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self.kernel_choice = KernelChoice("torch", precision, reason)

    @torch.no_grad()
    def forward(self, x: Tensor, positions: Tensor, mask: AttentionMask = NO_MASK) -> Tensor:
        """x (B, T, D) at positions (B|1, T) -> (B, T, D), in the dtype of x."""
        return self.stack(x.to(self.dtype), positions, mask).to(x.dtype)  # type: ignore[no-any-return]


class OneThreadEmbedding(InputEmbedding):
    """The embedding in front of the kernel, whose threads need the processor alone."""

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor | None = None,
        mask: AttentionMask = NO_MASK,
    ) -> Tensor:
        """Embed the ids in parts whose intermediate results stay in the caches.

        An offset of the positions needs the mask of the whole batch.
        """
        B, T = ids.shape
        rows = max(1, BATCH_TOKENS // max(1, T))
        with one_torch_thread():
            if rows >= B or (self.positions is not None and self.positions.offset):
                return super().forward(ids, positions, segments, mask)
            positions = positions.expand(B, T)
            segments = None if segments is None else segments.expand(B, T)
            parts = []
            for first in range(0, B, rows):
                part = slice(first, first + rows)
                of_part = None if segments is None else segments[part]
                parts.append(super().forward(ids[part], positions[part], of_part))
            return torch.cat(parts)


def _padding_mask(mask: AttentionMask, B: int, T: int) -> Tensor:
    """The real tokens (B, T) bool of a mask that hides only padding; InputError for others."""
    if mask.causal or (mask.allowed is not None and max(mask.allowed.shape[1:3]) > 1):
        raise InputError(
            "inference.mask_not_of_padding",
            "the mask must hide only padding for the kernel; pad texts instead of packing them, "
            "or use the unoptimized model",
        )
    if mask.allowed is None:
        return torch.ones(B, T, dtype=torch.bool)
    return mask.allowed[:, 0, 0].expand(B, T)


def group_by_length(attention_mask: Tensor, batch_tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Groups of texts of similar length, with about `batch_tokens` tokens each.

    attention_mask (B, T) bool -> for each group the indices (b, w) int64 into the B * T positions,
    from the first to the last real token of each row, and their attention mask (b, w). Rows without
    a real token are in no group.

    >>> mask = torch.tensor([[True, False, False], [False, True, True]])
    >>> [(index.tolist(), part.tolist()) for index, part in group_by_length(mask, batch_tokens=8)]
    [([[4, 5], [0, 1]], [[True, True], [True, False]])]
    """
    B, T = attention_mask.shape
    first = attention_mask.int().argmax(1)  # (B)
    last = T - 1 - attention_mask.flip(1).int().argmax(1)  # (B)
    widths = ((last - first + 1) * attention_mask.any(1)).tolist()
    longest_first = sorted((row for row in range(B) if widths[row]), key=lambda row: -widths[row])
    while longest_first:
        count = max(1, batch_tokens // widths[longest_first[0]])
        rows = torch.tensor(longest_first[:count])  # (b)
        del longest_first[:count]
        columns = first[rows, None] + torch.arange(widths[rows[0]])  # (b, w)
        in_row = columns <= last[rows, None]
        index = rows[:, None] * T + columns.clamp(max=T - 1)
        yield index, in_row & attention_mask.flatten()[index]
