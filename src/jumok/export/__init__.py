"""Export models to the formats of other libraries and compare the outputs.

The names of `export_run`, imported on first access: completion reads the names of the formats.
"""

from typing import TYPE_CHECKING

from jumok.export.targets import TARGETS
from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.export.export_run import ExportResult, export, export_difference, get_target

__all__ = ["TARGETS", "ExportResult", "export", "export_difference", "get_target"]

__getattr__, __dir__ = lazy_names(__name__)
