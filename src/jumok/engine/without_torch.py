"""`jumok.load` where PyTorch is not installed: the engine, or the command that installs PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jumok.engine.model import EngineModel
from jumok.engine.model import load as load_engine
from jumok.engine.run import UnsupportedError
from jumok.errors import InputError
from jumok.extras import missing_dependency, naming_extras


@naming_extras("jumok.load")
def load(
    folder: str | Path,
    device: str = "auto",
    *,
    dtype: str = "float32",
    precision: Any = "float32",
    decoding: Sequence[str] = (),
) -> EngineModel:
    """Open a finished run, or a model that ships with jumok, in the engine.

    `device` and `dtype` are those of `jumok.load`, the others those of `jumok.engine.load`. Raises
    MissingDependencyError, with the command, for what needs PyTorch, and InputError as
    `jumok.engine.load` does.

    >>> load("ko-small-vectors").encode("비가 옵니다").shape
    (256,)
    >>> load("ko-small-vectors", device="cuda")
    Traceback (most recent call last):
    jumok.errors.MissingDependencyError: device cuda needs PyTorch, which is not installed; run \
pip install "jumok[train]"
    """
    if device not in ("auto", "cpu"):
        raise missing_dependency(f"device {device}", "torch")
    if dtype != "float32":
        raise missing_dependency(f"dtype {dtype}", "torch")
    try:
        return load_engine(folder, precision, decoding=decoding)
    except UnsupportedError as reason:
        what = str(folder)
        if reason.code in ("kernel.unsupported_search", "engine.torch_kernel"):
            what = f"decoding.{reason.message.values.get('name', 'kernel')}"
        raise missing_dependency(what, "torch") from reason


def find(
    folder: str | Path,
    device: str,
    precision: Any,
    decoding: Sequence[str] | None,
) -> EngineModel:
    """The same for `jumok.engine.find`: with `decoding` None not a model that generates text."""
    model = load(folder, device, precision=precision, decoding=decoding or ())
    if model.generates and decoding is None:
        raise InputError(
            "engine.needs_encoder",
            "the model must be an encoder, got {folder}, which generates text; try {example}",
            folder=folder,
            example="ko-small-vectors",
        )
    return model
