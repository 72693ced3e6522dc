"""Tables of the keys of foreign configuration files."""

from pathlib import Path

import pytest

from jumok.errors import Message, ModelFileError
from jumok.foreign_keys import KeyTable
from tests.errors import raises

ADVICE = Message("test.advice", "convert it")
TABLE = KeyTable(
    read={"r"}, without_effect={"seed"}, refused={"use_dora": (False,)}, named={"top_h": (1.0,)}
)


@pytest.mark.parametrize(
    "content",
    [
        {"r": 8, "seed": 3, "use_dora": False, "top_h": 1.0},
        {"use_dora": None, "top_h": None},
        {"invented": None, "other": False, "third": {}, "fourth": [], "fifth": ""},
    ],
)
def test_neutral_values_are_accepted_in_silence(
    capsys: pytest.CaptureFixture[str], content: dict[str, object]
) -> None:
    TABLE.check(content, Path("a.json"), ADVICE)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "content", [{"use_dora": True}, {"use_dora": 0}, {"invented": 0}, {"invented": [None]}]
)
def test_other_values_are_refused(content: dict[str, object]) -> None:
    with raises(ModelFileError, "pretrained.key_not_supported") as caught:
        TABLE.check(content, Path("a.json"), ADVICE)
    assert next(iter(content)) in str(caught.value)


def test_named_keys_are_in_one_notice(capsys: pytest.CaptureFixture[str]) -> None:
    TABLE.check({"top_h": 0.5, "r": 8}, Path("a.json"), ADVICE)
    assert capsys.readouterr().err == "jumok: a.json: keys without support are not read: top_h\n"
    table = KeyTable(read={"r"}, names_unknown=True)
    table.check({"first": 1, "r": 2, "second": "x"}, Path("a.json"), ADVICE)
    assert "keys without support are not read: first, second" in capsys.readouterr().err
