"""generation_config.json: how transformers is to write what our recipe's [decoding] says."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from jumok.decoding.config import DecodingConfig
from jumok.models import EncoderDecoder, LanguageModel
from jumok.tasks.pipeline.pipeline import Pipeline

_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
_RULES = {
    "no_repeat_ngram": "no_repeat_ngram_size",
    "repetition_penalty": "repetition_penalty",
    "min_length": "min_new_tokens",
}
_DRAWS = ("temperature", "top_k", "top_p", "min_p", "typical_p")  # there only where one is drawn
_UNSAID = ("n_best", "length_norm", "coverage", "prefix", "allowed", "forbidden", "pattern",
           "choices", "max_ratio", "stop")  # fmt: skip
_DEFAULTS = {field.name: field.default for field in fields(DecodingConfig)}


def generation_config(loaded: Pipeline, config: Mapping[str, Any]) -> dict[str, Any]:
    """What generation_config.json says beside this config.json, as far as transformers can."""
    ids = {key: config[key] for key in _IDS if key in config}
    if not isinstance(loaded.model, EncoderDecoder | LanguageModel):
        return ids
    decoding = loaded.recipe.decoding
    held = loaded.recipe.model.max_length  # of a language model the prompt is part of it
    fits = decoding.max_length < held or isinstance(loaded.model, EncoderDecoder)
    said: dict[str, Any] = {"num_beams": decoding.beam}
    said |= {"max_new_tokens": min(decoding.max_length, held)} if fits else {"max_length": held}
    if decoding.beam > 1:
        said["length_penalty"] = decoding.length_penalty
        said["early_stopping"] = decoding.early_stopping
    if decoding.sample:  # all of them: transformers has a top_k of its own
        said |= {"do_sample": True} | {name: getattr(decoding, name) for name in _DRAWS}
    said |= {theirs: getattr(decoding, ours) for ours, theirs in _RULES.items()
             if getattr(decoding, ours) != _DEFAULTS[ours]}  # fmt: skip
    return ids | said


def unsupported_settings(decoding: DecodingConfig) -> str:
    """The settings that generation_config.json does not hold; "" where it holds all.

    >>> unsupported_settings(DecodingConfig(beam=2, coverage=0.2, stop=("끝",), min_length=3))
    'coverage=0.2, stop=["끝"]'
    """
    names = _UNSAID if decoding.sample else (*_DRAWS, *_UNSAID)
    said = {name: getattr(decoding, name) for name in names}
    return ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in said.items()
        if value != _DEFAULTS[name]
    )
