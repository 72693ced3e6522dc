"""The worker process of `pickle_reader`: a program that converts a checked pickle to safetensors.

The library never imports it, and it imports nothing of the library but `process_limits`. Standard
input is the checked file, the second argument its size in bytes. The first argument is the file
descriptor to write to: then it first drops its network and sets limits, which only Linux allows. Or
it is the path of a new file: then it works without limits. It prints one JSON object:
`{"tied": {name: first name}}` or `{"error": reason}`. The reader validates everything it writes.
"""

import json
import pickle
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # torch is imported after the network is dropped
    from torch import Tensor

MAX_TENSORS = 100_000
_MIB = 2**20


class RejectedError(Exception):
    """The reason why a file is not read."""


def convert(weights: int | str, size: int) -> Mapping[str, object]:
    """Convert the pickle on standard input; code that it refers to is reported, never executed."""
    try:
        state = load_within_limits(size) if isinstance(weights, int) else load()
        tensors, tied = deduplicate(state, size)
        write(tensors, weights)
    except RejectedError as error:
        return {"error": str(error)}
    except pickle.UnpicklingError as error:
        name = re.search(r"GLOBAL ([\w.]{1,80})", str(error))
        return {"error": f"its pickle refers to code ({name[1] if name else 'not weights'})"}
    except MemoryError:
        return {"error": "it needs more memory than a file of its size can contain"}
    except Exception as error:  # torch raises many types for invalid files
        return {"error": f"torch cannot read it ({type(error).__name__})"}
    return {"tied": tied}


def load() -> object:
    """The content of the pickle on standard input."""
    import torch

    return torch.load(sys.stdin.buffer, weights_only=True, map_location="cpu")


def load_within_limits(size: int) -> object:
    """The content of the pickle on standard input, memory-mapped, within the limits of `size`."""
    import resource

    from jumok.process_limits import drop_network, set_limits

    drop_network()
    import torch

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    set_limits(
        address_space=pages * resource.getpagesize() + 4 * size + 256 * _MIB,
        cpu_seconds=120 + size // (16 * _MIB),
        file_bytes=2 * size + 64 * _MIB,
    )
    return torch.load("/proc/self/fd/0", weights_only=True, mmap=True, map_location="cpu")


def deduplicate(state: object, size: int) -> tuple[dict[str, "Tensor"], dict[str, str]]:
    """Each tensor of a state dict once, and the further names of tied tensors.

    Raises RejectedError for values that are not dense tensors, and for tensors larger than their
    storage.
    """
    if not isinstance(state, dict) or len(state) > MAX_TENSORS:
        raise RejectedError(
            f"it must hold a dict of at most {MAX_TENSORS:,} tensors, got something else"
        )
    kept: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    names: dict[object, str] = {}
    storages: set[int] = set()
    total = 0
    for name, value in state.items():
        tensor = checked_tensor(name, value)
        key = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and key in names:
            tied[name] = names[key]
            continue
        total += tensor.numel() * tensor.element_size()
        if total > size:
            raise RejectedError("its tensors are larger than the file")
        storage = tensor.untyped_storage().data_ptr()
        kept[name] = tensor.clone() if storage in storages else tensor
        names[key] = name
        storages.add(storage)
    return kept, tied


def checked_tensor(name: object, value: object) -> "Tensor":
    """`value`, if it is a dense tensor whose data is completely in the file."""
    import torch

    label = ascii(name)[:80]
    if not isinstance(name, str) or type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise RejectedError(f"{label} must be a tensor, got {type(value).__name__}")
    assert isinstance(value, torch.Tensor)
    if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        raise RejectedError(
            f"{label} must be a dense tensor, got a sparse, quantized or meta tensor"
        )
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise RejectedError(f"{label} of shape {list(value.shape)} is larger than its data")
    return value.detach().resolve_neg().contiguous()


def write(tensors: dict[str, "Tensor"], weights: int | str) -> None:
    """Write the tensors as safetensors to the file descriptor or the new file `weights`."""
    import safetensors.torch

    try:
        closes = isinstance(weights, str)
        with open(weights, "xb" if closes else "wb", closefd=closes) as file:
            file.write(safetensors.torch.save(tensors))
    except OSError as error:
        raise RejectedError(
            f"its tensors do not fit on the disk of TMPDIR ({error.strerror})"
        ) from error


if __name__ == "__main__":
    target = sys.argv[1]
    print(json.dumps(convert(int(target) if target.isdigit() else target, int(sys.argv[2]))))
