"""generation_config.json: the recipe's [decoding] settings for transformers."""

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
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p")  # sampling only
_UNSUPPORTED = ("n_best", "length_norm", "coverage", "prefix", "allowed", "forbidden", "pattern",
           "choices", "max_ratio", "stop")  # fmt: skip
_DEFAULTS = {field.name: field.default for field in fields(DecodingConfig)}


def generation_config(pipeline: Pipeline, config: Mapping[str, Any]) -> dict[str, Any]:
    """The content of generation_config.json, as far as transformers supports the settings."""
    ids = {key: config[key] for key in _IDS if key in config}
    if not isinstance(pipeline.model, EncoderDecoder | LanguageModel):
        return ids
    decoding = pipeline.recipe.decoding
    max_length = pipeline.recipe.model.max_length  # for a language model it includes the prompt
    fits = decoding.max_length < max_length or isinstance(pipeline.model, EncoderDecoder)
    settings: dict[str, Any] = {"num_beams": decoding.beam}
    settings |= (
        {"max_new_tokens": min(decoding.max_length, max_length)}
        if fits
        else {"max_length": max_length}
    )
    if decoding.beam > 1:
        settings["length_penalty"] = decoding.length_penalty
        settings["early_stopping"] = decoding.early_stopping
    if decoding.sample:  # all of them: transformers' default top_k is 50
        settings |= {"do_sample": True} | {name: getattr(decoding, name) for name in _SAMPLING}
    settings |= {hf_name: getattr(decoding, name) for name, hf_name in _RULES.items()
             if getattr(decoding, name) != _DEFAULTS[name]}  # fmt: skip
    return ids | settings


def unsupported_settings(decoding: DecodingConfig) -> str:
    """The settings that generation_config.json cannot express; "" if there are none.

    >>> unsupported_settings(DecodingConfig(beam=2, coverage=0.2, stop=("끝",), min_length=3))
    'coverage=0.2, stop=["끝"]'
    """
    names = _UNSUPPORTED if decoding.sample else (*_SAMPLING, *_UNSUPPORTED)
    settings = {name: getattr(decoding, name) for name in names}
    return ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in settings.items()
        if value != _DEFAULTS[name]
    )
