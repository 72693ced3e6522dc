"""Where an imported model comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Origin:
    """The source of an imported model: a folder in the format of Hugging Face.

    `config` and `generation` are the contents of its JSON files; `names` maps each tensor of the
    checkpoint to its name in the table of the model family.
    """

    folder: Path
    architecture: str
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    names: Mapping[str, str]
    has_text_head: bool  # False: no head, or one without outputs for texts
    is_seq2seq: bool  # an encoder-decoder

    @property
    def single_label(self) -> bool:
        """Whether a classifier predicts one label per text."""
        return self.config.get("problem_type") in (None, "single_label_classification")

    @property
    def multi_label(self) -> bool:
        """Whether a classifier decides each label by itself."""
        return self.config.get("problem_type") == "multi_label_classification"

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The EOS ids of transformers, where there are several; otherwise ()."""
        value = self.generation.get("eos_token_id")
        ids = value if isinstance(value, list) and len(value) > 1 else []
        return tuple(id_ for id_ in ids if type(id_) is int)
