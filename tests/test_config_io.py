"""TOML and overrides to dataclasses; every mistake is one clear sentence."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from jumok.config_io import apply_overrides, from_dict, read_toml, suggest, to_dict, to_toml
from jumok.errors import ConfigError, InputError, StorageError
from tests.errors import raises


@dataclass(frozen=True, kw_only=True)
class Inner:
    steps: int = 1
    rate: float = 0.5
    kind: Literal["warm", "cold"] = "warm"
    on: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError("test.error", f"training.steps must be at least 1, got {self.steps}")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    labels: tuple[str, ...] = ()
    files: str | tuple[str, ...] = ""
    limit: int | None = None
    training: Inner = field(default_factory=Inner)


def test_toml_to_dataclass(tmp_path: Path) -> None:
    path = tmp_path / "시험.toml"
    path.write_text(
        '\ufeffname = "시험"\nlabels = ["부정", "긍정"]\n'
        '[training]\nsteps = 3\nrate = 1\nkind = "cold"\non = true\n',
        encoding="utf-8",
    )
    built = from_dict(Outer, read_toml(path))
    expected = Outer(
        name="시험",
        labels=("부정", "긍정"),
        training=Inner(steps=3, rate=1.0, kind="cold", on=True),
    )
    assert built == expected
    assert isinstance(built.training.rate, float)


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 499 + " = 1",
        "[" + "a." * 499 + "a]",
        "x = {" + '"a" . ' * 499 + "a = 1}",
        "text = '''it''s '''\n" + "'a'." * 32 + "a = 1",
        'text = """\\"""" # "\n' + "a." * 32 + "a = 1",
        "x = " + "[" * 65 + "]" * 65,
        "[" + "a." * 31 + "a]\n" + "a." * 31 + "a = [[[1]]]",
    ],
)
def test_toml_that_is_nested_too_deeply(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="not usable TOML: it is nested too deeply; flatten it"):
        read_toml(path)


def test_dots_in_texts_are_not_levels(tmp_path: Path) -> None:
    dots = "a." * 500
    path = tmp_path / "dots.toml"
    path.write_text(
        f"# {dots}\none = \"{dots}\"\ntwo = '{dots}'\n"
        f"three = \"\"\"{dots}\n\"{dots}\"\"\"\"\nfour = '''{dots}\n'{dots}''''\n"
        f'"{dots}" = 5\n[{"a." * 31}a]\nb = [[[1.5, 2.5]]]\n',
        encoding="utf-8",
    )
    tree = read_toml(path)
    assert (tree["one"], tree["two"], tree[dots]) == (dots, dots, 5)
    assert tree["three"] == f'{dots}\n"{dots}"'
    assert tree["four"] == f"{dots}\n'{dots}'"


def test_defaults_round_trip(tmp_path: Path) -> None:
    config = Outer(name="시험", labels=("가", "나"))
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(to_dict(config)), encoding="utf-8")
    assert "limit" not in to_dict(config)  # TOML has no null
    assert from_dict(Outer, read_toml(path)) == config


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ({}, "name is missing"),
        ({"nmae": "a"}, "nmae is not known; did you mean name?"),
        ({"name": "a", "zzz": 1}, "zzz is not known; known: files, labels, limit, name, training"),
        (
            {"name": "a", "training": {"stpes": 3}},
            "training.stpes is not known; did you mean training.steps?",
        ),
        ({"name": 3}, 'name must be a string, got 3; write "3" for a string of digits'),
        ({"name": "a", "training": 3}, "training must be a table, got 3"),
        ({"name": "a", "training": {"steps": "3"}}, 'training.steps must be an integer, got "3"'),
        ({"name": "a", "training": {"steps": 1.5}}, "training.steps must be an integer, got 1.5"),
        ({"name": "a", "training": {"steps": True}}, "training.steps must be an integer, got true"),
        ({"name": "a", "training": {"rate": "fast"}}, 'training.rate must be a number, got "fast"'),
        (
            {"name": "a", "training": {"kind": "hot"}},
            'training.kind must be "warm" or "cold", got "hot"',
        ),
        ({"name": "a", "training": {"on": 1}}, "training.on must be true or false, got 1"),
        ({"name": "a", "labels": "ab"}, 'labels must be a list, got "ab"; write ["one", '),
        ({"name": "a", "training": {"steps": 0}}, "training.steps must be at least 1, got 0"),
    ],
)
def test_each_mistake_is_reported(tree: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        from_dict(Outer, tree)
    assert str(error.value).startswith(sentence)


def test_the_path_of_a_mistake_is_reported() -> None:
    with raises(InputError, "config.unknown_key"):
        from_dict(Outer, {"name": "a", "training": {"stpes": 3}}, "model")
    with raises(InputError, "config.wrong_type"):
        from_dict(Outer, {"name": "a", "training": {"steps": "x"}}, "model")


def test_overrides() -> None:
    tree = {"name": "a", "training": {"steps": 1}}
    overrides = [
        "training.steps=1_000",
        "training.rate=1e-3",
        "training.on=true",
        "name=이 이름=새것",
        'labels=["가", "나"]',
        "new.deep.key=text without quotes",
        "empty=",
    ]
    assert apply_overrides(tree, overrides) == {
        "name": "이 이름=새것",
        "training": {"steps": 1000, "rate": 0.001, "on": True},
        "labels": ["가", "나"],
        "new": {"deep": {"key": "text without quotes"}},
        "empty": "",
    }
    assert tree == {"name": "a", "training": {"steps": 1}}


def test_values_that_toml_cannot_hold_are_strings() -> None:
    for odd in ("9" * 9000, "[" * 9000):
        assert apply_overrides({}, [f"a={odd}"]) == {"a": odd}


def test_the_last_override_counts() -> None:
    assert apply_overrides({}, ["a.b=1", "a.b=2"]) == {"a": {"b": 2}}


@pytest.mark.parametrize("word", ["training.steps", "=3", "training..steps=3", ".a=1", ""])
def test_an_invalid_override_is_rejected(word: str) -> None:
    with raises(InputError, "config.override_syntax"):
        apply_overrides({}, [word])


def test_a_value_is_not_a_table() -> None:
    with raises(InputError, "config.value_not_table"):
        apply_overrides({"name": "a"}, ["name.x=1"])


def test_a_date_is_a_string() -> None:
    """TOML has dates; a name like 2024-01-01 is a string."""
    assert from_dict(Outer, apply_overrides({}, ["name=2024-01-01"])).name == "2024-01-01"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a = 1\nb = = 2\n", "line 2"),
        (b"a = 1\na = 2\n", "Cannot overwrite"),
        (b"[a\n", "not TOML"),
        (b"a = " + b"[" * 9000, "nested too deeply"),
        (b"a = " + b"9" * 9000, "digits"),
        ("a = '좋다'".encode("cp949"), "1: byte 6 is not UTF-8, it may be cp949"),
    ],
)
def test_invalid_toml_is_reported_with_its_position(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_toml(path)
    assert str(error.value).startswith(f"{path}:")
    assert sentence in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.toml", tmp_path):
        with raises(StorageError, "(cannot be read|not a regular file).*; check"):
            read_toml(path)


def test_pipes_and_huge_files_are_rejected(tmp_path: Path) -> None:
    pipe, huge = tmp_path / "pipe.toml", tmp_path / "huge.toml"
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(2**40)  # sparse: it takes no space
    for path in (pipe, huge, Path("/dev/zero"), Path("a\0b.toml"), Path("\ud800.toml")):
        with pytest.raises(StorageError):
            read_toml(path)


def test_only_dataclasses_become_dicts() -> None:
    for thing in ({"a": 1}, Outer):
        with pytest.raises(TypeError, match="is not a dataclass"):
            to_dict(thing)


def test_suggestions() -> None:
    assert str(suggest("lerning_rate", ["learning_rate", "steps"])) == "did you mean learning_rate?"
    assert str(suggest("x", ["b", "a"])) == "known: a, b"


def test_all_allowed_types_are_reported() -> None:
    with pytest.raises(InputError) as raised:
        from_dict(Outer, {"name": "x", "files": 3})
    assert str(raised.value).startswith("files must be a string or a list, got 3")
    with raises(InputError, "config.wrong_type"):
        from_dict(Outer, {"name": "x", "training": {"steps": "삼", "rate": "삼"}})


def test_a_number_of_thousands_of_digits_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(f'name = "x"\nlimit = 0x{"f" * 4000}\n')
    with raises(InputError, "config.wrong_type"):
        from_dict(Outer, read_toml(path))


def test_overrides_of_a_program() -> None:
    """One string is one override, None is none, and other values are refused like other texts."""
    assert apply_overrides({}, "beam=4") == {"beam": 4}
    assert apply_overrides({}, None) == {}  # type: ignore[arg-type]
    with raises(ConfigError, "config.override_syntax"):
        apply_overrides({}, [1])  # type: ignore[list-item]
