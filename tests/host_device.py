"""A device `host` that is not `cpu`, in the memory of the host: for placement without a GPU.

Its tensors are wrappers of tensors of the CPU. An operation that reads one of them together with a
tensor of the CPU raises an error, as with CUDA; only scalars and indices may be on the CPU.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "host"
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
RESIZING = ("arange", "eye", "linspace", "randperm", "tril_indices", "triu_indices")
COPYING = ("copy_", "_to_copy", "copy")


class HostTensor(Tensor):
    """A tensor of the device `host`."""

    host: Tensor
    device_of_all: ClassVar[torch.device]

    @staticmethod
    def __new__(cls, host: Tensor) -> "HostTensor":
        """The wrapper of a tensor of the CPU."""
        found: HostTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=cls.device_of_all,
        )
        found.host = host
        return found

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation that reads a tensor of the device."""
        return _run(func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"HostTensor({self.host!r})"

    def tolist(self) -> Any:
        """As of a tensor without a subclass."""
        return self.cpu().tolist()

    def new_tensor(self, data: Any, **_: Any) -> Tensor:  # type: ignore[override]
        """On the device, in this dtype."""
        return torch.tensor(data, dtype=self.dtype, device=self.device)

    def __getitem__(self, index: Any) -> Tensor:
        """A list is a tensor of indices, which may be on the CPU."""
        return super().__getitem__(_indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Likewise."""
        super().__setitem__(_indices(index), value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied: Any = HostTensor(self.host.detach().clone())
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied  # type: ignore[no-any-return]


def _run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The operation on the host's tensors, its results on the device; inputs keep their wrapper."""
    _check_devices(func, args, kwargs)
    wrappers: dict[int, HostTensor] = {}

    def unwrap(tensor: HostTensor) -> Tensor:
        wrappers[id(tensor.host)] = tensor
        return tensor.host

    def wrap(tensor: Tensor) -> Tensor:
        known = wrappers.get(id(tensor))
        return HostTensor(tensor) if known is None else known

    device = kwargs.get("device")
    leaves = device is not None and torch.device(device).type != NAME
    inner = {**kwargs, "device": torch.device("cpu")} if device is not None else dict(kwargs)
    args, inner = tree_map_only(HostTensor, unwrap, (list(args), inner))
    found = func(*args, **inner)
    for each in wrappers.values():
        assert each.shape == each.host.shape, f"{func} resizes a tensor: add it to RESIZING"
    into_cpu = func._schema.name == "aten::copy_" and id(args[0]) not in wrappers
    if leaves or into_cpu:
        return found
    normal = func.is_view and not any(each.is_inference() for each in wrappers.values())
    with torch.inference_mode(False) if normal else nullcontext():  # as the viewed tensor
        return tree_map_only(Tensor, wrap, found)


def _check_devices(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    name = func._schema.name.removeprefix("aten::")
    if name in COPYING:
        return
    given = [args[0]] if name in INDEXING else tree_flatten((args, kwargs))[0]
    tensors = [each for each in given if isinstance(each, Tensor)]
    here = any(isinstance(each, HostTensor) for each in tensors)
    for each in tensors:
        if here and not isinstance(each, HostTensor) and each.dim():
            raise RuntimeError(
                f"expected all tensors of {name} on {NAME}, got one of {tuple(each.shape)} on "
                f"{each.device}"
            )


def register() -> torch.device:
    """Register the device, once in a process, before anything is computed."""
    _setup_privateuseone_for_python_backend(NAME)
    torch.__future__.set_swap_module_params_on_conversion(True)  # keeps tied weights, as CUDA
    HostTensor.device_of_all = torch.device(f"{NAME}:0")
    fallback: Callable[..., Any] = lambda op, *args, **kwargs: _run(op, args, kwargs)  # noqa: E731
    library: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    library.fallback(fallback, "PrivateUse1")
    _KEPT.append(library)
    for name in ("tensor", "as_tensor", *RESIZING):  # `tensor` fills the memory of a device
        setattr(torch, name, _made_on_the_cpu(getattr(torch, name)))
    return HostTensor.device_of_all


def _indices(index: Any) -> Any:
    """An index with tensors instead of lists."""
    if isinstance(index, tuple):
        return tuple(map(_indices, index))
    if not isinstance(index, list):
        return index
    is_mask = any(isinstance(each, bool) for each in index)
    return torch.tensor(index, dtype=torch.bool if is_mask else torch.long)


def _made_on_the_cpu(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(*args: Any, device: Any = None, **options: Any) -> Tensor:
        if device is None or torch.device(device).type != NAME:
            return make(*args, device=device, **options)
        return make(*args, **options).to(device)

    return call


_KEPT: list[Any] = []
