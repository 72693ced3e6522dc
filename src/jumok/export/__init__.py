"""Out of jumok: models as folders that other programs open, each compared with the original."""

from jumok.export.export_run import TARGETS, Exported, export, exported_difference

__all__ = ["TARGETS", "Exported", "export", "exported_difference"]
