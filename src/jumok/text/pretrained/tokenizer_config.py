"""What the files beside a vocabulary say of it: special pieces, added pieces, options.

transformers reads them in this order, and so do we: tokenizer_config.json; then, only where that
has no `added_tokens_decoder`, special_tokens_map.json (whose entries win), added_tokens.json and
the `added_tokens` of tokenizer.json.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tokenizers import AddedToken

from jumok.errors import InputError
from jumok.text.pretrained.files import ADDED, CONFIG, SPECIAL, TOKENIZER, TokenizerFiles

Token = str | AddedToken  # AddedToken: with what it does to the spaces beside it

NAMED = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)

_EXTRA, _ADDITIONAL = "extra_special_tokens", "additional_special_tokens"  # new name and old
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_LARGEST_ID = 1 << 24  # no vocabulary has 16 million pieces; such an id is a trap for memory
_NO_LIMIT = 10**20  # transformers writes 10^30 for "no limit"


@dataclass(frozen=True)
class Settings:
    """The settings of one tokeniser.

    `named` holds only what the files name (None: they say there is none), `own` the names that
    one model has for itself. `extra` is None where no file gives the key; `additional` is the
    list under its old name, where transformers keeps that apart.
    """

    named: Mapping[str, Token | None] = field(default_factory=dict)
    own: Mapping[str, Token] = field(default_factory=dict)
    extra: tuple[Token, ...] | None = None
    additional: tuple[Token, ...] | None = None
    added: Mapping[int, AddedToken] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def flag(self, name: str, default: bool) -> bool:
        """An option that is true or false."""
        value = self.options.get(name, default)
        if not isinstance(value, bool):
            raise InputError(f"{CONFIG}: {name} is {value!r}; give true or false")
        return value

    def optional_flag(self, name: str) -> bool | None:
        """An option that is true, false or null."""
        return None if self.options.get(name) is None else self.flag(name, default=False)

    def text(self, name: str) -> str | None:
        """An option that is a text or null."""
        value = self.options.get(name)
        if not isinstance(value, str | None):
            raise InputError(f"{CONFIG}: {name} is {value!r}; give a text")
        return value

    def count(self, name: str, default: int) -> int:
        """An option that is a whole number from 0 to 10,000."""
        value = self.options.get(name, default)
        if not isinstance(value, int) or not 0 <= value <= 10_000:
            raise InputError(f"{CONFIG}: {name} is {value!r}; give a whole number up to 10,000")
        return value

    @property
    def model_max_length(self) -> int | None:
        """The longest row the model reads, special pieces included; None: no limit is told."""
        value = self.options.get("model_max_length", self.options.get("max_len"))
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
            raise InputError(f"{CONFIG}: model_max_length is {value!r}; give a number from 1")
        return None if value > _NO_LIMIT else int(value)

    @property
    def truncation_side(self) -> str | None:
        """Where a row that is too long loses pieces: "right" or "left"."""
        side = self.text("truncation_side")
        if side not in (None, "right", "left"):
            raise InputError(f'{CONFIG}: truncation_side is {side!r}; give "right" or "left"')
        return side

    def has_token_type_ids(self, default: bool) -> bool:
        """Whether rows come with segment numbers (token_type_ids)."""
        names = self.options.get("model_input_names")
        if names is None:
            return default
        if not isinstance(names, list):
            raise InputError(f"{CONFIG}: model_input_names is {names!r}; give a list of names")
        return "token_type_ids" in names


def read_settings(files: TokenizerFiles, written: Iterable[Mapping[str, Any]]) -> Settings:
    """The settings in these files; `written` are the added tokens that tokenizer.json lists."""
    options = files.table(CONFIG)
    if options.get(_ADDITIONAL) is not None and not options.get(_EXTRA):
        options[_EXTRA] = options.pop(_ADDITIONAL)
    listed = options.pop("added_tokens_decoder", None)
    if listed is None:
        _merge(options, files.table(SPECIAL))
    extra = options.pop(_EXTRA, ...)
    own = dict(extra) if isinstance(extra, dict) else {}
    own |= {name: options[name] for name in options if _names_a_token(name, options[name])}
    named = {name: _optional(options[name], name) for name in NAMED if name in options}
    found = Settings(
        named=named,
        own={name: _token(value, name) for name, value in own.items()},
        extra=None if extra is ... or isinstance(extra, dict) else _tokens(extra, _EXTRA),
        additional=_tokens(options[_ADDITIONAL], _ADDITIONAL) if _ADDITIONAL in options else None,
        options={name: value for name, value in options.items() if name not in NAMED},
    )
    if listed is None:
        added = _added_in_table(files.table(ADDED), found)
        added |= {_id(token.get("id")): _added(token, TOKENIZER) for token in written}
    else:
        added = _added_in_config(listed)
    by_content = {token.content: token for token in added.values()}
    for name, token in named.items():
        if token is not None:
            named[name] = by_content.get(str(token), token)
    return replace(found, added=added)


def _merge(options: dict[str, Any], special: Mapping[str, Any]) -> None:
    """Lay special_tokens_map.json over the options; a list of extra tokens is added to theirs."""
    for name, value in special.items():
        if isinstance(value, dict) and name != _EXTRA:
            options[name] = {**value, "special": True}
        elif isinstance(value, list) and name == _EXTRA:
            known = options.get(name)
            known = known if isinstance(known, list) else []
            options[name] = known + [token for token in value if token not in known]
        else:
            options[name] = value


def _names_a_token(name: str, value: object) -> bool:
    """Whether an option is a special piece that one model alone has, such as "image_token"."""
    return name.endswith("_token") and name not in NAMED and isinstance(value, str | dict)


def _optional(value: object, name: str) -> Token | None:
    return None if value is None else _token(value, name)


def _added_in_config(table: object) -> dict[int, AddedToken]:
    if not isinstance(table, dict):
        raise InputError(f"{CONFIG}: added_tokens_decoder is no table of ids and tokens")
    return {_id(key): _added(token, CONFIG) for key, token in table.items()}


def _added_in_table(table: Mapping[str, Any], told: Settings) -> dict[int, AddedToken]:
    """The tokens of added_tokens.json: those that are special elsewhere are so here."""
    special = {str(token) for token in (*told.named.values(), *(told.extra or ()))}
    return {
        _id(index): AddedToken(text, normalized=text not in special, special=text in special)
        for text, index in table.items()
    }


def _tokens(values: object, name: str) -> tuple[Token, ...]:
    if values is None:
        return ()
    if not isinstance(values, list):
        raise InputError(f"{name} is {str(values)[:80]!r}; give a list of tokens")
    return tuple(_token(value, name) for value in values)


def _token(value: object, name: str) -> Token:
    if isinstance(value, str):
        return value
    return _added(value, name)


def _added(value: object, where: str) -> AddedToken:
    """A token written as a table: its content and what it does to the spaces beside it."""
    if not isinstance(value, Mapping) or not isinstance(value.get("content"), str):
        raise InputError(
            f"{where}: {str(value)[:80]!r} is no token; give a text or a table with it"
        )
    flags = {name: value[name] for name in _FLAGS if name in value}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise InputError(
            f"{where}: the token {value['content']!r} has a flag that is no true or false"
        )
    return AddedToken(value["content"], **flags)


def _id(value: object) -> int:
    """An id, also as JSON writes it in a key."""
    text = str(value)
    if not (text.isascii() and text.isdecimal() and int(text) < _LARGEST_ID):
        raise InputError(f"the id {text[:40]!r}; give a whole number below {_LARGEST_ID:,}")
    return int(text)


def check_ids(ids: Iterable[object], where: str) -> None:
    """Refuse what is no id of a piece: negative, no whole number, or beyond 16 million."""
    for value in ids:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST_ID:
            raise InputError(
                f"{where}: the id {str(value)[:40]!r}; give whole numbers from 0 to "
                f"{_LARGEST_ID - 1:,}"
            )
