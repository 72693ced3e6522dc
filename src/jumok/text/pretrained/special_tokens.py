"""Special pieces of a tokenizer: from its files, else the defaults of its class."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tokenizers import AddedToken, Tokenizer

from jumok.errors import TokenizerError
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.tokenizer_config import NAMED, Token, TokenizerConfig
from jumok.text.template import Template

BERT_PIECES: Mapping[str, Token | None] = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
BERT_PIECES_WITH_ENDS = {"bos_token": "[CLS]", "eos_token": "[SEP]", **BERT_PIECES}


@dataclass(frozen=True)
class TokenizerSpec:
    """A tokenizer of the library with its special pieces and templates.

    `languages` has a template for each language of a model whose template contains the language.
    """

    tokenizer: Tokenizer
    named: Mapping[str, str]  # "cls_token" -> "[CLS]"
    template: Template
    unk_id: int | None = None
    has_token_type_ids: bool = False
    languages: Mapping[str, Template] = field(default_factory=dict)


def named_pieces(
    config: TokenizerConfig, defaults: Mapping[str, Token | None]
) -> dict[str, Token | None]:
    """The special pieces by name, in the order in which they are added."""
    return {**dict.fromkeys(NAMED), **defaults, **config.named, **config.own}


def add_pieces(
    tokenizer: Tokenizer,
    config: TokenizerConfig,
    named: Mapping[str, Token | None],
    additional: Iterable[Token] | None = None,
) -> dict[str, str]:
    """Add the special pieces and those outside the model; returns the named ones as strings.

    The order is that of transformers, because a piece that the vocabulary lacks gets the next free
    id: added ones by id, then named ones, then extra ones.
    """
    new: list[Token] = [token for _, token in sorted(config.added.items())]
    there = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    there |= {str(token) for token in new}
    extra = config.additional if additional is None else additional
    extra = config.extra if config.extra is not None else extra
    for token in (*named.values(), *(extra or ())):
        if token is not None and str(token) not in there and token not in new:
            new.append(token)
    names = {name: str(token) for name, token in named.items() if token is not None}
    with library_errors("the special pieces cannot be added"):
        tokenizer.add_tokens([_special(token, set(names.values())) for token in new])
    return names


def piece_id(tokenizer: Tokenizer, named: Mapping[str, str], name: str) -> int:
    """The id of a named piece that this class of tokenizer requires."""
    found = tokenizer.token_to_id(named[name]) if name in named else None
    if found is None:
        raise TokenizerError(
            "tokenizer.no_special_token",
            "the tokenizer's files have no {name}; add it to tokenizer_config.json",
            name=name,
        )
    return found


def _special(token: Token, named: set[str]) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(token, special=True)
    if str(token) in named:
        token.special = True
    return token
