"""The special pieces a tokeniser has: those its files name, else those its kind is born with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tokenizers import AddedToken, Tokenizer

from jumok.errors import InputError
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.tokenizer_config import NAMED, Settings, Token
from jumok.text.template import Part

Parts = tuple[tuple[Part, ...], tuple[Part, ...]]  # for one text, and for two


@dataclass(frozen=True)
class Assembly:
    """A tokenizer of the library with the names of its special pieces.

    `unknown` is the id of what the model cannot spell, if it has one; `parts` frame texts, and
    `languages` do so for each language where the frame depends on it: for texts that are read
    and, where those differ from it, written.
    """

    tokenizer: Tokenizer
    named: Mapping[str, str]  # "cls_token" -> "[CLS]"
    parts: Parts
    unknown: int | None = None
    has_token_type_ids: bool = False
    languages: Mapping[str, Parts] = field(default_factory=dict)


def named_pieces(
    settings: Settings, defaults: Mapping[str, Token | None]
) -> dict[str, Token | None]:
    """The special pieces by their names, in the order in which they are added."""
    return {**dict.fromkeys(NAMED), **defaults, **settings.named, **settings.own}


def add_pieces(
    tokenizer: Tokenizer,
    settings: Settings,
    named: Mapping[str, Token | None],
    additional: Iterable[Token] | None = None,
) -> dict[str, str]:
    """Add the pieces that are special or not the model's own; the named ones as strings.

    In the order of transformers, because whatever the vocabulary lacks gets the next free id:
    added ones by their ids, then the named, then the extra ones.
    """
    new: list[Token] = [token for _, token in sorted(settings.added.items())]
    there = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    there |= {str(token) for token in new}
    extra = settings.additional if additional is None else additional
    extra = settings.extra if settings.extra is not None else extra
    for token in (*named.values(), *(extra or ())):
        if token is not None and str(token) not in there and token not in new:
            new.append(token)
    names = {name: str(token) for name, token in named.items() if token is not None}
    with library_errors("the special pieces cannot be added"):
        tokenizer.add_tokens([_special(token, set(names.values())) for token in new])
    return names


def piece_id(tokenizer: Tokenizer, named: Mapping[str, str], name: str) -> int:
    """The id of a named piece, which the kind of tokeniser needs."""
    found = tokenizer.token_to_id(named[name]) if name in named else None
    if found is None:
        raise InputError(f"the tokeniser's files name no {name}; add it to tokenizer_config.json")
    return found


def _special(token: Token, named: set[str]) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(token, special=True)
    if str(token) in named:
        token.special = True
    return token
