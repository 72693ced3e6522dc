"""The kernel's functions as Python sees them: ctypes over the addresses of tensors."""

import ctypes
import logging
import os
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

from jumok.native.build import KernelError, discard, kernel_path

logger = logging.getLogger(__name__)

OK, OUT_OF_VOCABULARY, OUT_OF_MEMORY, NO_SUCH_ROW = range(4)  # as request.h answers


class ModelDims(ctypes.Structure):
    """The measures of a model; the same fields in the same order stand in kernel/transformer.h."""

    _fields_ = (
        *(
            (name, c_int32)
            for name in (
                *("d_model", "n_heads", "d_head", "d_ff"),
                *("encoder_layers", "decoder_layers", "cross"),
                *("max_length", "vocabulary"),
                *("activation", "gated", "rms", "norm_first", "embedding_norm"),
            )
        ),
        *((name, c_float) for name in ("norm_eps", "attention_scale", "embedding_scale")),
    )


# Each function: what it answers, and what it is given.
SIGNATURES = {
    "jumok_model": (c_void_p, (POINTER(ModelDims), c_int)),
    "jumok_free_model": (None, (c_void_p,)),
    "jumok_linear": (c_int, (c_void_p, c_char_p, c_int, c_int, c_int)),
    "jumok_rows": (c_int, (c_void_p, c_char_p, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "jumok_vector": (c_int, (c_void_p, c_char_p, c_int64, c_void_p)),
    "jumok_bytes": (c_int64, (c_void_p,)),
    "jumok_encode": (c_int, (c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_int)),
    "jumok_request": (c_void_p, (c_void_p,)),
    "jumok_free_request": (None, (c_void_p,)),
    "jumok_read": (c_int, (c_void_p, c_void_p, c_void_p, c_int, c_int, c_int)),
    "jumok_begin": (c_int, (c_void_p, c_void_p, c_int)),
    "jumok_step": (c_int, (c_void_p, c_void_p, c_int, c_int, c_void_p, c_int)),
    "jumok_best": (c_int, (c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p, c_int)),
    "jumok_select": (c_int, (c_void_p, c_void_p, c_int)),
    "jumok_rewind": (None, (c_void_p, c_int)),
}


@cache
def library() -> ctypes.CDLL:
    """The kernel, compiled if need be and loaded once; KernelError says why it cannot be.

    One in the cache that is damaged is compiled anew.
    """
    path = kernel_path()
    try:
        return load_library(path)
    except KernelError:
        if _is_noexec(path):
            raise
        logger.warning("%s cannot be loaded; it is compiled anew", path)
        discard(path)
        return load_library(kernel_path())


def load_library(path: Path) -> ctypes.CDLL:
    """A compiled kernel, with every function knowing what it takes and answers.

    Raises KernelError where the system does not load it: a cache on a disk without programs.
    """
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelError(
            f"the compiled kernel cannot be loaded ({error}); set XDG_CACHE_HOME to a folder that "
            "may hold programs, or write with the plain model"
        ) from None
    for name, (answer, given) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = answer, given
    return loaded


def _is_noexec(path: Path) -> bool:
    """Whether the disk holds no programs at all, where the system tells."""
    return bool(os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0))
