"""Special pieces, added pieces and options from the configuration files of a tokenizer.

The order is that of transformers: tokenizer_config.json; then, only if it has no
`added_tokens_decoder`, special_tokens_map.json (which has precedence), added_tokens.json and the
`added_tokens` of tokenizer.json.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from jumok.errors import TokenizerError
from jumok.foreign_keys import KeyTable, print_not_read
from jumok.text.pretrained.files import ADDED, CONFIG, SPECIAL, TOKENIZER, TokenizerFiles

KEYS = KeyTable(
    read={
        *("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"),
        *("add_bos_token", "add_eos_token", "add_prefix_space", "trim_offsets", "legacy"),
        *(
            "do_lower_case",
            "split_by_punct",
            "tokenize_chinese_chars",
            "strip_accents",
            "keep_accents",
        ),
        *("remove_space", "clean_up_tokenization_spaces", "split_special_tokens", "extra_ids"),
        *("src_lang", "tgt_lang", "source_lang", "target_lang", "separate_vocabs"),
        *("model_max_length", "max_len", "model_input_names", "truncation_side"),
        *("tokenizer_class", "chat_template"),
    },
    without_effect={
        # where it comes from
        *("name_or_path", "special_tokens_map_file", "tokenizer_file", "vocab_file", "merges_file"),
        *("transformers_version", "processor_class", "auto_map", "backend", "is_local"),
        *("local_files_only", "from_slow", "use_fast", "device_map"),
        # padding and truncation of one call: those of jumok follow from the model
        *("padding", "padding_side", "pad_to_multiple_of", "pad_token_type_id", "max_length"),
        *("truncation", "truncation_strategy", "stride", "pad_to_max_length"),
        # of the tokenizers in Python, which transformers 5 does not have
        *("do_basic_tokenize", "never_split", "spaces_between_special_tokens", "errors"),
        *("use_default_system_prompt", "cls_token_segment_id", "sequence_a_segment_id"),
        "unk_id",  # of T5, as in its model
    },
    names_unknown=True,  # tokenizers keep keys of training, and their own that no class reads
)

Token = str | AddedToken  # AddedToken: with flags for the spaces around it

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
_MAX_ID = 1 << 24  # larger ids would allocate much memory; no vocabulary has 16 million pieces
_NO_LIMIT = 10**20  # transformers writes 10^30 for "no limit"


@dataclass(frozen=True)
class TokenizerConfig:
    """The configuration of one tokenizer.

    `named` has the special pieces in the files (None: explicitly none), `own` those whose names
    one model alone has. `extra` is None if no file has the key; `additional` is the list under its
    old name, which transformers handles separately.
    """

    named: Mapping[str, Token | None] = field(default_factory=dict)
    own: Mapping[str, Token] = field(default_factory=dict)
    extra: tuple[Token, ...] | None = None
    additional: tuple[Token, ...] | None = None
    added: Mapping[int, AddedToken] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def flag(self, name: str, default: bool = False) -> bool:
        """An option that is true or false."""
        value = self.options.get(name, default)
        if not isinstance(value, bool):
            raise TokenizerError(
                "tokenizer.not_a_boolean",
                "{config}: {name} must be true or false, got {value!r}",
                config=CONFIG,
                name=name,
                value=value,
            )
        return value

    def optional_flag(self, name: str) -> bool | None:
        """An option that is true, false or null."""
        return None if self.options.get(name) is None else self.flag(name, default=False)

    def text(self, name: str) -> str | None:
        """An option that is a string or null."""
        value = self.options.get(name)
        if not isinstance(value, str | None):
            raise TokenizerError(
                "tokenizer.not_a_string",
                "{config}: {name} must be a string, got {value!r}",
                config=CONFIG,
                name=name,
                value=value,
            )
        return value

    def count(self, name: str, default: int) -> int:
        """An option that is an integer from 0 to 10,000."""
        value = self.options.get(name, default)
        if not isinstance(value, int) or not 0 <= value <= 10_000:
            raise TokenizerError(
                "tokenizer.not_an_integer",
                "{config}: {name} must be an integer from 0 to 10,000, got {value!r}",
                config=CONFIG,
                name=name,
                value=value,
            )
        return value

    @property
    def model_max_length(self) -> int | None:
        """The longest row that the model reads, special pieces included; None: no limit."""
        value = self.options.get("model_max_length", self.options.get("max_len"))
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
            raise TokenizerError(
                "tokenizer.model_max_length",
                "{config}: model_max_length must be at least 1, got {value!r}",
                config=CONFIG,
                value=value,
            )
        return None if value > _NO_LIMIT else int(value)

    @property
    def truncation_side(self) -> str | None:
        """The side on which texts are truncated: "right" or "left"."""
        side = self.text("truncation_side")
        if side not in (None, "right", "left"):
            raise TokenizerError(
                "tokenizer.truncation_side",
                '{config}: truncation_side must be "right" or "left", got {side!r}',
                config=CONFIG,
                side=side,
            )
        return side

    def has_token_type_ids(self, default: bool) -> bool:
        """Whether the model reads token_type_ids."""
        names = self.options.get("model_input_names")
        if names is None:
            return default
        if not isinstance(names, list):
            raise TokenizerError(
                "tokenizer.model_input_names",
                "{config}: model_input_names must be a list of names, got {names!r}",
                config=CONFIG,
                names=names,
            )
        return "token_type_ids" in names


def read_tokenizer_config(
    files: TokenizerFiles, json_tokens: Iterable[Mapping[str, Any]]
) -> TokenizerConfig:
    """The configuration in these files; `json_tokens` are the added tokens of tokenizer.json."""
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
    found = TokenizerConfig(
        named=named,
        own={name: _token(value, name) for name, value in own.items()},
        extra=None if extra is ... or isinstance(extra, dict) else _tokens(extra, _EXTRA),
        additional=_tokens(options[_ADDITIONAL], _ADDITIONAL) if _ADDITIONAL in options else None,
        options={name: value for name, value in options.items() if name not in NAMED},
    )
    if listed is None:
        added = _added_in_table(files.table(ADDED), found)
        added |= {_id(token.get("id")): _added(token, TOKENIZER) for token in json_tokens}
    else:
        added = _added_in_config(listed)
    by_content = {token.content: token for token in added.values()}
    for name, token in named.items():
        if token is not None:
            named[name] = by_content.get(str(token), token)
    return replace(found, added=added)


def name_unread_keys(files: TokenizerFiles) -> None:
    """Print one notice for the keys of tokenizer_config.json that nothing reads."""
    found = KEYS.not_read(files.table(CONFIG))
    print_not_read([key for key in found if not key.endswith("_token")], Path(CONFIG))


def _merge(options: dict[str, Any], special: Mapping[str, Any]) -> None:
    """Merge special_tokens_map.json into the options; lists of extra tokens are concatenated."""
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
    """Whether an option is a special piece of one model, such as "image_token"."""
    return name.endswith("_token") and name not in NAMED and isinstance(value, str | dict)


def _optional(value: object, name: str) -> Token | None:
    return None if value is None else _token(value, name)


def _added_in_config(table: object) -> dict[int, AddedToken]:
    if not isinstance(table, dict):
        raise TokenizerError(
            "tokenizer.added_tokens_decoder",
            "{config}: added_tokens_decoder must be a table of ids and tokens",
            config=CONFIG,
        )
    return {_id(key): _added(token, CONFIG) for key, token in table.items()}


def _added_in_table(table: Mapping[str, Any], config: TokenizerConfig) -> dict[int, AddedToken]:
    """The tokens of added_tokens.json, special if another file lists them as special."""
    special = {str(token) for token in (*config.named.values(), *(config.extra or ()))}
    return {
        _id(index): AddedToken(text, normalized=text not in special, special=text in special)
        for text, index in table.items()
    }


def _tokens(values: object, name: str) -> tuple[Token, ...]:
    if values is None:
        return ()
    if not isinstance(values, list):
        raise TokenizerError(
            "tokenizer.not_a_list_of_tokens",
            "{name} must be a list of tokens, got {values!r}",
            name=name,
            values=str(values)[:80],
        )
    return tuple(_token(value, name) for value in values)


def _token(value: object, name: str) -> Token:
    if isinstance(value, str):
        return value
    return _added(value, name)


def _added(value: object, where: str) -> AddedToken:
    """A token in the form of a table: its content and its flags."""
    if not isinstance(value, Mapping) or not isinstance(value.get("content"), str):
        raise TokenizerError(
            "tokenizer.token_of_other_type",
            "{where}: a token must be a string or a table with content, got {value!r}",
            where=where,
            value=str(value)[:80],
        )
    flags = {name: value[name] for name in _FLAGS if name in value}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise TokenizerError(
            "tokenizer.token_flags",
            "{where}: the flags of the token {value!r} must be true or false",
            where=where,
            value=value["content"],
        )
    return AddedToken(value["content"], **flags)


def _id(value: object) -> int:
    """An id, also in the form of a JSON key."""
    text = str(value)
    if not (text.isascii() and text.isdecimal() and int(text) < _MAX_ID):
        raise TokenizerError(
            "tokenizer.id_syntax",
            "an id must be an integer below {max_id:,}, got {text!r}",
            max_id=_MAX_ID,
            text=text[:40],
        )
    return int(text)


def check_ids(ids: Iterable[object], where: str) -> None:
    """Raises InputError for ids that are negative, not integers or above 16 million."""
    for value in ids:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_ID:
            raise TokenizerError(
                "tokenizer.ids_not_integers",
                "{where}: ids must be integers from 0 to {max_id:,}, got {value!r}",
                where=where,
                max_id=_MAX_ID - 1,
                value=str(value)[:40],
            )
