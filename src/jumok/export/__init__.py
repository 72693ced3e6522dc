"""Export models to the formats of other libraries and compare the outputs.

The names of `export_run`, imported on first access: completion reads the names of the formats.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from jumok.export.targets import TARGETS

if TYPE_CHECKING:
    from jumok.export.export_run import ExportResult, export, export_difference, get_target

__all__ = ["TARGETS", "ExportResult", "export", "export_difference", "get_target"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'jumok.export' has no attribute {name!r}")
    return getattr(import_module("jumok.export.export_run"), name)
