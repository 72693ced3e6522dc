"""The interface of an export format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Literal

from jumok.data.table import Table
from jumok.errors import Message
from jumok.export.report import OutputComparison
from jumok.export.samples import Samples, Scores
from jumok.tasks.pipeline.pipeline import Pipeline

Quantization = Literal["int8", "f16", "bf16", "q8_0", "q4_0"]
Progress = Callable[[str], None]
"""Called with a description of each step before it runs."""


class Target(ABC):
    """A format of `jumok export --to`; `export` converts, compares, and quantizes if asked to."""

    libraries: ClassVar[tuple[str, ...]] = ()  # required ones, by import name
    quantizations: ClassVar[tuple[Quantization, ...]] = ()  # types of weights besides float32
    tolerance: ClassVar[float] = 1e-5  # of `difference`

    @abstractmethod
    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why this model cannot be exported to this format; None if it can."""

    @abstractmethod
    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write the model in float32 to a folder."""

    @abstractmethod
    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the outputs of both models: max|a-b| / max(1, max|b|)."""

    @abstractmethod
    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code that loads the folder, for its README."""

    def output_name(self, pipeline: Pipeline) -> str:
        """The outputs that `difference` compares."""
        return "logits"

    def compare_outputs(
        self, pipeline: Pipeline, folder: Path, samples: Samples
    ) -> Iterable[OutputComparison]:
        """Comparisons of generated texts or token ids, where the format has them."""
        return ()

    def quantize(
        self, pipeline: Pipeline, converted: Path, folder: Path, weights: Quantization
    ) -> None:
        """Write the model with weights of one of `quantizations`; `converted` has it in float32."""
        raise NotImplementedError

    def scores(
        self, pipeline: Pipeline, folder: Path, weights: Quantization | None, table: Table
    ) -> Scores:
        """The scores of the exported model on the rows of a table; weights None: float32."""
        raise NotImplementedError
