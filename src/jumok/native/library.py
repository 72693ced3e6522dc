"""The kernel's C API in ctypes; tensors are passed by address."""

import ctypes
import logging
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)
from functools import cache
from pathlib import Path

from jumok.errors import Message
from jumok.native.build import BUNDLED_FOLDER, KernelError, discard, kernel_path

logger = logging.getLogger(__name__)

# Status of kernel/transformer.h
(
    OK,
    OUT_OF_VOCABULARY,
    OUT_OF_MEMORY,
    NO_SUCH_ROW,
    NO_SUCH_NAME,
    TEXT_TOO_LONG,
    NOT_FINITE,
) = range(7)

TABLE_TYPES = ("float32", "bfloat16", "float16", "int8")  # order of kernel/embedding_table.h
POOLINGS = ("first", "mean", "max", "last")  # order of kernel/text_encoder.h
HEAD_ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "tanh")  # and this one


class ModelDims(ctypes.Structure):
    """The dimensions of a model: the struct of the same name in kernel/transformer.h."""

    _fields_ = (
        *(
            (name, c_int32)
            for name in (
                *("d_model", "n_heads", "n_kv_heads", "d_head", "d_ff"),
                *("encoder_layers", "decoder_layers", "cross"),
                *("max_length", "vocabulary"),
                *("activation", "gated", "rms", "norm_first", "sublayer_norm", "qk_norm"),
                "embedding_norm",
            )
        ),
        *((name, c_float) for name in ("norm_eps", "attention_scale", "embedding_scale")),
    )


class StepCall(ctypes.Structure):
    """One request's step among several: the struct of the same name in kernel/c_api.cpp."""

    _fields_ = (("request", c_void_p), ("ids", c_void_p), ("T", c_int32))


Stops = CFUNCTYPE(c_int32, c_int32, POINTER(c_int64), c_int32)  # text, tokens, their number


class ScoreChanges(ctypes.Structure):
    """What changes the scores of tokens: the struct of the same name in kernel/sampling.h."""

    _fields_ = (
        *(
            (name, c_float)
            for name in ("repetition_penalty", "temperature", "top_p", "min_p", "typical_p")
        ),
        ("no_repeat_ngram", c_int32),
        ("top_k", c_int32),
    )


class SearchCall(ctypes.Structure):
    """The prompts and the settings of a search: the struct of the same name in kernel/search.h."""

    _fields_ = (
        ("n_texts", c_int32),
        ("prompt_length", c_int32),
        ("prompts", c_void_p),
        ("padding", c_void_p),
        ("limits", c_void_p),
        ("n_ends", c_int32),
        ("ends", c_void_p),
        *(
            (name, c_int32)
            for name in (*("beam", "n_best", "early_stopping", "gnmt", "min_length", "window"),)
        ),
        ("length_penalty", c_double),
        ("keys", c_void_p),
        ("stops", Stops),
        ("changes", ScoreChanges),
    )


# Name: (result type, argument types).
SIGNATURES = {
    "jumok_create_model": (c_void_p, (POINTER(ModelDims), c_int)),
    "jumok_free_model": (None, (c_void_p,)),
    "jumok_allocate_linear": (c_int, (c_void_p, c_char_p, c_int, c_int, c_int)),
    "jumok_set_rows": (c_int, (c_void_p, c_char_p, c_int, c_int, c_void_p, c_void_p, c_void_p)),
    "jumok_set_vector": (c_int, (c_void_p, c_char_p, c_uint32, c_void_p)),
    "jumok_set_decoder_layer": (None, (c_void_p, c_int, c_int, c_int)),
    "jumok_weight_bytes": (c_size_t, (c_void_p,)),
    "jumok_encode": (c_int, (c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_int)),
    "jumok_set_tokens": (None, (c_void_p, c_int, c_int, c_int, c_void_p, c_void_p)),
    "jumok_encode_ids": (
        c_int,
        (c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_int),
    ),
    "jumok_attend_ids": (
        c_int,
        (c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_int),
    ),
    "jumok_pool": (None, (c_void_p, c_int, c_void_p, c_int, c_int, c_void_p)),
    "jumok_compare_pairs": (c_int, (c_void_p, c_int, c_void_p, c_void_p, c_int, c_void_p)),
    "jumok_normalize": (None, (c_void_p, c_int, c_int)),
    "jumok_apply_head": (
        c_int,
        (c_void_p, c_char_p, c_void_p, c_int, c_int, c_void_p, c_int),
    ),
    "jumok_create_request": (c_void_p, (c_void_p,)),
    "jumok_free_request": (None, (c_void_p,)),
    "jumok_encode_sources": (c_int, (c_void_p, c_void_p, c_void_p, c_int, c_int)),
    "jumok_reset": (c_int, (c_void_p, c_void_p, c_int)),
    "jumok_step": (c_int, (c_void_p, c_void_p, c_int, c_int, c_void_p, c_int)),
    "jumok_step_together": (c_int, (POINTER(StepCall), c_int, c_void_p, c_int)),
    "jumok_topk": (c_int, (c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p, c_int)),
    "jumok_reorder": (c_int, (c_void_p, c_void_p, c_int)),
    "jumok_rewind": (None, (c_void_p, c_int)),
    "jumok_start_search": (c_int, (c_void_p, POINTER(SearchCall))),
    "jumok_search": (c_int, (c_void_p, c_int, c_int)),
    "jumok_search_together": (c_int, (c_void_p, c_int, c_void_p, c_int)),
    "jumok_unfinished": (c_int, (c_void_p,)),
    "jumok_n_found": (c_int, (c_void_p, c_int)),
    "jumok_found_length": (c_int, (c_void_p, c_int, c_int)),
    "jumok_read_found": (
        c_int,
        (c_void_p, c_int, c_int, c_void_p, c_void_p, POINTER(c_double)),
    ),
    "jumok_record_attention": (c_int, (c_void_p, c_int, c_void_p, c_int)),
    "jumok_record_encoder": (None, (c_void_p, c_void_p)),
    "jumok_attention_width": (c_int, (c_void_p,)),
    "jumok_read_attention": (None, (c_void_p, c_void_p)),
    "jumok_read_mean_attention": (None, (c_void_p, c_void_p)),
}


@cache
def library() -> ctypes.CDLL:
    """The kernel, compiled if necessary and loaded once; a damaged cached file is recompiled.

    So is a kernel of the wheel that this system cannot load. Raises KernelError with the reason if
    the kernel cannot be compiled or loaded.
    """
    path = kernel_path()
    try:
        return load_library(path)
    except KernelError:
        if _is_noexec(path):
            raise
        logger.warning(
            Message("kernel.recompiling", "{path} cannot be loaded; recompiling", path=path)
        )
        if path.parent == BUNDLED_FOLDER:
            return load_library(kernel_path(bundled=False))
        discard(path)
        return load_library(kernel_path())


def load_library(path: Path) -> ctypes.CDLL:
    """Load a compiled kernel and declare the signatures of its functions.

    Raises KernelError if the system refuses to load it, as on a disk mounted with noexec.
    """
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelError(
            "kernel.not_loaded",
            "the compiled kernel cannot be loaded ({error}); set XDG_CACHE_HOME to a folder on a "
            "disk without noexec, or use the PyTorch model",
            error=error,
        ) from None
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def _is_noexec(path: Path) -> bool:
    """Whether the disk is mounted with noexec; False where the system does not report it."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0))
