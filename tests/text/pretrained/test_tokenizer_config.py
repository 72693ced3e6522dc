"""The additional files of a tokenizer, and their precedence."""

import json

import pytest

from jumok.errors import InputError
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.tokenizer_config import TokenizerConfig, read_tokenizer_config
from tests.errors import raises


def settings(config: object, **others: object) -> TokenizerConfig:
    tables = {"tokenizer_config": config, **others}
    files = {f"{name}.json": json.dumps(table).encode() for name, table in tables.items()}
    return read_tokenizer_config(TokenizerFiles(files), ())


def test_the_map_of_special_tokens_wins_over_the_configuration() -> None:
    found = settings({"cls_token": "[A]"}, special_tokens_map={"cls_token": "[B]"})
    assert found.named == {"cls_token": "[B]"}


def test_added_tokens_of_the_configuration_override_other_files() -> None:
    token = {"content": "[A]", "special": True, "lstrip": True}
    found = settings(
        {"cls_token": "[A]", "added_tokens_decoder": {"7": token}},
        special_tokens_map={"cls_token": "[B]"},
        added_tokens={"[C]": 8},
    )
    assert list(found.added) == [7]
    assert found.named["cls_token"] is found.added[7]
    assert found.added[7].lstrip


def test_added_tokens_are_special_if_another_file_lists_them() -> None:
    found = settings({"mask_token": "[M]"}, added_tokens={"[M]": 5, "ㅋㅋ": 6})
    assert found.added[5].special
    assert not found.added[5].normalized
    assert not found.added[6].special
    assert found.added[6].normalized


@pytest.mark.parametrize("listed", [["<a>"], {"a_token": "<a>"}])
def test_extra_tokens_by_list_and_by_name(listed: object) -> None:
    found = settings({"extra_special_tokens": listed})
    assert (found.extra, found.own) == (
        (("<a>",), {}) if isinstance(listed, list) else (None, {"a_token": "<a>"})
    )


def test_the_old_name_of_the_extra_tokens() -> None:
    assert settings({"additional_special_tokens": ["<a>"]}).extra == ("<a>",)
    old = settings({}, special_tokens_map={"additional_special_tokens": ["<a>"]})
    assert (old.extra, old.additional) == (None, ("<a>",))


def test_huge_lengths_mean_no_limit() -> None:
    assert settings({"model_max_length": 10**30}).model_max_length is None
    assert settings({"model_max_length": 1e30}).model_max_length is None
    assert settings({"max_len": 300}).model_max_length == 300
    assert settings({}).model_max_length is None


@pytest.mark.parametrize(
    ("config", "overrides"),
    [
        ({"cls_token": 7}, "tokenizer.token_of_other_type"),
        ({"cls_token": {"text": "[A]"}}, "tokenizer.token_of_other_type"),
        ({"cls_token": {"content": "[A]", "lstrip": 1}}, "tokenizer.token_flags"),
        ({"added_tokens_decoder": []}, "tokenizer.added_tokens_decoder"),
        ({"added_tokens_decoder": {"4000000000": {"content": "x"}}}, "tokenizer.id_syntax"),
        ({"added_tokens_decoder": {"-1": {"content": "x"}}}, "tokenizer.id_syntax"),
        ({"extra_special_tokens": "x"}, "tokenizer.not_a_list_of_tokens"),
    ],
)
def test_invalid_settings_are_refused(config: object, overrides: str) -> None:
    with raises(InputError, overrides):
        settings(config)


@pytest.mark.parametrize(
    ("options", "ask"),
    [
        ({"do_lower_case": "no"}, lambda s: s.flag("do_lower_case", default=True)),
        ({"strip_accents": 3}, lambda s: s.optional_flag("strip_accents")),
        ({"src_lang": 5}, lambda s: s.text("src_lang")),
        ({"extra_ids": -1}, lambda s: s.count("extra_ids", 100)),
        ({"extra_ids": 10**6}, lambda s: s.count("extra_ids", 100)),
        ({"model_max_length": "512"}, lambda s: s.model_max_length),
        ({"model_max_length": 0}, lambda s: s.model_max_length),
        ({"truncation_side": "middle"}, lambda s: s.truncation_side),
        ({"model_input_names": "x"}, lambda s: s.has_token_type_ids(default=False)),
    ],
)
def test_options_of_the_wrong_kind_are_refused(options: object, ask: object) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        ask(settings(options))
