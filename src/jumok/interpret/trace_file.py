"""The file of a trace before any number is read: its header, checked; numpy is not needed.

Shapes: B sequences, H heads, G key heads, T queries, S keys, K width of a head.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from jumok import safetensors_io as tensorfile
from jumok.errors import InputError
from jumok.interpret.schema import FORMAT, TraceInfo

DTYPES = ("F32", "F16", "U8")


def read_info(path: Path) -> TraceInfo:
    """The header of the trace in a file.

    Raises StorageError for what cannot be read, InputError for what is no whole trace; both name
    the file.
    """
    entries, metadata = tensorfile.read_header(path), tensorfile.read_metadata(path)
    try:
        if metadata.get("format") != FORMAT:
            raise InputError(
                f"its format is {metadata.get('format')!r}, not {FORMAT!r}; give a file that "
                "`trace.save` has written"
            )
        for name, entry in entries.items():
            if entry.dtype not in DTYPES:
                raise InputError(f"tensor {name!r} is {entry.dtype}; a trace holds F32, F16 and U8")
        info = TraceInfo.from_json(metadata.get("trace", ""))
        check_tensors(info, {name: entry.shape for name, entry in entries.items()})
        return info
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def check_tensors(info: TraceInfo, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises InputError unless the tensors are there and have the shapes the header tells.

    Masks and thumbnails must be there; a small file may lack the weights of some layers.
    """
    B = info.sequences
    for block in info.blocks:
        T, S = len(info.tokens(block.queries)), len(info.tokens(block.keys))
        L, H, G, K = block.layers, block.heads, block.key_heads, block.d_head
        if not 0 < G <= H or H % G:
            raise InputError(f"block {block.name}: {H} heads do not share {G} key heads")
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
        }
        for part in ("mask", "thumbnails"):
            if f"{block.name}.{part}" not in shapes:
                raise InputError(f"{block.name}.{part} is missing; write the trace again")
        for name, found in shapes.items():
            place = re.fullmatch(rf"{block.name}\.(?:(\d+)\.)?(\w+)", name)
            if place is None:
                continue
            layer, part = place.groups()
            told = (of_block if layer is None else of_layer).get(part)
            if found != told or int(layer or 0) >= L:
                raise InputError(
                    f"{name} is {found}, the header tells {told} of {L} layers; write the trace "
                    "again"
                )
