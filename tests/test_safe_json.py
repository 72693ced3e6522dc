"""Untrusted JSON: what Python's reader accepts, ignores or crashes on is rejected."""

import time
from pathlib import Path

import pytest

from jumok.errors import InputError, StorageError
from jumok.safe_json import MAX_BYTES, parse_json, read_json
from tests.errors import raises

BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "Expecting value"),
    "cut": (b'{"a": 1', "delimiter"),
    "two": (b"{} {}", "Extra data"),
    "a list": (b"[]", "not an object"),
    "a number": (b"3", "not an object"),
    "not UTF-8": (b'{"a": "\xff"}', "utf-8"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "utf-8"),
    "NaN": (b'{"dropout": NaN}', "the number NaN"),
    "Infinity": (b'{"dropout": [-Infinity]}', "the number -Infinity"),
    "too large": (b'{"dropout": 1e999}', "the number 1e999"),
    "5,000 digits": (b'{"a": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
    "twice": (b'{"a": 1, "b": 2, "a": 1}', "the name 'a' comes twice"),
    "twice inside": (b'{"a": {"b": 1, "b": 2}}', "the name 'b' comes twice"),
    "deep": (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "deeper than 64"),
    "10^5 deep": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deeper than 64"),
    "deep tables": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "deeper than 64"),
    "half a pair": (b'{"a": "\\ud800"}', "half a surrogate pair"),
    "half a pair in a name": (b'{"a": {"\\udc00": 1}}', "half a surrogate pair"),
}


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD.keys())
def test_unusable_json_is_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_json(data)


def test_real_configurations_are_read() -> None:
    text = (
        '\ufeff{"이름": ["ㅋㅋ", "\\ud83d\\ude00", null, true], "x": -0.5, "most": 1'
        + "0" * 30
        + "}"
    )
    assert parse_json(text.encode()) == {
        "이름": ["ㅋㅋ", "😀", None, True],
        "x": -0.5,
        "most": 10**30,
    }
    assert parse_json(b'{"a":' + b"[" * 63 + b"1" + b"]" * 63 + b"}")


def test_many_names_are_checked_in_linear_time() -> None:
    names = ", ".join(f'"{number}": 0' for number in range(100_000))
    start = time.process_time()
    with pytest.raises(InputError, match="'0' comes twice"):
        parse_json(f'{{{names}, "0": 1}}'.encode())
    assert time.process_time() - start < 3  # seconds; comparing all pairs takes minutes


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"{")
    with pytest.raises(InputError, match=r"config\.json: not usable JSON"):
        read_json(path)
    with path.open("r+b") as file:
        file.truncate(MAX_BYTES + 1)
    with raises(StorageError, "storage.file_too_large"):
        read_json(path)
