"""A target: one kind of folder that other programs open."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Protocol

from jumok.errors import InputError
from jumok.export.report import Outcome
from jumok.export.samples import Samples
from jumok.tasks.pipeline.pipeline import Pipeline

Quantization = Literal["int8"]
Tell = Callable[[str], None]
"""Called with what is done next, for people who wait."""


class Target(Protocol):
    """What `jumok export --to` names."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """What must be installed, as Python imports it."""

    def obstacle(self, loaded: Pipeline) -> str | None:
        """Why this model cannot be exported so, in a sentence; None when it can."""

    def write(
        self,
        loaded: Pipeline,
        folder: Path,
        samples: Samples,
        quantize: Quantization | None,
        tell: Tell,
    ) -> Outcome:
        """Write the model into a folder and tell how equal it is.

        Raises JumokError when it is not.
        """

    def convert(self, loaded: Pipeline, folder: Path) -> None:
        """Write the model in float32 into a folder, and nothing else."""

    def difference(self, loaded: Pipeline, folder: Path, samples: Samples) -> float:
        """How far the numbers of the model in `folder` are from ours: max|a-b| / max(1, max|b|)."""

    def opening(self, loaded: Pipeline) -> str:
        """How a person opens the folder: Python for its README."""


def refuse_missing(libraries: tuple[str, ...]) -> None:
    """Raises InputError for a library that is not installed.

    >>> refuse_missing(("json", "no_such_library"))
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: no_such_library is not installed; pip install "jumok[export]"
    """
    for name in libraries:
        if find_spec(name) is None:
            raise InputError(f'{name} is not installed; pip install "jumok[export]"')
