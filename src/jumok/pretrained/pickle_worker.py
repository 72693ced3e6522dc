"""The far side of the door: a program of its own that turns a checked pickle into safetensors.

`pickled.read_pickled` starts it in a process without network and with limits; it is never imported
by the library and imports nothing of it. Standard input is the checked file, the first argument
the descriptor of a nameless file to write to, the second the size of the checked file in bytes.
It answers on standard output with one table: `{"tied": {name: other name}}` or `{"refused": why}`.
Whatever it writes is checked again by the reader.
"""

import ctypes
import json
import pickle
import re
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # torch is imported once the network is gone
    from torch import Tensor

MAX_TENSORS = 100_000
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # CLONE_NEWUSER, CLONE_NEWNET of Linux
_MIB = 2**20


class RejectedError(Exception):  # noqa: N818  (it is an answer)
    """Why this file is not read; half a sentence for people."""


def convert(weights: int, size: int) -> Mapping[str, object]:
    """Do the work and say how it went; code that a pickle asks for is named, never run."""
    drop_network()
    try:
        tensors, tied = deduplicate(load(size), size)
        write(tensors, weights)
    except RejectedError as refused:
        return {"refused": str(refused)}
    except pickle.UnpicklingError as error:
        name = re.search(r"GLOBAL ([\w.]{1,80})", str(error))
        return {"refused": f"its pickle asks for code ({name[1] if name else 'not for weights'})"}
    except MemoryError:
        return {"refused": "it asks for more memory than a file of its size can need"}
    except Exception as error:  # whatever torch says of a file that lies
        return {"refused": f"torch cannot read it ({type(error).__name__})"}
    return {"tied": tied}


def drop_network() -> bool:
    """Move this process where there is no network, when the system permits it."""
    unshare = getattr(ctypes.CDLL(None), "unshare", None)
    return unshare is not None and any(
        unshare(spaces) == 0 for spaces in (_NEW_NETWORK, _NEW_USER | _NEW_NETWORK)
    )


def load(size: int) -> object:
    """What the pickle on standard input holds, its storages mapped; limits are set just before."""
    import torch

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    set_rlimits(pages * resource.getpagesize() + 4 * size + 256 * _MIB, size)
    return torch.load("/proc/self/fd/0", weights_only=True, mmap=True, map_location="cpu")


def set_rlimits(address_space: int, size: int) -> None:
    """From here on: so many bytes of memory, time and disk for a file of `size`, no core file."""
    for what, most in (
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_CPU, 120 + size // (16 * _MIB)),  # seconds
        (resource.RLIMIT_FSIZE, 2 * size + 64 * _MIB),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def deduplicate(state: object, size: int) -> tuple[dict[str, "Tensor"], dict[str, str]]:
    """The tensors of a table once each, and the further names of those that have several.

    Refused is whatever is no plain tensor, and a tensor larger than the numbers it stands on.
    """
    if not isinstance(state, dict) or len(state) > MAX_TENSORS:
        raise RejectedError(f"it holds no table of at most {MAX_TENSORS:,} tensors")
    kept: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    names: dict[object, str] = {}
    storages: set[int] = set()
    total = 0
    for name, value in state.items():
        tensor = checked_tensor(name, value)
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and place in names:
            tied[name] = names[place]
            continue
        total += tensor.numel() * tensor.element_size()
        if total > size:
            raise RejectedError("its tensors are larger than the file")
        storage = tensor.untyped_storage().data_ptr()
        kept[name] = tensor.clone() if storage in storages else tensor
        names[place] = name
        storages.add(storage)
    return kept, tied


def checked_tensor(name: object, value: object) -> "Tensor":
    """The tensor `value`, when it is a plain one whose numbers are all in the file."""
    import torch

    label = ascii(name)[:80]
    if not isinstance(name, str) or type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise RejectedError(f"{label} is of the type {type(value).__name__}, not a tensor")
    assert isinstance(value, torch.Tensor)
    if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        raise RejectedError(f"{label} is no plain tensor but sparse, quantised or empty of numbers")
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise RejectedError(f"{label} of shape {list(value.shape)} is larger than its numbers")
    return value.detach().resolve_neg().contiguous()


def write(tensors: dict[str, "Tensor"], weights: int) -> None:
    """The tensors as safetensors into the open file with the descriptor `weights`."""
    import safetensors.torch

    try:
        with open(weights, "wb", closefd=False) as file:
            file.write(safetensors.torch.save(tensors))
    except OSError as error:
        raise RejectedError(
            f"no room for its tensors where TMPDIR points ({error.strerror})"
        ) from error


if __name__ == "__main__":
    print(json.dumps(convert(int(sys.argv[1]), int(sys.argv[2]))))
