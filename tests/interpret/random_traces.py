"""Traces of random numbers, of any shape, without a model."""

import numpy as np
from numpy.typing import NDArray

from jumok.interpret.schema import Block, ModelInfo, Tokens, TraceInfo
from jumok.interpret.trace import Trace

MODEL = ModelInfo(
    kind="encoder",
    family="jumok",
    d_model=12,
    d_ff=24,
    parameters=0,
    positions="none",
    norm="layer",
    norm_eps=1e-5,
    norm_first=False,
    gated=False,
    activation="relu",
)

Arrays = dict[str, NDArray[np.generic]]


def plain_tokens(n: int, padding: int = 0) -> Tokens:
    """n letters, the last `padding` of them padding."""
    text = "가" * n
    return Tokens(
        text=text,
        pieces=tuple(text),
        ids=tuple(range(n)),
        spans=tuple((i, i + 1) for i in range(n)),
        special=(0,) * n,
        real=(1,) * (n - padding) + (0,) * padding,
        words=(0,) * n,
    )


def random_info(
    B: int = 2, L: int = 2, H: int = 4, G: int = 2, T: int = 5, K: int = 3
) -> TraceInfo:
    """The header of an encoder's trace; the second of its sequences ends with padding."""
    block = Block(
        name="encoder",
        queries="source",
        keys="source",
        layers=L,
        heads=H,
        key_heads=G,
        d_head=K,
        scale=0.5,
        causal=False,
    )
    return TraceInfo(
        title="만든 것",
        task=None,
        model=MODEL,
        made={"jumok": "0"},
        blocks=(block,),
        sides={"source": tuple(plain_tokens(T, min(b, 1)) for b in range(B))},
    )


def random_tensors(info: TraceInfo, seed: int = 0, dtype: type[np.floating] = np.float32) -> Arrays:
    """Random tensors of the shapes in the header."""
    rng = np.random.default_rng(seed)
    (block,), B = info.blocks, info.sequences
    T, H, G, K = len(info.tokens("source")), block.heads, block.key_heads, block.d_head

    def some(*shape: int) -> NDArray[np.floating]:
        return rng.standard_normal(shape).astype(dtype)

    real = np.array([row.real for row in info.sides["source"]], dtype=np.bool_)
    mask = np.broadcast_to(real[:, None, :], (B, T, T))
    found: Arrays = {"encoder.mask": mask}
    for layer in range(block.layers):
        raised = np.exp(2 * some(B, H, T, T)) * mask[:, None]
        found |= {
            f"encoder.{layer}.weights": raised / raised.sum(-1, keepdims=True),
            f"encoder.{layer}.q": some(B, H, T, K),
            f"encoder.{layer}.k": some(B, G, T, K),
            f"encoder.{layer}.v": some(B, G, T, K),
            f"encoder.{layer}.value_norms": np.abs(some(B, H, T)),
            f"source.hidden.{layer}": some(B, T, info.model.d_model),
        }
    found[f"source.hidden.{block.layers}"] = some(B, T, info.model.d_model)
    return found


def random_trace(info: TraceInfo | None = None, **changes: int) -> Trace:
    """A trace of random numbers."""
    info = info or random_info(**changes)
    return Trace.from_tensors(random_tensors(info), info)
