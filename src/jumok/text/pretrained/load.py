"""Load the tokenizer of a folder with the configuration of its model."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from jumok.errors import Message, TokenizerError, located
from jumok.text.pretrained.backend import TokenizersBackend
from jumok.text.pretrained.files import CONFIG, TOKENIZER, TokenizerFiles
from jumok.text.pretrained.kobert import MAX_LENGTH, is_kobert, kobert
from jumok.text.pretrained.marian import DEFAULT_MAX_LENGTH, marian
from jumok.text.pretrained.post_processor import bert_template
from jumok.text.pretrained.registry import MARIAN, find_class, tokenizer_class_name
from jumok.text.pretrained.tokenizer import SPECIAL_NAMES, PretrainedTokenizer
from jumok.text.pretrained.tokenizer_config import TokenizerConfig, read_tokenizer_config
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.template import Side, SpecialToken, Template, TextSlot

logger = logging.getLogger(__name__)

_USED_KEYS = (  # of the model's config
    "model_type",
    "tokenizer_class",
    "vocab_size",
    "decoder_vocab_size",
    "share_encoder_decoder_embeddings",
    "decoder_start_token_id",
)
_JAMO = re.compile("[\u1100-\u11ff]")  # consonants and vowels that compose syllables


def load_tokenizer(folder: Path, model_config: Mapping[str, Any]) -> PretrainedTokenizer | None:
    """The tokenizer in `folder`, of the class that AutoTokenizer of transformers 5 would choose.

    `model_config` is the model's config.json: its `model_type` and `tokenizer_class` and the files
    decide the class. None: the folder has no tokenizer. Raises InputError for files that jumok
    cannot follow exactly, StorageError for unreadable files.
    """
    files = TokenizerFiles.read(folder)
    if files is None:
        return None
    with located(folder):
        tokenizer = _load(files, model_config)
    used = {key: model_config[key] for key in _USED_KEYS if key in model_config}
    start = model_config.get("decoder_start_token_id")
    start_id = start if isinstance(start, int) and not isinstance(start, bool) else None
    return replace(tokenizer, config_start_id=start_id, model_config=used)


def _load(files: TokenizerFiles, model_config: Mapping[str, Any]) -> PretrainedTokenizer:
    tokenizer_json = TokenizerJson.read(files) if TOKENIZER in files else None
    config = read_tokenizer_config(files, tokenizer_json.added if tokenizer_json else ())
    name = tokenizer_class_name(model_config, files.table(CONFIG))
    side = _truncation_side(config, tokenizer_json)
    vocab_size = _size(model_config, "vocab_size")
    if name == MARIAN:
        shared = model_config.get("share_encoder_decoder_embeddings", True)
        target_size = 0 if shared else _size(model_config, "decoder_vocab_size")
        return _load_marian(files, config, side, (vocab_size, target_size or vocab_size))
    if is_kobert(files, model_config):
        return _load_kobert(files, config, side, vocab_size)
    found = find_class(name, tokenizer_json)
    spec = found.build(files, config, tokenizer_json)
    if tokenizer_json and not found.has_steps(tokenizer_json):
        _use_own_steps(spec.tokenizer, tokenizer_json)
    backend = TokenizersBackend(
        spec.tokenizer,
        unk_id=spec.unk_id,
        clean_up=config.flag("clean_up_tokenization_spaces", default=False),
        split_special=config.flag("split_special_tokens", default=False),
    )
    if _JAMO.search(backend.normalized("한글")):
        _warn_of_decomposition()
    languages = {code: replace(one, side=side) for code, one in spec.languages.items()}
    template = replace(spec.template, side=side)
    target_language = config.text("tgt_lang")
    if languages and target_language not in (None, *languages):
        raise TokenizerError(
            "tokenizer.tgt_lang",
            'tgt_lang must be one of {languages}, got "{target_language}"',
            languages=", ".join(languages),
            target_language=target_language,
        )
    return PretrainedTokenizer(
        files,
        backend,
        source_template=template,
        target_template=languages.get(target_language or "", template),
        special_ids=_special_ids(spec.named, backend.pieces),
        model_max_length=config.model_max_length,
        has_token_type_ids=spec.has_token_type_ids,
        model_vocab_size=vocab_size,
    )


def _use_own_steps(tokenizer: Tokenizer, tokenizer_json: TokenizerJson) -> None:
    """Normalize and split texts as the file does, which the model was trained with.

    transformers 5 replaces these steps by those of the class, and so reads other ids than 4.
    """
    own = tokenizer_json.build()
    tokenizer.model = own.model
    tokenizer.normalizer = own.normalizer
    tokenizer.pre_tokenizer = own.pre_tokenizer
    tokenizer.decoder = own.decoder


def _load_marian(
    files: TokenizerFiles, config: TokenizerConfig, side: Side, vocab_sizes: tuple[int, int]
) -> PretrainedTokenizer:
    both = marian(files, config)
    ids = _special_ids(both.named, both.source.added)
    if "[EOS]" not in ids:
        raise TokenizerError(
            "tokenizer.no_eos_token",
            "the tokenizer's files have no eos_token; add it to tokenizer_config.json",
        )
    eos = SpecialToken((ids["[EOS]"],))
    template = Template(
        (TextSlot(0), eos), (TextSlot(0), TextSlot(1), eos), side, "longest_first_python"
    )
    return PretrainedTokenizer(
        files,
        both.source,
        source_template=template,
        target_template=template,
        special_ids=ids,
        model_max_length=config.model_max_length or DEFAULT_MAX_LENGTH,
        has_token_type_ids=config.has_token_type_ids(default=False),
        model_vocab_size=vocab_sizes[0],
        target_backend=both.target,
        target_model_vocab_size=vocab_sizes[1],
    )


def _load_kobert(
    files: TokenizerFiles, config: TokenizerConfig, side: Side, vocab_size: int
) -> PretrainedTokenizer:
    backend, names = kobert(files, config)
    ids = _special_ids(names, backend.special)
    template = replace(
        bert_template(ids["[CLS]"], ids["[SEP]"]), side=side, truncation="longest_first_python"
    )
    return PretrainedTokenizer(
        files,
        backend,
        source_template=template,
        target_template=template,
        special_ids=ids,
        model_max_length=config.model_max_length or MAX_LENGTH,
        has_token_type_ids=config.has_token_type_ids(default=True),
        model_vocab_size=vocab_size,
    )


def _size(model_config: Mapping[str, Any], key: str) -> int:
    """A size in the model's config; 0 if it is missing."""
    size = model_config.get(key)
    return size if isinstance(size, int) else 0


def _special_ids(named: Mapping[str, str], ids: Mapping[str, int]) -> dict[str, int]:
    """The ids of the special pieces by jumok's names."""
    found = {name: ids.get(named.get(hf_name, "")) for name, hf_name in SPECIAL_NAMES.items()}
    return {name: i for name, i in found.items() if i is not None}


def _truncation_side(config: TokenizerConfig, tokenizer_json: TokenizerJson | None) -> Side:
    """The side in the configuration, else in tokenizer.json."""
    side = config.truncation_side
    if side is None and tokenizer_json:
        side = (tokenizer_json.option("truncation", "direction") or "right").lower()
    return "left" if side == "left" else "right"


@cache
def _warn_of_decomposition() -> None:
    """Log once in a process that Hangul syllables are decomposed."""
    logger.warning(
        Message(
            "tokenizer.decomposes_hangul",
            "the tokenizer decomposes Hangul syllables, because its files set lower case or "
            "stripped accents; the model was trained so, if these are its own files",
        )
    )
