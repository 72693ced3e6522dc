"""Synthetic traces for figures: any pieces, any lengths."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.interpret.schema import (
    Block,
    Classification,
    Explained,
    ModelInfo,
    Tokens,
    TraceInfo,
    Word,
)
from jumok.interpret.trace import Trace

LAYERS, HEADS, KEY_HEADS, WIDTH = 2, 4, 2, 6
READ = ("[CLS]", "▁이", "▁영화", "는", "▁재미", "있", "어요", "ㅋㅋ", "[EOS]")
WRITTEN = ("[BOS]", "▁2026", "년", "▁11", "월", "−3")
HOSTILE = (
    "[CLS]",
    "</script><script>alert(1)</script>",
    '<img/src="x"onerror="alert(1)">',
    "]]>",
    "&lt;",
    "$x$ \\frac{",
    "${7*7}",
    "\u2028\u202e\u200b",
    "\ud800",
    "\x00",
    "긴" * 10_000,
    "Z̷̢̛͖̪͎̘",
    "👩\u200d🚀",
    "\u1112\u1161\u11ab",
    "שלום",
    "",
    "▁",
)


def tokens(pieces: Sequence[str], padding: int = 0) -> Tokens:
    """Pieces as tokens of the text they spell; the first and [EOS] are special."""
    spans, text = [], ""
    for i, piece in enumerate(pieces):
        special = i == 0 or piece == "[EOS]"
        own = "" if special else piece.replace("▁", " " if text else "")
        blanks = len(own) - len(own.lstrip(" "))
        spans.append((len(text) + blanks, len(text) + len(own)))
        text += own
    n = len(pieces) + padding
    words, number = [], -1
    for i, piece in enumerate(pieces):
        number += piece.startswith("▁") or number < 0
        words.append(-1 if i == 0 or piece == "[EOS]" else number)
    return Tokens(
        text=text,
        pieces=(*pieces, *["[PAD]"] * padding),
        ids=tuple(range(n)),
        spans=(*spans, *[(len(text), len(text))] * padding),
        special=(
            *(int(i == 0 or piece == "[EOS]") for i, piece in enumerate(pieces)),
            *[1] * padding,
        ),
        real=(*[1] * len(pieces), *[0] * padding),
        words=(*words, *[-1] * padding),
    )


def trace_of(
    read: Sequence[str] = READ,
    written: Sequence[str] | None = WRITTEN,
    *,
    padding: int = 0,
    positions: str = "learned",
    classifies: bool = False,
    seed: int = 0,
) -> Trace:
    """A trace of an encoder, or with `written` of an encoder-decoder, two layers of four heads."""
    sides = {"source": (tokens(read, padding),)}
    blocks = [_block("encoder", "source", "source")]
    if written is not None:
        sides["target"] = (tokens(written),)
        blocks += [_block("decoder", "target", "target"), _block("cross", "target", "source")]
    chance = np.random.default_rng(seed)
    arrays: dict[str, NDArray[np.generic]] = {}
    for block in blocks:
        queries, keys = sides[block.queries][0], sides[block.keys][0]
        allowed = np.broadcast_to(np.array(keys.real, bool), (len(queries), len(keys)))
        if block.causal:
            allowed = np.tril(allowed)
        arrays[f"{block.name}.mask"] = allowed[None].astype(np.uint8)
        for layer in range(LAYERS):
            arrays |= _layer(f"{block.name}.{layer}", block, allowed, chance, positions)
    for side, (row,) in sides.items():
        if positions in ("learned", "sinusoidal"):
            arrays[f"{side}.positions"] = chance.normal(size=(len(row), 8)).astype(np.float32)
    if positions == "rotary":
        arrays["rotary"] = (10_000.0 ** -np.linspace(0, 1, WIDTH // 2)).astype(np.float32)
    info = TraceInfo(
        title="made up",
        task="classification" if classifies else None,
        model=ModelInfo(
            kind="encoder" if written is None else "encoder_decoder",
            family="jumok",
            d_model=8,
            d_ff=16,
            parameters=1,
            positions=positions,  # type: ignore[arg-type]
            norm="layer",
            norm_eps=1e-5,
            norm_first=False,
            gated=False,
            activation="relu",
        ),
        made={},
        blocks=tuple(blocks),
        sides=sides,  # type: ignore[arg-type]
        classification=_answers(sides["source"][0]) if classifies else None,
    )
    return Trace.from_tensors(arrays, info)


def _block(name: str, queries: str, keys: str) -> Block:
    return Block(
        name=name,  # type: ignore[arg-type]
        queries=queries,  # type: ignore[arg-type]
        keys=keys,  # type: ignore[arg-type]
        layers=LAYERS,
        heads=HEADS,
        key_heads=KEY_HEADS,
        d_head=WIDTH,
        scale=WIDTH**-0.5,
        causal=name == "decoder",
    )


def _layer(
    name: str,
    block: Block,
    allowed: NDArray[np.bool_],
    chance: np.random.Generator,
    positions: str,
) -> dict[str, NDArray[np.generic]]:
    """Equation (1) for random q and k."""
    T, S = allowed.shape
    q = chance.normal(size=(1, HEADS, T, WIDTH)).astype(np.float32)
    k = chance.normal(size=(1, KEY_HEADS, S, WIDTH)).astype(np.float32)
    scores = (q @ np.repeat(k, HEADS // KEY_HEADS, 1).swapaxes(-1, -2)) * block.scale
    arrays: dict[str, NDArray[np.generic]] = {f"{name}.q": q, f"{name}.k": k}
    if positions == "relative" and block.name != "cross":
        by_distance = chance.normal(size=(HEADS, T + S - 1)).astype(np.float32)
        places = np.arange(S)[None, :] - np.arange(T)[:, None] + T - 1
        arrays[f"{name}.bias"] = by_distance[:, places][None]
        scores = scores + arrays[f"{name}.bias"]
    arrays[f"{name}.scores"] = scores.astype(np.float32)
    powers = np.where(allowed, np.exp(scores), 0.0)
    arrays[f"{name}.weights"] = (powers / powers.sum(-1, keepdims=True)).astype(np.float32)
    arrays[f"{name}.value_norms"] = chance.random((1, HEADS, S)).astype(np.float32)
    return arrays


def _answers(row: Tokens) -> Classification:
    """An answer, and what it would be without each word."""
    words = [word for word in row.text.split(" ") if word]
    found, at = [], 0
    for number, word in enumerate(words):
        begin = row.text.index(word, at)
        at = begin + len(word)
        without = 0.7 - 0.3 * (-1) ** number / (number + 1)
        found.append(Word(text=word, span=(begin, at), without=(1 - without, without)))
    sequence = Explained(probabilities=(0.3, 0.7), words=tuple(found), agreement=None)
    return Classification(labels=("부정", "긍정 <b>"), sequences=(sequence,))
