"""The rules of the generation_config.json of an imported model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumok.decoding.processors import (
    BannedSequences,
    ForcedToken,
    OnlyAt,
    Processor,
    SequenceBias,
)
from jumok.errors import InputError
from jumok.foreign_keys import KeyTable, print_not_read
from jumok.pretrained.config_reader import ConfigReader
from jumok.tasks.pipeline.origin import Origin

GENERATION_CONFIG = "generation_config.json"
KEYS = KeyTable(
    read={
        *("max_length", "max_new_tokens", "min_length", "min_new_tokens"),
        *("num_beams", "length_penalty", "early_stopping"),
        *("no_repeat_ngram_size", "repetition_penalty"),
        *("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
        *("forced_bos_token_id", "forced_eos_token_id", "decoder_start_token_id", "eos_token_id"),
    },
    without_effect={
        # sampling is a choice of the recipe: the default is deterministic
        *("do_sample", "temperature", "top_k", "top_p", "min_p", "top_h", "typical_p"),
        *("epsilon_cutoff", "eta_cutoff"),
        # the tokenizer's own are used
        *("bos_token_id", "pad_token_id"),
        # of the computation and of what `generate` returns, not of the text
        *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "low_memory"),
        *("prefill_chunk_size", "compile_config", "disable_compile", "continuous_batching_config"),
        *("output_attentions", "output_hidden_states", "output_scores", "output_logits"),
        *("return_dict_in_generate", "num_return_sequences", "remove_invalid_values"),
        # speculative decoding, which keeps the text
        *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "use_mtp"),
        *("assistant_confidence_threshold", "prompt_lookup_num_tokens", "max_matching_ngram_size"),
        *("assistant_early_exit", "assistant_lookbehind", "target_lookbehind"),
        *("assistant_ensemble_weight", "speculation_type"),
        # where it comes from
        *("_from_model_config", "transformers_version"),
    },
    named={  # other settings of the search; the weights and the model are right without them
        "constraints": (),
        "diversity_penalty": (0.0,),
        "dola_layers": (),
        "encoder_no_repeat_ngram_size": (0,),
        "encoder_repetition_penalty": (1.0,),
        "exponential_decay_length_penalty": (),
        "force_words_ids": (),
        "guidance_scale": (1.0,),
        "max_time": (),
        "num_beam_groups": (1,),
        "penalty_alpha": (0.0,),
        "renormalize_logits": (False,),
        "stop_strings": ([],),
        "token_healing": (False,),
        "watermarking_config": (),
    },
    names_unknown=True,  # transformers ignores a key that no processor reads
)


def generation_processors(origin: Origin, max_tokens: int, vocabulary_size: int) -> list[Processor]:
    """The forced, banned and biased tokens of a generation_config.json as logits processors.

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
    at_begin = _valid_sequences("begin_suppress_tokens", generation, vocabulary_size)
    if at_begin:
        forced = origin.is_seq2seq and generation.get("forced_bos_token_id") is not None
        processors.append(OnlyAt(int(forced), BannedSequences(at_begin)))
    if generation.get("sequence_bias") and not _penalizes_repetition(generation):
        processors.append(SequenceBias(_biases(generation["sequence_bias"], vocabulary_size)))
    return processors


def name_unread_keys(path: Path, generation: Mapping[str, Any], *, is_seq2seq: bool) -> None:
    """Print one notice for the settings that change texts in transformers and are not read."""
    names = KEYS.not_read(generation)
    if generation.get("sequence_bias") and _penalizes_repetition(generation):
        names.append("sequence_bias")  # transformers adds it before the penalty
    if not is_seq2seq:
        forced = ("forced_bos_token_id", "forced_eos_token_id")
        names += [name for name in forced if generation.get(name) is not None]
    print_not_read(names, path)


def _penalizes_repetition(generation: Mapping[str, Any]) -> bool:
    return generation.get("repetition_penalty") not in (None, 1.0)


def _biases(value: Any, size: int) -> list[tuple[tuple[int, ...], float]]:
    """The pairs of ids and bias; raises InputError for others."""
    pairs = value if isinstance(value, list) else [value]
    for pair in pairs:
        match pair:
            case [list(), int() | float() as bias] if not isinstance(bias, bool):
                pass
            case _:
                raise InputError(
                    "pipeline.sequence_bias",
                    "{generation_config}: sequence_bias must be a list of [ids, number], got "
                    "{value}",
                    generation_config=GENERATION_CONFIG,
                    value=str(pair)[:60],
                )
        _check_ids("sequence_bias", pair[0], size)
    return list({tuple(ids): float(bias) for ids, bias in pairs}.items())  # the last one counts


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
        elif isinstance(each, OnlyAt) and isinstance(each.processor, BannedSequences):
            n = len(each.processor.sequences)
            rules.append(f"bans {n:,} token{'s' if n > 1 else ''} at position {each.position:,}")
        elif isinstance(each, SequenceBias):
            n = len(each.sequences)
            rules.append(f"biases {n:,} sequence{'s' if n > 1 else ''}")
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
            "pipeline.generation_config_ids",
            "{generation_config}: {name} must hold ids from 0 to {size}, got {ids}",
            generation_config=GENERATION_CONFIG,
            name=name,
            size=size - 1,
            ids=str(ids)[:60],
        )
