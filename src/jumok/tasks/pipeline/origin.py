"""Where an imported model is from, and what its folder says of everything it writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.decoding.processors import BannedSequences, ForcedToken, Processor
from jumok.errors import InputError
from jumok.pretrained.config_reader import ConfigReader

ORIGIN_FOLDER = "origin"  # in an imported run: where it is from


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
    has_text_head: bool  # False: it has no head, or one nobody asks for answers
    is_seq2seq: bool  # an encoder-decoder

    @property
    def single_label(self) -> bool:
        """Whether a classifier's text has one of the labels; else each of them is a yes or no."""
        return self.config.get("problem_type") in (None, "single_label_classification")

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokens any of which ends a text in transformers; () where they are not several."""
        said = self.generation.get("eos_token_id")
        several = said if isinstance(said, list) and len(said) > 1 else []
        return tuple(id_ for id_ in several if type(id_) is int)


def generation_processors(origin: Origin, max_tokens: int, vocabulary_size: int) -> list[Processor]:
    """What a generation_config.json forces and forbids, as decoding understands it.

    At most `most` tokens are written, each below `size`. What is forced costs a beam nothing, and
    the end is never forbidden, as in transformers. Raises InputError for ids that are none.
    """
    settings = ConfigReader(origin.generation)
    found: list[Processor] = []
    ends = _words("eos_token_id", origin.generation)  # one that no model writes does no harm
    words = _rows("bad_words_ids", origin.generation, vocabulary_size)
    words += _rows("suppress_tokens", origin.generation, vocabulary_size)
    forbidden = [word for word in words if word not in ends]
    if forbidden:
        found.append(BannedSequences(forbidden))
    if origin.is_seq2seq:
        start = settings.token_id("decoder_start_token_id")
        if start is not None:
            _check("decoder_start_token_id", [start], vocabulary_size)
        for name, place in (("forced_bos_token_id", 0), ("forced_eos_token_id", max_tokens - 1)):
            token = settings.token_id(name)
            if token is not None:
                _check(name, [token], vocabulary_size)
                found.append(ForcedToken(token, place))
    return found


def describe_processors(constraints: Sequence[Processor], ends: Sequence[int] = ()) -> str:
    """What a folder forces and forbids, to stand behind the settings in force; "" for nothing.

    Of several `ends` the tokeniser's own alone ends a text here, and that is told too.

    >>> told([Forbidden([[5], [6, 7]]), Forced(token=9, place=0), Forced(token=2, place=11)])
    '; its folder forbids 2 words, forces token 9 first, forces token 2 after 11 others'
    >>> told([], [2, 7])
    "; its folder names the ends 2, 7, of which the tokeniser's own alone ends a text"
    """
    rules = []
    for each in constraints:
        if isinstance(each, BannedSequences):
            n = len(each.sequences)
            rules.append(f"forbids {n:,} word{'s' if n > 1 else ''}")
        elif isinstance(each, ForcedToken):
            where = f"after {each.position:,} others" if each.position else "first"
            rules.append(f"forces token {each.token} {where}")
    if ends:
        named = ", ".join(map(str, ends))
        rules.append(f"names the ends {named}, of which the tokeniser's own alone ends a text")
    return f"; its folder {', '.join(rules)}" if rules else ""


def _rows(name: str, generation: Mapping[str, Any], size: int) -> list[list[int]]:
    """The words of ids under a name, each id one the model can write."""
    words = _words(name, generation)
    for word in words:
        _check(name, word, size)
    return words


def _words(name: str, generation: Mapping[str, Any]) -> list[list[Any]]:
    """Words of ids: a list of words, of ids that are words by themselves, or one such id."""
    said = generation.get(name)
    several = [] if said is None else said if isinstance(said, list) else [said]
    return [word if isinstance(word, list) else [word] for word in several]


def _check(name: str, word: list[Any], size: int) -> None:
    if not word or not all(type(i) is int and 0 <= i < size for i in word):
        raise InputError(
            f"generation_config.json: {name} holds {str(word)[:60]}; give ids from 0 to {size - 1}"
        )
