"""Random traces of any size and text, without a model."""

from collections.abc import Sequence

import numpy as np

from jumok.interpret.schema import Block, BlockName, ModelInfo, Side, Tokens, TraceInfo
from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import Array

WORDS = ("겨울은", "추워요.", "감기", "조심하세요.", "이", "영화", "정말", "재미있어요")

HOSTILE = (
    "</script><script>window.pwned=1</script>",
    '<img/src="x"onerror="window.pwned=1">',
    "<!--<script>",
    "]]>",
    "&lt;b&gt;",
    "{{7*7}}",
    "${7*7}",
    "javascript:window.pwned=1",
    "line\u2028separator\u2029paragraph",
    "right\u202eleft",
    "zero\u200bwidth",
    "half\ud800pair",
    "nul\0byte",
    "x" * 10_000,
    "z\u0351\u0352\u0357\u0363a\u0334l\u0338g\u0338o\u0338",
    "\"'><svg onload=window.pwned=1>",
    "=cmd|'/C calc'!A0",
    "../../etc/passwd",
    "👩‍👩‍👧‍👦",
    "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "שלום",
)


def tokens(pieces: Sequence[str]) -> Tokens:
    """Pieces between [CLS] and [SEP]; two make a word."""
    text, spans = "", []
    for number, piece in enumerate(pieces):
        spans.append((len(text), len(text) + len(piece)))
        text += piece + " " * (number % 2)
    with_special = ("[CLS]", *pieces, "[SEP]")
    end = len(text)
    return Tokens(
        text=text,
        pieces=with_special,
        ids=tuple(range(len(with_special))),
        spans=((0, 0), *spans, (end, end)),
        special=(1, *[0] * len(pieces), 1),
        real=(1,) * len(with_special),
        words=(-1, *(number // 2 for number in range(len(pieces))), -1),
    )


def random_trace(
    length: int = 8,
    layers: int = 2,
    heads: int = 2,
    d_head: int = 4,
    pieces: Sequence[str] | None = None,
    title: str = "made",
    sides: Sequence[Side] = ("source",),
    seed: int = 0,
) -> Trace:
    """A trace of `length` tokens on each side, special ones among them."""
    rng = np.random.default_rng(seed)
    read = tokens(pieces or [WORDS[i % len(WORDS)] for i in range(length - 2)])
    named: list[tuple[BlockName, Side, Side, bool]] = []
    if "source" in sides:
        named.append(("encoder", "source", "source", False))
    if "target" in sides:
        named.append(("decoder", "target", "target", True))
    if len(sides) > 1:
        named.append(("cross", "target", "source", False))
    T, H, K = len(read), heads, d_head
    arrays: dict[str, Array] = {}
    blocks = []
    for name, queries, keys, causal in named:
        seen = np.tri(T, dtype=bool) if causal else np.ones((T, T), bool)
        arrays[f"{name}.mask"] = seen[None].astype(np.uint8)
        blocks.append(
            Block(
                name=name,
                queries=queries,
                keys=keys,
                layers=layers,
                heads=H,
                key_heads=H,
                d_head=K,
                scale=K**-0.5,
                causal=causal,
            )
        )
        for layer in range(layers):
            q, k, v = rng.normal(size=(3, 1, H, T, K)).astype(np.float32)
            scores = (q * 2) @ k.swapaxes(-1, -2) * np.float32(K**-0.5)
            weights = np.where(seen, np.exp(scores), 0)
            weights /= weights.sum(-1, keepdims=True)
            part = f"{name}.{layer}"
            arrays |= {
                f"{part}.weights": weights.astype(np.float32),
                f"{part}.scores": scores,
                f"{part}.q": q * 2,
                f"{part}.k": k,
                f"{part}.v": v,
                f"{part}.value_norms": np.linalg.norm(v, axis=-1),
            }
    for side in sides:
        for layer in range(layers + 1):
            hidden = rng.normal(size=(1, T, H * K))
            arrays[f"{side}.hidden.{layer}"] = hidden.astype(np.float32)
    kinds = {("source",): "encoder", ("target",): "decoder"}
    info = TraceInfo(
        title=title,
        task=None,
        model=ModelInfo(
            kind=kinds.get(tuple(sides), "encoder_decoder"),  # type: ignore[arg-type]
            family="jumok",
            d_model=H * K,
            d_ff=4 * H * K,
            parameters=0,
            positions="none",
            norm="layer",
            norm_eps=1e-5,
            norm_first=False,
            gated=False,
            activation="relu",
        ),
        made={"jumok": "0"},
        blocks=tuple(blocks),
        sides=dict.fromkeys(sides, (read,)),
    )
    return Trace.from_tensors(arrays, info)
