"""Attention weights in the format of BertViz: a trace from them, and a trace back to them.

Shapes: B sequences, H heads, T queries, S keys.
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import groupby
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from jumok.errors import TraceError
from jumok.interpret.eojeol import NO_EOJEOL, eojeol_at, eojeol_spans, trim_span
from jumok.interpret.schema import (
    SIDES,
    Block,
    BlockName,
    ModelInfo,
    ModelKind,
    Side,
    Tokens,
    TraceInfo,
)
from jumok.interpret.trace import Trace
from jumok.text.byte_pieces import byte_piece_value, decode_with_positions, is_utf8, piece_bytes
from jumok.text.offsets import Span

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float32]
Layers = Sequence["Tensor | NDArray[np.floating]"]
"""The weights of each layer: (B, H, T, S)."""
Pieces = Sequence[str] | Sequence[Sequence[str]]
"""The pieces of one sequence, or of each of several."""

UNKNOWN_ID = -1  # in place of an id
WEIGHTS_ONLY_NOTE = "The trace has weights only: no queries, keys, values or hidden states."

_SPECIAL = re.compile(r"\[[A-Z]+\]|<[^<>]*>|<\|[^<>]*\|>")
_TEXT_LIKE = re.compile(r"\[(UNK|MASK)\]|<(unk|mask)>|<0x[0-9A-Fa-f]{2}>")  # they stand for text
_PADDING = re.compile(r"\[PAD\]|<pad>")
_SPACES = ("▁", "Ġ")  # the marks of a space before a piece


class BertViz(TypedDict, total=False):
    """The keyword arguments of `bertviz.head_view` and `bertviz.model_view`.

    >>> BertViz(tokens=["▁겨울", "은"], sentence_b_start=1)
    {'tokens': ['▁겨울', '은'], 'sentence_b_start': 1}
    """

    attention: "tuple[Tensor, ...]"
    tokens: list[str]
    sentence_b_start: int
    encoder_attention: "tuple[Tensor, ...]"
    decoder_attention: "tuple[Tensor, ...]"
    cross_attention: "tuple[Tensor, ...]"
    encoder_tokens: list[str]
    decoder_tokens: list[str]


def to_bertviz(trace: Trace, sequence: int = 0) -> BertViz:
    """The arguments of `bertviz.head_view` and `bertviz.model_view` for one sequence.

        bertviz.head_view(**to_bertviz(trace))

    Each layer is a tensor (1, H, T, S). Padding is removed.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> found = to_bertviz(trace)
    >>> found["encoder_tokens"][:2], tuple(found["cross_attention"][0].shape)
    (['▁겨울', '은'], (1, 2, 7, 7))
    """
    import torch

    def layers(block: Block) -> "tuple[Tensor, ...]":
        T, S = (sum(trace.info.tokens(side, sequence).real) for side in (block.queries, block.keys))
        every = (trace.weights(block.name, layer, sequence) for layer in range(block.layers))
        return tuple(torch.from_numpy(weights[None, :, :T, :S].copy()) for weights in every)

    def pieces(side: Side) -> list[str]:
        row = trace.info.tokens(side, sequence)
        return list(row.pieces[: sum(row.real)])

    blocks = {block.name: block for block in trace.info.blocks}
    if len(blocks) == 1 and "cross" not in blocks:
        [block] = blocks.values()
        found = BertViz(attention=layers(block), tokens=pieces(block.queries))
        row = trace.info.tokens(block.queries, sequence)
        segments = (row.segments or ())[: sum(row.real)]  # without padding
        if 1 in segments:
            found["sentence_b_start"] = segments.index(1)
        return found
    found = BertViz()
    if "encoder" in blocks:
        found["encoder_attention"] = layers(blocks["encoder"])
    if "decoder" in blocks:
        found["decoder_attention"] = layers(blocks["decoder"])
    if "cross" in blocks:
        found["cross_attention"] = layers(blocks["cross"])
    if "source" in trace.info.sides:
        found["encoder_tokens"] = pieces("source")
    if "target" in trace.info.sides:
        found["decoder_tokens"] = pieces("target")
    return found


def from_attention(
    attention: Layers | None = None,
    tokens: Pieces | None = None,
    sentence_b_start: int | None = None,
    encoder_attention: Layers | None = None,
    decoder_attention: Layers | None = None,
    cross_attention: Layers | None = None,
    encoder_tokens: Pieces | None = None,
    decoder_tokens: Pieces | None = None,
    title: str = "attention",
) -> Trace:
    """A trace of attention weights, from the arguments of `bertviz.head_view`.

    Either `attention`, a tensor (B, H, T, T) a layer, and its tokens, or those of an
    encoder-decoder. If no weight is on a later position, the block is a decoder with a causal mask.
    `sentence_b_start` is the index of the first token of a second text.

    >>> weights = np.array([[[[1.0, 0.0], [0.5, 0.5]]]], dtype=np.float32)  # one layer, one head
    >>> trace = from_attention([weights], ["▁겨울", "은"])
    >>> trace.info.blocks[0].name, trace.info.tokens("target").text
    ('decoder', '겨울은')

    Raises InputError for tensors of other shapes, and for missing or too few tokens.
    """
    pair = (encoder_attention, decoder_attention, cross_attention)
    blocks: dict[BlockName, list[Floats]] = {}
    pieces: dict[Side, Pieces | None] = {"source": encoder_tokens, "target": decoder_tokens}
    if attention is None:
        for name, layers in zip(SIDES, pair, strict=True):
            if layers is not None:
                blocks[name] = _arrays(f"{name}_attention", layers)
    elif all(layers is None for layers in pair):
        own = _arrays("attention", attention)
        blocks["decoder" if _causal(own) else "encoder"] = own
        pieces = dict.fromkeys(pieces, tokens)
    else:
        raise TraceError(
            "trace.two_attentions",
            "attention must be of one stack or of an encoder-decoder, got both; give one of them",
        )
    if not blocks:
        raise TraceError(
            "trace.no_attention",
            "attention must be one tensor (B, H, T, S) for each layer, got none",
        )
    used = dict.fromkeys(side for name in blocks for side in SIDES[name])
    sides = {side: _rows(side, pieces[side], blocks) for side in used}
    if sentence_b_start is not None:
        sides = {side: _with_segments(rows, sentence_b_start) for side, rows in sides.items()}
    return Trace.from_tensors(_tensors(blocks, sides), _info(title, blocks, sides))


def _arrays(name: str, layers: Layers) -> list[Floats]:
    """The layers as arrays (B, H, T, S) of one shape. Raises InputError for anything else."""
    found = [_array(layer) for layer in layers]
    shapes = {layer.shape for layer in found}
    if len(shapes) != 1 or len(next(iter(shapes))) != 4:
        raise TraceError(
            "trace.attention_shape",
            "{name} must be one tensor (B, H, T, S) for each layer, all of one shape, got {map}; "
            "transformers returns them with output_attentions=True and eager attention",
            name=name,
            map=sorted(map(str, shapes)),
        )
    if not all(np.isfinite(layer).all() and (layer >= 0).all() for layer in found):
        raise TraceError(
            "trace.weights_not_finite",
            "{name} must be finite and at least 0, got others; give weights after the softmax",
            name=name,
        )
    return found


def _array(layer: "Tensor | NDArray[np.floating]") -> Floats:
    if isinstance(layer, np.ndarray):
        return layer.astype(np.float32)
    return np.asarray(layer.detach().float().cpu().numpy(), dtype=np.float32)


def _causal(layers: Sequence[Floats]) -> bool:
    """Whether all weights on later positions are 0, with more than one position."""
    T, S = layers[0].shape[-2:]
    return T == S > 1 and all(not np.triu(layer, 1).any() for layer in layers)


def _has_causal_mask(name: BlockName, layers: Sequence[Floats]) -> bool:
    """Whether the block is a causal decoder, or one of a single token."""
    return name == "decoder" and (_causal(layers) or layers[0].shape[-1] == 1)


def _rows(
    side: Side, pieces: Pieces | None, blocks: Mapping[BlockName, Sequence[Floats]]
) -> tuple[Tokens, ...]:
    """The tokens of each sequence of a side; padding pieces without any weight are padding."""
    if not pieces:
        raise TraceError(
            "trace.tokens_without_pieces",
            "the tokens of the {side} must have a piece for each position, got none",
            side=side,
        )
    single = [piece for piece in pieces if isinstance(piece, str)]
    rows: list[list[str]] = [single] if single else [list(row) for row in pieces]
    attended: list[NDArray[np.bool_]] = [np.zeros(len(row), np.bool_) for row in rows]
    for name, layers in blocks.items():
        B, _, T, S = layers[0].shape
        for part, n in zip(SIDES[name], (T, S), strict=True):
            if part == side and (len(rows) != B or any(len(row) != n for row in rows)):
                raise TraceError(
                    "trace.token_rows",
                    "the tokens of the {side} must have {b} rows with a piece for each position "
                    "({n} in block {name}), got {n_rows} rows of {rows}",
                    side=side,
                    b=B,
                    n=n,
                    name=name,
                    n_rows=len(rows),
                    rows=sorted({len(row) for row in rows}),
                )
        if SIDES[name][1] == side:
            for weights in layers:
                attended = [a | (w > 0).any((0, 1)) for a, w in zip(attended, weights, strict=True)]
    return tuple(_row(row, own) for row, own in zip(rows, attended, strict=True))


def _row(pieces: Sequence[str], attended: NDArray[np.bool_]) -> Tokens:
    """The tokens of one sequence, with the text of its pieces."""
    real = len(pieces)
    while real > 1 and _PADDING.fullmatch(pieces[real - 1]) and not attended[real - 1]:
        real -= 1
    text, spans = _decode_byte_level(pieces) or _join_pieces(pieces)
    eojeols = eojeol_spans(text)
    special = [_is_special(piece) for piece in pieces]
    return Tokens(
        text=text,
        pieces=tuple(pieces),
        ids=(UNKNOWN_ID,) * len(pieces),
        spans=tuple(spans),
        special=tuple(map(int, special)),
        real=(*[1] * real, *[0] * (len(pieces) - real)),
        words=tuple(
            NO_EOJEOL if is_special else eojeol_at(eojeols, span, piece)
            for piece, span, is_special in zip(pieces, spans, special, strict=True)
        ),
    )


def _is_special(piece: str) -> bool:
    """Whether a piece is a special token such as [CLS], </s> or <pad>."""
    return bool(_SPECIAL.fullmatch(piece)) and not _TEXT_LIKE.fullmatch(piece)


def _join_pieces(pieces: Sequence[str]) -> tuple[str, list[Span]]:
    """The text of pieces, and the span of each; <0xEC> is one byte of the text."""
    has_marks = any(piece.startswith(_SPACES) for piece in pieces)
    text, spans = "", list[Span]()
    for are_bytes, group in groupby(pieces, lambda piece: byte_piece_value(piece) is not None):
        run = list(group)
        if are_bytes:
            decoded, positions = decode_with_positions(
                b"".join(byte_piece_value(piece) or b"" for piece in run)
            )
            spans += [(len(text) + at, len(text) + at + 1) for at in positions]
            text += decoded
            continue
        for piece in run:
            piece_text = ""
            if not _is_special(piece):
                starts_word = piece.startswith(_SPACES) if has_marks else piece[:2] != "##"
                text += " " * (starts_word and bool(text))
                piece_text = piece.removeprefix("##").lstrip("".join(_SPACES))
            spans.append((len(text), len(text) + len(piece_text)))
            text += piece_text
    return text, spans


def _decode_byte_level(pieces: Sequence[str]) -> tuple[str, list[Span]] | None:
    """The text and spans of byte-level pieces (GPT-2); None if they are not UTF-8 together."""
    own = ["" if _is_special(piece) else piece for piece in pieces]
    data = [found for piece in own if (found := piece_bytes(piece)) is not None]
    joined = b"".join(data)
    if len(data) < len(own) or all(piece.isascii() for piece in own) or not is_utf8(joined):
        return None
    text, positions = decode_with_positions(joined)
    n_spaces = len(text) - len(text.lstrip(" "))  # before the first word
    starts, spans, end = [*positions, len(text)], list[Span](), 0
    for part in data:
        begin, end = end, end + len(part)
        stop = positions[end - 1] + 1 if part else starts[begin]
        spans.append((max(starts[begin] - n_spaces, 0), max(stop - n_spaces, 0)))
    text = text[n_spaces:]
    return text, [trim_span(text, span) for span in spans]


def _with_segments(rows: Sequence[Tokens], start: int) -> tuple[Tokens, ...]:
    """The tokens with segments: 0 before the position `start`, 1 from there."""
    return tuple(
        replace(row, segments=tuple(int(position >= start) for position in range(len(row))))
        for row in rows
    )


def _tensors(
    blocks: Mapping[BlockName, Sequence[Floats]], sides: Mapping[Side, Sequence[Tokens]]
) -> dict[str, NDArray[np.generic]]:
    """The weights by their names in a trace, and the masks that follow from them."""
    found: dict[str, NDArray[np.generic]] = {}
    for name, layers in blocks.items():
        B, _, T, S = layers[0].shape
        keys = np.array([row.real for row in sides[SIDES[name][1]]], np.uint8)[:, None]  # (B, 1, S)
        mask = np.broadcast_to(keys, (B, T, S))
        found[f"{name}.mask"] = np.tril(mask) if _has_causal_mask(name, layers) else mask
        found |= {f"{name}.{layer}.weights": weights for layer, weights in enumerate(layers)}
    return found


def _info(
    title: str,
    blocks: Mapping[BlockName, Sequence[Floats]],
    sides: Mapping[Side, tuple[Tokens, ...]],
) -> TraceInfo:
    """The header, with 0 and "unknown" for what weights do not determine."""
    kind: ModelKind = "encoder_decoder"
    if len(sides) == 1:
        kind = "encoder" if "source" in sides else "decoder"
    return TraceInfo(
        title=title,
        task=None,
        model=ModelInfo(
            kind=kind,
            family="unknown",
            d_model=0,
            d_ff=0,
            parameters=0,
            positions="unknown",
            norm="layer",
            norm_eps=0.0,
            norm_first=False,
            gated=False,
            activation="unknown",
        ),
        made={"jumok": metadata.version("jumok"), "date": datetime.date.today().isoformat()},
        blocks=tuple(
            Block(
                name=name,
                queries=SIDES[name][0],
                keys=SIDES[name][1],
                layers=len(layers),
                heads=layers[0].shape[1],
                key_heads=layers[0].shape[1],
                d_head=0,
                scale=1.0,
                causal=_has_causal_mask(name, layers),
            )
            for name, layers in blocks.items()
        ),
        sides=sides,
        notes=(WEIGHTS_ONLY_NOTE,),
    )
