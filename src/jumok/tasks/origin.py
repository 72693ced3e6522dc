"""Where an imported model is from, and what its folder says of everything it writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.decoding.processors import Forbidden, ForcedPrefix, Processor
from jumok.pretrained.settings import Settings


@dataclass(frozen=True)
class Origin:
    """Where an imported model is from: a folder in the format of Hugging Face.

    `config` and `generation` are what its JSON files say; `names` the name in the table of its
    family for every tensor that came.
    """

    folder: Path
    architecture: str
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    names: Mapping[str, str]
    answers: bool  # False: it has no head, or one nobody asks for answers


def constraints_of(generation: Mapping[str, Any]) -> list[Processor]:
    """What a generation_config.json forces and forbids, as decoding understands it."""
    settings = Settings(generation)
    found: list[Processor] = []
    first = settings.token("forced_bos_token_id")
    if first is not None:
        found.append(ForcedPrefix([[first]]))
    words = generation.get("bad_words_ids") or []
    lone = generation.get("suppress_tokens") or []
    forbidden = [[int(i) for i in word] for word in words] + [[int(i)] for i in lone]
    if forbidden:
        found.append(Forbidden(forbidden))
    return found
