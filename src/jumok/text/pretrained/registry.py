"""Which kind of tokeniser a folder has: the class that AutoTokenizer would take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jumok.errors import InputError
from jumok.text.pretrained.byte_level_bpe import gpt2, roberta
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.generic import as_written
from jumok.text.pretrained.special_tokens import Assembly
from jumok.text.pretrained.tokenizer_config import Settings
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.pretrained.unigram import mbart, mbart50, t5, xlm_roberta
from jumok.text.pretrained.wordpiece import bert, distilbert

Build = Callable[[TokenizerFiles, Settings, TokenizerJson | None], Assembly]

MARIAN = "MarianTokenizer"
_GENERAL = "TokenizersBackend"


@dataclass(frozen=True)
class Kind:
    """One kind of tokeniser: how it is built, and of which model in a tokenizer.json.

    `model` is "" where the file may have any: it is then taken as it stands.
    """

    build: Build
    model: str = ""
    byte_level: bool = False


_KINDS = {
    "BertTokenizer": Kind(bert, "WordPiece"),
    "DistilBertTokenizer": Kind(distilbert, "WordPiece"),
    "RobertaTokenizer": Kind(roberta, "BPE", byte_level=True),
    "GPT2Tokenizer": Kind(gpt2, "BPE", byte_level=True),
    "T5Tokenizer": Kind(t5, "Unigram"),
    "XLMRobertaTokenizer": Kind(xlm_roberta, "Unigram"),
    "MBartTokenizer": Kind(mbart, "Unigram"),
    "MBart50Tokenizer": Kind(mbart50, "Unigram"),
    _GENERAL: Kind(as_written),
}
_SAME = {
    "ElectraTokenizer": "BertTokenizer",
    "BartTokenizer": "RobertaTokenizer",
    "MT5Tokenizer": "T5Tokenizer",
    "PreTrainedTokenizer": _GENERAL,  # the class in Python that stands for any
}
_OF_MODEL = {
    "bert": "BertTokenizer",
    "distilbert": "BertTokenizer",
    "electra": "BertTokenizer",
    "megatron-bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "roberta-prelayernorm": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "xlm-roberta-xl": _GENERAL,
    "gpt2": "GPT2Tokenizer",
    "t5": "T5Tokenizer",
    "mt5": "T5Tokenizer",
    "umt5": _GENERAL,
    "bart": "RobertaTokenizer",
    "mbart": "MBartTokenizer",
    "marian": MARIAN,
    "pegasus": "PegasusTokenizer",  # of which a tokenizer.json is read
}


def tokenizer_class_name(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> str:
    """The name of the class AutoTokenizer takes, without "Fast", by the two configurations.

    What tokenizer_config.json says comes before config.json, and both before the kind of model.

    >>> class_name({"model_type": "roberta"}, {"tokenizer_class": "BertTokenizerFast"})
    'BertTokenizer'
    >>> class_name({"model_type": "roberta"}, {})
    'RobertaTokenizer'
    """
    model_type = config.get("model_type")
    of_model = _OF_MODEL.get(model_type, _GENERAL) if isinstance(model_type, str) else _GENERAL
    told = tokenizer_config.get("tokenizer_class") or config.get("tokenizer_class")
    if told is None or (of_model == _GENERAL and model_type in _OF_MODEL):
        return of_model
    if not isinstance(told, str):
        raise InputError(f"tokenizer_class is {told!r}; give the name of a class")
    name = told.removesuffix("Fast")
    return _SAME.get(name, name)


def kind_of(name: str, written: TokenizerJson | None) -> Kind:
    """How the class of this name is built from these files.

    Where tokenizer.json has another kind of model than the class would build of it (KoGPT2's is
    no byte-level BPE, pko-t5's no Unigram), the file is followed as it stands: transformers 5
    builds nonsense there or fails. So it is for a class that only the folder's own code knows.
    """
    kind = _KINDS.get(name, _KINDS[_GENERAL] if written else None)
    if kind is None:
        known = ", ".join(sorted({*_KINDS, MARIAN}))
        raise InputError(
            f"the folder asks for a {name}, of which only its tokenizer.json could be read, and "
            f"it has none; jumok knows {known}"
        )
    if written is None or not kind.model:
        return kind
    fits = written.kind == kind.model and (written.is_byte_level or not kind.byte_level)
    return kind if fits else _KINDS[_GENERAL]
