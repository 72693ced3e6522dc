"""The class of tokenizer that AutoTokenizer would choose for a folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from jumok.errors import TokenizerError
from jumok.text.pretrained.byte_level_bpe import gpt2, roberta
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.generic import generic
from jumok.text.pretrained.special_tokens import TokenizerSpec
from jumok.text.pretrained.tokenizer_config import TokenizerConfig
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.pretrained.unigram import deberta, mbart, mbart50, t5, xlm_roberta
from jumok.text.pretrained.wordpiece import bert

Build = Callable[[TokenizerFiles, TokenizerConfig, TokenizerJson | None], TokenizerSpec]

MARIAN = "MarianTokenizer"
_GENERIC = "TokenizersBackend"


@dataclass(frozen=True)
class TokenizerClass:
    """How a class of tokenizers is built, and from which model in a tokenizer.json.

    `model` is "" if the file may contain any model, which is then used without changes. The class
    normalizes and splits texts by steps of its own; `has_steps` is whether the file has those too.
    """

    build: Build
    model: str = ""
    byte_level: bool = False
    has_steps: Callable[[TokenizerJson], bool] = lambda tokenizer_json: True


def _has_bert_steps(tokenizer_json: TokenizerJson) -> bool:
    prefix = tokenizer_json.model.get("continuing_subword_prefix", "##")
    steps = tokenizer_json.step_types("normalizer"), tokenizer_json.step_types("pre_tokenizer")
    return steps == ({"BertNormalizer"}, {"BertPreTokenizer"}) and prefix == "##"


def _has_byte_level_steps(tokenizer_json: TokenizerJson) -> bool:
    """Words as GPT-2 splits them: not with a pattern of the file, as for digits."""
    steps = tokenizer_json.step_types("normalizer"), tokenizer_json.step_types("pre_tokenizer")
    flags = ("ignore_merges", "byte_fallback", "fuse_unk", "end_of_word_suffix")
    plain = not any(map(tokenizer_json.model.get, flags))
    return steps == (set(), {"ByteLevel"}) and tokenizer_json.splits_bytes and plain


def _has_unigram_steps(tokenizer_json: TokenizerJson) -> bool:
    """The table of characters and the spaces of SentencePiece, as each class has them."""
    normalizer = tokenizer_json.step_types("normalizer")
    pre_tokenizer = tokenizer_json.step_types("pre_tokenizer")
    return normalizer <= {"Precompiled", "Replace", "Strip"} and pre_tokenizer <= {
        "WhitespaceSplit",
        "Metaspace",
    }


_CLASSES = {
    "BertTokenizer": TokenizerClass(bert, "WordPiece", False, _has_bert_steps),
    "DistilBertTokenizer": TokenizerClass(
        partial(bert, has_token_type_ids=False), "WordPiece", False, _has_bert_steps
    ),
    "RobertaTokenizer": TokenizerClass(roberta, "BPE", True, _has_byte_level_steps),
    "GPT2Tokenizer": TokenizerClass(gpt2, "BPE", True, _has_byte_level_steps),
    "T5Tokenizer": TokenizerClass(t5, "Unigram", False, _has_unigram_steps),
    "XLMRobertaTokenizer": TokenizerClass(xlm_roberta, "Unigram", False, _has_unigram_steps),
    "MBartTokenizer": TokenizerClass(mbart, "Unigram", False, _has_unigram_steps),
    "MBart50Tokenizer": TokenizerClass(mbart50, "Unigram", False, _has_unigram_steps),
    # without a tokenizer.json the ids of SentencePiece; Gemma's has no space before a text
    "LlamaTokenizer": TokenizerClass(generic),
    "GemmaTokenizer": TokenizerClass(generic),
    # only of a folder without a tokenizer.json, which is used without changes
    "DebertaV2Tokenizer": TokenizerClass(deberta, "of SentencePiece"),
    _GENERIC: TokenizerClass(generic),
}
_ALIASES = {
    "ElectraTokenizer": "BertTokenizer",
    "BartTokenizer": "RobertaTokenizer",
    "MT5Tokenizer": "T5Tokenizer",
    "PreTrainedTokenizer": _GENERIC,  # the base class of tokenizers in Python
}
_BY_MODEL_TYPE = {
    "bert": "BertTokenizer",
    "distilbert": "BertTokenizer",
    "electra": "BertTokenizer",
    "megatron-bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "roberta-prelayernorm": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "xlm-roberta-xl": _GENERIC,
    "gpt2": "GPT2Tokenizer",
    "t5": "T5Tokenizer",
    "mt5": "T5Tokenizer",
    "umt5": _GENERIC,
    "modernbert": _GENERIC,
    "deberta-v2": "DebertaV2Tokenizer",
    "bart": "RobertaTokenizer",
    "mbart": "MBartTokenizer",
    "marian": MARIAN,
    "pegasus": "PegasusTokenizer",  # read from a tokenizer.json
}


def tokenizer_class_name(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> str:
    """The class that AutoTokenizer chooses for two configurations, without the suffix "Fast".

    tokenizer_config.json has precedence over config.json, and both over the model type.

    >>> tokenizer_class_name({"model_type": "roberta"}, {"tokenizer_class": "BertTokenizerFast"})
    'BertTokenizer'
    >>> tokenizer_class_name({"model_type": "roberta"}, {})
    'RobertaTokenizer'
    """
    model_type = config.get("model_type")
    by_model_type = (
        _BY_MODEL_TYPE.get(model_type, _GENERIC) if isinstance(model_type, str) else _GENERIC
    )
    name = tokenizer_config.get("tokenizer_class") or config.get("tokenizer_class")
    if name is None or (by_model_type == _GENERIC and model_type in _BY_MODEL_TYPE):
        return by_model_type
    if not isinstance(name, str):
        raise TokenizerError(
            "tokenizer.class_not_a_name",
            "tokenizer_class must be the name of a class, got {name!r}",
            name=name,
        )
    name = name.removesuffix("Fast")
    return _ALIASES.get(name, name)


def find_class(name: str, tokenizer_json: TokenizerJson | None) -> TokenizerClass:
    """How the class of this name is built from these files.

    If tokenizer.json has another model than the class requires (KoGPT2's is not byte-level BPE,
    pko-t5's not Unigram), it is used without changes: transformers 5 gives wrong ids or fails
    there. The same holds for a class that is defined in the folder's own code.
    """
    found = _CLASSES.get(name, _CLASSES[_GENERIC] if tokenizer_json else None)
    if found is None:
        known = ", ".join(sorted({*_CLASSES, MARIAN}))
        raise TokenizerError(
            "tokenizer.unknown_class",
            "tokenizer_class must be one of {known} in a folder without tokenizer.json, got "
            "{name}; add its tokenizer.json",
            known=known,
            name=name,
        )
    if tokenizer_json is None or not found.model:
        return found
    fits = tokenizer_json.kind == found.model and (
        tokenizer_json.is_byte_level or not found.byte_level
    )
    return found if fits else _CLASSES[_GENERIC]
