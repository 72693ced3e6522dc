"""From a folder and the model's configuration to its vocabulary."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jumok.errors import InputError
from jumok.text.pretrained.backend import LibraryCutter
from jumok.text.pretrained.files import CONFIG, TOKENIZER, TokenizerFiles
from jumok.text.pretrained.marian import MAX_LENGTH, marian
from jumok.text.pretrained.registry import MARIAN, kind_of, tokenizer_class_name
from jumok.text.pretrained.special_tokens import Assembly
from jumok.text.pretrained.tokenizer import SPECIAL_NAMES, PretrainedTokenizer
from jumok.text.pretrained.tokenizer_config import Settings, read_settings
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.template import Fixed, Frame, Slot

logger = logging.getLogger(__name__)

_FACTS = (
    "model_type",
    "tokenizer_class",
    "vocab_size",
    "decoder_vocab_size",
    "share_encoder_decoder_embeddings",
    "decoder_start_token_id",
)
_JAMO = re.compile("[\u1100-\u11ff]")  # consonants and vowels that make up syllables


def load_tokenizer(folder: Path, config: Mapping[str, Any]) -> PretrainedTokenizer | None:
    """The tokeniser in `folder`, of the kind that AutoTokenizer of transformers 5 would take.

    `config` is the model's config.json, whose `model_type` and `tokenizer_class` decide together
    with the files. None: the folder has no tokeniser. Raises InputError for files that are no
    tokeniser jumok can follow exactly, StorageError for files that cannot be read.
    """
    files = TokenizerFiles.read(folder)
    if files is None:
        return None
    try:
        found = _read(files, config)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    facts = {key: config[key] for key in _FACTS if key in config}
    return replace(found, start_id=_start(config), facts=facts)


def _start(config: Mapping[str, Any]) -> int | None:
    """The id a decoder is given first, where the model's config names one."""
    start = config.get("decoder_start_token_id")
    return start if isinstance(start, int) and not isinstance(start, bool) else None


def _read(files: TokenizerFiles, config: Mapping[str, Any]) -> PretrainedTokenizer:
    written = TokenizerJson.read(files) if TOKENIZER in files else None
    settings = read_settings(files, written.added if written else ())
    name = tokenizer_class_name(config, files.table(CONFIG))
    side = _side(settings, written)
    output_size = _size(config, "vocab_size")
    if name == MARIAN:
        shared = config.get("share_encoder_decoder_embeddings", True)
        other = 0 if shared else _size(config, "decoder_vocab_size")
        return _marian(files, settings, side, (output_size, other or output_size))
    built = kind_of(name, written).build(files, settings, written)
    cutter = LibraryCutter(
        built.tokenizer,
        unknown=built.unknown,
        clean_up=settings.flag("clean_up_tokenization_spaces", default=False),
        split_special=settings.flag("split_special_tokens", default=False),
    )
    if _JAMO.search(cutter.normalized("한글")):
        _warn_once(
            "the tokeniser takes syllables of Hangul apart, because its files ask for lower case "
            "or stripped accents; so did the model it belongs to, if these files are its own"
        )
    languages = {code: Frame(*parts, side) for code, parts in built.languages.items()}
    reading = Frame(*built.parts, side)
    written_language = settings.text("tgt_lang")
    if languages and written_language not in (None, *languages):
        raise InputError(f'tgt_lang is "{written_language}", which the model does not speak')
    return PretrainedTokenizer(
        files,
        cutter,
        source_template=reading,
        target_template=languages.get(written_language or "", reading),
        special_ids=_special_ids(built),
        model_max_length=settings.model_max_length,
        has_token_type_ids=built.has_token_type_ids,
        model_vocab_size=output_size,
        languages=languages,
    )


def _marian(
    files: TokenizerFiles,
    settings: Settings,
    side: Literal["right", "left"],
    sizes: tuple[int, int],
) -> PretrainedTokenizer:
    both = marian(files, settings)
    ids = {
        ours: both.source.added[both.named[t]]
        for ours, t in SPECIAL_NAMES.items()
        if t in both.named
    }
    if "[EOS]" not in ids:
        raise InputError("the tokeniser's files name no eos_token; add it to tokenizer_config.json")
    eos = Fixed((ids["[EOS]"],))
    frame = Frame((Slot(0), eos), (Slot(0), Slot(1), eos), side, evenly=True)
    return PretrainedTokenizer(
        files,
        both.source,
        source_template=frame,
        target_template=frame,
        special_ids=ids,
        model_max_length=settings.model_max_length or MAX_LENGTH,
        has_token_type_ids=settings.has_token_type_ids(default=False),
        model_vocab_size=sizes[0],
        target_backend=both.target,
        target_model_vocab_size=sizes[1],
    )


def _size(config: Mapping[str, Any], key: str) -> int:
    """A size that the model's config tells; 0 where it does not."""
    size = config.get(key)
    return size if isinstance(size, int) else 0


def _special_ids(built: Assembly) -> dict[str, int]:
    """The ids of the special pieces by their names here."""
    ids = {
        ours: built.tokenizer.token_to_id(built.named.get(t, ""))
        for ours, t in SPECIAL_NAMES.items()
    }
    return {ours: i for ours, i in ids.items() if i is not None}


def _side(settings: Settings, written: TokenizerJson | None) -> Literal["right", "left"]:
    """Where rows are cut: as the settings say, else as tokenizer.json does."""
    told = settings.truncation_side
    if told is None and written:
        told = (written.told("truncation", "direction") or "right").lower()
    return "left" if told == "left" else "right"


@cache
def _warn_once(message: str) -> None:
    logger.warning(message)
