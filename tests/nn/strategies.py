"""Random tensors and hypothesis strategies: ids, sequence masks, attention masks."""

import torch
from hypothesis import strategies as st
from torch import Tensor

from jumok.nn import AttentionMask

seeds = st.integers(0, 2**31)


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers, the same for the same seed."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype)


def tokens(*shape: int, size: int, seed: int = 0) -> Tensor:
    """Random ids below `size`."""
    return torch.randint(size, shape, generator=torch.Generator().manual_seed(seed))


def random_mask(*shape: int, p: float, seed: int = 0) -> Tensor:
    """A bool tensor, True with probability p."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < p


def sequence_mask(lengths: list[int], width: int, *, left: bool = False) -> Tensor:
    """(B, width) bool: the first (or last) lengths[i] positions of row i are True."""
    right = torch.arange(width) < torch.tensor(lengths)[:, None]
    return right.flip(-1) if left else right


@st.composite
def masks(draw: st.DrawFn, B: int, H: int, T: int, S: int) -> AttentionMask:
    """No mask, padding, or any dense mask, including fully masked rows."""
    shape = draw(st.sampled_from(["none", "padding", "full", "heads"]))
    p, seed = draw(st.sampled_from([0.1, 0.5, 0.9])), draw(seeds)
    sizes = {"padding": (B, 1, 1, S), "full": (B, 1, T, S), "heads": (1, H, T, S)}
    allowed = None if shape == "none" else random_mask(*sizes[shape], p=p, seed=seed)
    return AttentionMask(allowed, draw(st.booleans()) and T <= S)
