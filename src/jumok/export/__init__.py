"""Export models to the formats of other libraries and compare the outputs."""

from jumok.export.export_run import (
    TARGETS,
    ExportResult,
    export,
    export_difference,
    get_target,
)

__all__ = ["TARGETS", "ExportResult", "export", "export_difference", "get_target"]
