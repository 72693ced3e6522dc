"""Read and check the header of a trace file, without numpy.

Shapes: B sequences, H heads, G key heads, T queries, S keys, K width of a head.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from jumok import safetensors_io as tensorfile
from jumok.errors import TraceError, located
from jumok.interpret.schema import FORMAT, TraceInfo

DTYPES = ("F32", "F16", "U8")


def read_info(path: Path) -> TraceInfo:
    """The header of the trace in a file.

    Raises StorageError if it cannot be read, InputError if it is not a valid trace; both name the
    file.
    """
    entries, metadata = tensorfile.read_header(path), tensorfile.read_metadata(path)
    with located(path):
        if metadata.get("format") != FORMAT:
            raise TraceError(
                "trace.other_format",
                "the format must be {format!r}, got {get!r}; trace the text again, or open the "
                "file with the jumok that wrote it",
                format=FORMAT,
                get=metadata.get("format"),
            )
        for name, entry in entries.items():
            if entry.dtype not in DTYPES:
                raise TraceError(
                    "trace.tensor_type",
                    "tensor {name!r} must be F32, F16 or U8, got {dtype}",
                    name=name,
                    dtype=entry.dtype,
                )
        info = TraceInfo.from_json(metadata.get("trace", ""))
        check_tensors(info, {name: entry.shape for name, entry in entries.items()})
        return info


def check_tensors(info: TraceInfo, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises InputError unless the tensors have the shapes that the header requires.

    Masks and thumbnails are required; a compact file may lack the weights of some layers.
    """
    B = info.sequences
    for block in info.blocks:
        T, S = len(info.tokens(block.queries)), len(info.tokens(block.keys))
        L, H, G, K = block.layers, block.heads, block.key_heads, block.d_head
        if not 0 < G <= H or H % G:
            raise TraceError(
                "trace.number_of_heads",
                "block {block}: {h} heads must be a multiple of {g} key heads",
                block=block.name,
                h=H,
                g=G,
            )
        of_block = {
            "mask": (B, T, S),
            "thumbnails": (B, L, H, min(T, 64), min(S, 64)),
            "entropy": (B, L, H),
        }
        of_layer = {
            "weights": (B, H, T, S),
            "scores": (B, H, T, S),
            "q": (B, H, T, K),
            "k": (B, G, S, K),
            "v": (B, G, S, K),
            "bias": (1, H, T, S),
            "value_norms": (B, H, S),
            "mixed": (B, H, T, K),
            "mask": (B, T, S),
            "rotary": (K // 2,),
        }
        for part in ("mask", "thumbnails"):
            if f"{block.name}.{part}" not in shapes:
                raise TraceError(
                    "trace.missing_key",
                    "{block}.{part} is missing; save the trace again",
                    block=block.name,
                    part=part,
                )
        for name, found in shapes.items():
            match = re.fullmatch(rf"{block.name}\.(?:(\d+)\.)?(\w+)", name)
            if match is None:
                continue
            layer, part = match.groups()
            expected = (of_block if layer is None else of_layer).get(part)
            if part == "bias" and found[:1] == (B,):  # of content too, as in DeBERTa
                expected = (B, H, T, S)
            if found != expected or int(layer or 0) >= L:
                raise TraceError(
                    "trace.tensor_shape",
                    "{name} must have the shape {expected} in {l} layers by the header, got "
                    "{found}; save the trace again",
                    name=name,
                    expected=expected,
                    l=L,
                    found=found,
                )
