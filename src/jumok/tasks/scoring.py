"""How good a loaded model is on a table."""

import torch

from jumok.data.table import Table
from jumok.errors import InputError
from jumok.tasks.answering import Loaded
from jumok.tasks.task import Scored


@torch.inference_mode()
def score(loaded: Loaded, table: Table, split: str) -> Scored:
    """The scores of a model on the rows of a table, in float32.

    Raises InputError when there are none.
    """
    if not len(table):
        raise InputError(f"{split} has no rows to score; name a file with some")
    return loaded.task.score(loaded, table, split)
