"""Export models to the formats of other libraries and compare the outputs.

The names of `export_run`, imported on first access: completion reads the names of the formats.
"""

from typing import TYPE_CHECKING

from jumok.export.targets import TARGETS
from jumok.extras import import_attribute

if TYPE_CHECKING:
    from jumok.export.export_run import ExportResult, export, export_difference, get_target

__all__ = ["TARGETS", "ExportResult", "export", "export_difference", "get_target"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'jumok.export' has no attribute {name!r}")
    return import_attribute("jumok.export", "jumok.export.export_run", name)
