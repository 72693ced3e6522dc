"""The interface of an export format."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Protocol

from jumok.errors import Message, MissingDependencyError
from jumok.export.report import ExportReport
from jumok.export.samples import Samples
from jumok.tasks.pipeline.pipeline import Pipeline

Quantization = Literal["int8", "f16", "bf16", "q8_0", "q4_0"]
Progress = Callable[[str], None]
"""Called with a description of each step before it runs."""


class Target(Protocol):
    """A format of `jumok export --to`."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """Required libraries, by import name."""

    @property
    def tolerance(self) -> float:
        """The largest difference of the outputs of both models."""

    @property
    def quantizations(self) -> tuple[Quantization, ...]:
        """The types besides float32 that its weights can have."""

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why this model cannot be exported to this format; None if it can."""

    def write(
        self,
        pipeline: Pipeline,
        folder: Path,
        samples: Samples,
        quantize: Quantization | None,
        progress: Progress,
    ) -> ExportReport:
        """Write the model to a folder and compare the outputs.

        Raises JumokError if they differ.
        """

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write the model in float32 to a folder, without comparison."""

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the outputs of both models: max|a-b| / max(1, max|b|)."""

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code that loads the folder, for its README."""


def check_installed(libraries: tuple[str, ...]) -> None:
    """Raises InputError for a library that is not installed.

    >>> check_installed(("json", "no_such_library"))
    Traceback (most recent call last):
        ...
    jumok.errors.MissingDependencyError: no_such_library is not installed; pip install \
"jumok[export]"
    """
    for name in libraries:
        if find_spec(name) is None:
            raise MissingDependencyError(
                "export.not_installed",
                '{name} is not installed; pip install "jumok[export]"',
                name=name,
            )
