"""The rules of the generation_config.json of an imported model."""

from collections.abc import Mapping, Sequence
from typing import Any

from jumok.decoding.processors import BannedSequences, ForcedToken, Processor
from jumok.errors import InputError
from jumok.pretrained.config_reader import ConfigReader
from jumok.tasks.pipeline.origin import Origin

GENERATION_CONFIG = "generation_config.json"


def generation_processors(origin: Origin, max_tokens: int, vocabulary_size: int) -> list[Processor]:
    """The forced and banned tokens of a generation_config.json as logits processors.

    At most `max_tokens` tokens are generated, each below `vocabulary_size`. As in transformers a
    forced token adds nothing to the score of a beam, and EOS is never banned. Raises InputError for
    invalid ids.
    """
    generation = origin.generation
    eos = _sequences("eos_token_id", generation)  # ids beyond the vocabulary are harmless here
    banned = [
        ids
        for name in ("bad_words_ids", "suppress_tokens")
        for ids in _valid_sequences(name, generation, vocabulary_size)
        if ids not in eos
    ]
    processors: list[Processor] = [BannedSequences(banned)] if banned else []
    if origin.is_seq2seq:
        config = ConfigReader(generation)
        start = config.token_id("decoder_start_token_id")
        if start is not None:
            _check_ids("decoder_start_token_id", [start], vocabulary_size)
        for name, position in (("forced_bos_token_id", 0), ("forced_eos_token_id", max_tokens - 1)):
            token = config.token_id(name)
            if token is not None:
                _check_ids(name, [token], vocabulary_size)
                processors.append(ForcedToken(token, position))
    return processors


def describe_processors(processors: Sequence[Processor], eos_ids: Sequence[int] = ()) -> str:
    """The rules of generation_config.json, to append to the decoding settings; "" for none.

    `eos_ids` are the tokens that end a text besides the tokenizer's EOS.

    >>> describe_processors([BannedSequences([[5], [6, 7]]), ForcedToken(9, 0), ForcedToken(2, 11)])
    '; generation_config.json bans 2 sequences, forces token 9 at position 0, \
forces token 2 at position 11'
    >>> describe_processors([], [2, 7])
    '; generation_config.json ends texts at [2, 7] too'
    """
    rules = []
    for each in processors:
        if isinstance(each, BannedSequences):
            n = len(each.sequences)
            rules.append(f"bans {n:,} sequence{'s' if n > 1 else ''}")
        elif isinstance(each, ForcedToken):
            rules.append(f"forces token {each.token} at position {each.position:,}")
    if eos_ids:
        rules.append(f"ends texts at {list(eos_ids)} too")
    return f"; {GENERATION_CONFIG} {', '.join(rules)}" if rules else ""


def _valid_sequences(name: str, generation: Mapping[str, Any], size: int) -> list[list[int]]:
    """The id sequences under a name; raises InputError for an id that the model cannot generate."""
    sequences = _sequences(name, generation)
    for ids in sequences:
        _check_ids(name, ids, size)
    return sequences


def _sequences(name: str, generation: Mapping[str, Any]) -> list[list[Any]]:
    """Id sequences: from a list of lists, a list of ids (one sequence each), or one id."""
    value = generation.get(name)
    items = [] if value is None else value if isinstance(value, list) else [value]
    return [item if isinstance(item, list) else [item] for item in items]


def _check_ids(name: str, ids: list[Any], size: int) -> None:
    if not ids or not all(type(i) is int and 0 <= i < size for i in ids):
        raise InputError(
            "pipeline.hold_ids",
            "{generation_config}: {name} must hold ids from 0 to {size}, got {ids}",
            generation_config=GENERATION_CONFIG,
            name=name,
            size=size - 1,
            ids=str(ids)[:60],
        )
